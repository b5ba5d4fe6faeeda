/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants: table, used and chunk->refs are guarded by lock; bytes of a chunk are immutable once
 * it is in the table; a chunk in the table holds one reference, each reader another, so copies run
 * without the lock.
 */
#include "data/memory.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/encode.h"

#include <pthread.h>

#define BUCKETS 16384u

struct chunk {
    struct chunk *next;
    struct extent extent;
    int64_t written_ns;
    unsigned refs;
    unsigned char bytes[];
};

struct memory {
    struct data base;
    pthread_mutex_t lock;
    size_t used, max; /* bytes, with the charge for each chunk */
    uint64_t next_id, live_bytes, chunks;
    struct chunk *table[BUCKETS];
};

static struct memory *memory_of(struct data *d)
{
    return container_of(d, struct memory, base);
}

static size_t charge(uint32_t length)
{
    return length + sizeof(struct chunk);
}

/* Where the chunk hangs, or where it would; lock held. */
static struct chunk **place(struct memory *m, const struct extent *e)
{
    struct chunk **at = &m->table[hash64(1, e->id, sizeof e->id) % BUCKETS];

    while (*at && memcmp((*at)->extent.id, e->id, sizeof e->id) != 0)
        at = &(*at)->next;
    return at;
}

static void unref(struct memory *m, struct chunk *c)
{
    bool last;

    pthread_mutex_lock(&m->lock);
    last = --c->refs == 0;
    pthread_mutex_unlock(&m->lock);
    if (last)
        free(c);
}

static enum rc memory_put(struct data *d, const struct data_hint *hint, const struct iovec *iov,
                          int iov_n, struct extent *ret)
{
    struct memory *m = memory_of(d);
    size_t size = charge(ret->length), at = 0;
    struct chunk *c, **slot;

    pthread_mutex_lock(&m->lock);
    if (size > m->max - m->used) {
        pthread_mutex_unlock(&m->lock);
        return fail_s3(S3E_STORAGE_FULL, "the memory store is full");
    }
    m->used += size;
    put_be64(ret->id + 8, ++m->next_id);
    pthread_mutex_unlock(&m->lock);

    c = malloc(sizeof *c + ret->length);
    if (!c) {
        pthread_mutex_lock(&m->lock);
        m->used -= size;
        pthread_mutex_unlock(&m->lock);
        return RC_NO_MEM;
    }
    for (int i = 0; i < iov_n; i++) {
        if (iov[i].iov_len)
            memcpy(c->bytes + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    c->extent = *ret;
    c->written_ns = clock_wall_ns();
    c->refs = 1;
    pthread_mutex_lock(&m->lock);
    slot = place(m, ret);
    c->next = *slot;
    *slot = c;
    m->chunks++;
    m->live_bytes += ret->length;
    pthread_mutex_unlock(&m->lock);
    return RC_OK;
}

/* NULL when absent; else to be given back with unref. */
static struct chunk *find(struct memory *m, const struct extent *e)
{
    struct chunk *c;

    pthread_mutex_lock(&m->lock);
    c = *place(m, e);
    if (c && c->extent.length != e->length)
        c = NULL;
    if (c)
        c->refs++;
    pthread_mutex_unlock(&m->lock);
    return c;
}

static enum rc memory_get(struct data *d, const struct extent *e, uint32_t offset, void *out,
                          uint32_t n)
{
    struct memory *m = memory_of(d);
    struct chunk *c = find(m, e);

    if (!c)
        return fail_rc(RC_NOT_FOUND, "no such chunk");
    memcpy(out, c->bytes + offset, n);
    unref(m, c);
    return RC_OK;
}

static enum rc memory_remove(struct data *d, const struct extent *e, size_t n)
{
    struct memory *m = memory_of(d);

    for (size_t i = 0; i < n; i++) {
        struct chunk **slot, *c;
        bool last = false;

        pthread_mutex_lock(&m->lock);
        slot = place(m, &e[i]);
        c = *slot;
        if (c) {
            *slot = c->next;
            m->used -= charge(c->extent.length);
            m->live_bytes -= c->extent.length;
            m->chunks--;
            last = --c->refs == 0;
        }
        pthread_mutex_unlock(&m->lock);
        if (last)
            free(c);
    }
    return RC_OK;
}

static enum rc memory_stat(struct data *d, const struct extent *e)
{
    struct memory *m = memory_of(d);
    struct chunk *c = find(m, e);

    if (!c)
        return RC_NOT_FOUND;
    unref(m, c);
    return RC_OK;
}

struct listed {
    struct extent extent;
    int64_t written_ns;
};

/* The chunks of a bucket, copied so that fn may call the store; *ret is freed by the caller. */
static enum rc copy_bucket(struct memory *m, unsigned bucket, struct listed **ret, size_t *ret_n)
{
    struct listed *list = NULL;
    size_t n = 0;

    pthread_mutex_lock(&m->lock);
    for (struct chunk *c = m->table[bucket]; c; c = c->next)
        n++;
    if (n)
        list = malloc(n * sizeof *list);
    if (n && !list) {
        pthread_mutex_unlock(&m->lock);
        return RC_NO_MEM;
    }
    n = 0;
    for (struct chunk *c = m->table[bucket]; c; c = c->next)
        list[n++] = (struct listed){ c->extent, c->written_ns };
    pthread_mutex_unlock(&m->lock);
    *ret = list;
    *ret_n = n;
    return RC_OK;
}

static enum rc memory_scan(struct data *d, data_scan_fn fn, void *arg)
{
    struct memory *m = memory_of(d);

    for (unsigned b = 0; b < BUCKETS; b++) {
        AUTO(free_p) struct listed *list = NULL;
        size_t n = 0;
        enum rc rc = copy_bucket(m, b, &list, &n);

        if (rc)
            return rc;
        for (size_t i = 0; i < n; i++)
            if (!fn(arg, &list[i].extent, list[i].written_ns))
                return RC_OK;
    }
    return RC_OK;
}

static enum rc memory_probe(struct data *d)
{
    struct memory *m = memory_of(d);
    bool full;

    pthread_mutex_lock(&m->lock);
    full = m->max - m->used < charge(1);
    pthread_mutex_unlock(&m->lock);
    return full ? fail_s3(S3E_STORAGE_FULL, "the memory store is full") : RC_OK;
}

static void memory_stats(struct data *d, struct data_stats *ret)
{
    struct memory *m = memory_of(d);

    pthread_mutex_lock(&m->lock);
    ret->live_bytes = m->live_bytes;
    ret->free_bytes = m->max - m->used;
    ret->files = m->chunks;
    pthread_mutex_unlock(&m->lock);
}

static void memory_close(struct data *d)
{
    struct memory *m = memory_of(d);

    for (unsigned b = 0; b < BUCKETS; b++)
        while (m->table[b]) {
            struct chunk *c = m->table[b];

            m->table[b] = c->next;
            free(c);
        }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static const struct data_ops memory_ops = {
    .name = "memory",
    .caps = DATA_CAP_LIST | DATA_CAP_READ_COPY,
    .put = memory_put,
    .get = memory_get,
    .remove = memory_remove,
    .stat = memory_stat,
    .scan = memory_scan,
    .probe = memory_probe,
    .stats = memory_stats,
    .close = memory_close,
};

enum rc data_memory_open(size_t max_bytes, struct data **ret)
{
    struct memory *m = calloc(1, sizeof *m);

    if (!m)
        return RC_NO_MEM;
    data_init(&m->base, &memory_ops);
    pthread_mutex_init(&m->lock, NULL);
    m->max = max_bytes;
    *ret = &m->base;
    return RC_OK;
}
