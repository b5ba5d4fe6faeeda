/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put: on a pool thread {reserve room in a head's segment → write head and bytes → join the next
 * sync}; then the fiber waits until a sync that began after its write has ended.
 *
 * Invariants: at most one sync runs per segment (syncing). Its leader takes the ticket of the last
 * finished write before it calls fdatasync, and afterwards wakes every waiter up to that ticket; if
 * writes finished meanwhile, the first of their waiters is told to lead the next. A failed sync
 * fails the segment for good: the kernel may have dropped the dirty pages, so that a second sync
 * would only seem to succeed.
 */
#include "data/local/local_priv.h"

#include "base/checksum.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define PREALLOC_STEP (64u << 20)
#define IOV_BATCH 64

enum sync_state { SYNC_WAITING, SYNC_ENDED, SYNC_LEADS };

struct sync_wait {
    struct sync_wait *next;
    uint64_t ticket;
    enum sync_state state; /* guarded by the segment's lock, like rc and next */
    enum rc rc;
    bool on_fiber;
    struct waiter waiter;
};

struct put_job {
    struct local *store;
    const struct data_hint *hint;
    const struct iovec *iov;
    int iov_n;
    struct extent *extent;
    struct segment *segment; /* with a reference, once reserved */
    uint64_t at;             /* of the head */
    bool waits;              /* for a sync that another leads; else rc is the result */
    enum rc rc;
    struct sync_wait wait;
};

/* ---- sums ---- */

static uint32_t shift_table[4][256]; /* what a whole block behind it makes of a CRC, by its bytes */
static pthread_once_t shift_once = PTHREAD_ONCE_INIT;

static void shift_init(void)
{
    for (unsigned k = 0; k < 4; k++)
        for (uint32_t v = 0; v < 256; v++)
            shift_table[k][v] = crc32c_combine(v << (8 * k), 0, BLOCK);
}

/* crc32c_combine for whole blocks. */
static uint32_t append_block(uint32_t crc, uint32_t block)
{
    return shift_table[0][crc & 255] ^ shift_table[1][crc >> 8 & 255] ^
           shift_table[2][crc >> 16 & 255] ^ shift_table[3][crc >> 24] ^ block;
}

/* The sums of all blocks in one pass over the bytes; returns the sum of the whole. */
static uint32_t sum_blocks(const struct iovec *iov, int iov_n, uint32_t *block_crc)
{
    uint32_t crc = 0, whole = 0, room = BLOCK, n = 0;

    pthread_once(&shift_once, shift_init);
    for (int i = 0; i < iov_n; i++) {
        const char *p = iov[i].iov_base;
        size_t left = iov[i].iov_len;

        while (left) {
            uint32_t step = (uint32_t)MIN(left, room);

            crc = crc32c(crc, p, step);
            p += step;
            left -= step;
            room -= step;
            if (room)
                continue;
            whole = append_block(whole, crc);
            block_crc[n++] = crc;
            crc = 0;
            room = BLOCK;
        }
    }
    if (room < BLOCK) {
        block_crc[n] = crc;
        whole = crc32c_combine(whole, crc, BLOCK - room);
    }
    return whole;
}

/* ---- reserving ---- */

/* Blocks for [s->allocated, to) and some more, so that writes need no new ones. Head's lock held.
 */
static enum rc preallocate(struct local *l, struct segment *s, uint64_t to)
{
    uint64_t need = to - s->allocated, step = MAX(need, MIN(PREALLOC_STEP, l->segment_bytes));
    int r;

    r = local_sys.fallocate(s->fd, FALLOC_FL_KEEP_SIZE, (off_t)s->allocated, (off_t)step);
    if (r && errno == ENOSPC && step > need) {
        step = need;
        r = local_sys.fallocate(s->fd, FALLOC_FL_KEEP_SIZE, (off_t)s->allocated, (off_t)step);
    }
    if (r && errno != EOPNOTSUPP && errno != EINTR)
        return local_errno(errno, "reserving room in a segment");
    s->allocated += step;
    return RC_OK;
}

