/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans: an iterator at a snapshot.
 *
 *   hot   the iterator reads memory alone, on the caller's thread
 *   cold  a second iterator runs on the pool and copies runs of items to a buffer
 *
 * A scan begins hot and turns cold when the hot iterator meets a block that is not in memory (or a
 * long run of deleted entries); it stays cold until it is closed.
 *
 * Invariant: `pos` is the key where the next item is to be found; `after` says that it lies behind
 * pos. In the hot state it is kept only across moves of the iterator.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks/rocks_priv.h"

#include <stdio.h>

#define COLD_ITEMS_FIRST 32u
#define COLD_ITEMS_MAX 1024u
#define COLD_BYTES ((size_t)256 << 10)
#define HOT_SKIP_MAX 4096 /* deleted entries in a row, before the loop is spared the rest */

enum scan_state { SCAN_NEW, SCAN_HOT, SCAN_COLD, SCAN_END };

struct rocks_scan {
    struct kv_scan base;
    struct rocks *r;
    struct rocks_txn *txn;
    bool head_only;
    enum scan_state state;
    bool cold; /* the cold iterator is in use, also after a seek */
    size_t prefix_n;
    const rocksdb_snapshot_t *snapshot; /* own, when txn is NULL */
    rocksdb_readoptions_t *hot_options, *cold_options, *tail_options;
    rocksdb_iterator_t *hot, *cold_it;
    bool bounded;
    struct rocks_key end; /* RocksDB reads it as long as there are iterators */
    struct rocks_key pos;
    bool after;
    uint64_t items;
    /* Copied items, each: lengths of key and entry (4 bytes each), key, entry. */
    char *run;
    size_t run_n, run_cap, run_at;
    unsigned run_items;
    bool run_last; /* nothing behind the run */
    enum rc run_rc;
    struct arena values; /* the present item, when it had to be put together */
    char why[ROCKS_WHY_SIZE];
};

static struct rocks_scan *scan_of(struct kv_scan *base)
{
    return container_of(base, struct rocks_scan, base);
}

static struct slice pos_slice(const struct rocks_scan *s)
{
    return slice_of(s->pos.bytes, s->pos.n);
}

static void set_pos(struct rocks_scan *s, const char *key, size_t n, bool after)
{
    assert(n <= sizeof s->pos.bytes);
    memcpy(s->pos.bytes, key, n);
    s->pos.n = n;
    s->after = after;
}

/* ---- opening -------------------------------------------------------------------------------- */

static rocksdb_readoptions_t *make_options(struct rocks_scan *s, bool hot)
{
    rocksdb_readoptions_t *o = rocksdb_readoptions_create();

    rocksdb_readoptions_set_snapshot(o, s->txn ? s->txn->snapshot : s->snapshot);
    rocksdb_readoptions_set_total_order_seek(o, 1);
    rocksdb_readoptions_set_verify_checksums(o, 1);
    if (s->bounded)
        rocksdb_readoptions_set_iterate_upper_bound(o, s->end.bytes, s->end.n);
    if (hot) {
        rocksdb_readoptions_set_read_tier(o, 1);
        rocksdb_readoptions_set_max_skippable_internal_keys(o, HOT_SKIP_MAX);
    }
    return o;
}

static void set_range(struct rocks_scan *s, struct slice prefix, const struct kv_range *range)
{
    s->prefix_n = prefix.n;
    set_pos(s, prefix.p, prefix.n, false);
    rocks_key_add(&s->pos, range->from);
    memcpy(s->end.bytes, prefix.p, prefix.n);
    s->end.n = prefix.n;
    if (range->to.n) {
        rocks_key_add(&s->end, range->to);
        s->bounded = true;
    } else {
        s->bounded = rocks_key_successor(&s->end);
    }
    /* RocksDB wants no bound below the start. */
    if (s->bounded && slice_cmp(pos_slice(s), slice_of(s->end.bytes, s->end.n)) >= 0)
        s->state = SCAN_END;
}

