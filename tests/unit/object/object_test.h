/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_test — an engine on the memory KV and a chunk store, both behind their faulty wrappers,
 * and bodies whose every byte is known.
 *
 * Owns:    the stores, from world_open to world_close.
 * Threads: on fibers; world_open and world_close anywhere.
 */
#ifndef STRATA_TESTS_OBJECT_TEST_H
#define STRATA_TESTS_OBJECT_TEST_H

#include "data/local.h"
#include "data/memory.h"
#include "data/wrap.h"
#include "kv/memory.h"
#include "kv/wrap.h"
#include "object/object.h"
#include "rt/sync.h"
#include "unit/rt/rt_test.h"

#define INLINE_MAX 1000u

/* Random bytes with a prime period, that each body enters at a place of its own: pieces that are
 * lost, doubled or swapped show. */
#define PATTERN 1048573u
static unsigned char pattern[PATTERN];

#define MIB ((uint64_t)1 << 20)

struct world {
    struct kv *kv;     /* faulty */
    struct data *data; /* faulty */
    struct meta *meta;
    struct object_engine *engine;
    struct arena arena;
    struct meta_bucket bucket;
    char directory[64]; /* of a local store; "" = memory */
};

static inline void world_open(struct world *w, bool local, size_t buffer_bytes)
{
    struct kv *kv;
    struct data *data;

    memset(w, 0, sizeof *w);
    random_bytes(pattern, sizeof pattern);
    if (local) {
        strncpy(w->directory, "/tmp/strata-object-XXXXXX", sizeof w->directory - 1);
        CHECK(mkdtemp(w->directory) != NULL);
        CHECK(data_local_open(
                  &(struct data_local_config){ .directory = w->directory, .no_sync = true },
                  &data) == RC_OK);
    } else {
        CHECK(data_memory_open((size_t)1 << 30, &data) == RC_OK);
    }
    CHECK(data_faulty_open(data, NULL, &w->data) == RC_OK);
    CHECK(kv_memory_open((size_t)1 << 30, &kv) == RC_OK);
    CHECK(kv_faulty_open(kv, &w->kv) == RC_OK);
    CHECK(meta_new(&(struct meta_config){ .kv = w->kv, .index_shards = 2 }, &w->meta) == RC_OK);
    CHECK(object_engine_new(&(struct object_config){ .meta = w->meta,
                                                     .data = w->data,
                                                     .inline_max = INLINE_MAX,
                                                     .buffer_bytes_max = buffer_bytes },
                            &w->engine) == RC_OK);
    arena_init(&w->arena, (size_t)1 << 30);
}

static inline void world_close(struct world *w)
{
    char command[128];

    arena_fini(&w->arena);
    object_engine_free(w->engine);
    meta_free(w->meta);
    kv_close(w->kv);
    data_close(w->data);
    if (w->directory[0]) {
        snprintf(command, sizeof command, "rm -rf %s", w->directory);
        CHECK(system(command) == 0);
    }
}

static inline void world_bucket(struct world *w)
{
    w->bucket = (struct meta_bucket){ .name = SLICE("objects"), .owner = SLICE("alice") };
    CHECK(meta_bucket_create(w->meta, &w->arena, &w->bucket) == RC_OK);
}

/* ---- bodies --------------------------------------------------------------------------------- */

/* The body's bytes from `at` on, as far as they lie in one run; at most n. */
static inline const unsigned char *body_run(uint64_t seed, uint64_t at, size_t *n)
{
    uint64_t from = (at + seed * 7919) % PATTERN;

    *n = (size_t)MIN((uint64_t)*n, PATTERN - from);
    return pattern + from;
}

static inline unsigned char body_byte(uint64_t seed, uint64_t at)
{
    size_t n = 1;

    return *body_run(seed, at, &n);
}

struct body {
    uint64_t seed, size, at;
    size_t step;      /* at most so much per read; 0: as asked */
    uint64_t fail_at; /* RC_UNAVAILABLE from there on; 0: never */
    enum rc finish_rc;
    struct object_sums sums; /* as finish saw them */
    unsigned finishes;
};