/* Ends appending to the head's segment; head's lock held. Returns it, with the head's reference,
 * when it is left to the caller to seal. */
static struct segment *retire(struct head *h, bool *ret_seal)
{
    struct segment *s = STEAL(h->segment);

    pthread_mutex_lock(&s->lock);
    s->retired = true;
    *ret_seal = s->inflight == 0;
    pthread_mutex_unlock(&s->lock);
    return s;
}

/* Whether the head's segment can take n more bytes. */
static bool takes(const struct local *l, struct segment *s, uint64_t n)
{
    bool yes;

    pthread_mutex_lock(&s->lock);
    yes = !s->failed && (s->tail + n <= l->segment_bytes || s->tail == PAGE);
    pthread_mutex_unlock(&s->lock);
    return yes;
}

static enum rc reserve_in(struct local *l, struct head *h, uint64_t n, struct put_job *job)
{
    struct segment *s = h->segment;
    uint64_t tail;

    if (!s) {
        enum rc rc = segment_create(l, &h->segment);

        if (rc)
            return rc;
        s = h->segment;
    }
    tail = segment_tail(s);
    if (tail + n > s->allocated) {
        enum rc rc = preallocate(l, s, tail + n);

        if (rc)
            return rc;
    }
    pthread_mutex_lock(&s->lock);
    s->tail = tail + n;
    s->inflight++;
    s->live_records++;
    s->live_bytes += job->extent->length;
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    job->segment = s;
    job->at = tail;
    return RC_OK;
}

/* Room for n bytes in the first head that is free, so that writers do not queue while others have
 * none. */
static enum rc reserve(struct local *l, uint64_t n, struct put_job *job)
{
    unsigned turn = (unsigned)atomic_fetch_add_explicit(&l->turn, 1, memory_order_relaxed);
    struct head *h = &l->heads[turn % l->heads_n];
    struct segment *full = NULL;
    bool seal = false;
    enum rc rc;

    pthread_mutex_lock(&h->lock);
    if (h->segment && !takes(l, h->segment, n))
        full = retire(h, &seal);
    rc = reserve_in(l, h, n, job);
    pthread_mutex_unlock(&h->lock);
    /* An unsealed segment is only slower to open: its chunks are safe. */
    if (full && seal && segment_seal(l, full))
        note_clear();
    segment_unref(full);
    return rc;
}

/* ---- writing ---- */

static enum rc write_iov(int fd, struct iovec *iov, int n, uint64_t *at)
{
    while (n) {
        ssize_t put = local_sys.pwritev(fd, iov, n, (off_t)*at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return local_errno(put ? errno : ENOSPC, "writing a chunk");
        *at += (uint64_t)put;
        while (n && (size_t)put >= iov->iov_len) {
            put -= (ssize_t)iov->iov_len;
            iov++;
            n--;
        }
        if (n) {
            iov->iov_base = (char *)iov->iov_base + put;
            iov->iov_len -= (size_t)put;
        }
    }
    return RC_OK;
}

/* The head's pages, then the caller's pieces, in batches. */
static enum rc write_record(struct put_job *job, union record_pages *r)
{
    struct iovec batch[IOV_BATCH] = {
        { r->bytes, (size_t)head_pages(r->head.nonce) * PAGE },
    };
    uint64_t at = job->at;
    int n = 1;

