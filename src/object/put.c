/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts. A body that ends within inline_max goes into its row. Others are cut into chunks:
 *
 *     source → buffer ─┬→ hasher fiber: sums of its segments in order, on a pool thread
 *                      └→ writer fiber: data_put
 *
 * Invariants: 1. A chunk's buffer goes back when both have let go of it, which neither needs
 * another buffer for: so puts that wait for buffers never wait in a circle. 2. At most put_window +
 * 1 chunks of a put have a buffer. 3. put_stream returns only after every fiber that it started has
 * ended. 4. extents[i].length is not 0 exactly for chunks that may be in the store.
 *
 * Threads: all of it belongs to one loop, but for sums_update on the pool.
 */
#include "base/encode.h"
#include "object/object_priv.h"

/* What is worth a pool thread, and how much it gets at once. */
#define SEGMENT_SIZE ((size_t)512 << 10)
#define INLINE_HASH_MAX ((size_t)128 << 10)
#define SEGMENTS_PER_CHUNK (DATA_CHUNK_MAX / SEGMENT_SIZE + 1)
#define GC_ALLOW_MS 10000
#define BACKREF_MAX (2 * META_BUCKET_ID_SIZE + 1 + META_KEY_MAX)

struct put;

struct segment {
    struct chunk *chunk;
    const char *p;
    size_t n;
};

struct chunk {
    struct put *put;
    struct bufpool *pool; /* NULL: buffer is malloc'd */
    char *buffer;
    size_t n, room;
    size_t hashed; /* bytes given to the hasher, or hashed */
    int refs;
    uint32_t index;
    bool last; /* the body ends with it */
    unsigned segments_n;
    struct segment segments[SEGMENTS_PER_CHUNK];
};

struct put {
    struct object_engine *engine;
    const struct object_source *source;
    uint64_t stream, size; /* size: bytes received */
    int64_t deadline_ns;   /* of the caller's fiber, for those that it starts */
    struct sums sums;
    struct fiber_queue segments;
    struct fiber_sem chunks_left;
    struct wait_group fibers;
    bool hashing;    /* the hasher runs */
    bool installing; /* the metadata transaction has begun */
    struct extent *extents;
    size_t extents_n, extents_room;
    enum rc rc; /* first failure of a fiber */
    struct note note;
    size_t backref_n;
    char backref[BACKREF_MAX];
};

static void note_failure(struct put *p, enum rc rc)
{
    if (p->rc)
        return;
    p->rc = rc;
    if (note_slot)
        p->note = *note_slot;
}

/* ---- chunks -----------------------------------------------------------------------------------
 */

/* Small bodies of known size get memory of their size. */
static struct bufpool *pool_for(const struct object_engine *e, uint64_t size)
{
    return size <= OBJECT_PIECE_SIZE ? e->pieces : e->chunks;
}

static enum rc chunk_new(struct put *p, struct chunk **ret)
{
    struct chunk *c = malloc(sizeof *c);
    enum rc rc;

    if (!c)
        return RC_NO_MEM;
    c->put = p;
    c->pool = pool_for(p->engine, p->source->size);
    c->n = c->hashed = 0;
    c->refs = 1;
    c->index = (uint32_t)p->extents_n;
    c->last = false;
    c->segments_n = 0;
    rc = fiber_sem_wait(&p->chunks_left, 1, NO_DEADLINE);
    if (rc) {
        free(c);
        return rc;
    }
    rc = bufpool_get(c->pool, (void **)&c->buffer, NO_DEADLINE);
    if (rc) {
        fiber_sem_post(&p->chunks_left, 1);
        free(c);
        return rc;
    }
    c->room = bufpool_size(c->pool);
    *ret = c;
    return RC_OK;
}

static void chunk_unref(struct chunk *c)
{
    if (--c->refs)
        return;
    bufpool_put(c->pool, c->buffer);
    fiber_sem_post(&c->put->chunks_left, 1);
    free(c);
}

/* ---- hashing ----------------------------------------------------------------------------------
 */

static void hash_segment(void *arg)
{
    struct segment *s = arg;

    sums_update(&s->chunk->put->sums, s->p, s->n);
}

static void hasher_fiber(void *arg)
{
    struct put *p = arg;
    void *item;

    for (;;) {
        enum rc rc = fiber_queue_take(&p->segments, &item, NO_DEADLINE);
        struct segment *s = item;

        if (rc == RC_EOF)
            break;
        if (rc) { /* cancelled: what is queued must still be let go of */
            note_failure(p, rc);
            (void)fiber_uncancel();
            continue;
        }
        if (!p->rc && offload(hash_segment, s))
            hash_segment(s);
        chunk_unref(s->chunk);
    }
    wait_group_done(&p->fibers);
}

