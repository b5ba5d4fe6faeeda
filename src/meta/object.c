/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object rows: get, put, delete.
 *
 * Invariants: 1. A row's extents are referenced by no other row. 2. Whoever unlinks extents queues
 * them for GC in the same transaction. 3. Counters change in the transaction that changes the row.
 */
#include "meta/meta_priv.h"

#define RESOLVE_MS 10000

/* One write of a key, over all its attempts. */
struct write {
    struct meta *meta;
    const struct meta_bucket *bucket;
    struct slice key; /* of the object */
    uint64_t key_hash;
    unsigned shard;
    struct slice partition, row_key;
    const struct meta_cond *cond; /* NULL: none */
    struct meta_object *object;   /* NULL: a delete */
    struct slice row;             /* encoded object */
    struct arena *reads;          /* what an attempt reads, reset by the next */
    struct gc_ticket ticket;      /* random 0: not made yet */
    /* Of the last attempt: */
    bool existed;
    bool at_guard;   /* the guard was not open */
    bool committing; /* all was read and written: a failure now is one of the commit */
    enum rc verdict; /* not RC_OK: why the attempt stopped itself */
    char partition_buf[KEYS_INDEX_PARTITION_SIZE];
    char row_key_buf[KEYS_OBJECT_SIZE_MAX];
};

static enum rc check_key(struct slice key)
{
    if (!key.n)
        return fail_s3(S3E_INVALID_ARGUMENT, "An object key must not be empty.");
    return key.n > META_KEY_MAX ? fail_s3(S3E_KEY_TOO_LONG, NULL) : RC_OK;
}

static enum rc no_such_key(void)
{
    return fail_s3(S3E_NO_SUCH_KEY, NULL);
}

enum rc meta_object_get(struct meta *m, struct arena *a, const struct meta_bucket *b,
                        struct slice key, bool head_only, struct meta_object *ret)
{
    char partition[KEYS_INDEX_PARTITION_SIZE], row_key[KEYS_OBJECT_SIZE_MAX];
    struct kv_item item;
    unsigned shard;
    enum rc rc = check_key(key);

    if (rc)
        return rc;
    shard = b->index_shards <= 1 ? 0 : meta_shard_of(b, keys_hash(key));
    rc = kv_get(m->kv, keys_index_partition(partition, b, shard), keys_object(row_key, key), a,
                &item);
    if (rc)
        return rc == RC_NOT_FOUND ? no_such_key() : rc;
    rc = row_decode(a, item.value, head_only, ret);
    if (!rc)
        ret->row_version = item.version;
    return rc;
}

/* ---- conditions -------------------------------------------------------------------------------
 */

static enum rc check_missing(const struct meta_cond *c)
{
    if (c->row_version)
        return RC_CONFLICT;
    if (c->if_match.p || c->has_if_size || c->has_if_mtime)
        return no_such_key();
    return RC_OK;
}

/* NULL head: the object does not exist. */
static enum rc check_cond(const struct meta_cond *c, const struct meta_head *h, uint64_t version)
{
    bool failed;

    if (!c)
        return RC_OK;
    if (!h)
        return check_missing(c);
    if (c->row_version && c->row_version != version)
        return RC_CONFLICT;
    failed = (c->if_match.p && !meta_etag_matches(c->if_match, h)) ||
             (c->if_none_match.p && meta_etag_matches(c->if_none_match, h)) ||
             (c->has_if_size && c->if_size != h->size) ||
             (c->has_if_mtime && c->if_mtime_ns / NS_PER_S != h->mtime_ns / NS_PER_S);
    return failed ? fail_s3(S3E_PRECONDITION_FAILED, NULL) : RC_OK;
}

/* ---- the transaction --------------------------------------------------------------------------
 */

/* Ends the attempt with a result of its own, which kv_transact must not take for the store's. */
static enum rc stop(struct write *w, enum rc verdict)
{
    w->verdict = verdict;
    return RC_PRECONDITION;
}

static bool same_extents(const struct meta_object *a, const struct meta_object *b)
{
    if (a->extents_n != b->extents_n)
        return false;
    for (size_t i = 0; i < a->extents_n; i++)
        if (memcmp(a->extents[i].id, b->extents[i].id, DATA_ID_SIZE) != 0 ||
            a->extents[i].length != b->extents[i].length)
            return false;
    return true;
}

