/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_priv — what the files of the local store share.
 *
 * Owns:    the store owns segments through its table; whoever works on one holds a reference.
 * Threads: each field says. No lock is held across a park. Order: head.lock or remove_lock, then
 * table_lock or segment.lock; these two are leaves. Nobody takes remove_lock under a head.lock.
 */
#ifndef STRATA_DATA_LOCAL_PRIV_H
#define STRATA_DATA_LOCAL_PRIV_H

#include "data/local.h"
#include "data/local/format.h"
#include "rt/rt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define HEADS_MAX 16u
#define TAIL_CHECK_BYTES (64u << 20) /* of an unsealed segment, verified at open */

/* The system calls that tests make fail. */
struct local_sys {
    ssize_t (*pwritev)(int fd, const struct iovec *iov, int iov_n, off_t offset);
    int (*fdatasync)(int fd);
    int (*fallocate)(int fd, int mode, off_t offset, off_t length);
};
extern struct local_sys local_sys;

struct sync_wait;

struct segment {
    uint64_t number; /* immutable after open, like fd and salt */
    int fd;
    uint32_t salt;
    atomic_uint refs;

    /* Guarded by the lock of the head that appends to it. */
    uint64_t allocated;

    pthread_mutex_t lock;
    pthread_cond_t synced_cond; /* for waiters that are no fibers */
    /* Guarded by lock. */
    uint64_t tail;             /* bytes reserved so far */
    uint64_t written, synced;  /* tickets: writes finished, and those of them on disk */
    struct sync_wait *waiters; /* of writes that no sync has covered yet */
    unsigned inflight;         /* puts between reservation and end */
    bool syncing, failed;      /* failed: a sync went wrong, nothing is acknowledged any more */
    bool retired, sealed;      /* retired: no new reservations; sealed: nor writes in flight */

    uint64_t live_records, live_bytes; /* until counted: 0, and what the file takes on disk */
    bool counted; /* live_* are right: at once for new segments, else after a walk */
    bool gone;    /* unlinked */

    /* Serializes checking and marking of records, and the first count; held across file reads.
     * Taken before lock. */
    pthread_mutex_t remove_lock;
};

struct head {
    pthread_mutex_t lock;
    struct segment *segment; /* NULL until needed */
};

struct local {
    struct data base;
    char *directory;
    int dir_fd, lock_fd;
    uint64_t segment_bytes, min_free_bytes;
    bool no_sync;
    unsigned heads_n;
    struct head heads[HEADS_MAX];

    pthread_rwlock_t table_lock;
    struct segment **table; /* by rising number */
    size_t table_n, table_cap;
    uint64_t last_number; /* guarded by table_lock */

    _Atomic uint64_t syncs, nonces, turn;
    _Atomic int64_t free_bytes, free_at_ns,
        probe_at_ns; /* …_at: monotonic times of the last looks */
    _Atomic int probe_rc;
};

static inline struct local *local_of(struct data *d)
{
    return container_of(d, struct local, base);
}

/* ---- segment.c ---- */

/* The meaning of errno, with a note. */
enum rc local_errno(int err, const char *what) MUST_CHECK;
/* Reads until n bytes or the end of the file; *ret_n tells. */
enum rc local_read_at(int fd, void *p, size_t n, uint64_t at, size_t *ret_n) MUST_CHECK;

enum rc segment_create(struct local *l, struct segment **ret) MUST_CHECK;
/* Opens one found in the directory into the table, and recovers it when it was not sealed. One
 * without a whole head is dropped when it is as short as a crash leaves it, else RC_CORRUPT. */
enum rc segment_load(struct local *l, uint64_t number) MUST_CHECK;
/* With a reference, or NULL. */
struct segment *segment_find(struct local *l, uint64_t number);
void segment_unref(struct segment *s);
/* Cuts the preallocated rest and writes the seal. No writes in flight. */
enum rc segment_seal(struct local *l, struct segment *s) MUST_CHECK;
/* Removes the file and the table's reference when it is sealed and nothing in it lives. remove_lock
 * held. */
void segment_drop_if_empty(struct local *l, struct segment *s);
/* Makes live_* right by a walk. remove_lock held. */
enum rc segment_count(struct local *l, struct segment *s) MUST_CHECK;
/* Bytes up to which records may stand. */
uint64_t segment_tail(struct segment *s);

/* ---- walk.c ---- */

/* Steps over the records of a segment, dead ones included. */
struct walk {
    struct segment *segment;
    uint64_t at, end;          /* the next place to look at, and where to stop */
    union record_pages record; /* the present one */
    uint64_t record_at;
};
/* RC_NOT_FOUND at the end. */
enum rc walk_next(struct walk *w) MUST_CHECK;
struct extent walk_extent(const struct walk *w);
uint64_t walk_data(const struct walk *w); /* where the record's bytes begin */
/* The first page, and the second when the head needs it; *ret_valid tells whether it is a head of
 * this place. */
enum rc record_load(struct segment *s, uint32_t page, union record_pages *r,
                    bool *ret_valid) MUST_CHECK;

/* ---- verbs ---- */

enum rc local_put(struct data *d, const struct data_hint *hint, const struct iovec *iov, int iov_n,
                  struct extent *ret) MUST_CHECK;
enum rc local_get(struct data *d, const struct extent *e, uint32_t offset, void *out,
                  uint32_t n) MUST_CHECK;
enum rc local_stat(struct data *d, const struct extent *e) MUST_CHECK;
enum rc local_remove(struct data *d, const struct extent *e, size_t n) MUST_CHECK;
enum rc local_scan(struct data *d, data_scan_fn fn, void *arg) MUST_CHECK;

/* Writes the dead mark into a head. */
enum rc record_mark_dead(struct segment *s, uint32_t page) MUST_CHECK;
/* Gives the pages of a dead record's bytes back to the file system, as far as it can. */
void record_punch(struct segment *s, uint64_t data_at, uint32_t length);
/* Whether r is the record that e and its decoded id speak of (dead or live). */
bool record_is(const union record_pages *r, const struct extent *e, const struct locus *at);
/* RC_NO_SPACE when `need` more bytes would leave less than the minimum free. */
enum rc local_room(struct local *l, uint64_t need) MUST_CHECK;

#endif