/* False: no fiber to be had. */
static bool hasher_start(struct put *p)
{
    if (p->hashing)
        return true;
    wait_group_add(&p->fibers, 1);
    if (fiber_spawn(loop_current(), hasher_fiber, p)) {
        wait_group_done(&p->fibers);
        return false;
    }
    p->hashing = true;
    return true;
}

/* Hands what is not hashed yet to the hasher, or hashes it here when that costs less. */
static enum rc hash_more(struct chunk *c)
{
    struct put *p = c->put;
    struct segment *s;
    size_t n = c->n - c->hashed;
    enum rc rc;

    if (!n)
        return RC_OK;
    if (!p->hashing && (n < INLINE_HASH_MAX || !hasher_start(p))) {
        sums_update(&p->sums, c->buffer + c->hashed, n);
        c->hashed = c->n;
        return RC_OK;
    }
    assert(c->segments_n < SEGMENTS_PER_CHUNK);
    s = &c->segments[c->segments_n++];
    *s = (struct segment){ c, c->buffer + c->hashed, n };
    c->hashed = c->n;
    c->refs++;
    rc = fiber_queue_put(&p->segments, s, NO_DEADLINE); /* has room for all that can be */
    if (rc)
        chunk_unref(c);
    return rc;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void chunk_write(struct chunk *c)
{
    struct put *p = c->put;
    struct data_hint hint = { .stream = p->stream,
                              .index = c->index,
                              .backref = slice_of(p->backref, p->backref_n) };
    struct iovec iov = { .iov_base = c->buffer, .iov_len = c->n };
    struct extent extent;
    enum rc rc = data_put(p->engine->data, &hint, &iov, 1, &extent);

    if (rc)
        note_failure(p, rc);
    else
        p->extents[c->index] = extent;
    chunk_unref(c);
}

static void writer_fiber(void *arg)
{
    struct chunk *c = arg;
    struct put *p = c->put;

    (void)fiber_set_deadline(p->deadline_ns);
    chunk_write(c);
    wait_group_done(&p->fibers);
}

static enum rc extents_reserve(struct put *p)
{
    size_t room = p->extents_room ? 2 * p->extents_room : 4;
    struct extent *more;

    if (p->extents_n < p->extents_room)
        return RC_OK;
    more = realloc(p->extents, room * sizeof *more);
    if (!more)
        return RC_NO_MEM;
    memset(more + p->extents_room, 0, (room - p->extents_room) * sizeof *more);
    p->extents = more;
    p->extents_room = room;
    return RC_OK;
}

/* Takes over the caller's reference. The last chunk is written on this fiber, which has nothing
 * else to do. */
static enum rc chunk_dispatch(struct chunk *c)
{
    struct put *p = c->put;
    enum rc rc = extents_reserve(p);

    if (!rc)
        rc = hash_more(c);
    if (rc) {
        chunk_unref(c);
        return rc;
    }
    p->extents_n++;
    wait_group_add(&p->fibers, 1);
    if (c->last || fiber_spawn(loop_current(), writer_fiber, c)) {
        chunk_write(c);
        wait_group_done(&p->fibers);
    }
    return RC_OK;
}

/* ---- receiving --------------------------------------------------------------------------------
 */

static enum rc too_large(void)
{
    return fail_s3(S3E_ENTITY_TOO_LARGE, NULL);
}

/* The declared size has been received: the source must end here, too. */
static enum rc expect_end(const struct object_source *source)
{
    char scratch;
    size_t n;
    enum rc rc = source->read(source->arg, &scratch, 1, &n);

    if (!rc)
        return fail_s3(S3E_INVALID_REQUEST, "The body is longer than declared.");
    return rc == RC_EOF ? RC_OK : rc;
}

/* Reads until n bytes are there or the body ends; RC_OK also then, with *ret_ended set. */
static enum rc read_some(struct put *p, char *buffer, size_t n, size_t *ret_n, bool *ret_ended)
{
    const struct object_source *source = p->source;
    enum rc rc;