static enum rc queue_replaced(struct kv_txn *t, struct write *w, struct slice old_row)
{
    struct meta_object old;
    enum rc rc;

    if (row_is_inline(old_row))
        return RC_OK;
    rc = row_decode(w->reads, old_row, false, &old);
    if (rc)
        return rc;
    if (w->cond && w->cond->row_version && w->object && same_extents(&old, w->object))
        return RC_OK;
    if (!w->ticket.random)
        gc_ticket_init(w->meta, &w->ticket);
    return gc_write(t, w->reads, &w->ticket, old.extents, old.extents_n);
}

static enum rc count(struct kv_txn *t, struct write *w, const struct meta_head *old)
{
    int64_t deltas[2] = { 0, 0 };
    char slot[2];

    if (w->object) {
        deltas[0]++;
        deltas[1] += (int64_t)w->object->head.size;
    }
    if (old) {
        deltas[0]--;
        deltas[1] -= (int64_t)old->size;
    }
    if (!deltas[0] && !deltas[1])
        return RC_OK;
    return kv_txn_add(t, w->partition, keys_slot(slot, w->key_hash), deltas, 2);
}

/* Reads what stands there now; *ret_head is NULL when nothing does. */
static enum rc read_old(struct kv_txn *t, struct write *w, struct kv_item *item,
                        struct meta_head *buf, struct meta_head **ret_head)
{
    enum rc rc = kv_txn_get(t, w->row_key, w->reads, item);

    w->existed = rc == RC_OK;
    *ret_head = NULL;
    if (rc)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    rc = row_decode_head(item->value, buf);
    if (!rc)
        *ret_head = buf;
    return rc;
}

static void begin_attempt(struct write *w)
{
    arena_reset(w->reads);
    w->verdict = RC_OK;
    w->committing = false;
    w->at_guard = false;
}

static enum rc put_txn(struct kv_txn *t, void *arg)
{
    struct write *w = arg;
    struct meta_head buf, *old;
    struct kv_item item;
    struct guard guard;
    int64_t now_ns;
    enum rc rc;

    begin_attempt(w);
    rc = guard_get(t, w->reads, &guard);
    if (rc == RC_NOT_FOUND || (!rc && guard.state != GUARD_OPEN)) {
        w->at_guard = true;
        return stop(w, RC_CONFLICT);
    }
    if (!rc)
        rc = read_old(t, w, &item, &buf, &old);
    if (rc)
        return rc;
    rc = check_cond(w->cond, old, old ? item.version : 0);
    if (rc)
        return stop(w, rc);
    now_ns = clock_wall_ns();
    w->object->head.mtime_ns = old ? MAX(now_ns, old->mtime_ns) : now_ns;
    row_set_mtime(w->row, w->object->head.mtime_ns);
    if (old)
        rc = queue_replaced(t, w, item.value);
    if (!rc)
        rc = kv_txn_put(t, w->partition, w->row_key, w->row);
    if (!rc)
        rc = count(t, w, old);
    w->committing = rc == RC_OK;
    return rc;
}

/* Needs no guard: a shard with the row is not empty, so its bucket stays. */
static enum rc delete_txn(struct kv_txn *t, void *arg)
{
    struct write *w = arg;
    struct meta_head buf, *old;
    struct kv_item item;
    enum rc rc;

    begin_attempt(w);
    rc = read_old(t, w, &item, &buf, &old);
    if (rc)
        return rc;
    rc = check_cond(w->cond, old, old ? item.version : 0);
    if (rc)
        return stop(w, rc);
    if (!old)
        return RC_OK;
    rc = queue_replaced(t, w, item.value);
    if (!rc)
        rc = kv_txn_delete(t, w->partition, w->row_key);
    if (!rc)
        rc = count(t, w, old);
    return rc;
}

static enum rc attempt(struct write *w, enum rc (*fn)(struct kv_txn *, void *))
{
    enum rc rc = kv_transact(w->meta->kv, w->partition, fn, w);

    return rc == RC_PRECONDITION && w->verdict ? w->verdict : rc;
}