    for (int i = 0; i < job->iov_n; i++) {
        if (job->iov[i].iov_len)
            batch[n++] = job->iov[i];
        if (n == IOV_BATCH || i == job->iov_n - 1) {
            enum rc rc = write_iov(job->segment->fd, batch, n, &at);

            if (rc)
                return rc;
            n = 0;
        }
    }
    return RC_OK;
}

static void fill_head(struct put_job *job, union record_pages *r)
{
    struct record_head *h = &r->head;
    const struct data_hint *hint = job->hint;
    size_t pages = head_pages_needed(job->extent->length, hint->backref.n);
    uint32_t nonce =
        (uint32_t)atomic_fetch_add_explicit(&job->store->nonces, 1, memory_order_relaxed);

    memset(r, 0, pages * PAGE);
    h->state = RECORD_LIVE;
    h->backref_n = (uint16_t)hint->backref.n;
    h->nonce = (nonce & ~NONCE_TWO_PAGES) | (pages == 2 ? NONCE_TWO_PAGES : 0);
    h->length = job->extent->length;
    h->written_ns = clock_wall_ns();
    h->stream = hint->stream;
    h->index = hint->index;
    h->crc32c = sum_blocks(job->iov, job->iov_n, h->block_crc);
    if (hint->backref.n)
        memcpy((char *)(h->block_crc + blocks_of(h->length)), hint->backref.p, hint->backref.n);
}

/* ---- syncing ---- */

/* Sets what the round ended for, under the lock; returns the fibers to wake. */
static struct sync_wait *round_end(struct segment *s, uint64_t target, bool ok)
{
    struct sync_wait *w = s->waiters, *wake = NULL, *later = NULL, **later_end = &later;

    s->waiters = NULL;
    while (w) {
        struct sync_wait *next = w->next;

        if (ok && w->ticket > target) {
            *later_end = w;
            later_end = &w->next;
            w->next = NULL;
        } else {
            w->rc = ok ? RC_OK : RC_UNAVAILABLE;
            w->state = SYNC_ENDED;
            if (w->on_fiber) {
                w->next = wake;
                wake = w;
            }
        }
        w = next;
    }
    s->syncing = later != NULL;
    if (later) {
        s->waiters = later->next;
        later->state = SYNC_LEADS;
        if (later->on_fiber) {
            later->next = wake;
            wake = later;
        }
    }
    pthread_cond_broadcast(&s->synced_cond);
    return wake;
}

/* One sync for all writes that have ended by now. `syncing` is the caller's. */
static enum rc sync_round(struct local *l, struct segment *s)
{
    struct sync_wait *wake;
    uint64_t target;
    int err;

    pthread_mutex_lock(&s->lock);
    target = s->written;
    pthread_mutex_unlock(&s->lock);
    err = l->no_sync || !local_sys.fdatasync(s->fd) ? 0 : errno;
    atomic_fetch_add_explicit(&l->syncs, 1, memory_order_relaxed);
    pthread_mutex_lock(&s->lock);
    if (err)
        s->failed = true;
    wake = round_end(s, target, !err);
    pthread_mutex_unlock(&s->lock);
    while (wake) {
        struct sync_wait *next = wake->next; /* read first: a woken waiter is gone */

        waiter_wake(&wake->waiter);
        wake = next;
    }
    if (!err)
        return RC_OK;
    /* Whatever the reason was, ENOSPC too: the chunk is not stored, and the segment is given up. */
    return local_errno(err, "syncing a segment");
}

/* After the write: whether to lead a sync now (none runs), wait for the next, or give up. */
static enum sync_state sync_join(struct segment *s, struct sync_wait *w)
{
    enum sync_state state;

    pthread_mutex_lock(&s->lock);
    w->ticket = ++s->written;
    if (s->failed) {
        state = SYNC_ENDED;
    } else if (s->syncing) {
        state = SYNC_WAITING;
        w->state = state;
        w->next = s->waiters;
        s->waiters = w;
    } else {
        state = SYNC_LEADS;
        s->syncing = true;
    }
    pthread_mutex_unlock(&s->lock);
    return state;
}

struct lead_job {
    struct put_job *job;
    enum rc rc;
};

static void lead(void *arg)
{
    struct lead_job *j = arg;

    j->rc = sync_round(j->job->store, j->job->segment);
}

/* Waits for the sync that covers the write; leads it when told to. */
static enum rc sync_wait(struct put_job *job)
{
    struct segment *s = job->segment;
    struct sync_wait *w = &job->wait;
    struct lead_job l = { .job = job };
    enum sync_state state;

