/* SPDX-License-Identifier: Apache-2.0 */
#include "data_suite.h"

#include "data/local.h"
#include "data/local/local_priv.h"
#include "rt/sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1u << 20)
#define SMALL_SEGMENT (8u * MIB)

static char directory[64];

static void clean(void)
{
    DIR *dir = *directory ? opendir(directory) : NULL;
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    if (*directory)
        rmdir(directory);
    *directory = 0;
}

static void new_directory(void)
{
    clean();
    snprintf(directory, sizeof directory, "/tmp/data_local_XXXXXX");
    assert_non_null(mkdtemp(directory));
}

static struct data *reopen_with(unsigned heads, uint64_t segment_bytes)
{
    struct data_local_config cfg = {
        .directory = directory, .segment_bytes = segment_bytes, .min_free_bytes = 1, .heads = heads
    };
    struct data *d;

    assert_int_equal(data_local_open(&cfg, &d), RC_OK);
    return d;
}

static struct data *reopen(void)
{
    return reopen_with(1, SMALL_SEGMENT);
}

static struct data *open_local(void)
{
    new_directory();
    return reopen_with(3, SMALL_SEGMENT);
}

static unsigned segments(void)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    unsigned n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += strncmp(entry->d_name, "seg-", 4) == 0;
    closedir(dir);
    return n;
}

static int open_segment_of(const struct extent *e)
{
    struct locus at = locus_decode(e->id);
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/seg-%016llx", directory, (unsigned long long)at.segment);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    return fd;
}

static void flip_at(const struct extent *e, uint64_t at)
{
    int fd = open_segment_of(e);
    char c;

    assert_int_equal(pread(fd, &c, 1, (off_t)at), 1);
    c ^= 0x10;
    assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
    close(fd);
}

static void flip_byte(const struct extent *e, uint32_t offset)
{
    struct locus at = locus_decode(e->id);

    flip_at(e, locus_data(&at) + offset);
}

static void flip_head(const struct extent *e, uint32_t offset)
{
    flip_at(e, (uint64_t)locus_decode(e->id).page * PAGE + offset);
}

/* ---- system calls that fail ---- */

static struct local_sys real_sys;
static atomic_int fail_writes_from, fail_syncs_from,
    fail_allocs;               /* calls to pass; -1: never fail */
static atomic_int write_limit; /* bytes after which a write ends short; 0: none */
static int fail_errno;

static bool fails(atomic_int *left)
{
    int n = atomic_load(left);

    if (n > 0)
        atomic_fetch_sub(left, 1);
    return n == 0;
}

static ssize_t bad_pwritev(int fd, const struct iovec *iov, int iov_n, off_t offset)
{
    if (fails(&fail_writes_from)) {
        errno = fail_errno;
        return -1;
    }
    if (write_limit && iov[0].iov_len > (size_t)write_limit) {
        struct iovec some = { iov[0].iov_base, (size_t)write_limit };

        return real_sys.pwritev(fd, &some, 1, offset);
    }
    return real_sys.pwritev(fd, iov, iov_n, offset);
}

static int bad_fdatasync(int fd)
{
    if (fails(&fail_syncs_from)) {
        errno = fail_errno;
        return -1;
    }
    return real_sys.fdatasync(fd);
}

static int bad_fallocate(int fd, int mode, off_t offset, off_t length)
{
    if (!(mode & FALLOC_FL_PUNCH_HOLE) && fails(&fail_allocs)) {
        errno = fail_errno;
        return -1;
    }
    return real_sys.fallocate(fd, mode, offset, length);
}

static void sys_bad(void)
{
    real_sys = local_sys;
    fail_writes_from = fail_syncs_from = fail_allocs = -1;
    write_limit = 0;
    local_sys = (struct local_sys){ bad_pwritev, bad_fdatasync, bad_fallocate };
}

static void sys_good(void)
{
    local_sys = real_sys;
}