static void write_init(struct write *w, struct meta *m, const struct meta_bucket *b,
                       struct slice key)
{
    w->meta = m;
    w->bucket = b;
    w->key = key;
    w->key_hash = keys_hash(key);
    w->shard = meta_shard_of(b, w->key_hash);
    w->partition = keys_index_partition(w->partition_buf, b, w->shard);
    w->row_key = keys_object(w->row_key_buf, key);
    w->ticket.random = 0;
    w->verdict = RC_OK;
    w->existed = w->at_guard = w->committing = false;
}

/* ---- put --------------------------------------------------------------------------------------
 */

/* True when a commit that failed so may still have happened, or happen. */
static bool is_ambiguous(enum rc rc)
{
    return rc == RC_TIMEOUT || rc == RC_CANCELLED || rc == RC_UNAVAILABLE || rc == RC_INTERNAL;
}

/* Whether the row there is of this very write. Behind a fence, so that no commit is still under
 * way. */
static enum rc find_out(struct write *w, bool *ret_committed)
{
    struct kv_item item;
    struct meta_head head;
    enum rc rc = guard_fence(w->meta, w->bucket, w->shard);

    /* No guard: the bucket is gone, which it cannot be with a row of ours in it. */
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    arena_reset(w->reads);
    rc = kv_get(w->meta->kv, w->partition, w->row_key, w->reads, &item);
    *ret_committed = false;
    if (rc)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    rc = row_decode_head(item.value, &head);
    if (!rc)
        *ret_committed = row_write_id(item.value) == row_write_id(w->row);
    return rc;
}

/* Clears up a commit whose outcome is unknown. If another write has replaced ours by now, it has
 * put our extents on the GC queue; the caller doing so again is harmless. */
static enum rc resolve(struct write *w, enum rc why)
{
    struct shield shield;
    bool committed = false;
    enum rc rc;

    shield_begin(&shield, RESOLVE_MS);
    rc = find_out(w, &committed);
    shield_end(&shield);
    if (rc)
        return fail_rc(RC_TIMEOUT, "the outcome of a metadata commit is unknown");
    if (committed)
        return RC_OK;
    return why == RC_TIMEOUT ? RC_UNAVAILABLE : why;
}

static enum rc put_loop(struct write *w)
{
    int64_t since_ns = clock_mono_ns();

    for (;;) {
        enum rc rc = attempt(w, put_txn);

        if (rc == RC_CONFLICT && w->at_guard) {
            rc = guard_resolve(w->meta, w->bucket, w->shard, since_ns);
            if (!rc)
                continue;
        } else if (w->committing && is_ambiguous(rc)) {
            return resolve(w, rc);
        }
        /* RC_TIMEOUT is kept for unknown outcomes. */
        return rc == RC_TIMEOUT ? RC_UNAVAILABLE : rc;
    }
}

enum rc meta_object_put(struct meta *m, const struct meta_bucket *b, struct slice key,
                        struct meta_object *o, const struct meta_cond *cond)
{
    AUTO(arena_fini) struct arena own;
    AUTO(arena_fini) struct arena reads;
    struct write w; /* large: not zeroed as a whole */
    enum rc rc = check_key(key);

    arena_init(&own, META_ARENA_MAX);
    arena_init(&reads, META_ARENA_MAX);
    if (rc)
        return rc;
    write_init(&w, m, b, key);
    w.cond = cond;
    w.object = o;
    w.reads = &reads;
    rc = row_encode(&own, o, meta_random(), &w.row);
    return rc ? rc : put_loop(&w);
}

/* ---- delete -----------------------------------------------------------------------------------
 */

enum rc meta_object_delete(struct meta *m, const struct meta_bucket *b, struct slice key,
                           const struct meta_cond *cond, bool *ret_existed)
{
    AUTO(arena_fini) struct arena reads;
    struct write w;
    enum rc rc = check_key(key);

    arena_init(&reads, META_ARENA_MAX);
    if (rc)
        return rc;
    write_init(&w, m, b, key);
    w.cond = cond;
    w.object = NULL;
    w.reads = &reads;
    rc = attempt(&w, delete_txn);
    if (!rc && ret_existed)
        *ret_existed = w.existed;
    return rc;
}
