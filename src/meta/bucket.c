/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/meta_priv.h"

enum rc meta_no_such_bucket(void)
{
    return fail_s3(S3E_NO_SUCH_BUCKET, NULL);
}

enum rc meta_bucket_row_get(struct meta *m, struct arena *a, struct slice name,
                            struct row_bucket *ret)
{
    char buf[KV_PARTITION_MAX];
    struct kv_item item;
    enum rc rc;

    if (!name.n || name.n >= KV_PARTITION_MAX)
        return RC_NOT_FOUND;
    rc = kv_get(m->kv, keys_bucket_partition(buf, name), KEYS_BUCKET_ROW, a, &item);
    return rc ? rc : row_bucket_decode(a, item.value, ret);
}

enum rc meta_bucket_get(struct meta *m, struct arena *a, struct slice name, struct meta_bucket *ret)
{
    struct row_bucket row;
    uint64_t stamp;
    enum rc rc;

    if (bucket_cache_get(&m->cache, a, name, ret, &stamp))
        return RC_OK;
    rc = meta_bucket_row_get(m, a, name, &row);
    if (rc)
        return rc == RC_NOT_FOUND ? meta_no_such_bucket() : rc;
    bucket_cache_add(&m->cache, &row.bucket, stamp);
    *ret = row.bucket;
    return RC_OK;
}

/* ---- create -----------------------------------------------------------------------------------
 */

struct create {
    struct row_bucket row; /* what is to be */
    struct slice value;
    struct arena *arena;
    struct meta_bucket existing;
    bool exists;
};

static enum rc create_txn(struct kv_txn *t, void *arg)
{
    struct create *c = arg;
    const struct meta_bucket *b = &c->row.bucket;
    char buf[KV_PARTITION_MAX], index[KEYS_INDEX_PARTITION_SIZE];
    struct row_bucket old;
    struct kv_item item;
    enum rc rc = kv_txn_get(t, KEYS_BUCKET_ROW, c->arena, &item);

    if (rc == RC_OK) {
        rc = row_bucket_decode(c->arena, item.value, &old);
        c->existing = old.bucket;
        c->exists = true;
        return rc;
    }
    if (rc != RC_NOT_FOUND)
        return rc;
    c->exists = false;
    rc = kv_txn_put(t, keys_bucket_partition(buf, b->name), KEYS_BUCKET_ROW, c->value);
    if (!rc)
        rc = kv_txn_put(t, keys_owner_partition(buf, b->owner), b->name, c->value);
    for (unsigned i = 0; !rc && i < b->index_shards; i++)
        rc =
            guard_put(t, keys_index_partition(index, b, i), &(struct guard){ .state = GUARD_OPEN });
    return rc;
}

/* Near enough: two creates at once may pass the limit by one. */
static enum rc check_owner_limit(struct meta *m, struct slice owner)
{
    char buf[KV_PARTITION_MAX];
    struct kv_range range = { .partition = keys_owner_partition(buf, owner), .flags = KV_HEAD };
    struct kv_scan *scan;
    struct kv_item item;
    unsigned n = 0;
    enum rc rc = kv_scan_open(m->kv, &range, &scan);

    if (rc)
        return rc;
    while (!(rc = kv_scan_next(scan, &item)) && n < m->buckets_per_owner_max)
        n++;
    kv_scan_close(scan);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    return n < m->buckets_per_owner_max ? RC_OK : fail_s3(S3E_TOO_MANY_BUCKETS, NULL);
}

/* An existing bucket answers before the limit does. */
static enum rc create_run(struct meta *m, struct create *c)
{
    const struct meta_bucket *b = &c->row.bucket;
    char buf[KV_PARTITION_MAX];
    struct row_bucket row;
    enum rc rc = meta_bucket_row_get(m, c->arena, b->name, &row);

    if (!rc) {
        c->existing = row.bucket;
        c->exists = true;
        return RC_OK;
    }
    if (rc == RC_NOT_FOUND)
        rc = check_owner_limit(m, b->owner);
    if (!rc)
        rc = kv_transact(m->kv, keys_bucket_partition(buf, b->name), create_txn, c);
    /* An unknown outcome: what stands there now tells. */
    if (rc && rc != RC_NO_SPACE && rc != RC_TOO_LARGE &&
        !meta_bucket_row_get(m, c->arena, b->name, &row) &&
        !memcmp(row.bucket.id, b->id, META_BUCKET_ID_SIZE))
        rc = RC_OK;
    return rc;
}

enum rc meta_bucket_create(struct meta *m, struct arena *a, struct meta_bucket *b)
{
    struct create c = { .row.bucket = *b, .arena = a };
    enum rc rc;