enum rc rocks_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                        struct kv_scan **ret)
{
    struct rocks_scan *s = malloc(sizeof *s);
    struct rocks_key prefix;
    enum rc rc;

    if (!s)
        return RC_NO_MEM;
    /* All but the two large key buffers, which are set by set_range. */
    memset(s, 0, offsetof(struct rocks_scan, end));
    memset((char *)s + offsetof(struct rocks_scan, after), 0,
           sizeof *s - offsetof(struct rocks_scan, after));
    s->r = container_of(kv, struct rocks, base);
    s->head_only = range->flags & KV_HEAD;
    arena_init(&s->values, KV_VALUE_MAX + ROCKS_KEY_SIZE);
    if (txn) {
        s->txn = container_of(txn, struct rocks_txn, base);
        rc = rocks_txn_snapshot(s->txn);
        if (rc) {
            free(s);
            return rc;
        }
        set_range(s, s->txn->home, range);
    } else {
        s->snapshot = rocksdb_create_snapshot(s->r->db);
        rocks_key_init(&prefix, range->partition);
        set_range(s, slice_of(prefix.bytes, prefix.n), range);
    }
    rocks_count(&rocks_counts(s->r)->scans, 1);
    *ret = &s->base;
    return RC_OK;
}

void rocks_scan_close(struct kv_scan *base)
{
    struct rocks_scan *s = scan_of(base);

    if (s->hot)
        rocksdb_iter_destroy(s->hot);
    if (s->cold_it)
        rocksdb_iter_destroy(s->cold_it);
    if (s->hot_options)
        rocksdb_readoptions_destroy(s->hot_options);
    if (s->cold_options)
        rocksdb_readoptions_destroy(s->cold_options);
    if (s->tail_options)
        rocksdb_readoptions_destroy(s->tail_options);
    if (s->snapshot)
        rocksdb_release_snapshot(s->r->db, s->snapshot);
    rocks_count(&rocks_counts(s->r)->scan_items, s->items);
    arena_fini(&s->values);
    free(s->run);
    free(s);
}

/* ---- hot ------------------------------------------------------------------------------------ */

/* RC_NOT_FOUND at the end; RC_TIMEOUT when the rest is not in memory. */
static enum rc hot_end(struct rocks_scan *s)
{
    char *error = NULL;

    rocksdb_iter_get_error(s->hot, &error);
    if (!error)
        return RC_NOT_FOUND;
    if (rocks_error_is_incomplete(error)) {
        rocksdb_free(error);
        return RC_TIMEOUT;
    }
    return rocks_error(error, s->why);
}

/* The next stored entry, expired or not. */
static enum rc hot_step(struct rocks_scan *s, struct slice *ret_key, struct slice *ret_raw)
{
    const char *key, *raw;
    size_t key_n, raw_n;

    if (s->state == SCAN_NEW) {
        if (!s->hot) {
            s->hot_options = make_options(s, true);
            s->hot = rocksdb_create_iterator_cf(s->r->db, s->hot_options, s->r->entries);
        }
        rocksdb_iter_seek(s->hot, s->pos.bytes, s->pos.n);
        s->state = SCAN_HOT;
    } else {
        key = rocksdb_iter_key(s->hot, &key_n);
        set_pos(s, key, key_n, true);
        rocksdb_iter_next(s->hot);
    }
    if (UNLIKELY(!rocksdb_iter_valid(s->hot)))
        return hot_end(s);
    key = rocksdb_iter_key(s->hot, &key_n);
    raw = rocksdb_iter_value(s->hot, &raw_n);
    *ret_key = slice_of(key, key_n);
    *ret_raw = slice_of(raw, raw_n);
    return RC_OK;
}

/* ---- cold ----------------------------------------------------------------------------------- */

