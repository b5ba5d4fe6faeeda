/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan: heads are read in batches on the pool; the caller's function runs on its own fiber, where
 * it may park.
 */
#include "data/local/local_priv.h"

#define BATCH 256

struct scan_job {
    struct local *store;
    struct walk walk;
    bool prepared;
    unsigned n;
    enum rc rc; /* RC_NOT_FOUND: the segment is through */
    struct {
        struct extent extent;
        int64_t written_ns;
    } found[BATCH];
};

/* A scan walks the segment anyway: counts it, and drops one that died before it could be unlinked.
 */
static enum rc prepare(struct scan_job *j)
{
    struct segment *s = j->walk.segment;
    enum rc rc = RC_OK;
    bool counted, gone;

    pthread_mutex_lock(&s->remove_lock);
    pthread_mutex_lock(&s->lock);
    counted = s->counted;
    pthread_mutex_unlock(&s->lock);
    if (!counted)
        rc = segment_count(j->store, s);
    if (!rc)
        segment_drop_if_empty(j->store, s);
    gone = s->gone;
    pthread_mutex_unlock(&s->remove_lock);
    j->walk.at = PAGE;
    j->walk.end = gone ? 0 : segment_tail(s);
    j->prepared = true;
    return rc;
}

static void scan_on_thread(void *arg)
{
    struct scan_job *j = arg;

    j->n = 0;
    j->rc = j->prepared ? RC_OK : prepare(j);
    while (!j->rc && j->n < BATCH) {
        j->rc = walk_next(&j->walk);
        if (!j->rc && j->walk.record.head.state == RECORD_LIVE) {
            j->found[j->n].extent = walk_extent(&j->walk);
            j->found[j->n++].written_ns = j->walk.record.head.written_ns;
        }
    }
}

/* *ret_more: false once fn had enough. */
static enum rc scan_segment(struct scan_job *j, data_scan_fn fn, void *arg, bool *ret_more)
{
    do {
        enum rc rc = offload(scan_on_thread, j);

        if (rc)
            return rc;
        if (j->rc && j->rc != RC_NOT_FOUND)
            return j->rc;
        for (unsigned i = 0; i < j->n; i++)
            if (!fn(arg, &j->found[i].extent, j->found[i].written_ns)) {
                *ret_more = false;
                return RC_OK;
            }
    } while (!j->rc);
    return RC_OK;
}

/* The first segment with a number >= from, with a reference; NULL: none. */
static struct segment *segment_from(struct local *l, uint64_t from)
{
    struct segment *s = NULL;

    pthread_rwlock_rdlock(&l->table_lock);
    for (size_t i = 0; i < l->table_n && !s; i++)
        if (l->table[i]->number >= from)
            s = l->table[i];
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&l->table_lock);
    return s;
}

enum rc local_scan(struct data *d, data_scan_fn fn, void *arg)
{
    struct local *l = local_of(d);
    AUTO(free_p) struct scan_job *j = malloc(sizeof *j);
    struct segment *s;
    uint64_t from = 0;
    bool more = true;
    enum rc rc = RC_OK;

    if (!j)
        return RC_NO_MEM;
    while (more && !rc && (s = segment_from(l, from))) {
        *j = (struct scan_job){ .store = l, .walk = { .segment = s } };
        rc = scan_segment(j, fn, arg, &more);
        from = s->number + 1;
        segment_unref(s);
    }
    return rc;
}
