/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_test — a domain model on the memory KV, behind the faulty wrapper.
 *
 * Owns:    the stores, from world_open to world_close.
 * Threads: on fibers; world_open and world_close anywhere.
 */
#ifndef STRATA_TESTS_META_TEST_H
#define STRATA_TESTS_META_TEST_H

#include "base/clock.h"
#include "base/digest.h"
#include "kv/memory.h"
#include "kv/wrap.h"
#include "meta/meta.h"
#include "rt/sync.h"
#include "unit/rt/rt_test.h"

struct world {
    struct kv *kv; /* the faulty one */
    struct meta *meta;
    struct arena arena;
    struct meta_bucket bucket;
};

static inline void world_open(struct world *w, unsigned shards)
{
    struct kv *memory;

    CHECK(kv_memory_open((size_t)1 << 30, &memory) == RC_OK);
    CHECK(kv_faulty_open(memory, &w->kv) == RC_OK);
    CHECK(meta_new(
              &(struct meta_config){ .kv = w->kv, .index_shards = shards, .bucket_cache_ms = 1000 },
              &w->meta) == RC_OK);
    arena_init(&w->arena, (size_t)1 << 30);
}

static inline void world_close(struct world *w)
{
    arena_fini(&w->arena);
    meta_free(w->meta);
    kv_close(w->kv);
}

/* On a fiber. */
static inline void world_bucket(struct world *w, struct slice name)
{
    w->bucket = (struct meta_bucket){ .name = name, .owner = SLICE("alice") };
    CHECK(meta_bucket_create(w->meta, &w->arena, &w->bucket) == RC_OK);
}

/* An inline object whose body is `size` times 'x'. */
static inline enum rc put_sized(struct world *w, struct slice key, size_t size,
                                const struct meta_cond *cond)
{
    static const char body[4096] = { 'x' };
    struct meta_object o = { .is_inline = true, .body = { body, size }, .head.size = size };

    CHECK(size <= sizeof body);
    return meta_object_put(w->meta, &w->bucket, key, &o, cond);
}

#endif
