/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_priv — what the files of the domain model share.
 *
 * Threads: struct meta is immutable after meta_new, but for the cache, which locks itself.
 */
#ifndef STRATA_META_META_PRIV_H
#define STRATA_META_META_PRIV_H

#include "base/clock.h"
#include "base/digest.h"
#include "meta/bucket_cache.h"
#include "meta/keys.h"
#include "meta/meta.h"
#include "meta/row.h"
#include "meta/shield.h"
#include "rt/rt.h"

/* Of what one call reads and builds by itself. */
#define META_ARENA_MAX ((size_t)64 << 20)

struct meta {
    struct kv *kv;
    unsigned index_shards;
    uint32_t gc_grace_ms;
    unsigned buckets_per_owner_max;
    struct bucket_cache cache;
};

static inline int64_t meta_wall_ms(void)
{
    return clock_wall_ns() / NS_PER_MS;
}

static inline uint64_t meta_random(void)
{
    uint64_t v;

    random_bytes(&v, sizeof v);
    return v ? v : 1;
}

/* The row straight from the store. RC_NOT_FOUND without a note. */
enum rc meta_bucket_row_get(struct meta *m, struct arena *a, struct slice name,
                            struct row_bucket *ret) MUST_CHECK;
enum rc meta_no_such_bucket(void) MUST_CHECK; /* notes it */

/* ---- the guard of an index shard (guard.c) -------------------------------------------------- */

enum guard_state { GUARD_OPEN = 0, GUARD_CLOSING = 1 };
struct guard {
    enum guard_state state;
    uint64_t token; /* of the delete that closed it */
    int64_t closed_at_ms;
};
/* A delete that has gone on for longer was abandoned: its bucket may be opened again. */
#define GUARD_STALE_MS 10000
/* How long a write waits for a delete under way to be decided. */
#define GUARD_WAIT_MS 1000

enum rc guard_get(struct kv_txn *t, struct arena *a, struct guard *ret) MUST_CHECK;
enum rc guard_put(struct kv_txn *t, struct slice partition, const struct guard *g) MUST_CHECK;
/* After a write found the guard of its shard closed, or missing: makes progress or waits a little.
 * RC_OK: try the write again. Else the write's result. since_ns: when the write began (monotonic).
 */
enum rc guard_resolve(struct meta *m, const struct meta_bucket *b, unsigned shard,
                      int64_t since_ns) MUST_CHECK;
/* Takes back the delete with that token, wherever it is in its steps. RC_NOT_FOUND: it has been
 * done. */
enum rc guard_reopen(struct meta *m, const struct meta_bucket *b, uint64_t token) MUST_CHECK;
/* Writes the guard as it is: every transaction that read it before and has not committed yet will
 * fail, so that an unknown outcome becomes known. RC_NOT_FOUND when there is no guard. */
enum rc guard_fence(struct meta *m, const struct meta_bucket *b, unsigned shard) MUST_CHECK;

/* ---- GC queue (gc.c) ------------------------------------------------------------------------ */

/* Names rows before their transaction runs, so that a repeated one writes the same. */
struct gc_ticket {
    unsigned shard;
    uint64_t not_before_ms, random;
};
void gc_ticket_init(const struct meta *m, struct gc_ticket *t);
enum rc gc_write(struct kv_txn *t, struct arena *a, const struct gc_ticket *ticket,
                 const struct extent *e, size_t n) MUST_CHECK;

static inline unsigned meta_shard_of(const struct meta_bucket *b, uint64_t key_hash)
{
    return b->index_shards <= 1 ? 0 : (unsigned)(key_hash % b->index_shards);
}

#endif
