/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/meta_priv.h"

#define GC_FORMAT 1
/* Bounds the work between a removal and its acknowledgement. */
#define GC_ROW_EXTENTS 1024u

void gc_ticket_init(const struct meta *m, struct gc_ticket *t)
{
    uint64_t r = meta_random();

    t->not_before_ms = (uint64_t)meta_wall_ms() + m->gc_grace_ms;
    t->shard = (unsigned)(r >> 48) % META_GC_SHARDS;
    t->random = r;
}

enum rc gc_write(struct kv_txn *t, struct arena *a, const struct gc_ticket *ticket,
                 const struct extent *e, size_t n)
{
    char partition[KEYS_GC_PARTITION_SIZE], key[KEYS_GC_KEY_SIZE];
    uint64_t random = ticket->random;

    for (size_t done = 0; done < n;) {
        size_t part = MIN(n - done, (size_t)GC_ROW_EXTENTS);
        char *value = arena_alloc(a, 1 + part * ROW_EXTENT_SIZE);
        enum rc rc;

        if (!value)
            return RC_NO_MEM;
        value[0] = GC_FORMAT;
        row_pack_extents(value + 1, e + done, part);
        rc = kv_txn_put(t, keys_gc_partition(partition, ticket->shard),
                        keys_gc(key, ticket->not_before_ms, random++),
                        slice_of(value, 1 + part * ROW_EXTENT_SIZE));
        if (rc)
            return rc;
        done += part;
    }
    return RC_OK;
}

struct gc_add {
    struct gc_ticket ticket;
    const struct extent *extents;
    size_t n;
};

static enum rc add_txn(struct kv_txn *t, void *arg)
{
    struct gc_add *g = arg;
    AUTO(arena_fini) struct arena a;

    arena_init(&a, META_ARENA_MAX);
    return gc_write(t, &a, &g->ticket, g->extents, g->n);
}

enum rc meta_gc_add(struct meta *m, const struct extent *e, size_t n)
{
    struct gc_add g = { .extents = e, .n = n };
    char partition[KEYS_GC_PARTITION_SIZE];

    if (!n)
        return RC_OK;
    gc_ticket_init(m, &g.ticket);
    return kv_transact(m->kv, keys_gc_partition(partition, g.ticket.shard), add_txn, &g);
}

struct gc_row {
    struct gc_row *next;
    struct slice key, extents;
};

/* Reads due rows into a list in the arena, newest first. Rows of a format that is not known stay.
 */
static enum rc due_scan(struct kv_scan *scan, struct arena *a, size_t max, struct gc_row **ret,
                        struct meta_gc_batch *batch)
{
    struct kv_item item;
    enum rc rc;

    while (batch->n < max && !(rc = kv_scan_next(scan, &item))) {
        struct gc_row *row;

        if (item.value.n <= 1 || item.value.p[0] != GC_FORMAT ||
            (item.value.n - 1) % ROW_EXTENT_SIZE)
            continue;
        row = ARENA_NEW(a, struct gc_row);
        if (!row)
            return RC_NO_MEM;
        row->key = arena_copy(a, item.key);
        row->extents = arena_copy(a, slice_from(item.value, 1));
        if (!row->key.p || !row->extents.p)
            return RC_NO_MEM;
        row->next = *ret;
        *ret = row;
        batch->n += row->extents.n / ROW_EXTENT_SIZE;
        batch->rows_n++;
    }
    return batch->n >= max || rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc due_collect(struct arena *a, const struct gc_row *row, struct meta_gc_batch *batch)
{
    struct slice *keys;
    size_t extents = 0, rows = 0;

    if (!batch->n)
        return RC_OK;
    batch->extents = arena_alloc(a, batch->n * sizeof *batch->extents);
    keys = arena_alloc(a, batch->rows_n * sizeof *keys);
    if (!batch->extents || !keys)
        return RC_NO_MEM;
    for (; row; row = row->next) {
        enum rc rc = row_unpack_extents(row->extents, batch->extents + extents);

        if (rc)
            continue; /* impossible extents: the row stays for a human */
        extents += row->extents.n / ROW_EXTENT_SIZE;
        keys[rows++] = row->key;
    }
    batch->n = extents;
    batch->rows = keys;
    batch->rows_n = rows;
    return RC_OK;
}

enum rc meta_gc_due(struct meta *m, struct arena *a, unsigned shard, size_t max,
                    struct meta_gc_batch *ret)
{
    char partition[KEYS_GC_PARTITION_SIZE], to[KEYS_GC_KEY_SIZE];
    struct kv_range range = { .partition = keys_gc_partition(partition, shard) };
    struct meta_gc_batch batch = { 0 };
    struct gc_row *rows = NULL;
    struct kv_scan *scan;
    enum rc rc;

    range.to = keys_gc(to, (uint64_t)meta_wall_ms() + 1, 0);
    rc = kv_scan_open(m->kv, &range, &scan);
    if (rc)
        return rc;
    rc = due_scan(scan, a, MAX(max, (size_t)1), &rows, &batch);
    kv_scan_close(scan);
    if (!rc)
        rc = due_collect(a, rows, &batch);
    if (!rc)
        *ret = batch;
    return rc;
}

struct gc_ack {
    struct slice partition;
    const struct meta_gc_batch *batch;
};

static enum rc ack_txn(struct kv_txn *t, void *arg)
{
    const struct gc_ack *g = arg;
    const struct slice *keys = g->batch->rows;
    enum rc rc = RC_OK;

    for (size_t i = 0; !rc && i < g->batch->rows_n; i++)
        rc = kv_txn_delete(t, g->partition, keys[i]);
    return rc;
}

enum rc meta_gc_ack(struct meta *m, unsigned shard, const struct meta_gc_batch *batch)
{
    char partition[KEYS_GC_PARTITION_SIZE];
    struct gc_ack g = { .partition = keys_gc_partition(partition, shard), .batch = batch };

    if (!batch->rows_n)
        return RC_OK;
    return kv_transact(m->kv, g.partition, ack_txn, &g);
}