    if (w->on_fiber)
        waiter_wait_always(&w->waiter);
    pthread_mutex_lock(&s->lock);
    while (!w->on_fiber && w->state == SYNC_WAITING)
        pthread_cond_wait(&s->synced_cond, &s->lock);
    state = w->state;
    l.rc = w->rc;
    pthread_mutex_unlock(&s->lock);
    if (state == SYNC_ENDED)
        return l.rc ? fail_rc(l.rc, "syncing a segment failed") : RC_OK;
    if (offload(lead, &l)) /* the pool is full: others wait for this sync, so it must run */
        lead(&l);
    return l.rc;
}

/* ---- the whole ---- */

/* The record of a failed write must not come to life. Two ways, as one may fail like the write did.
 */
static void undo(struct put_job *job, const struct record_head *h)
{
    struct segment *s = job->segment;

    if (record_mark_dead(s, h->page))
        note_clear();
    record_punch(s, job->at, head_pages(h->nonce) * PAGE + h->length);
    pthread_mutex_lock(&s->lock);
    s->live_records--;
    s->live_bytes -= h->length;
    pthread_mutex_unlock(&s->lock);
}

static enum rc write_and_join(struct put_job *job, union record_pages *r)
{
    struct segment *s = job->segment;
    struct record_head *h = &r->head;
    enum rc rc;

    h->segment = s->number;
    h->page = (uint32_t)(job->at / PAGE);
    head_seal(r, s->salt);
    rc = write_record(job, r);
    if (rc) {
        struct note note = note_slot ? *note_slot : (struct note){ .error = S3E_NONE };

        undo(job, h);
        if (note_slot)
            *note_slot = note;
        return rc;
    }
    job->extent->crc32c = h->crc32c;
    locus_encode(job->extent->id, &(struct locus){ h->segment, h->page, h->nonce });
    switch (sync_join(s, &job->wait)) {
    case SYNC_LEADS:
        return sync_round(job->store, s);
    case SYNC_WAITING:
        job->waits = true;
        return RC_OK;
    default:
        return fail_rc(RC_UNAVAILABLE, "a sync of the segment failed");
    }
}

static void put_on_thread(void *arg)
{
    struct put_job *job = arg;
    union record_pages r;
    uint64_t size;

    fill_head(job, &r);
    size = page_up((uint64_t)head_pages(r.head.nonce) * PAGE + r.head.length);
    job->rc = reserve(job->store, size, job);
    if (!job->rc)
        job->rc = write_and_join(job, &r);
}

struct seal_job {
    struct local *store;
    struct segment *segment;
};

static void seal_on_thread(void *arg)
{
    struct seal_job *j = arg;

    if (segment_seal(j->store, j->segment))
        note_clear();
}

/* The last writer of a retired segment seals it. */
static void finish(struct put_job *job)
{
    struct segment *s = job->segment;
    struct seal_job seal = { job->store, s };
    bool last;

    pthread_mutex_lock(&s->lock);
    last = --s->inflight == 0 && s->retired;
    pthread_mutex_unlock(&s->lock);
    if (last && offload(seal_on_thread, &seal))
        note_clear(); /* left unsealed: the next open does it */
    segment_unref(s);
}

enum rc local_put(struct data *d, const struct data_hint *hint, const struct iovec *iov, int iov_n,
                  struct extent *ret)
{
    struct put_job job = {
        .store = local_of(d),
        .hint = hint,
        .iov = iov,
        .iov_n = iov_n,
        .extent = ret,
    };
    enum rc rc = local_room(job.store, ret->length);

    if (rc)
        return rc;
    job.wait.on_fiber = fiber_current() != NULL;
    if (job.wait.on_fiber)
        waiter_init(&job.wait.waiter);
    rc = offload(put_on_thread, &job);
    if (rc || !job.segment)
        return rc ? rc : job.rc;
    rc = job.waits ? sync_wait(&job) : job.rc;
    finish(&job);
    return rc;
}
