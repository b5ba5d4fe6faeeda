/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions, the fiber's half: reads in a snapshot, a read set, a buffer of encoded writes.
 *
 * The first read takes the snapshot. A transaction holds one write per key; a later write to the
 * same key is merged into it, so the order among keys does not matter.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks/rocks_priv.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Keys, values and read set; bookkeeping makes up for the factor. */
#define TXN_ARENA_MAX ((size_t)4 * KV_TXN_BYTES_MAX)
#define INDEX_FROM 16u   /* writes, from which on they are indexed */
#define OLD_LOOK_BACK 32 /* reads looked through for the entry that a write replaces */

static struct rocks_txn *txn_of(struct kv_txn *base)
{
    return container_of(base, struct rocks_txn, base);
}

enum rc rocks_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    struct rocks_txn *t = calloc(1, sizeof *t);
    char *p;

    if (!t)
        return RC_NO_MEM;
    t->r = container_of(kv, struct rocks, base);
    arena_init(&t->arena, TXN_ARENA_MAX);
    t->writes_end = &t->writes;
    p = arena_alloc(&t->arena, 1 + home.n);
    if (!p) {
        free(t);
        return RC_NO_MEM;
    }
    p[0] = (char)home.n;
    memcpy(p + 1, home.p, home.n);
    t->home = slice_of(p, 1 + home.n);
    *ret = &t->base;
    return RC_OK;
}

static void drop_snapshot(struct rocks_txn *t)
{
    if (t->options)
        rocksdb_readoptions_destroy(STEAL(t->options));
    if (t->snapshot)
        rocksdb_release_snapshot(t->r->db, STEAL(t->snapshot));
}

void rocks_txn_free(struct kv_txn *base)
{
    struct rocks_txn *t = base ? txn_of(base) : NULL;

    if (!t)
        return;
    drop_snapshot(t);
    arena_fini(&t->arena);
    free(t);
}

enum rc rocks_txn_snapshot(struct rocks_txn *t)
{
    if (LIKELY(t->snapshot != NULL))
        return RC_OK;
    /* In this order: the snapshot may hold more than `seen` says, never less. */
    t->seen = atomic_load_explicit(&t->r->visible, memory_order_acquire);
    t->snapshot = rocksdb_create_snapshot(t->r->db);
    t->options = rocksdb_readoptions_create();
    if (!t->snapshot || !t->options)
        return RC_NO_MEM;
    rocksdb_readoptions_set_snapshot(t->options, t->snapshot);
    return RC_OK;
}

enum rc rocks_txn_record(struct rocks_txn *t, struct slice key, uint64_t version, bool has_tail)
{
    struct rocks_readrec *rec = arena_alloc(&t->arena, sizeof *rec + key.n);

    if (!rec)
        return RC_NO_MEM;
    *rec = (struct rocks_readrec){ .next = t->reads,
                                   .hash = rocks_hash(t->r->hash_seed, key),
                                   .version = version,
                                   .key_n = key.n,
                                   .has_tail = has_tail };
    memcpy(rec->key, key.p, key.n);
    t->reads = rec;
    t->reads_n++;
    return RC_OK;
}

/* ---- the write buffer ----------------------------------------------------------------------- */

static struct rocks_write *find_write(struct rocks_txn *t, uint64_t hash, struct slice key)
{
    struct rocks_write *w = t->slots ? t->slots[hash & (t->slots_n - 1)] : t->writes;

    while (w && (w->hash != hash || !slice_eq(w->key, key)))
        w = t->slots ? w->next_in_slot : w->next;
    return w;
}

static void index_write(struct rocks_txn *t, struct rocks_write *w)
{
    struct rocks_write **slot = &t->slots[w->hash & (t->slots_n - 1)];

    w->next_in_slot = *slot;
    *slot = w;
}

/* Keeps the index at least as large as the number of writes. */
static enum rc grow_index(struct rocks_txn *t)
{
    unsigned n = t->slots_n ? t->slots_n * 4 : INDEX_FROM * 4;

    if (t->writes_n < INDEX_FROM || t->writes_n < t->slots_n)
        return RC_OK;
    t->slots = arena_zalloc(&t->arena, n * sizeof(struct rocks_write *));
    t->slots_n = t->slots ? n : 0;
    if (!t->slots)
        return RC_NO_MEM;
    for (struct rocks_write *w = t->writes; w; w = w->next)
        index_write(t, w);
    return RC_OK;
}

/* What the transaction has read tells the commit thread whether there is a tail to delete. */
static void look_up_old(struct rocks_txn *t, struct rocks_write *w)
{
    struct rocks_readrec *rec = t->reads;

    for (int i = 0; rec && i < OLD_LOOK_BACK; i++, rec = rec->next) {
        if (rec->hash != w->hash || !slice_eq(slice_of(rec->key, rec->key_n), w->key))
            continue;
        w->old_known = true;
        w->old_tail = rec->has_tail;
        return;
    }
}

