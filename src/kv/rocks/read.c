/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads. The first try asks memory alone, on the caller's thread; when RocksDB would have to
 * read a file, the read is repeated on the pool.
 *
 * Head and tail are read one after the other. Without a snapshot a commit may fall between the two:
 * then their versions differ, and the read begins again.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks/rocks_priv.h"

#include <stdio.h>

#define TRIES 8 /* before a snapshot is taken */
enum { TIER_ALL = 0, TIER_CACHE = 1 };

struct rocks_counts *rocks_counts(struct rocks *r)
{
    struct loop *l = loop_current();

    return &r->counts[l ? loop_index(l) % ROCKS_COUNT_SHARDS : ROCKS_COUNT_SHARDS - 1];
}

static void pin_free(rocksdb_pinnableslice_t **p)
{
    if (*p)
        rocksdb_pinnableslice_destroy(*p);
}

/* *ret_pin is NULL when there is no such key. */
static enum rc get_pinned(struct rocks_read *rd, rocksdb_readoptions_t *o,
                          rocksdb_column_family_handle_t *cf, rocksdb_pinnableslice_t **ret_pin,
                          struct slice *ret)
{
    char *error = NULL;
    rocksdb_pinnableslice_t *pin =
        rocksdb_get_pinned_cf(rd->r->db, o, cf, rd->key.p, rd->key.n, &error);

    if (UNLIKELY(error != NULL)) {
        rd->incomplete = rocks_error_is_incomplete(error);
        return rocks_error(error, rd->why);
    }
    *ret_pin = pin;
    if (pin) {
        size_t n;
        const char *p = rocksdb_pinnableslice_value(pin, &n);

        *ret = slice_of(p, n);
    }
    return RC_OK;
}

static enum rc corrupt(struct rocks_read *rd, const char *what)
{
    snprintf(rd->why, sizeof rd->why, "%s", what);
    return RC_CORRUPT;
}

/* RC_CONFLICT: the tail is of another version than the head. */
static enum rc answer(struct rocks_read *rd, rocksdb_readoptions_t *o, const struct rocks_entry *e)
{
    AUTO(pin_free) rocksdb_pinnableslice_t *pin = NULL;
    struct slice key = slice_from(rd->key, 1 + (size_t)(unsigned char)rd->key.p[0]);
    struct slice tail = SLICE_NONE;
    char *p;

    if (e->has_tail) {
        enum rc rc = get_pinned(rd, o, rd->r->tails, &pin, &tail);

        if (rc)
            return rc;
        if (tail.n < ROCKS_TAIL_HEADER || get_be64(tail.p) != e->version)
            return RC_CONFLICT;
        tail = slice_from(tail, ROCKS_TAIL_HEADER);
    }
    if (e->head.n + tail.n != e->total)
        return corrupt(rd, "an entry has another length than it says");
    p = arena_alloc(rd->arena, e->total + key.n + 1);
    if (!p)
        return RC_NO_MEM;
    if (e->head.n)
        memcpy(p, e->head.p, e->head.n);
    if (tail.n)
        memcpy(p + e->head.n, tail.p, tail.n);
    memcpy(p + e->total, key.p, key.n);
    *rd->item = (struct kv_item){ .key = slice_of(p + e->total, key.n),
                                  .value = slice_of(p, e->total),
                                  .version = e->version };
    return RC_OK;
}

static enum rc read_once(struct rocks_read *rd, rocksdb_readoptions_t *o)
{
    AUTO(pin_free) rocksdb_pinnableslice_t *pin = NULL;
    struct slice raw = SLICE_NONE;
    struct rocks_entry e;
    enum rc rc;

    rd->version = 0;
    rd->has_tail = false;
    rc = get_pinned(rd, o, rd->r->entries, &pin, &raw);
    if (rc)
        return rc;
    if (!pin)
        return RC_NOT_FOUND;
    if (!rocks_entry_decode(raw, &e))
        return corrupt(rd, "an entry cannot be decoded");
    rd->version = e.version;
    rd->has_tail = e.has_tail;
    if (rocks_entry_expired(&e))
        return RC_NOT_FOUND;
    return answer(rd, o, &e);
}

static enum rc read_in_snapshot(struct rocks_read *rd, int tier)
{
    const rocksdb_snapshot_t *s = rocksdb_create_snapshot(rd->r->db);
    rocksdb_readoptions_t *o = rocksdb_readoptions_create();
    enum rc rc;

    rocksdb_readoptions_set_snapshot(o, s);
    rocksdb_readoptions_set_read_tier(o, tier);
    rc = read_once(rd, o);
    rocksdb_readoptions_destroy(o);
    rocksdb_release_snapshot(rd->r->db, s);
    return rc;
}

static enum rc read_tier(struct rocks_read *rd, int tier)
{
    rocksdb_readoptions_t *o = tier == TIER_CACHE ? rd->r->cached : rd->r->full;
    enum rc rc = RC_CONFLICT;

    rd->incomplete = false;
    if (rd->snapshot) {
        rocksdb_readoptions_set_read_tier(rd->options, tier);
        rc = read_once(rd, rd->options);
    } else {
        for (int i = 0; i < TRIES && rc == RC_CONFLICT; i++)
            rc = read_once(rd, o);
        if (rc == RC_CONFLICT)
            rc = read_in_snapshot(rd, tier);
    }
    return rc == RC_CONFLICT ? corrupt(rd, "an entry has lost its tail") : rc;
}

static void read_cold(void *arg)
{
    struct rocks_read *rd = arg;

    rd->rc = read_tier(rd, TIER_ALL);
}

enum rc rocks_read(struct rocks_read *rd)
{
    struct rocks_counts *counts = rocks_counts(rd->r);
    enum rc rc = read_tier(rd, TIER_CACHE);

    rocks_count(&counts->gets, 1);
    if (UNLIKELY(rd->incomplete)) {
        rocks_count(&counts->cold_reads, 1);
        rc = offload(read_cold, rd);
        if (rc)
            return rc;
        rc = rd->rc;
    }
    if (UNLIKELY(rc && rc != RC_NOT_FOUND && rc != RC_NO_MEM))
        return fail_rc(rc, "metadata store: %s", rd->why);
    return rc;
}

enum rc rocks_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                  struct kv_item *ret)
{
    struct rocks_key k;
    struct rocks_read rd = {
        .r = container_of(kv, struct rocks, base),
        .arena = a,
        .item = ret,
    };

    rocks_key_init(&k, partition);
    rocks_key_add(&k, key);
    rd.key = slice_of(k.bytes, k.n);
    return rocks_read(&rd);
}

enum rc rocks_peek(struct rocks *r, struct slice key, struct rocks_entry *ret,
                   rocksdb_pinnableslice_t **ret_pin, char why[ROCKS_WHY_SIZE])
{
    char *error = NULL;
    rocksdb_pinnableslice_t *pin =
        rocksdb_get_pinned_cf(r->db, r->full, r->entries, key.p, key.n, &error);
    const char *p;
    size_t n;

    if (error)
        return rocks_error(error, why);
    if (!pin)
        return RC_NOT_FOUND;
    p = rocksdb_pinnableslice_value(pin, &n);
    if (!rocks_entry_decode(slice_of(p, n), ret)) {
        rocksdb_pinnableslice_destroy(pin);
        snprintf(why, ROCKS_WHY_SIZE, "an entry cannot be decoded");
        return RC_CORRUPT;
    }
    *ret_pin = pin;
    return RC_OK;
}
