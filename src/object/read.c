/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads: a range is cut into pieces, each read (and verified) as a whole, a few of them ahead of
 * the writer.
 *
 * Only the first buffer of a read is waited for; further ones are taken when they are free. So
 * reads never wait for each other's buffers in a circle.
 */
#include "object/object_priv.h"

struct piece {
    const struct extent *extent;
    uint32_t offset, n;  /* what is read of the chunk */
    uint32_t skip, take; /* what of that is given */
};

struct cutter {
    const struct extent *at;
    uint32_t offset;    /* in *at */
    uint64_t remaining; /* of the range */
    bool parts;         /* parts of chunks may be read alone */
};

struct slot {
    struct object_engine *engine;
    struct piece piece;
    char *buffer;
    struct fiber *fiber; /* NULL: read already */
    int64_t deadline_ns;
    enum rc rc;
    struct note note;
};

static void cutter_init(struct cutter *c, const struct object_engine *e,
                        const struct meta_object *o, uint64_t offset, uint64_t length)
{
    *c = (struct cutter){ .at = o->extents, .remaining = length, .parts = object_reads_parts(e) };
    while (offset >= c->at->length) {
        offset -= c->at->length;
        c->at++;
    }
    c->offset = (uint32_t)offset;
}

static bool cutter_next(struct cutter *c, struct piece *ret)
{
    uint32_t end;

    if (!c->remaining)
        return false;
    end = (uint32_t)MIN(c->at->length, c->offset + c->remaining);
    *ret = (struct piece){ .extent = c->at };
    if (c->parts) {
        /* Up to a multiple of the piece size, so that later pieces are aligned. */
        uint32_t stop = (uint32_t)((c->offset / OBJECT_PIECE_SIZE + 1) * OBJECT_PIECE_SIZE);

        end = MIN(end, stop);
        ret->offset = c->offset;
        ret->n = end - c->offset;
    } else {
        ret->n = c->at->length;
        ret->skip = c->offset;
    }
    ret->take = end - c->offset;
    c->remaining -= ret->take;
    c->offset = end;
    if (end == c->at->length) {
        c->at++;
        c->offset = 0;
    }
    return true;
}

static void slot_read(void *arg)
{
    struct slot *s = arg;

    s->rc = object_chunk_get(s->engine, s->piece.extent, s->piece.offset, s->buffer, s->piece.n);
    if (s->rc && note_slot)
        s->note = *note_slot;
}

static void slot_fiber(void *arg)
{
    struct slot *s = arg;

    (void)fiber_set_deadline(s->deadline_ns);
    slot_read(s);
}

/* Starts the next piece; false when there is none. */
static bool slot_start(struct slot *s, struct cutter *c)
{
    if (!cutter_next(c, &s->piece))
        return false;
    s->fiber = NULL;
    if (fiber_spawn_joinable(loop_current(), slot_fiber, s, &s->fiber))
        slot_read(s);
    return true;
}

static enum rc slot_finish(struct slot *s)
{
    if (s->fiber)
        fiber_join(s->fiber);
    s->fiber = NULL;
    if (s->rc && note_slot)
        *note_slot = s->note;
    return s->rc;
}

typedef enum rc (*write_fn)(void *arg, const void *p, size_t n);

static enum rc read_in_turn(struct object_engine *e, struct cutter *c, char *buffer, write_fn write,
                            void *arg)
{
    struct piece p;

    while (cutter_next(c, &p)) {
        enum rc rc = object_chunk_get(e, p.extent, p.offset, buffer, p.n);

        if (!rc)
            rc = write(arg, buffer + p.skip, p.take);
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* slots[0 … n) have buffers. Every fiber started here has ended on return. */
static enum rc read_ahead(struct slot *slots, unsigned n, struct cutter *c, write_fn write,
                          void *arg)
{
    unsigned started = 0, done = 0;
    enum rc rc = RC_OK;

    while (started < n && slot_start(&slots[started], c))
        started++;
    while (done < started) {
        struct slot *s = &slots[done++ % n];
        enum rc got = slot_finish(s);

        if (rc)
            continue; /* only waiting for the rest */
        rc = got ? got : write(arg, s->buffer + s->piece.skip, s->piece.take);
        if (!rc && slot_start(s, c))
            started++;
    }
    return rc;
}

static enum rc read_chunks(struct object_engine *e, struct bufpool *pool, struct cutter *c,
                           write_fn write, void *arg)
{
    bool ahead = !(e->data->ops->caps & DATA_CAP_READ_COPY) &&
                 c->remaining > (c->parts ? OBJECT_PIECE_SIZE : c->at->length - c->offset);
    unsigned want = ahead ? e->get_prefetch + 1 : 1, n;
    AUTO(free_p) struct slot *slots = calloc(want, sizeof *slots);
    int64_t deadline_ns;
    enum rc rc;

    if (!slots)
        return RC_NO_MEM;
    deadline_ns = fiber_set_deadline(NO_DEADLINE);
    (void)fiber_set_deadline(deadline_ns);
    rc = bufpool_get(pool, (void **)&slots[0].buffer, NO_DEADLINE);
    if (rc)
        return rc;
    for (n = 1; n < want; n++)
        if (bufpool_get(pool, (void **)&slots[n].buffer, 0))
            break;
    for (unsigned i = 0; i < n; i++) {
        slots[i].engine = e;
        slots[i].deadline_ns = deadline_ns;
    }
    rc = n > 1 ? read_ahead(slots, n, c, write, arg)
               : read_in_turn(e, c, slots[0].buffer, write, arg);
    for (unsigned i = 0; i < n; i++)
        bufpool_put(pool, slots[i].buffer);
    return rc;
}

/* Whether every piece fits in OBJECT_PIECE_SIZE. */
static bool pieces_are_small(const struct cutter *c, const struct meta_object *o)
{
    if (c->parts)
        return true;
    for (size_t i = 0; i < o->extents_n; i++)
        if (o->extents[i].length > OBJECT_PIECE_SIZE)
            return false;
    return true;
}

enum rc object_read(struct object_engine *e, const struct meta_object *o, uint64_t offset,
                    uint64_t length, enum rc (*write)(void *arg, const void *p, size_t n),
                    void *arg)
{
    struct cutter c;

    if (offset > o->head.size || length > o->head.size - offset)
        return RC_INVALID;
    if (!length)
        return RC_OK;
    if (o->is_inline)
        return o->body.n == o->head.size ? write(arg, o->body.p + offset, length) : RC_INVALID;
    if (!o->extents_n)
        return RC_INVALID; /* got with head_only */
    cutter_init(&c, e, o, offset, length);
    return read_chunks(e, pieces_are_small(&c, o) ? e->pieces : e->chunks, &c, write, arg);
}