static enum rc new_write(struct rocks_txn *t, uint64_t hash, struct slice key,
                         struct rocks_write **ret)
{
    struct rocks_write *w = arena_alloc(&t->arena, sizeof *w + key.n);
    char *p = (char *)(w + 1);
    enum rc rc = w ? grow_index(t) : RC_NO_MEM;

    if (rc)
        return rc;
    memcpy(p, key.p, key.n);
    *w = (struct rocks_write){ .hash = hash, .key = slice_of(p, key.n) };
    look_up_old(t, w);
    *ret = w;
    return RC_OK;
}

static void link_write(struct rocks_txn *t, struct rocks_write *w)
{
    *t->writes_end = w;
    t->writes_end = &w->next;
    t->writes_n++;
    if (t->slots)
        index_write(t, w);
}

static enum rc set_put(struct rocks_txn *t, struct rocks_write *w, struct slice value,
                       int64_t expires_at_ns)
{
    struct rocks_layout l = rocks_layout_of(value.n, expires_at_ns != 0);
    size_t entry_n = l.header_n + l.head_n;
    char *p = arena_alloc(&t->arena, entry_n + l.tail_n);

    if (!p)
        return RC_NO_MEM;
    w->kind = KV_PUT;
    w->entry = p;
    w->entry_n = entry_n;
    w->tail = l.tail_n ? p + entry_n : NULL;
    w->tail_n = l.tail_n;
    rocks_entry_encode(w->entry, w->tail, value, expires_at_ns);
    t->bytes += entry_n + l.tail_n + w->key.n;
    return RC_OK;
}

static enum rc put_columns(struct rocks_txn *t, struct rocks_write *w, const int64_t *columns,
                           unsigned n, int64_t expires_at_ns)
{
    char value[KV_COUNTERS_MAX * 8];

    for (unsigned i = 0; i < n; i++)
        put_be64(value + (size_t)i * 8, (uint64_t)columns[i]);
    return set_put(t, w, slice_of(value, (size_t)n * 8), expires_at_ns);
}

static void add_columns(int64_t *columns, unsigned *n, const int64_t *deltas, unsigned deltas_n)
{
    for (unsigned i = 0; i < deltas_n; i++)
        columns[i] = (int64_t)((uint64_t)columns[i] + (uint64_t)deltas[i]);
    *n = MAX(*n, deltas_n);
}

/* An add to what an earlier put of this transaction wrote. */
static enum rc add_to_put(struct rocks_txn *t, struct rocks_write *w, const struct kv_write *in)
{
    int64_t columns[KV_COUNTERS_MAX] = { 0 };
    struct rocks_entry e;
    enum rc rc;
    unsigned n;

    if (w->tail || !rocks_entry_decode(slice_of(w->entry, w->entry_n), &e))
        return RC_CORRUPT;
    if (rocks_entry_expired(&e))
        return put_columns(t, w, in->deltas, in->deltas_n, 0);
    rc = kv_counters_decode(e.head, columns, KV_COUNTERS_MAX);
    if (rc)
        return rc;
    n = (unsigned)(e.head.n / 8);
    add_columns(columns, &n, in->deltas, in->deltas_n);
    return put_columns(t, w, columns, n, e.expires_at_ns);
}

static enum rc set_add(struct rocks_txn *t, struct rocks_write *w, const struct kv_write *in)
{
    w->deltas = arena_zalloc(&t->arena, KV_COUNTERS_MAX * sizeof *w->deltas);
    if (!w->deltas)
        return RC_NO_MEM;
    w->kind = KV_ADD;
    w->deltas_n = 0;
    add_columns(w->deltas, &w->deltas_n, in->deltas, in->deltas_n);
    t->bytes += w->key.n + KV_COUNTERS_MAX * 8;
    return RC_OK;
}

static enum rc apply(struct rocks_txn *t, struct rocks_write *w, const struct kv_write *in,
                     bool fresh)
{
    switch (in->kind) {
    case KV_PUT:
        return set_put(t, w, in->value, in->expires_at_ns);
    case KV_DELETE:
        w->kind = KV_DELETE;
        t->bytes += w->key.n;
        return RC_OK;
    case KV_ADD:
        break;
    }
    if (fresh)
        return set_add(t, w, in);
    if (w->kind == KV_PUT)
        return add_to_put(t, w, in);
    if (w->kind == KV_DELETE)
        return put_columns(t, w, in->deltas, in->deltas_n, 0);
    add_columns(w->deltas, &w->deltas_n, in->deltas, in->deltas_n);
    return RC_OK;
}

enum rc rocks_txn_write(struct kv_txn *base, const struct kv_write *in)
{
    struct rocks_txn *t = txn_of(base);
    struct rocks_write *w;
    struct rocks_key k;
    struct slice key;
    uint64_t hash;
    enum rc rc;

    rocks_key_init(&k, in->partition);
    rocks_key_add(&k, in->key);
    key = slice_of(k.bytes, k.n);
    hash = rocks_hash(t->r->hash_seed, key);
    w = find_write(t, hash, key);
    if (w)
        return apply(t, w, in, false);
    rc = new_write(t, hash, key, &w);
    if (!rc)
        rc = apply(t, w, in, true);
    if (!rc)
        link_write(t, w);
    return rc;
}