    *ret_n = 0;
    if (p->size == source->size) {
        *ret_ended = true;
        return expect_end(source);
    }
    rc = source->read(source->arg, buffer, (size_t)MIN((uint64_t)n, source->size - p->size), ret_n);
    if (rc == RC_EOF) {
        *ret_ended = true;
        *ret_n = 0;
        return source->size == UINT64_MAX ? RC_OK : fail_s3(S3E_INCOMPLETE_BODY, NULL);
    }
    if (rc)
        return rc;
    assert(*ret_n && *ret_n <= n);
    p->size += *ret_n;
    return p->size > OBJECT_PUT_MAX ? too_large() : RC_OK;
}

/* Fills the chunk; sets c->last at the end of the body. Bytes that might still go inline are not
 * hashed. */
static enum rc chunk_fill(struct chunk *c)
{
    struct put *p = c->put;

    while (!c->last) {
        size_t n;
        enum rc rc;

        if (c->n == c->room && p->size != p->source->size)
            return RC_OK;
        rc = read_some(p, c->buffer + c->n, c->room - c->n, &n, &c->last);
        c->n += n;
        if (!rc && c->n - c->hashed >= SEGMENT_SIZE && p->size > p->engine->inline_max)
            rc = hash_more(c);
        if (!rc)
            rc = p->rc;
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* The chunk loop. On return *ret_inline is the only chunk, if its body belongs into the row. */
static enum rc receive(struct put *p, struct chunk **ret_inline)
{
    bool ended = false;

    while (!ended) {
        struct chunk *c;
        enum rc rc = chunk_new(p, &c);

        if (rc)
            return rc;
        rc = chunk_fill(c);
        if (rc) {
            chunk_unref(c);
            return rc;
        }
        ended = c->last;
        if (ended && p->size <= p->engine->inline_max) {
            *ret_inline = c;
            return RC_OK;
        }
        if (!c->n) { /* ended at the border of the chunk before, or empty */
            chunk_unref(c);
            return RC_OK;
        }
        rc = chunk_dispatch(c);
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static enum rc put_init(struct put *p, struct object_engine *e, const struct meta_bucket *b,
                        struct slice key, const struct object_source *source)
{
    unsigned chunks = e->put_window + 1;
    enum rc rc;

    memset(p, 0, offsetof(struct put, backref));
    p->engine = e;
    p->source = source;
    p->deadline_ns = fiber_set_deadline(NO_DEADLINE);
    (void)fiber_set_deadline(p->deadline_ns);
    random_bytes(&p->stream, sizeof p->stream);
    hex_encode(p->backref, b->id, META_BUCKET_ID_SIZE);
    p->backref[2 * META_BUCKET_ID_SIZE] = '/';
    memcpy(p->backref + 2 * META_BUCKET_ID_SIZE + 1, key.p, key.n);
    p->backref_n = 2 * META_BUCKET_ID_SIZE + 1 + key.n;
    rc = sums_init(&p->sums, source->want);
    if (rc)
        return rc;
    rc = fiber_queue_init(&p->segments, chunks * SEGMENTS_PER_CHUNK);
    if (rc) {
        sums_fini(&p->sums);
        return rc;
    }
    fiber_sem_init(&p->chunks_left, chunks);
    wait_group_init(&p->fibers);
    return RC_OK;
}

static void put_fini(struct put *p)
{
    wait_group_fini(&p->fibers);
    fiber_sem_fini(&p->chunks_left);
    fiber_queue_fini(&p->segments);
    sums_fini(&p->sums);
    free(p->extents);
}

/* Whatever happens to this fiber, its helpers must have ended before p goes. */
static void wait_for_fibers(struct put *p)
{
    struct shield shield;

    fiber_queue_close(&p->segments);
    shield_begin(&shield, 0);
    (void)fiber_set_deadline(NO_DEADLINE);
    while (wait_group_wait(&p->fibers, NO_DEADLINE))
        shield.cancelled |= fiber_uncancel();
    shield_end(&shield);
}

static void discard(struct put *p)
{
    struct shield shield;
    size_t n = 0;

    for (size_t i = 0; i < p->extents_n; i++)
        if (p->extents[i].length)
            p->extents[n++] = p->extents[i];
    p->extents_n = 0;
    shield_begin(&shield, GC_ALLOW_MS);
    /* Should the queue fail as well, they are orphans: the reconcile worker finds those. */
    if (meta_gc_add(p->engine->meta, p->extents, n))
        n = 0;
    shield_end(&shield);
}

/* Lets the source have its say on the sums. */
static enum rc finish(const struct object_source *source, const struct object_sums *sums,
                      struct meta_object *o)
{
    o->head.size = sums->size;
    o->head.parts = 0;
    memcpy(o->head.md5, sums->md5, sizeof o->head.md5);
    return source->finish ? source->finish(source->arg, sums, o) : RC_OK;
}

struct hash_once {
    unsigned want;
    struct slice body;
    struct object_sums sums;
};

static void hash_body(void *arg)
{
    struct hash_once *h = arg;

    sums_once(h->want, h->body.p, h->body.n, &h->sums);
}

static enum rc install_inline(struct object_engine *e, const struct meta_bucket *b,
                              struct slice key, struct meta_object *o, const struct meta_cond *cond,
                              const struct object_source *source, struct slice body)
{
    struct hash_once hash = { .want = source->want, .body = body };
    enum rc rc;

    if (body.n < INLINE_HASH_MAX || offload(hash_body, &hash))
        hash_body(&hash);
    o->is_inline = true;
    o->body = body;
    o->extents = NULL;
    o->extents_n = 0;
    rc = finish(source, &hash.sums, o);
    if (!rc)
        rc = meta_object_put(e->meta, b, key, o, cond);
    o->body = SLICE_NONE; /* lives no longer */
    return rc;
}

/* A body that is known to be small: no pool, no fibers. */
static enum rc put_small(struct object_engine *e, const struct meta_bucket *b, struct slice key,
                         struct meta_object *o, const struct meta_cond *cond,
                         const struct object_source *source)
{
    AUTO(free_p) char *body = malloc(source->size + 1);
    size_t at = 0;
    enum rc rc;

    if (!body)
        return RC_NO_MEM;
    while (at < source->size) {
        size_t n;

        rc = source->read(source->arg, body + at, source->size - at, &n);
        if (rc)
            return rc == RC_EOF ? fail_s3(S3E_INCOMPLETE_BODY, NULL) : rc;
        at += n;
    }
    rc = expect_end(source);
    if (rc)
        return rc;
    return install_inline(e, b, key, o, cond, source, slice_of(body, at));
}

static enum rc install_chunks(struct put *p, struct arena *a, const struct meta_bucket *b,
                              struct slice key, struct meta_object *o, const struct meta_cond *cond)
{
    struct object_sums sums;
    enum rc rc;

    sums_final(&p->sums, &sums);
    assert(sums.size == p->size);
    o->is_inline = p->size == 0;
    o->body = SLICE_NONE;
    o->extents_n = p->extents_n;
    o->extents = NULL;
    if (p->extents_n) {
        o->extents = arena_alloc(a, p->extents_n * sizeof *o->extents);
        if (!o->extents)
            return RC_NO_MEM;
        memcpy(o->extents, p->extents, p->extents_n * sizeof *o->extents);
    }
    rc = finish(p->source, &sums, o);
    if (rc)
        return rc;
    p->installing = true;
    return meta_object_put(p->engine->meta, b, key, o, cond);
}

/* Waits for all chunks. RC_OK: all are stored and summed. */
static enum rc put_join(struct put *p, enum rc rc)
{
    if (rc && !p->rc)
        note_failure(p, rc); /* also stops the hasher */
    wait_for_fibers(p);
    if (p->rc && note_slot)
        *note_slot = p->note;
    return p->rc;
}

static enum rc put_stream(struct put *p, struct arena *a, const struct meta_bucket *b,
                          struct slice key, struct meta_object *o, const struct meta_cond *cond)
{
    struct chunk *only = NULL;
    enum rc rc = put_join(p, receive(p, &only));

    if (only) {
        if (!rc)
            rc = install_inline(p->engine, b, key, o, cond, p->source,
                                slice_of(only->buffer, only->n));
        chunk_unref(only);
        return rc;
    }
    if (!rc)
        rc = install_chunks(p, a, b, key, o, cond);
    /* Of an unknown outcome the chunks may be in use. */
    if (rc && !(rc == RC_TIMEOUT && p->installing))
        discard(p);
    return rc;
}

enum rc object_put(struct object_engine *e, struct arena *a, const struct meta_bucket *b,
                   struct slice key, struct meta_object *o, const struct meta_cond *cond,
                   const struct object_source *source)
{
    struct put *p;
    enum rc rc;

    if (source->size != UINT64_MAX && source->size > OBJECT_PUT_MAX)
        return too_large();
    if (!key.n || key.n > META_KEY_MAX)
        return fail_s3(key.n ? S3E_KEY_TOO_LONG : S3E_INVALID_ARGUMENT, NULL);
    if (source->size <= e->inline_max)
        return put_small(e, b, key, o, cond, source);
    p = malloc(sizeof *p);
    if (!p)
        return RC_NO_MEM;
    rc = put_init(p, e, b, key, source);
    if (!rc) {
        rc = put_stream(p, a, b, key, o, cond);
        put_fini(p);
    }
    free(p);
    return rc;
}
