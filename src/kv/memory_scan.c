/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan copies a batch of entries out under the lock and never holds it between calls. The batch
 * grows while the reader goes on, and is small again after a seek.
 *
 * Invariant: items[at..n) are the next ones of the view, in order; what comes behind them has a
 * name at or behind pos, unless end.
 */
#include "base/buf.h"
#include "kv/memory_priv.h"

#define BATCH_FIRST 4u
#define BATCH_MAX 64u
#define BATCH_BYTES ((size_t)128 << 10)
#define BATCH_STEPS 1024u /* nodes passed in one hold of the lock */

struct scan_item {
    size_t key_at, key_n, value_n;
    uint64_t version;
};

struct memory_scan {
    struct kv_scan base;
    struct memory *store;
    struct memory_txn *txn; /* NULL outside */
    struct snapshot own;    /* without txn */
    const struct snapshot *view;
    unsigned flags, batch;
    struct scan_item items[BATCH_MAX];
    unsigned at, n; /* of items: the next one, and how many */
    struct buf data;
    bool end; /* nothing comes after items */
    size_t prefix_n, to_n, pos_n;
    char to[MAP_NAME_MAX];      /* its first prefix_n bytes are the partition */
    char pos[MAP_NAME_MAX + 1]; /* the next batch begins at or behind it */
};

enum rc memory_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                         struct kv_scan **ret)
{
    struct memory *store = memory_of(kv);
    struct memory_scan *s = malloc(sizeof *s);
    struct slice partition = range->partition;

    if (!s)
        return RC_NO_MEM;
    memset(s, 0, offsetof(struct memory_scan, to));
    s->base.kv = kv;
    s->store = store;
    s->flags = range->flags;
    s->batch = BATCH_FIRST;
    buf_init(&s->data, BATCH_BYTES + KV_KEY_MAX + KV_VALUE_MAX);
    if (txn) {
        s->txn = container_of(txn, struct memory_txn, base);
        s->txn->open_scans++;
        s->view = &s->txn->view;
        partition = slice_from(s->txn->home, 1);
    } else {
        map_snapshot_open(&store->map, &s->own);
        s->view = &s->own;
    }
    s->prefix_n = 1 + partition.n;
    s->to_n = map_name(s->to, partition, range->to).n;
    s->pos_n = map_name(s->pos, partition, range->from).n;
    count(&store->scans, 1);
    *ret = &s->base;
    return RC_OK;
}

static bool in_range(const struct memory_scan *s, struct slice name)
{
    if (s->to_n > s->prefix_n && slice_cmp(name, slice_of(s->to, s->to_n)) >= 0)
        return false;
    return slice_starts(name, slice_of(s->to, s->prefix_n));
}

static enum rc add_item(struct memory_scan *s, struct slice key, const struct version *v)
{
    size_t value_n = s->flags & KV_HEAD ? MIN(v->n, (size_t)KV_HEAD_SIZE) : v->n;
    enum rc rc = buf_reserve(&s->data, key.n + value_n);

    if (rc)
        return rc;
    s->items[s->n++] = (struct scan_item){
        .key_at = s->data.n, .key_n = key.n, .value_n = value_n, .version = v->seq
    };
    memcpy(s->data.p + s->data.n, key.p, key.n);
    if (value_n)
        memcpy(s->data.p + s->data.n + key.n, v->value, value_n);
    s->data.n += key.n + value_n;
    return RC_OK;
}

/* Copies the next batch out; it may be empty before the end. */
static enum rc fill_locked(struct memory_scan *s)
{
    const struct node *n = map_list_seek(s->store->map.head, slice_of(s->pos, s->pos_n));
    unsigned steps = 0;

    for (; n && in_range(s, map_node_name(n)); n = n->next[0]) {
        const struct version *v = map_node_at(n, s->view->seq, s->view->now_ns);
        enum rc rc;

        if (s->n == s->batch || s->data.n >= BATCH_BYTES || steps++ == BATCH_STEPS) {
            s->pos_n = n->name_n;
            memcpy(s->pos, map_node_name(n).p, n->name_n);
            return RC_OK;
        }
        rc = v ? add_item(s, slice_from(map_node_name(n), s->prefix_n), v) : RC_OK;
        if (rc)
            return rc;
    }
    s->end = true;
    return RC_OK;
}

static enum rc fill(struct memory_scan *s)
{
    enum rc rc;

    s->at = s->n = 0;
    buf_clear(&s->data);
    pthread_rwlock_rdlock(&s->store->map.lock);
    rc = fill_locked(s);
    pthread_rwlock_unlock(&s->store->map.lock);
    if (rc)
        s->n = 0;
    s->batch = MIN(s->batch * 2, BATCH_MAX);
    return rc;
}

enum rc memory_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    struct memory_scan *s = container_of(scan, struct memory_scan, base);
    const struct scan_item *i;
    const char *key;
    enum rc rc;

    while (s->at == s->n) {
        if (s->end)
            return RC_NOT_FOUND;
        rc = fill(s);
        if (rc)
            return rc;
    }
    i = &s->items[s->at];
    key = s->data.p + i->key_at;
    if (s->txn) {
        rc = memory_txn_record(s->txn, slice_of(key, i->key_n), i->version);
        if (rc)
            return rc;
    }
    s->at++;
    count(&s->store->scan_items, 1);
    *ret = (struct kv_item){ .key = slice_of(key, i->key_n),
                             .value = slice_of(key + i->key_n, i->value_n),
                             .version = i->version };
    return RC_OK;
}

enum rc memory_scan_seek(struct kv_scan *scan, struct slice key)
{
    struct memory_scan *s = container_of(scan, struct memory_scan, base);

    for (; s->at < s->n; s->at++) {
        const struct scan_item *i = &s->items[s->at];

        if (slice_cmp(slice_of(s->data.p + i->key_at, i->key_n), key) >= 0)
            return RC_OK;
    }
    if (slice_cmp(key, slice_of(s->pos + s->prefix_n, s->pos_n - s->prefix_n)) <= 0)
        return RC_OK;
    memcpy(s->pos + s->prefix_n, key.p, key.n);
    s->pos_n = s->prefix_n + key.n;
    s->batch = BATCH_FIRST;
    return RC_OK;
}

void memory_scan_close(struct kv_scan *scan)
{
    struct memory_scan *s = container_of(scan, struct memory_scan, base);

    if (s->txn) {
        s->txn->open_scans--;
    } else {
        map_snapshot_close(&s->store->map, &s->own);
        memory_tidy(s->store);
    }
    buf_fini(&s->data);
    free(s);
}