static enum rc try_put(struct data *d, uint32_t n, uint64_t seed, struct extent *ret)
{
    AUTO(free_p) void *p = malloc(n);
    struct iovec iov = { p, n };

    assert_non_null(p);
    suite_fill(p, n, seed);
    return data_put(d, NULL, &iov, 1, ret);
}

/* ---- keeping ---- */

static void reopen_keeps_everything(void *arg)
{
    struct extent e[40];
    struct data *d = open_local();

    for (unsigned i = 0; i < 40; i++)
        e[i] = suite_put(d, 1 + i * 20000, i);
    assert_int_equal(data_remove(d, e, 5), RC_OK);
    data_close(d);
    for (int round = 0; round < 2; round++) {
        d = reopen();
        for (unsigned i = 5; i < 40; i++)
            suite_check(d, &e[i], i);
        assert_int_equal(suite_count(d), 35);
        for (unsigned i = 0; i < 5; i++)
            assert_int_equal(data_stat(d, &e[i]), RC_NOT_FOUND);
        data_close(d);
    }
    /* The first remove counts a segment that was sealed before. */
    d = reopen();
    assert_int_equal(data_remove(d, e, 39), RC_OK);
    suite_check(d, &e[39], 39);
    assert_int_equal(segments(), 1);
    assert_int_equal(data_remove(d, e, 40), RC_OK);
    assert_int_equal(segments(), 0);
    data_close(d);
}

static void segments_roll_and_vanish(void *arg)
{
    struct extent e[12], new;
    struct data_stats s;
    struct data *d;

    new_directory();
    d = reopen();
    for (unsigned i = 0; i < 12; i++)
        e[i] = suite_put(d, 3 * MIB, i);
    assert_int_equal(segments(), 6); /* two fit in each */
    data_stats(d, &s);
    assert_int_equal(s.files, 6);
    assert_int_equal(s.live_bytes, 36u * MIB);
    assert_int_equal(data_remove(d, e, 7), RC_OK);
    assert_int_equal(segments(), 3);
    for (unsigned i = 7; i < 12; i++)
        suite_check(d, &e[i], i);
    /* The one being written stays until it is full. */
    assert_int_equal(data_remove(d, e, 12), RC_OK);
    assert_int_equal(segments(), 1);
    new = suite_put(d, 100, 99);
    suite_check(d, &new, 99);
    assert_int_equal(data_remove(d, &new, 1), RC_OK);
    data_close(d);
    assert_int_equal(segments(), 0);
}

static void removes_give_the_space_back(void *arg)
{
    struct extent big, small;
    struct stat before, after;
    struct data *d;
    int fd;

    new_directory();
    d = reopen();
    big = suite_put(d, 4 * MIB, 1);
    small = suite_put(d, 100, 2);
    fd = open_segment_of(&big);
    assert_int_equal(fstat(fd, &before), 0);
    assert_int_equal(data_remove(d, &big, 1), RC_OK);
    assert_int_equal(fstat(fd, &after), 0);
    assert_true((before.st_blocks - after.st_blocks) * 512 >= 4 * MIB);
    suite_check(d, &small, 2);
    data_close(d);
    /* Closing gives back what was reserved ahead. */
    assert_int_equal(fstat(fd, &after), 0);
    assert_true(after.st_blocks * 512 <= 64 * 1024);
    close(fd);
}

static void numbers_are_used_once(void *arg)
{
    struct extent old, new;
    struct data *d;

    new_directory();
    d = reopen();
    old = suite_put(d, 100, 1);
    assert_int_equal(data_remove(d, &old, 1), RC_OK);
    data_close(d);
    d = reopen();
    new = suite_put(d, 100, 2);
    assert_int_equal(data_remove(d, &old, 1), RC_OK);
    suite_check(d, &new, 2);
    data_close(d);
}