static inline enum rc body_read(void *arg, void *p, size_t n, size_t *ret_n)
{
    struct body *b = arg;

    if (b->fail_at && b->at >= b->fail_at)
        return RC_UNAVAILABLE;
    if (b->at == b->size)
        return RC_EOF;
    if (b->step)
        n = MIN(n, b->step);
    n = (size_t)MIN((uint64_t)n, b->size - b->at);
    for (size_t i = 0, run; i < n; i += run) {
        const unsigned char *from;

        run = n - i;
        from = body_run(b->seed, b->at + i, &run);

        memcpy((char *)p + i, from, run);
    }
    b->at += n;
    *ret_n = n;
    return RC_OK;
}

static inline enum rc body_finish(void *arg, const struct object_sums *sums, struct meta_object *o)
{
    struct body *b = arg;

    b->sums = *sums;
    b->finishes++;
    return b->finish_rc;
}

static inline enum rc put_body(struct world *w, struct slice key, struct body *b, uint64_t declared,
                               unsigned want)
{
    struct meta_object o = { .content_type = SLICE("text/x") };
    struct object_source source = {
        .read = body_read, .finish = body_finish, .arg = b, .size = declared, .want = want
    };

    return object_put(w->engine, &w->arena, &w->bucket, key, &o, NULL, &source);
}

struct check_body {
    uint64_t seed, at;
    uint64_t stop_after; /* RC_EOF from there on; 0: never */
    unsigned calls;
};

static inline enum rc check_write(void *arg, const void *p, size_t n)
{
    struct check_body *c = arg;

    c->calls++;
    CHECK(n > 0);
    for (size_t i = 0, run; i < n; i += run) {
        const unsigned char *want;

        run = n - i;
        want = body_run(c->seed, c->at + i, &run);

        CHECK(!memcmp((const char *)p + i, want, run));
    }
    c->at += n;
    return c->stop_after && c->at >= c->stop_after ? RC_EOF : RC_OK;
}

static inline struct meta_object get_object(struct world *w, struct slice key)
{
    struct meta_object o;

    CHECK(meta_object_get(w->meta, &w->arena, &w->bucket, key, false, &o) == RC_OK);
    return o;
}

static inline void check_range(struct world *w, const struct meta_object *o, uint64_t seed,
                               uint64_t offset, uint64_t length)
{
    struct check_body c = { .seed = seed, .at = offset };

    CHECK(object_read(w->engine, o, offset, length, check_write, &c) == RC_OK);
    CHECK(c.at == offset + length);
}

static inline void check_object(struct world *w, struct slice key, uint64_t seed, uint64_t size)
{
    struct meta_object o = get_object(w, key);

    CHECK(o.head.size == size);
    check_range(w, &o, seed, 0, size);
}

/* ---- accounts ------------------------------------------------------------------------------- */

struct account {
    struct world *world;
    uint64_t referenced, stored, missing;
};

static inline enum rc account_entry(void *arg, const struct meta_list_entry *e)
{
    struct account *a = arg;
    struct meta_object o = get_object(a->world, e->key);

    a->referenced += o.extents_n;
    for (size_t i = 0; i < o.extents_n; i++)
        a->missing += data_stat(a->world->data, &o.extents[i]) != RC_OK;
    return RC_OK;
}

static inline bool account_chunk(void *arg, const struct extent *e, int64_t written_at_ns)
{
    struct account *a = arg;

    a->stored++;
    return true;
}

static inline struct account take_account(struct world *w)
{
    struct account a = { .world = w };
    struct meta_list_params all = { .max = 1000 };
    struct meta_list_result result;

    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &all, account_entry, &a, &result) == RC_OK);
    CHECK(!result.truncated);
    CHECK(data_scan(w->data, account_chunk, &a) == RC_OK);
    CHECK(a.missing == 0); /* no dangling reference, ever */
    return a;
}

/* After a GC pass the store has the chunks of objects, and no others. */
static inline void check_no_garbage(struct world *w)
{
    struct account a;
    uint64_t deleted;

    CHECK(object_gc_pass(w->engine, &deleted) == RC_OK);
    a = take_account(w);
    CHECK(a.stored == a.referenced);
    CHECK(object_gc_pass(w->engine, &deleted) == RC_OK);
    CHECK(deleted == 0);
}

#endif