static bool run_append(struct rocks_scan *s, struct slice key, struct slice raw)
{
    size_t need = s->run_n + 8 + key.n + raw.n;

    if (need > s->run_cap) {
        size_t cap = MAX(need, s->run_cap * 2);
        char *p = realloc(s->run, cap);

        if (!p)
            return false;
        s->run = p;
        s->run_cap = cap;
    }
    put_be32(s->run + s->run_n, (uint32_t)key.n);
    put_be32(s->run + s->run_n + 4, (uint32_t)raw.n);
    memcpy(s->run + s->run_n + 8, key.p, key.n);
    if (raw.n)
        memcpy(s->run + s->run_n + 8 + key.n, raw.p, raw.n);
    s->run_n = need;
    return true;
}

static void cold_position(struct rocks_scan *s)
{
    if (!s->cold_it) {
        s->cold_options = make_options(s, false);
        s->cold_it = rocksdb_create_iterator_cf(s->r->db, s->cold_options, s->r->entries);
    }
    rocksdb_iter_seek(s->cold_it, s->pos.bytes, s->pos.n);
    if (s->after && rocksdb_iter_valid(s->cold_it)) {
        size_t n;
        const char *key = rocksdb_iter_key(s->cold_it, &n);

        if (slice_eq(slice_of(key, n), pos_slice(s)))
            rocksdb_iter_next(s->cold_it);
    }
}

/* On the pool. Leaves the iterator on the first entry behind the run. */
static void fill_run(void *arg)
{
    struct rocks_scan *s = arg;
    char *error = NULL;

    if (s->state != SCAN_COLD)
        cold_position(s);
    s->run_n = s->run_at = 0;
    s->run_rc = RC_OK;
    for (unsigned i = 0; i < s->run_items && s->run_n < COLD_BYTES; i++) {
        size_t key_n, raw_n;
        const char *key, *raw;

        if (!rocksdb_iter_valid(s->cold_it))
            break;
        key = rocksdb_iter_key(s->cold_it, &key_n);
        raw = rocksdb_iter_value(s->cold_it, &raw_n);
        if (!run_append(s, slice_of(key, key_n), slice_of(raw, raw_n))) {
            s->run_rc = RC_NO_MEM;
            return;
        }
        rocksdb_iter_next(s->cold_it);
    }
    s->run_last = !rocksdb_iter_valid(s->cold_it);
    if (s->run_last)
        rocksdb_iter_get_error(s->cold_it, &error);
    if (error)
        s->run_rc = rocks_error(error, s->why);
    else
        s->state = SCAN_COLD;
}

static enum rc refill(struct rocks_scan *s)
{
    enum rc rc;

    if (s->state == SCAN_COLD && s->run_last)
        return RC_NOT_FOUND;
    s->run_items = s->run_items ? MIN(s->run_items * 2, COLD_ITEMS_MAX) : COLD_ITEMS_FIRST;
    rocks_count(&rocks_counts(s->r)->cold_reads, 1);
    s->cold = true;
    rc = offload(fill_run, s);
    if (!rc)
        rc = s->run_rc;
    if (rc)
        return rc;
    return s->run_n ? RC_OK : RC_NOT_FOUND;
}

static enum rc cold_step(struct rocks_scan *s, struct slice *ret_key, struct slice *ret_raw)
{
    size_t key_n, raw_n;
    const char *p;

    if (s->state != SCAN_COLD || s->run_at == s->run_n) {
        enum rc rc = refill(s);

        if (rc)
            return rc;
    }
    p = s->run + s->run_at;
    key_n = get_be32(p);
    raw_n = get_be32(p + 4);
    *ret_key = slice_of(p + 8, key_n);
    *ret_raw = slice_of(p + 8 + key_n, raw_n);
    s->run_at += 8 + key_n + raw_n;
    /* Where to go on after a seek. */
    set_pos(s, ret_key->p, key_n, true);
    return RC_OK;
}

/* ---- items ---------------------------------------------------------------------------------- */