static void one_process_at_a_time(void *arg)
{
    struct data_local_config cfg = { .directory = directory };
    struct data *d = open_local(), *second = NULL;

    assert_int_equal(data_local_open(&cfg, &second), RC_EXISTS);
    assert_null(second);
    data_close(d);
    cfg.directory = "/nonexistent/chunks";
    assert_int_equal(data_local_open(&cfg, &d), RC_UNAVAILABLE);
}

/* ---- damage ---- */

static void flipped_bits_are_found(void *arg)
{
    AUTO(free_p) char *out = malloc(300000);
    struct data *d = open_local();
    struct extent e = suite_put(d, 300000, 1), other = suite_put(d, 300000, 2);

    flip_byte(&e, 70000);
    assert_int_equal(data_get(d, &e, 0, out, 300000), RC_CORRUPT);
    assert_int_equal(data_get(d, &e, 65536, out, 65536), RC_CORRUPT);
    assert_int_equal(data_get(d, &e, 131000, out, 72), RC_CORRUPT); /* same block, other bytes */
    assert_int_equal(data_get(d, &e, 131072, out, 100000), RC_OK);
    assert_int_equal(data_get(d, &e, 0, out, 65536), RC_OK);
    suite_check(d, &other, 2);
    d->verify = false;
    assert_int_equal(data_get(d, &e, 65536, out, 65536), RC_OK);
    d->verify = true;
    flip_byte(&e, 70000);
    suite_check(d, &e, 1);
    flip_head(&e, 40);
    assert_int_equal(data_get(d, &e, 0, out, 300000), RC_CORRUPT);
    assert_int_equal(data_get(d, &e, 5, out, 10), RC_CORRUPT);
    assert_int_equal(data_stat(d, &e), RC_CORRUPT);
    flip_head(&e, 40);
    suite_check(d, &e, 1);
    data_close(d);
}

static void a_damaged_head_hides_no_others(void *arg)
{
    struct extent e[6];
    struct data *d;

    new_directory();
    d = reopen();
    for (unsigned i = 0; i < 6; i++)
        e[i] = suite_put(d, 200000, i);
    flip_head(&e[2], 20);
    data_close(d);
    d = reopen();
    assert_int_equal(suite_count(d), 5);
    for (unsigned i = 0; i < 6; i++)
        if (i != 2)
            suite_check(d, &e[i], i);
    data_close(d);
}

static void chunks_that_look_like_segments(void *arg)
{
    AUTO(free_p) char *copy = malloc(2 * MIB);
    struct extent e, inner;
    struct iovec iov = { copy, 0 };
    struct data *d;
    ssize_t n;
    int fd;

    new_directory();
    d = reopen();
    inner = suite_put(d, 100000, 1);
    fd = open_segment_of(&inner);
    n = pread(fd, copy, 2 * MIB, 0);
    close(fd);
    assert_true(n > 100000);
    iov.iov_len = (size_t)n;
    assert_int_equal(data_put(d, NULL, &iov, 1, &e), RC_OK);
    flip_head(&e, 20); /* so that a walk goes through its bytes */
    assert_int_equal(suite_count(d), 1);
    data_close(d);
}

static void torn_tails_are_dropped(void *arg)
{
    struct extent e[4];
    struct data *d;
    struct locus last;
    char seal[32] = { 0 };
    int fd;

    new_directory();
    d = reopen();
    for (unsigned i = 0; i < 4; i++)
        e[i] = suite_put(d, 200000, i);
    data_close(d);
    /* As if the process had died while it wrote the last one, before any seal. */
    fd = open_segment_of(&e[3]);
    last = locus_decode(e[3].id);
    assert_int_equal(pwrite(fd, seal, sizeof seal, SEAL_AT), sizeof seal);
    assert_int_equal(ftruncate(fd, (off_t)locus_data(&last) + 90000), 0);
    close(fd);
    flip_byte(&e[1], 5); /* and this one was not acknowledged either */
    d = reopen();
    assert_int_equal(suite_count(d), 2);
    suite_check(d, &e[0], 0);
    suite_check(d, &e[2], 2);
    assert_int_equal(data_stat(d, &e[3]), RC_NOT_FOUND);
    assert_int_equal(data_stat(d, &e[1]), RC_NOT_FOUND);
    e[3] = suite_put(d, 200000, 3);
    data_close(d);
    d = reopen();
    assert_int_equal(suite_count(d), 3);
    suite_check(d, &e[3], 3);
    data_close(d);
}

