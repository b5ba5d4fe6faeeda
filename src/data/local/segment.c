/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment is open (appended to by one head) → retired (no new reservations) → sealed (no writes
 * in flight, cut to its tail, seal on disk) → gone (unlinked). One found unsealed at open belonged
 * to a process that died: it is walked, what was torn is marked dead, and it is sealed; it is never
 * appended to again.
 *
 * A number is used once: numbers grow with the clock and past every one that is there.
 */
#include "data/local/local_priv.h"

#include "base/checksum.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_SIZE 24
#define TABLE_FIRST 64u

static void segment_name(char out[NAME_SIZE], uint64_t number)
{
    snprintf(out, NAME_SIZE, "seg-%016llx", (unsigned long long)number);
}

enum rc local_errno(int err, const char *what)
{
    char text[64];

    switch (err) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return fail_s3(S3E_STORAGE_FULL, "%s: no space left", what);
    case ENOMEM:
        return fail_rc(RC_NO_MEM, "%s: out of memory", what);
    default:
        return fail_rc(RC_UNAVAILABLE, "%s: %s", what, strerror_r(err, text, sizeof text));
    }
}

enum rc local_read_at(int fd, void *p, size_t n, uint64_t at, size_t *ret_n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = pread(fd, (char *)p + done, n - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return local_errno(errno, "reading a segment");
        if (got == 0)
            break;
        done += (size_t)got;
    }
    *ret_n = done;
    return RC_OK;
}

static enum rc write_at(int fd, const void *p, size_t n, uint64_t at)
{
    struct iovec iov = { (void *)p, n };
    ssize_t put;

    do
        put = local_sys.pwritev(fd, &iov, 1, (off_t)at);
    while (put < 0 && errno == EINTR);
    if (put < 0)
        return local_errno(errno, "writing a segment");
    return (size_t)put == n ? RC_OK : fail_s3(S3E_STORAGE_FULL, "writing a segment: no space left");
}

static struct segment *segment_new(uint64_t number, int fd, uint32_t salt)
{
    struct segment *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->number = number;
    s->fd = fd;
    s->salt = salt;
    atomic_init(&s->refs, 1);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->synced_cond, NULL);
    pthread_mutex_init(&s->remove_lock, NULL);
    return s;
}

void segment_unref(struct segment *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    close(s->fd);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->synced_cond);
    pthread_mutex_destroy(&s->remove_lock);
    free(s);
}

/* ---- the table ---- */