static enum rc step(struct rocks_scan *s, struct slice *ret_key, struct slice *ret_raw)
{
    enum rc rc = RC_TIMEOUT;

    if (LIKELY(!s->cold))
        rc = hot_step(s, ret_key, ret_raw);
    return rc == RC_TIMEOUT ? cold_step(s, ret_key, ret_raw) : rc;
}

/* Fetches the whole value, in the scan's snapshot. */
static enum rc whole_value(struct rocks_scan *s, struct slice key, struct kv_item *ret)
{
    struct kv_item item;
    struct rocks_read rd = { .r = s->r, .key = key, .arena = &s->values, .item = &item };
    enum rc rc;

    arena_reset(&s->values);
    if (!s->tail_options) {
        s->tail_options = rocksdb_readoptions_create();
        rocksdb_readoptions_set_snapshot(s->tail_options, s->txn ? s->txn->snapshot : s->snapshot);
    }
    rd.snapshot = s->txn ? s->txn->snapshot : s->snapshot;
    rd.options = s->tail_options;
    rc = rocks_read(&rd);
    if (!rc)
        ret->value = item.value;
    return rc;
}

/* RC_NOT_FOUND: expired, go on. */
static enum rc make_item(struct rocks_scan *s, struct slice key, struct slice raw,
                         struct kv_item *ret)
{
    struct rocks_entry e;
    struct kv_item item;

    if (UNLIKELY(!rocks_entry_decode(raw, &e)))
        return fail_rc(RC_CORRUPT, "metadata store: an entry cannot be decoded");
    if (rocks_entry_expired(&e))
        return RC_NOT_FOUND;
    item = (struct kv_item){ .key = slice_from(key, s->prefix_n),
                             .value = e.head,
                             .version = e.version };
    if (e.has_tail && !s->head_only) {
        enum rc rc = whole_value(s, key, &item);

        if (rc)
            return rc;
    }
    if (s->txn) {
        enum rc rc = rocks_txn_record(s->txn, key, e.version, e.has_tail);

        if (rc)
            return rc;
    }
    s->items++;
    *ret = item;
    return RC_OK;
}

enum rc rocks_scan_next(struct kv_scan *base, struct kv_item *ret)
{
    struct rocks_scan *s = scan_of(base);
    struct slice key = SLICE_NONE, raw = SLICE_NONE;
    enum rc rc;

    do {
        if (s->state == SCAN_END)
            return RC_NOT_FOUND;
        rc = step(s, &key, &raw);
        if (rc == RC_NOT_FOUND) {
            s->state = SCAN_END;
            return rc;
        }
        if (rc)
            return fail_rc(rc, "metadata store: %s", s->why);
        rc = make_item(s, key, raw, ret);
    } while (rc == RC_NOT_FOUND);
    return rc;
}

/* Forwards only, so a target behind which the scan already is changes nothing. */
static bool is_ahead(struct rocks_scan *s, struct slice target)
{
    if (s->state == SCAN_HOT) {
        size_t n;
        const char *key = rocksdb_iter_key(s->hot, &n);

        set_pos(s, key, n, true);
    }
    return slice_cmp(target, pos_slice(s)) > 0;
}

enum rc rocks_scan_seek(struct kv_scan *base, struct slice name)
{
    struct rocks_scan *s = scan_of(base);
    struct rocks_key target;

    if (s->state == SCAN_END)
        return RC_OK;
    memcpy(target.bytes, s->pos.bytes, s->prefix_n);
    target.n = s->prefix_n;
    rocks_key_add(&target, name);
    if (!is_ahead(s, slice_of(target.bytes, target.n)))
        return RC_OK;
    set_pos(s, target.bytes, target.n, false);
    s->state = SCAN_NEW;
    if (s->bounded && slice_cmp(pos_slice(s), slice_of(s->end.bytes, s->end.n)) >= 0)
        s->state = SCAN_END;
    return RC_OK;
}