static void files_without_a_head(void *arg)
{
    struct data_local_config cfg = { .directory = directory };
    struct data *d;
    char path[128];
    int fd;

    new_directory();
    snprintf(path, sizeof path, "%s/seg-%016x", directory, 5);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    d = reopen(); /* died right after creating it */
    data_close(d);
    assert_int_equal(segments(), 0);
    close(fd);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 100000), 0);
    close(fd);
    assert_int_equal(data_local_open(&cfg, &d), RC_CORRUPT);
    assert_int_equal(segments(), 1);
}

/* ---- no space, failing disks ---- */

static void full_disk_refuses(void *arg)
{
    struct data_local_config cfg = { .directory = directory, .min_free_bytes = 1ull << 60 };
    struct extent e;
    struct data *d;

    new_directory();
    assert_int_equal(data_local_open(&cfg, &d), RC_OK);
    assert_int_equal(try_put(d, 10, 1, &e), RC_NO_SPACE);
    assert_int_equal(note_error(RC_NO_SPACE), S3E_STORAGE_FULL);
    assert_int_equal(data_probe(d), RC_NO_SPACE);
    data_close(d);
    assert_int_equal(segments(), 0);
}

static void failed_writes_leave_nothing(void *arg)
{
    static const int errors[] = { ENOSPC, EDQUOT, EIO };
    struct extent e, kept;
    struct data *d;

    new_directory();
    d = reopen();
    kept = suite_put(d, 100000, 1);
    sys_bad();
    for (unsigned i = 0; i < ARRAY_LEN(errors); i++)
        for (int limit = 0; limit <= 3000; limit += 3000) {
            fail_errno = errors[i];
            write_limit = limit; /* short first, then the error */
            fail_writes_from = limit ? 1 : 0;
            assert_int_equal(try_put(d, 100000, 2, &e), i == 2 ? RC_UNAVAILABLE : RC_NO_SPACE);
            fail_writes_from = -1;
            assert_int_equal(suite_count(d), 1);
        }
    write_limit = 3000; /* short writes alone are no failure */
    e = suite_put(d, 100000, 3);
    write_limit = 0;
    sys_good();
    suite_check(d, &e, 3);
    suite_check(d, &kept, 1);
    data_close(d);
    d = reopen();
    assert_int_equal(suite_count(d), 2);
    suite_check(d, &e, 3);
    suite_check(d, &kept, 1);
    data_close(d);
}

static void no_room_to_reserve(void *arg)
{
    struct extent e;
    struct data *d;

    new_directory();
    sys_bad();
    fail_errno = ENOSPC;
    fail_allocs = 0;
    d = reopen();
    assert_int_equal(try_put(d, 100000, 2, &e), RC_NO_SPACE);
    fail_allocs = -1;
    e = suite_put(d, 100000, 3);
    sys_good();
    suite_check(d, &e, 3);
    data_close(d);
}

static void a_failed_sync_fails_the_segment(void *arg)
{
    struct extent kept, lost, e;
    struct locus old, new;
    struct data *d;

    new_directory();
    d = reopen();
    kept = suite_put(d, 100000, 1);
    sys_bad();
    fail_errno = EIO;
    fail_syncs_from = 0;
    assert_int_equal(try_put(d, 100000, 2, &lost), RC_UNAVAILABLE);
    fail_syncs_from = -1;
    e = suite_put(d, 100000, 3); /* not in the same file again */
    old = locus_decode(kept.id);
    new = locus_decode(e.id);
    assert_true(old.segment < new.segment);
    suite_check(d, &kept, 1);
    sys_good();
    data_close(d);
    d = reopen();
    suite_check(d, &kept, 1);
    suite_check(d, &e, 3);
    data_close(d);
}

