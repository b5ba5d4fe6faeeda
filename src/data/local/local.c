/* SPDX-License-Identifier: Apache-2.0 */
#include "data/local/local_priv.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SEGMENT_DEFAULT (1ull << 30)
#define SEGMENT_MAX (8ull << 40) /* pages are counted in 32 bits */
#define MIN_FREE_DEFAULT (64ull << 20)
#define HEADS_DEFAULT 3u
#define LOOK_NS (200 * NS_PER_MS) /* how old the free space may be */

static int sys_fallocate(int fd, int mode, off_t offset, off_t length)
{
    return fallocate(fd, mode, offset, length);
}

struct local_sys local_sys = { .pwritev = pwritev,
                               .fdatasync = fdatasync,
                               .fallocate = sys_fallocate };

/* ---- space ---- */

/* Free bytes for an unprivileged user, as of now; -1: unknown. */
static int64_t look_at_free(struct local *l)
{
    struct statvfs v;
    int64_t free_bytes = -1;

    if (fstatvfs(l->dir_fd, &v) == 0)
        free_bytes = (int64_t)(v.f_bavail * v.f_frsize);
    atomic_store_explicit(&l->free_bytes, free_bytes, memory_order_relaxed);
    return free_bytes;
}

enum rc local_room(struct local *l, uint64_t need)
{
    int64_t now = clock_mono_ns();
    int64_t at = atomic_load_explicit(&l->free_at_ns, memory_order_relaxed);
    int64_t left;

    if (now - at > LOOK_NS && atomic_compare_exchange_strong(&l->free_at_ns, &at, now))
        look_at_free(l);
    left = atomic_fetch_sub_explicit(&l->free_bytes, (int64_t)need, memory_order_relaxed);
    if (left >= 0 && (uint64_t)left < l->min_free_bytes + need)
        return fail_s3(S3E_STORAGE_FULL, "less than %llu bytes are free on the chunk store",
                       (unsigned long long)l->min_free_bytes);
    return RC_OK;
}

/* ---- probe and stats ---- */

struct probe_job {
    struct local *store;
    enum rc rc;
};

