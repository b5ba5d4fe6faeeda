/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard row of an index shard, and how a bucket delete is decided.
 *
 * A delete takes a random token and goes: bucket row gets the token → every guard closes with the
 * token → the shards are scanned → one transaction on the bucket row, which must still hold the
 * token, removes everything. So:
 *   1. A write commits only with its guard open (it is in the read set): after a guard has closed,
 * the scan sees every write that was or will be acknowledged.
 *   2. A guard closed with token T opens again only after the bucket row was seen without T. Tokens
 *      never return, so from then on the delete with T cannot commit.
 * A gateway that died in the middle leaves a token behind; after GUARD_STALE_MS anybody takes it
 * back.
 */
#include "meta/meta_priv.h"

#define GUARD_SIZE 17u
#define GUARD_POLL_MS 20

enum rc guard_get(struct kv_txn *t, struct arena *a, struct guard *ret)
{
    struct kv_item item;
    enum rc rc = kv_txn_get(t, KEYS_GUARD, a, &item);

    if (rc)
        return rc;
    if (item.value.n != GUARD_SIZE || (unsigned char)item.value.p[0] > GUARD_CLOSING)
        return fail_rc(RC_CORRUPT, "malformed guard row");
    *ret = (struct guard){
        .state = (enum guard_state)item.value.p[0],
        .token = get_be64(item.value.p + 1),
        .closed_at_ms = (int64_t)get_be64(item.value.p + 9),
    };
    return RC_OK;
}

enum rc guard_put(struct kv_txn *t, struct slice partition, const struct guard *g)
{
    char value[GUARD_SIZE];

    value[0] = (char)g->state;
    put_be64(value + 1, g->token);
    put_be64(value + 9, (uint64_t)g->closed_at_ms);
    return kv_txn_put(t, partition, KEYS_GUARD, slice_of(value, sizeof value));
}

/* ---- taking a delete back ---------------------------------------------------------------------
 */

struct reopen {
    const struct meta_bucket *bucket;
    uint64_t token;
    struct slice partition;
    struct arena *arena;
    bool gone;
};

static enum rc clear_token(struct kv_txn *t, void *arg)
{
    struct reopen *r = arg;
    struct row_bucket row;
    struct kv_item item;
    struct slice value;
    enum rc rc;

    arena_reset(r->arena);
    rc = kv_txn_get(t, KEYS_BUCKET_ROW, r->arena, &item);
    if (!rc)
        rc = row_bucket_decode(r->arena, item.value, &row);
    if (rc == RC_NOT_FOUND ||
        (!rc && memcmp(row.bucket.id, r->bucket->id, META_BUCKET_ID_SIZE) != 0)) {
        r->gone = true;
        return RC_OK;
    }
    if (rc)
        return rc;
    r->gone = false;
    if (row.closing_token != r->token)
        return RC_OK;
    row.closing_token = 0;
    row.closing_since_ms = 0;
    rc = row_bucket_encode(r->arena, &row, &value);
    return rc ? rc : kv_txn_put(t, r->partition, KEYS_BUCKET_ROW, value);
}

static enum rc open_guard(struct kv_txn *t, void *arg)
{
    struct reopen *r = arg;
    struct guard g;
    enum rc rc;

    arena_reset(r->arena);
    rc = guard_get(t, r->arena, &g);
    if (rc == RC_NOT_FOUND)
        return RC_OK; /* removed by the delete that got through */
    if (rc || g.state == GUARD_OPEN || g.token != r->token)
        return rc;
    return guard_put(t, r->partition, &(struct guard){ .state = GUARD_OPEN });
}

static enum rc reopen_shard(struct meta *m, struct reopen *r, unsigned shard)
{
    char buf[KEYS_INDEX_PARTITION_SIZE];

    r->partition = keys_index_partition(buf, r->bucket, shard);
    return kv_transact(m->kv, r->partition, open_guard, r);
}

enum rc guard_reopen(struct meta *m, const struct meta_bucket *b, uint64_t token)
{
    AUTO(arena_fini) struct arena a;
    struct reopen r = { .bucket = b, .token = token, .arena = &a };
    char buf[KV_PARTITION_MAX];
    enum rc rc;

    arena_init(&a, META_ARENA_MAX);
    r.partition = keys_bucket_partition(buf, b->name);
    rc = kv_transact(m->kv, r.partition, clear_token, &r);
    if (!rc && r.gone)
        return RC_NOT_FOUND;
    for (unsigned i = 0; !rc && i < b->index_shards; i++)
        rc = reopen_shard(m, &r, i);
    return rc;
}

/* ---- a write at a guard that is not open ------------------------------------------------------
 */

static enum rc read_guard(struct meta *m, const struct meta_bucket *b, unsigned shard,
                          struct arena *a, struct guard *ret)
{
    char buf[KEYS_INDEX_PARTITION_SIZE];
    struct kv_txn *t;
    enum rc rc = kv_begin(m->kv, keys_index_partition(buf, b, shard), &t);

    if (rc)
        return rc;
    rc = guard_get(t, a, ret);
    kv_txn_free(t);
    return rc;
}

enum rc guard_resolve(struct meta *m, const struct meta_bucket *b, unsigned shard, int64_t since_ns)
{
    AUTO(arena_fini) struct arena a;
    struct reopen r = { .bucket = b, .arena = &a };
    struct row_bucket row;
    struct guard g;
    enum rc rc;

    arena_init(&a, META_ARENA_MAX);
    /* The guard first: then a token that the row does not have is one that it has lost. */
    rc = read_guard(m, b, shard, &a, &g);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    if (!rc && g.state == GUARD_OPEN)
        return RC_OK;
    if (rc == RC_NOT_FOUND)
        g = (struct guard){ 0 };
    rc = meta_bucket_row_get(m, &a, b->name, &row);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    if (rc || memcmp(row.bucket.id, b->id, META_BUCKET_ID_SIZE) != 0) {
        bucket_cache_forget(&m->cache, b->name);
        return meta_no_such_bucket();
    }
    if (g.state == GUARD_CLOSING && row.closing_token != g.token) {
        r.token = g.token;
        return reopen_shard(m, &r, shard);
    }
    if (g.state == GUARD_CLOSING &&
        meta_wall_ms() - (int64_t)row.closing_since_ms > GUARD_STALE_MS) {
        rc = guard_reopen(m, b, g.token);
        return rc == RC_NOT_FOUND ? RC_OK : rc; /* the next round says NoSuchBucket */
    }
    if (clock_mono_ns() - since_ns > GUARD_WAIT_MS * NS_PER_MS)
        return fail_s3(S3E_OPERATION_ABORTED, "The bucket is being deleted.");
    return fiber_sleep_ms(GUARD_POLL_MS);
}

/* ---- fencing ----------------------------------------------------------------------------------
 */

static enum rc touch_guard(struct kv_txn *t, void *arg)
{
    struct reopen *r = arg;
    struct guard g;
    enum rc rc;

    arena_reset(r->arena);
    rc = guard_get(t, r->arena, &g);
    return rc ? rc : guard_put(t, r->partition, &g);
}

enum rc guard_fence(struct meta *m, const struct meta_bucket *b, unsigned shard)
{
    AUTO(arena_fini) struct arena a;
    struct reopen r = { .bucket = b, .arena = &a };
    char buf[KEYS_INDEX_PARTITION_SIZE];

    arena_init(&a, META_ARENA_MAX);
    r.partition = keys_index_partition(buf, b, shard);
    return kv_transact(m->kv, r.partition, touch_guard, &r);
}