/* The first place with a number >= number; table_lock held. */
static size_t table_place(const struct local *l, uint64_t number)
{
    size_t lo = 0, hi = l->table_n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (l->table[mid]->number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static enum rc table_add(struct local *l, struct segment *s)
{
    size_t at;

    pthread_rwlock_wrlock(&l->table_lock);
    if (l->table_n == l->table_cap) {
        size_t cap = l->table_cap ? l->table_cap * 2 : TABLE_FIRST;
        struct segment **grown = realloc(l->table, cap * sizeof(struct segment *));

        if (!grown) {
            pthread_rwlock_unlock(&l->table_lock);
            return RC_NO_MEM;
        }
        l->table = grown;
        l->table_cap = cap;
    }
    at = table_place(l, s->number);
    memmove(l->table + at + 1, l->table + at, (l->table_n - at) * sizeof(struct segment *));
    l->table[at] = s;
    l->table_n++;
    l->last_number = MAX(l->last_number, s->number);
    pthread_rwlock_unlock(&l->table_lock);
    return RC_OK;
}

static void table_remove(struct local *l, struct segment *s)
{
    size_t at;

    pthread_rwlock_wrlock(&l->table_lock);
    at = table_place(l, s->number);
    assert(at < l->table_n && l->table[at] == s);
    l->table_n--;
    memmove(l->table + at, l->table + at + 1, (l->table_n - at) * sizeof(struct segment *));
    pthread_rwlock_unlock(&l->table_lock);
    segment_unref(s);
}

struct segment *segment_find(struct local *l, uint64_t number)
{
    struct segment *s = NULL;
    size_t at;

    pthread_rwlock_rdlock(&l->table_lock);
    at = table_place(l, number);
    if (at < l->table_n && l->table[at]->number == number) {
        s = l->table[at];
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    }
    pthread_rwlock_unlock(&l->table_lock);
    return s;
}

/* Grows with the clock (4096 a second), so that a number freed by an unlink does not come back. */
static uint64_t next_number(struct local *l)
{
    uint64_t by_clock = (uint64_t)(clock_wall_ns() / NS_PER_S) << 12, number;

    pthread_rwlock_wrlock(&l->table_lock);
    number = l->last_number = MAX(l->last_number + 1, by_clock);
    pthread_rwlock_unlock(&l->table_lock);
    return number;
}

/* ---- making and loading ---- */

static enum rc write_head(struct local *l, struct segment *s)
{
    char page[PAGE] = { 0 };
    struct segment_head h;
    enum rc rc;

    segment_head_make(&h, s->number, s->salt);
    memcpy(page, &h, sizeof h);
    rc = write_at(s->fd, page, sizeof page, 0);
    if (rc || l->no_sync)
        return rc;
    /* Before the first chunk is acknowledged the file must be found again after a crash. */
    if (local_sys.fdatasync(s->fd) || fsync(l->dir_fd))
        return local_errno(errno, "syncing a new segment");
    return RC_OK;
}

enum rc segment_create(struct local *l, struct segment **ret)
{
    uint64_t number = next_number(l);
    char name[NAME_SIZE];
    struct segment *s;
    uint32_t salt;
    int fd;
    enum rc rc;

    if (getrandom(&salt, sizeof salt, 0) != sizeof salt)
        return local_errno(errno, "reading random bytes");
    segment_name(name, number);
    fd = openat(l->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0)
        return local_errno(errno, "creating a segment");
    s = segment_new(number, fd, salt);
    if (!s) {
        close(fd);
        unlinkat(l->dir_fd, name, 0);
        return RC_NO_MEM;
    }
    s->tail = s->allocated = PAGE;
    s->counted = true;
    rc = write_head(l, s);
    if (!rc)
        rc = table_add(l, s);
    if (rc) {
        unlinkat(l->dir_fd, name, 0);
        segment_unref(s);
        return rc;
    }
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); /* the caller's */
    *ret = s;
    return RC_OK;
}

enum rc segment_seal(struct local *l, struct segment *s)
{
    struct segment_seal seal;
    uint64_t tail = segment_tail(s);
    enum rc rc = RC_OK;
    bool failed;

    pthread_mutex_lock(&s->lock);
    failed = s->failed;
    pthread_mutex_unlock(&s->lock);
    /* A file whose sync failed gets no seal: the next open looks at it with care. */
    if (!failed) {
        segment_seal_make(&seal, s->number, s->salt, tail);
        /* The first call may make the file longer, which keeps what is reserved behind its end. */
        if (ftruncate(s->fd, (off_t)tail) || ftruncate(s->fd, (off_t)tail))
            rc = local_errno(errno, "cutting a segment");
        if (!rc)
            rc = write_at(s->fd, &seal, sizeof seal, SEAL_AT);
        if (!rc && !l->no_sync && local_sys.fdatasync(s->fd))
            rc = local_errno(errno, "syncing a segment");
    }
    pthread_mutex_lock(&s->remove_lock);
    pthread_mutex_lock(&s->lock);
    s->sealed = true;
    pthread_mutex_unlock(&s->lock);
    segment_drop_if_empty(l, s);
    pthread_mutex_unlock(&s->remove_lock);
    return rc;
}

void segment_drop_if_empty(struct local *l, struct segment *s)
{
    char name[NAME_SIZE];
    bool empty;

    pthread_mutex_lock(&s->lock);
    empty = s->sealed && s->counted && !s->live_records && !s->gone;
    if (empty)
        s->gone = true;
    pthread_mutex_unlock(&s->lock);
    if (!empty)
        return;
    segment_name(name, s->number);
    unlinkat(l->dir_fd, name, 0);
    table_remove(l, s);
}

uint64_t segment_tail(struct segment *s)
{
    uint64_t tail;

    pthread_mutex_lock(&s->lock);
    tail = s->tail;
    pthread_mutex_unlock(&s->lock);
    return tail;
}

enum rc segment_count(struct local *l, struct segment *s)
{
    struct walk w = { .segment = s, .at = PAGE, .end = segment_tail(s) };
    uint64_t records = 0, bytes = 0;
    enum rc rc;

    while (!(rc = walk_next(&w)))
        if (w.record.head.state == RECORD_LIVE) {
            records++;
            bytes += w.record.head.length;
        }
    if (rc != RC_NOT_FOUND)
        return rc;
    pthread_mutex_lock(&s->lock);
    s->live_records = records;
    s->live_bytes = bytes;
    s->counted = true;
    pthread_mutex_unlock(&s->lock);
    return RC_OK;
}

/* Whether the bytes of the walk's record are whole. */
static enum rc bytes_whole(const struct walk *w, char *buffer, bool *ret)
{
    size_t got;
    enum rc rc = local_read_at(w->segment->fd, buffer, w->record.head.length, walk_data(w), &got);

    if (rc)
        return rc;
    *ret = got == w->record.head.length && crc32c(0, buffer, got) == w->record.head.crc32c;
    return RC_OK;
}

/* What was in flight when the process died stands near the end: each record there is checked whole.
 */
static enum rc recover(struct segment *s, uint64_t size)
{
    AUTO(free_p) char *buffer = malloc(DATA_CHUNK_MAX);
    uint64_t check_from = size > TAIL_CHECK_BYTES ? size - TAIL_CHECK_BYTES : 0;
    struct walk w = { .segment = s, .at = PAGE, .end = size };
    enum rc rc;

    if (!buffer)
        return RC_NO_MEM;
    s->tail = PAGE;
    while (!(rc = walk_next(&w))) {
        bool whole = true;

        s->tail = MIN(w.at, page_up(size));
        if (w.record.head.state == RECORD_DEAD || w.record_at < check_from)
            continue;
        rc = bytes_whole(&w, buffer, &whole);
        if (!rc && !whole)
            rc = record_mark_dead(s, w.record.head.page);
        if (rc)
            return rc;
        if (!whole)
            record_punch(s, walk_data(&w), w.record.head.length);
    }
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc load_recovered(struct local *l, struct segment *s, uint64_t size)
{
    enum rc rc = recover(s, size);

    if (!rc)
        rc = segment_count(l, s);
    if (rc)
        return rc;
    s->retired = true;
    return segment_seal(l, s);
}

/* A file without a whole head was never written to further; longer ones are a damage to be looked
 * at. */
static enum rc no_head(struct local *l, const char *name, uint64_t size)
{
    if (size > PAGE)
        return fail_rc(RC_CORRUPT, "%s/%s has no valid head", l->directory, name);
    unlinkat(l->dir_fd, name, 0);
    return RC_NOT_FOUND;
}

static enum rc load_fd(struct local *l, uint64_t number, int fd, struct segment **ret)
{
    char name[NAME_SIZE], page[PAGE];
    struct segment_head head;
    struct segment_seal seal;
    struct stat st;
    size_t got;
    enum rc rc;

    segment_name(name, number);
    if (fstat(fd, &st))
        return local_errno(errno, "looking at a segment");
    rc = local_read_at(fd, page, sizeof page, 0, &got);
    if (rc)
        return rc;
    memset(page + got, 0, sizeof page - got);
    memcpy(&head, page, sizeof head);
    if (!segment_head_valid(&head, number))
        return no_head(l, name, (uint64_t)st.st_size);
    *ret = segment_new(number, fd, head.salt);
    if (!*ret)
        return RC_NO_MEM;
    memcpy(&seal, page + SEAL_AT, sizeof seal);
    (*ret)->live_bytes = (uint64_t)st.st_blocks * 512;
    if (segment_seal_valid(&seal, number, head.salt)) {
        (*ret)->tail = seal.tail;
        (*ret)->retired = (*ret)->sealed = true;
    } else {
        (*ret)->tail = (uint64_t)st.st_size;
    }
    return RC_OK;
}

enum rc segment_load(struct local *l, uint64_t number)
{
    struct segment *s = NULL;
    char name[NAME_SIZE];
    int fd;
    enum rc rc;

    segment_name(name, number);
    fd = openat(l->dir_fd, name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return local_errno(errno, "opening a segment");
    rc = load_fd(l, number, fd, &s);
    if (rc) {
        close(fd);
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    }
    rc = table_add(l, s);
    if (rc) {
        segment_unref(s);
        return rc;
    }
    if (s->sealed)
        return RC_OK;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    rc = load_recovered(l, s, s->tail);
    segment_unref(s);
    return rc;
}