/* ---- reads ---------------------------------------------------------------------------------- */

static enum rc read_stored(struct rocks_txn *t, struct slice key, struct arena *a,
                           struct kv_item *ret)
{
    struct rocks_read rd = { .r = t->r, .key = key, .arena = a, .item = ret };
    enum rc rc = rocks_txn_snapshot(t), rc2;

    if (rc)
        return rc;
    rd.snapshot = t->snapshot;
    rd.options = t->options;
    rc = rocks_read(&rd);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    rc2 = rocks_txn_record(t, key, rd.version, rd.has_tail);
    return rc2 ? rc2 : rc;
}

static enum rc read_own_put(const struct rocks_write *w, struct slice name, struct arena *a,
                            struct kv_item *ret)
{
    struct rocks_entry e;
    char *p;

    if (!rocks_entry_decode(slice_of(w->entry, w->entry_n), &e))
        return RC_INTERNAL;
    if (rocks_entry_expired(&e))
        return RC_NOT_FOUND;
    p = arena_alloc(a, e.total + name.n + 1);
    if (!p)
        return RC_NO_MEM;
    if (e.head.n)
        memcpy(p, e.head.p, e.head.n);
    if (w->tail)
        memcpy(p + e.head.n, w->tail + ROCKS_TAIL_HEADER, w->tail_n - ROCKS_TAIL_HEADER);
    memcpy(p + e.total, name.p, name.n);
    *ret = (struct kv_item){ .key = slice_of(p + e.total, name.n),
                             .value = slice_of(p, e.total),
                             .version = UINT64_MAX };
    return RC_OK;
}

/* What is stored plus what this transaction adds. */
static enum rc read_own_add(struct rocks_txn *t, const struct rocks_write *w, struct slice name,
                            struct arena *a, struct kv_item *ret)
{
    int64_t columns[KV_COUNTERS_MAX] = { 0 };
    struct kv_item item = { .value = SLICE_NONE };
    enum rc rc = read_stored(t, w->key, a, &item);
    unsigned n;
    char *p;

    if (rc && rc != RC_NOT_FOUND)
        return rc;
    rc = kv_counters_decode(item.value, columns, KV_COUNTERS_MAX);
    if (rc)
        return rc;
    n = (unsigned)(item.value.n / 8);
    add_columns(columns, &n, w->deltas, w->deltas_n);
    p = arena_alloc(a, (size_t)n * 8 + name.n + 1);
    if (!p)
        return RC_NO_MEM;
    for (unsigned i = 0; i < n; i++)
        put_be64(p + (size_t)i * 8, (uint64_t)columns[i]);
    memcpy(p + (size_t)n * 8, name.p, name.n);
    *ret = (struct kv_item){ .key = slice_of(p + (size_t)n * 8, name.n),
                             .value = slice_of(p, (size_t)n * 8),
                             .version = UINT64_MAX };
    return RC_OK;
}

enum rc rocks_txn_get(struct kv_txn *base, struct slice name, struct arena *a, struct kv_item *ret)
{
    struct rocks_txn *t = txn_of(base);
    struct rocks_write *w = NULL;
    struct rocks_key k;
    struct slice key;

    memcpy(k.bytes, t->home.p, t->home.n);
    k.n = t->home.n;
    rocks_key_add(&k, name);
    key = slice_of(k.bytes, k.n);
    if (t->writes)
        w = find_write(t, rocks_hash(t->r->hash_seed, key), key);
    if (!w)
        return read_stored(t, key, a, ret);
    if (w->kind == KV_DELETE)
        return RC_NOT_FOUND;
    return w->kind == KV_PUT ? read_own_put(w, name, a, ret) : read_own_add(t, w, name, a, ret);
}

/* ---- commit --------------------------------------------------------------------------------- */

static void wait_on_thread(struct rocks_txn *t)
{
    while (!atomic_load_explicit(&t->done, memory_order_acquire))
        syscall(SYS_futex, &t->done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

enum rc rocks_txn_commit(struct kv_txn *base)
{
    struct rocks_txn *t = txn_of(base);
    struct rocks *r = t->r;

    drop_snapshot(t);
    if (!t->writes) {
        /* Nothing has changed at all since the snapshot: no need to ask. */
        if (!t->reads || atomic_load_explicit(&r->visible, memory_order_acquire) == t->seen)
            return RC_OK;
    }
    t->on_fiber = fiber_current() != NULL;
    if (t->on_fiber) {
        waiter_init(&t->waiter);
        committer_post(r->committer, t);
        /* Always to the end: the commit thread holds t, and only the disk is waited for. */
        waiter_wait_always(&t->waiter);
    } else {
        committer_post(r->committer, t);
        wait_on_thread(t);
    }
    if (t->rc && t->rc != RC_CONFLICT)
        return fail_rc(t->rc, "metadata store: %s", t->why);
    return t->rc;
}