    if (!meta_bucket_name_valid(b->name))
        return fail_s3(S3E_INVALID_BUCKET_NAME, NULL);
    if (b->owner.n >= KV_PARTITION_MAX)
        return fail_s3(S3E_INVALID_ARGUMENT, "The account id is too long.");
    random_bytes(c.row.bucket.id, META_BUCKET_ID_SIZE);
    c.row.bucket.created_ns = clock_wall_ns();
    c.row.bucket.index_shards = m->index_shards;
    rc = row_bucket_encode(a, &c.row, &c.value);
    if (!rc)
        rc = create_run(m, &c);
    bucket_cache_forget(&m->cache, b->name);
    if (rc)
        return rc;
    if (!c.exists) {
        *b = c.row.bucket;
        return RC_OK;
    }
    if (!slice_eq(c.existing.owner, b->owner))
        return fail_s3(S3E_BUCKET_ALREADY_EXISTS, NULL);
    *b = c.existing;
    return fail_s3(S3E_BUCKET_ALREADY_OWNED_BY_YOU, NULL);
}

/* ---- list -------------------------------------------------------------------------------------
 */

/* The first key to look at: at least prefix, and behind after. */
static enum rc list_from(struct arena *a, struct slice prefix, struct slice after,
                         struct slice *ret)
{
    char *p;

    *ret = prefix;
    if (!after.n || slice_cmp(after, prefix) < 0)
        return RC_OK;
    p = arena_alloc(a, after.n + 1);
    if (!p)
        return RC_NO_MEM;
    memcpy(p, after.p, after.n);
    p[after.n] = 0;
    *ret = slice_of(p, after.n + 1);
    return RC_OK;
}

static enum rc list_scan(struct kv_scan *scan, struct arena *a, size_t max,
                         struct meta_bucket_page *page)
{
    struct kv_item item;
    enum rc rc;

    while (!(rc = kv_scan_next(scan, &item))) {
        struct row_bucket row;

        if (page->n == max) {
            page->truncated = true;
            return RC_OK;
        }
        rc = row_bucket_decode(a, item.value, &row);
        if (rc)
            return rc;
        page->buckets[page->n++] = row.bucket;
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc meta_bucket_list(struct meta *m, struct arena *a, struct slice owner, struct slice prefix,
                         struct slice after, size_t max, struct meta_bucket_page *ret)
{
    struct meta_bucket_page page = { 0 };
    char buf[KV_PARTITION_MAX], to[KV_PARTITION_MAX];
    struct kv_range range = { 0 };
    struct kv_scan *scan;
    enum rc rc;

    if (owner.n >= KV_PARTITION_MAX || prefix.n >= KV_PARTITION_MAX || !max) {
        *ret = page;
        return RC_OK;
    }
    max = MIN(max, (size_t)10000);
    page.buckets = arena_alloc(a, max * sizeof *page.buckets);
    if (!page.buckets)
        return RC_NO_MEM;
    range.partition = keys_owner_partition(buf, owner);
    range.to = keys_successor(to, prefix);
    rc = list_from(a, prefix, after, &range.from);
    if (!rc && range.to.n && slice_cmp(range.from, range.to) >= 0) {
        *ret = page;
        return RC_OK;
    }
    if (!rc)
        rc = kv_scan_open(m->kv, &range, &scan);
    if (rc)
        return rc;
    rc = list_scan(scan, a, max, &page);
    kv_scan_close(scan);
    if (!rc)
        *ret = page;
    return rc;
}

/* ---- stats ------------------------------------------------------------------------------------
 */

static enum rc stats_of_shard(struct meta *m, const struct meta_bucket *b, unsigned shard,
                              struct meta_bucket_stats *sum)
{
    char buf[KEYS_INDEX_PARTITION_SIZE];
    struct kv_range range = { .partition = keys_index_partition(buf, b, shard),
                              .from = KEYS_SLOTS_FROM,
                              .to = KEYS_SLOTS_TO };
    struct kv_scan *scan;
    struct kv_item item;
    enum rc rc = kv_scan_open(m->kv, &range, &scan);

    if (rc)
        return rc;
    while (!(rc = kv_scan_next(scan, &item))) {
        int64_t columns[2];

        rc = kv_counters_decode(item.value, columns, 2);
        if (rc)
            break;
        sum->objects += columns[0];
        sum->bytes += columns[1];
    }
    kv_scan_close(scan);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

enum rc meta_bucket_stats(struct meta *m, const struct meta_bucket *b,
                          struct meta_bucket_stats *ret)
{
    struct meta_bucket_stats sum = { 0 };
    enum rc rc = RC_OK;

    for (unsigned i = 0; !rc && i < b->index_shards; i++)
        rc = stats_of_shard(m, b, i, &sum);
    if (!rc)
        *ret = sum;
    return rc;
}