static void probe_on_thread(void *arg)
{
    struct probe_job *j = arg;
    int64_t now = clock_mono_ns();
    struct iovec iov = { &now, sizeof now };
    int fd = openat(j->store->dir_fd, "probe", O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

    if (fd < 0 || local_sys.pwritev(fd, &iov, 1, 0) < 0 || local_sys.fdatasync(fd))
        j->rc = local_errno(errno, "probing the chunk store");
    if (fd >= 0)
        close(fd);
}

static enum rc local_probe(struct data *d)
{
    struct local *l = local_of(d);
    struct probe_job j = { .store = l };
    int64_t now = clock_mono_ns();
    enum rc rc = local_room(l, 0);

    if (rc)
        return rc;
    if (now - atomic_load(&l->probe_at_ns) < NS_PER_S) {
        rc = (enum rc)atomic_load(&l->probe_rc);
        return rc ? fail_rc(rc, "the chunk store failed its last probe") : RC_OK;
    }
    rc = offload(probe_on_thread, &j);
    if (rc)
        return rc;
    atomic_store(&l->probe_rc, (int)j.rc);
    atomic_store(&l->probe_at_ns, now);
    return j.rc;
}

static void local_stats(struct data *d, struct data_stats *ret)
{
    struct local *l = local_of(d);
    int64_t free_bytes = look_at_free(l);

    pthread_rwlock_rdlock(&l->table_lock);
    ret->files = l->table_n;
    for (size_t i = 0; i < l->table_n; i++) {
        struct segment *s = l->table[i];

        pthread_mutex_lock(&s->lock);
        ret->live_bytes += s->live_bytes;
        pthread_mutex_unlock(&s->lock);
    }
    pthread_rwlock_unlock(&l->table_lock);
    ret->syncs = atomic_load(&l->syncs);
    ret->free_bytes = free_bytes > 0 ? (uint64_t)free_bytes : 0;
}

/* ---- opening and closing ---- */

static void local_free(struct local *l)
{
    for (size_t i = 0; i < l->table_n; i++)
        segment_unref(l->table[i]);
    for (unsigned i = 0; i < HEADS_MAX; i++)
        pthread_mutex_destroy(&l->heads[i].lock);
    pthread_rwlock_destroy(&l->table_lock);
    if (l->lock_fd >= 0)
        close(l->lock_fd);
    if (l->dir_fd >= 0)
        close(l->dir_fd);
    free(l->table);
    free(l->directory);
    free(l);
}

static void local_close(struct data *d)
{
    struct local *l = local_of(d);

    for (unsigned i = 0; i < l->heads_n; i++) {
        struct segment *s = STEAL(l->heads[i].segment);

        if (!s)
            continue;
        pthread_mutex_lock(&s->lock);
        s->retired = true;
        pthread_mutex_unlock(&s->lock);
        if (segment_seal(l, s))
            note_clear(); /* the next open does it */
        segment_unref(s);
    }
    local_free(l);
}

static const struct data_ops local_ops = {
    .name = "local",
    .caps = DATA_CAP_LIST | DATA_CAP_PART_CRC | DATA_CAP_PUT_CRC,
    .put = local_put,
    .get = local_get,
    .remove = local_remove,
    .stat = local_stat,
    .scan = local_scan,
    .probe = local_probe,
    .stats = local_stats,
    .close = local_close,
};

static struct local *local_new(const struct data_local_config *cfg)
{
    struct local *l = calloc(1, sizeof *l);
    uint64_t least = PAGE + HEAD_PAGES_MAX * PAGE + DATA_CHUNK_MAX;

    if (!l)
        return NULL;
    data_init(&l->base, &local_ops);
    l->dir_fd = l->lock_fd = -1;
    l->no_sync = cfg->no_sync;
    l->segment_bytes = cfg->segment_bytes ? cfg->segment_bytes : SEGMENT_DEFAULT;
    l->segment_bytes = MIN(MAX(l->segment_bytes, least), SEGMENT_MAX);
    l->min_free_bytes = cfg->min_free_bytes ? cfg->min_free_bytes : MIN_FREE_DEFAULT;
    l->heads_n = cfg->heads ? MIN(cfg->heads, HEADS_MAX) : HEADS_DEFAULT;
    l->free_at_ns = l->probe_at_ns = INT64_MIN / 2;
    for (unsigned i = 0; i < HEADS_MAX; i++)
        pthread_mutex_init(&l->heads[i].lock, NULL);
    pthread_rwlock_init(&l->table_lock, NULL);
    l->directory = strdup(cfg->directory);
    if (!l->directory) {
        local_free(l);
        return NULL;
    }
    return l;
}

static enum rc open_directory(struct local *l)
{
    uint32_t nonce;

    if (mkdir(l->directory, 0750) && errno != EEXIST)
        return local_errno(errno, l->directory);
    l->dir_fd = open(l->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->dir_fd < 0)
        return local_errno(errno, l->directory);
    l->lock_fd = openat(l->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (l->lock_fd < 0)
        return local_errno(errno, l->directory);
    if (flock(l->lock_fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? fail_rc(RC_EXISTS, "%s is in use by another process", l->directory)
                   : local_errno(errno, l->directory);
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return local_errno(errno, "reading random bytes");
    l->nonces = nonce;
    return RC_OK;
}

/* "seg-" and 16 lower-case digits. */
static bool name_number(const char *name, uint64_t *ret)
{
    char again[32];
    unsigned long long number;

    if (sscanf(name, "seg-%16llx", &number) != 1)
        return false;
    snprintf(again, sizeof again, "seg-%016llx", number);
    *ret = number;
    return strcmp(name, again) == 0;
}

static enum rc load_segments(struct local *l)
{
    DIR *dir = opendir(l->directory);
    struct dirent *entry;
    uint64_t number;
    enum rc rc = RC_OK;

    if (!dir)
        return local_errno(errno, l->directory);
    while (!rc && (entry = readdir(dir)))
        if (name_number(entry->d_name, &number))
            rc = segment_load(l, number);
    closedir(dir);
    return rc;
}

enum rc data_local_open(const struct data_local_config *cfg, struct data **ret)
{
    struct local *l;
    enum rc rc;

    if (!cfg->directory || !*cfg->directory)
        return fail_rc(RC_INVALID, "the local chunk store needs a directory");
    l = local_new(cfg);
    if (!l)
        return RC_NO_MEM;
    rc = open_directory(l);
    if (!rc)
        rc = load_segments(l);
    if (rc) {
        local_free(l);
        return rc;
    }
    *ret = &l->base;
    return RC_OK;
}
