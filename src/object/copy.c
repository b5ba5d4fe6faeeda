/* SPDX-License-Identifier: Apache-2.0 */
/* Copies are puts whose source is another object's chunks. */
#include "object/object_priv.h"

#define BLOCK ((uint32_t)64 << 10)

struct copy_source {
    struct object_engine *engine;
    const struct meta_object *object;
    uint64_t done;   /* bytes given of an inline body */
    size_t index;    /* of the extent */
    uint32_t offset; /* in it */
    char
        *chunk; /* a whole chunk, where only such are verified and the caller has no room for one */
    bool loaded; /* chunk holds extents[index] */
};

static enum rc copy_inline(struct copy_source *c, void *p, size_t n, size_t *ret_n)
{
    n = MIN(n, c->object->body.n - c->done);
    if (!n)
        return RC_EOF;
    memcpy(p, c->object->body.p + c->done, n);
    c->done += n;
    *ret_n = n;
    return RC_OK;
}

static enum rc copy_chunk(struct copy_source *c, const struct extent *e, void *p, size_t n)
{
    if (!c->chunk)
        c->chunk = malloc(DATA_CHUNK_MAX);
    if (!c->chunk)
        return RC_NO_MEM;
    if (!c->loaded) {
        enum rc rc = object_chunk_get(c->engine, e, 0, c->chunk, e->length);

        if (rc)
            return rc;
        c->loaded = true;
    }
    memcpy(p, c->chunk + c->offset, n);
    return RC_OK;
}

static enum rc copy_read(void *arg, void *p, size_t n, size_t *ret_n)
{
    struct copy_source *c = arg;
    const struct extent *e;
    bool whole;
    enum rc rc;

    if (c->object->is_inline)
        return copy_inline(c, p, n, ret_n);
    if (c->index == c->object->extents_n)
        return RC_EOF;
    e = &c->object->extents[c->index];
    n = MIN(n, (size_t)(e->length - c->offset));
    whole = n == e->length;
    if (!whole && !object_reads_parts(c->engine)) {
        rc = copy_chunk(c, e, p, n);
    } else {
        if (c->offset + n < e->length && n > BLOCK)
            n -= (c->offset + n) % BLOCK; /* the rest of a block would be read twice */
        rc = object_chunk_get(c->engine, e, c->offset, p, (uint32_t)n);
    }
    if (rc)
        return rc;
    c->offset += (uint32_t)n;
    if (c->offset == e->length) {
        c->index++;
        c->offset = 0;
        c->loaded = false;
    }
    *ret_n = n;
    return RC_OK;
}

enum rc object_copy(struct object_engine *e, struct arena *a, const struct meta_object *src,
                    const struct meta_bucket *b, struct slice key, struct meta_object *o,
                    const struct meta_cond *cond)
{
    struct copy_source c = { .engine = e, .object = src };
    struct object_source source = { .read = copy_read, .arg = &c, .size = src->head.size };
    enum rc rc = object_put(e, a, b, key, o, cond, &source);

    free(c.chunk);
    return rc;
}