struct waiting {
    struct data *store;
    struct wait_group left;
    atomic_int failed;
};

static void put_expecting_failure(void *arg)
{
    struct waiting *w = arg;
    struct extent e;

    if (try_put(w->store, 50000, 1, &e) == RC_UNAVAILABLE)
        atomic_fetch_add(&w->failed, 1);
    wait_group_done(&w->left);
}

static void a_failed_sync_fails_all_who_wait(void *arg)
{
    struct waiting w = { .store = NULL };
    struct rt *rt = loop_rt(loop_current());
    struct extent e;

    new_directory();
    w.store = reopen();
    e = suite_put(w.store, 10, 7);
    sys_bad();
    fail_errno = EIO;
    fail_syncs_from = 0;
    wait_group_init(&w.left);
    wait_group_add(&w.left, 16);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(fiber_spawn(rt_loop(rt, i % 2), put_expecting_failure, &w), RC_OK);
    assert_int_equal(wait_group_wait(&w.left, NO_DEADLINE), RC_OK);
    wait_group_fini(&w.left);
    assert_int_equal(w.failed, 16);
    sys_good();
    suite_check(w.store, &e, 7);
    e = suite_put(w.store, 10, 8);
    suite_check(w.store, &e, 8);
    data_close(w.store);
}

static void put_one(void *arg)
{
    struct waiting *w = arg;

    suite_put(w->store, 2000, 5);
    wait_group_done(&w->left);
}

static void writers_share_syncs(void *arg)
{
    struct waiting w = { .store = NULL };
    struct rt *rt = loop_rt(loop_current());
    struct data_stats s;

    new_directory();
    w.store = reopen();
    wait_group_init(&w.left);
    wait_group_add(&w.left, 200);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(fiber_spawn(rt_loop(rt, i % 2), put_one, &w), RC_OK);
    assert_int_equal(wait_group_wait(&w.left, NO_DEADLINE), RC_OK);
    wait_group_fini(&w.left);
    data_stats(w.store, &s);
    assert_int_equal(s.puts, 200);
    assert_true(s.syncs > 0 && s.syncs < 150);
    data_close(w.store);
}

/* Stores work from plain threads, too: tools have no runtime. */
static void works_without_a_runtime(void **state)
{
    struct data *d = open_local();
    struct extent e = suite_put(d, 100000, 1);

    suite_check(d, &e, 1);
    assert_int_equal(suite_count(d), 1);
    assert_int_equal(data_remove(d, &e, 1), RC_OK);
    data_close(d);
}

#define ON_FIBER(fn)                                                                               \
    {                                                                                              \
#fn, on_fiber, NULL, NULL, (void *)(fn)                                                    \
    }

static void on_fiber(void **state)
{
    suite_on_fiber((void (*)(void *)) * state, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_without_a_runtime),
        ON_FIBER(reopen_keeps_everything),
        ON_FIBER(segments_roll_and_vanish),
        ON_FIBER(removes_give_the_space_back),
        ON_FIBER(numbers_are_used_once),
        ON_FIBER(one_process_at_a_time),
        ON_FIBER(flipped_bits_are_found),
        ON_FIBER(a_damaged_head_hides_no_others),
        ON_FIBER(chunks_that_look_like_segments),
        ON_FIBER(torn_tails_are_dropped),
        ON_FIBER(files_without_a_head),
        ON_FIBER(full_disk_refuses),
        ON_FIBER(failed_writes_leave_nothing),
        ON_FIBER(no_room_to_reserve),
        ON_FIBER(a_failed_sync_fails_the_segment),
        ON_FIBER(a_failed_sync_fails_all_who_wait),
        ON_FIBER(writers_share_syncs),
    };
    int failed = cmocka_run_group_tests_name("local", tests, NULL, NULL);

    failed += data_suite_run("local", open_local);
    clean();
    return failed != 0;
}
