/* SPDX-License-Identifier: Apache-2.0 */
#include "object/object_priv.h"

#define PUT_WINDOW_DEFAULT 4u
#define PREFETCH_DEFAULT 2u
#define WINDOW_MAX 64u
#define INLINE_MAX_MAX (1u << 20)
#define BUFFER_BYTES_DEFAULT ((size_t)1 << 30)
#define GC_BATCH 4096u
#define GC_YIELD_SHARDS 32u
#define GC_ARENA_MAX ((size_t)64 << 20)

enum rc object_engine_new(const struct object_config *cfg, struct object_engine **ret)
{
    size_t bytes = cfg->buffer_bytes_max ? cfg->buffer_bytes_max : BUFFER_BYTES_DEFAULT;
    struct object_engine *e;
    enum rc rc;

    if (!cfg->meta || !cfg->data || cfg->inline_max > INLINE_MAX_MAX)
        return RC_INVALID;
    e = calloc(1, sizeof *e);
    if (!e)
        return RC_NO_MEM;
    e->meta = cfg->meta;
    e->data = cfg->data;
    e->inline_max = cfg->inline_max;
    e->put_window = MIN(cfg->put_window ? cfg->put_window : PUT_WINDOW_DEFAULT, WINDOW_MAX);
    e->get_prefetch = MIN(cfg->get_prefetch ? cfg->get_prefetch : PREFETCH_DEFAULT, WINDOW_MAX);
    rc = bufpool_new(OBJECT_PIECE_SIZE, MAX(bytes / 4, OBJECT_PIECE_SIZE), &e->pieces);
    if (!rc)
        rc = bufpool_new(DATA_CHUNK_MAX, MAX(bytes / 4 * 3, (size_t)DATA_CHUNK_MAX), &e->chunks);
    if (rc) {
        object_engine_free(e);
        return rc;
    }
    *ret = e;
    return RC_OK;
}

void object_engine_free(struct object_engine *e)
{
    if (!e)
        return;
    if (e->pieces)
        bufpool_free(e->pieces);
    if (e->chunks)
        bufpool_free(e->chunks);
    free(e);
}

struct meta *object_engine_meta(struct object_engine *e)
{
    return e->meta;
}

enum rc object_chunk_get(struct object_engine *e, const struct extent *x, uint32_t offset,
                         void *out, uint32_t n)
{
    enum rc rc = data_get(e->data, x, offset, out, n);

    return rc == RC_NOT_FOUND ? fail_rc(RC_CORRUPT, "a chunk of the object is missing") : rc;
}

enum rc object_replace_metadata(struct object_engine *e, const struct meta_object *src,
                                const struct meta_bucket *b, struct slice key,
                                struct meta_object *o, const struct meta_cond *cond)
{
    struct meta_cond c = cond ? *cond : (struct meta_cond){ 0 };
    struct slice class = o->head.storage_class;

    c.row_version = src->row_version;
    o->head = src->head;
    o->head.storage_class = class;
    memcpy(o->sum, src->sum, sizeof o->sum);
    o->extents = src->extents;
    o->extents_n = src->extents_n;
    o->is_inline = src->is_inline;
    o->body = src->body;
    return meta_object_put(e->meta, b, key, o, &c);
}

enum rc object_delete(struct object_engine *e, const struct meta_bucket *b, struct slice key,
                      const struct meta_cond *cond)
{
    return meta_object_delete(e->meta, b, key, cond, NULL);
}

/* ---- GC ---------------------------------------------------------------------------------------
 */

/* Removing before acknowledging: a crash between leaves rows whose chunks are gone, which is
 * harmless. */
static enum rc gc_shard(struct object_engine *e, struct arena *a, unsigned shard, uint64_t *deleted)
{
    for (;;) {
        struct meta_gc_batch batch;
        enum rc rc;

        arena_reset(a);
        rc = meta_gc_due(e->meta, a, shard, GC_BATCH, &batch);
        if (rc || !batch.rows_n)
            return rc;
        if (batch.n)
            rc = data_remove(e->data, batch.extents, batch.n);
        if (!rc)
            rc = meta_gc_ack(e->meta, shard, &batch);
        if (rc)
            return rc;
        *deleted += batch.n;
    }
}

enum rc object_gc_pass(struct object_engine *e, uint64_t *ret_deleted)
{
    AUTO(arena_fini) struct arena a;
    uint64_t deleted = 0;
    enum rc first = RC_OK;

    arena_init(&a, GC_ARENA_MAX);
    /* A shard that fails does not keep the others from being cleaned. */
    for (unsigned shard = 0; shard < META_GC_SHARDS; shard++) {
        enum rc rc = gc_shard(e, &a, shard, &deleted);

        if (rc && !first)
            first = rc;
        if (rc == RC_CANCELLED)
            break;
        if (shard % GC_YIELD_SHARDS == GC_YIELD_SHARDS - 1)
            fiber_yield();
    }
    *ret_deleted = deleted;
    return first;
}
