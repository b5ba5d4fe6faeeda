/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove: mark the head dead, then punch the bytes out. The mark is not synced: after a power
 * failure a removed chunk may be back as one that nobody refers to, for a later scan to find. The
 * reverse cannot happen.
 */
#include "data/local/local_priv.h"

#include <errno.h>
#include <fcntl.h>

enum rc record_mark_dead(struct segment *s, uint32_t page)
{
    uint32_t dead = RECORD_DEAD;
    struct iovec iov = { &dead, sizeof dead };
    off_t at = (off_t)((uint64_t)page * PAGE + offsetof(struct record_head, state));
    ssize_t put;

    do
        put = local_sys.pwritev(s->fd, &iov, 1, at);
    while (put < 0 && errno == EINTR);
    if (put == (ssize_t)sizeof dead)
        return RC_OK;
    return local_errno(put < 0 ? errno : ENOSPC, "removing a chunk");
}

void record_punch(struct segment *s, uint64_t data_at, uint32_t length)
{
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

    /* Where the file system cannot, the space comes back when the segment goes. */
    if (local_sys.fallocate(s->fd, mode, (off_t)data_at, (off_t)page_up(length)))
        return;
}

/* Whether this call made the record dead; remove_lock held. */
static enum rc kill_record(struct local *l, struct segment *s, const struct extent *e,
                           const struct locus *at, bool *ret_punch)
{
    union record_pages r;
    bool valid, counted;
    enum rc rc = record_load(s, at->page, &r, &valid);

    if (rc || !valid || !record_is(&r, e, at) || r.head.state != RECORD_LIVE)
        return rc;
    pthread_mutex_lock(&s->lock);
    counted = s->counted;
    pthread_mutex_unlock(&s->lock);
    if (!counted)
        rc = segment_count(l, s);
    if (!rc)
        rc = record_mark_dead(s, at->page);
    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    assert(s->live_records > 0);
    s->live_records--;
    s->live_bytes -= r.head.length;
    pthread_mutex_unlock(&s->lock);
    segment_drop_if_empty(l, s);
    *ret_punch = !s->gone;
    return RC_OK;
}

static enum rc remove_one(struct local *l, const struct extent *e)
{
    struct locus at = locus_decode(e->id);
    struct segment *s = segment_find(l, at.segment);
    bool punch = false;
    enum rc rc;

    if (!s)
        return RC_OK;
    pthread_mutex_lock(&s->remove_lock);
    rc = s->gone ? RC_OK : kill_record(l, s, e, &at, &punch);
    pthread_mutex_unlock(&s->remove_lock);
    if (punch)
        record_punch(s, locus_data(&at), e->length);
    segment_unref(s);
    return rc;
}

struct remove_job {
    struct local *store;
    const struct extent *extents;
    size_t n;
    enum rc rc;
};

static void remove_on_thread(void *arg)
{
    struct remove_job *j = arg;

    for (size_t i = 0; i < j->n; i++) {
        enum rc rc = remove_one(j->store, &j->extents[i]);

        if (rc)
            j->rc = rc;
    }
}

enum rc local_remove(struct data *d, const struct extent *e, size_t n)
{
    struct remove_job j = { .store = local_of(d), .extents = e, .n = n };
    enum rc rc = offload(remove_on_thread, &j);

    return rc ? rc : j.rc;
}
