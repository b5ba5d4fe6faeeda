/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes a bucket in the steps that guard.c explains. */
#include "meta/meta_priv.h"

#define SHIELD_MS 5000

struct closing {
    struct meta *meta;
    const struct meta_bucket *bucket;
    uint64_t token;
    struct slice partition;
    struct arena *arena;
    bool lost; /* another delete took over, or the bucket is gone */
};

static enum rc shard_is_empty(struct meta *m, const struct meta_bucket *b, unsigned shard,
                              bool *ret)
{
    char buf[KEYS_INDEX_PARTITION_SIZE];
    struct kv_range range = { .partition = keys_index_partition(buf, b, shard),
                              .from = KEYS_OBJECTS_FROM,
                              .to = KEYS_OBJECTS_TO,
                              .flags = KV_HEAD };
    struct kv_scan *scan;
    struct kv_item item;
    enum rc rc = kv_scan_open(m->kv, &range, &scan);

    if (rc)
        return rc;
    rc = kv_scan_next(scan, &item);
    kv_scan_close(scan);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    *ret = rc == RC_NOT_FOUND;
    return RC_OK;
}

static enum rc check_empty(struct meta *m, const struct meta_bucket *b)
{
    for (unsigned i = 0; i < b->index_shards; i++) {
        bool empty;
        enum rc rc = shard_is_empty(m, b, i, &empty);

        if (rc)
            return rc;
        if (!empty)
            return fail_s3(S3E_BUCKET_NOT_EMPTY, NULL);
    }
    return RC_OK;
}

static enum rc read_row(struct kv_txn *t, struct closing *c, struct row_bucket *ret)
{
    struct kv_item item;
    enum rc rc;

    arena_reset(c->arena);
    rc = kv_txn_get(t, KEYS_BUCKET_ROW, c->arena, &item);
    if (!rc)
        rc = row_bucket_decode(c->arena, item.value, ret);
    if (!rc && memcmp(ret->bucket.id, c->bucket->id, META_BUCKET_ID_SIZE) != 0)
        rc = RC_NOT_FOUND;
    return rc == RC_NOT_FOUND ? meta_no_such_bucket() : rc;
}

static enum rc announce(struct kv_txn *t, void *arg)
{
    struct closing *c = arg;
    struct row_bucket row;
    struct slice value;
    enum rc rc = read_row(t, c, &row);

    if (rc)
        return rc;
    row.closing_token = c->token;
    row.closing_since_ms = (uint64_t)meta_wall_ms();
    rc = row_bucket_encode(c->arena, &row, &value);
    return rc ? rc : kv_txn_put(t, c->partition, KEYS_BUCKET_ROW, value);
}

static enum rc close_guard(struct kv_txn *t, void *arg)
{
    struct closing *c = arg;
    struct guard g;
    enum rc rc;

    arena_reset(c->arena);
    rc = guard_get(t, c->arena, &g);
    if (rc)
        return rc == RC_NOT_FOUND ? meta_no_such_bucket() : rc;
    g = (struct guard){ .state = GUARD_CLOSING, .token = c->token, .closed_at_ms = meta_wall_ms() };
    return guard_put(t, c->partition, &g);
}

static enum rc close_guards(struct closing *c)
{
    char buf[KEYS_INDEX_PARTITION_SIZE];
    enum rc rc = RC_OK;

    for (unsigned i = 0; !rc && i < c->bucket->index_shards; i++) {
        c->partition = keys_index_partition(buf, c->bucket, i);
        rc = kv_transact(c->meta->kv, c->partition, close_guard, c);
    }
    return rc;
}

static enum rc remove_shard(struct kv_txn *t, const struct meta_bucket *b, unsigned shard)
{
    char buf[KEYS_INDEX_PARTITION_SIZE], slot[2];
    struct slice partition = keys_index_partition(buf, b, shard);
    enum rc rc = kv_txn_delete(t, partition, KEYS_GUARD);

    for (unsigned i = 0; !rc && i < KEYS_STAT_SLOTS; i++)
        rc = kv_txn_delete(t, partition, keys_slot(slot, (uint64_t)i << 32));
    return rc;
}

static enum rc remove_all(struct kv_txn *t, void *arg)
{
    struct closing *c = arg;
    const struct meta_bucket *b = c->bucket;
    char buf[KV_PARTITION_MAX];
    struct row_bucket row;
    enum rc rc = read_row(t, c, &row);

    if (rc)
        return rc;
    c->lost = row.closing_token != c->token;
    if (c->lost)
        return RC_OK;
    rc = kv_txn_delete(t, c->partition, KEYS_BUCKET_ROW);
    if (!rc)
        rc = kv_txn_delete(t, keys_owner_partition(buf, row.bucket.owner), b->name);
    for (unsigned i = 0; !rc && i < b->index_shards; i++)
        rc = remove_shard(t, b, i);
    return rc;
}

static enum rc close_and_remove(struct closing *c)
{
    char buf[KV_PARTITION_MAX];
    enum rc rc = close_guards(c);

    if (!rc)
        rc = check_empty(c->meta, c->bucket);
    if (rc)
        return rc;
    c->partition = keys_bucket_partition(buf, c->bucket->name);
    rc = kv_transact(c->meta->kv, c->partition, remove_all, c);
    if (!rc && c->lost)
        return fail_s3(S3E_OPERATION_ABORTED, NULL);
    return rc;
}

/* Undoes the closing. When the removal had gone through after all, the delete has succeeded. */
static enum rc give_up(struct closing *c, enum rc why)
{
    struct shield shield;
    enum rc rc;

    if (note_error(why) == S3E_NO_SUCH_BUCKET)
        return why;
    shield_begin(&shield, SHIELD_MS);
    rc = guard_reopen(c->meta, c->bucket, c->token);
    shield_end(&shield);
    return rc == RC_NOT_FOUND && why != RC_EXISTS && !c->lost ? RC_OK : why;
}

enum rc meta_bucket_delete(struct meta *m, const struct meta_bucket *b)
{
    AUTO(arena_fini) struct arena a;
    struct closing c = { .meta = m, .bucket = b, .token = meta_random(), .arena = &a };
    char buf[KV_PARTITION_MAX];
    enum rc rc;

    arena_init(&a, META_ARENA_MAX);
    /* The usual refusal should not disturb writers. */
    rc = check_empty(m, b);
    if (rc)
        return rc;
    c.partition = keys_bucket_partition(buf, b->name);
    rc = kv_transact(m->kv, c.partition, announce, &c);
    if (!rc)
        rc = close_and_remove(&c);
    if (rc)
        rc = give_up(&c, rc);
    bucket_cache_forget(&m->cache, b->name);
    return rc;
}
