/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child puts and removes chunks and tells each acknowledgement through a pipe; it is killed at a
 * random time, and everything that was acknowledged must be there, byte for byte, after the next
 * open. Rounds share a directory.
 */
#include "base/base.h"
#include "data/local.h"
#include "rt/rt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 15
#define WRITERS 12
#define SIZE_MAX_BYTES (2u << 20)
#define TRACKED_MAX 200000u

enum event { ACKED, REMOVING };

struct message {
    struct extent extent;
    uint64_t seed;
    enum event event;
};

static char directory[64];
static struct message *tracked;
static size_t tracked_n;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAILED: %s (%s)\n", what, note_text());
    _exit(1);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void fill(char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = mix(seed + i);

        memcpy(p + i, &v, MIN(8, n - i));
    }
}

static struct data *open_store(void)
{
    struct data_local_config cfg = { .directory = directory,
                                     .segment_bytes = 16u << 20,
                                     .min_free_bytes = 1 };
    struct data *d = NULL;

    check(data_local_open(&cfg, &d) == RC_OK, "open");
    return d;
}

/* ---- the child ---- */

static struct data *store;
static int report_fd;
static uint64_t round_seed;

static void tell(enum event event, const struct extent *e, uint64_t seed)
{
    struct message m;

    memset(&m, 0, sizeof m);
    m.extent = *e;
    m.seed = seed;
    m.event = event;
    check(write(report_fd, &m, sizeof m) == sizeof m, "report"); /* one piece: below PIPE_BUF */
}

static uint32_t size_of(uint64_t seed)
{
    uint64_t r = mix(seed ^ 77);

    return (uint32_t)(r % 4 ? r / 4 % 40000 + 1 : r / 4 % SIZE_MAX_BYTES + 1);
}

static void writer(void *arg)
{
    uint64_t seed = round_seed + (uint64_t)(uintptr_t)arg * 1000000007u;
    AUTO(free_p) char *p = malloc(SIZE_MAX_BYTES);
    struct extent last[2];

    check(p != NULL, "memory");
    for (uint64_t i = 0;; i++) {
        uint64_t mine = seed + i * 64 * SIZE_MAX_BYTES;
        struct iovec iov = { p, size_of(mine) };
        struct data_hint hint = { .stream = mine };

        fill(p, iov.iov_len, mine);
        check(data_put(store, &hint, &iov, 1, &last[i % 2]) == RC_OK, "put");
        tell(ACKED, &last[i % 2], mine);
        if (i % 3 == 2) {
            tell(REMOVING, &last[(i + 1) % 2], 0);
            check(data_remove(store, &last[(i + 1) % 2], 1) == RC_OK, "remove");
        }
    }
}

static void start_writers(void *arg)
{
    struct rt *rt = loop_rt(loop_current());

    for (uintptr_t i = 0; i < WRITERS; i++)
        check(fiber_spawn(rt_loop(rt, i % rt_loops(rt)), writer, (void *)(i + 1)) == RC_OK,
              "spawn");
}

static void child(int fd, uint64_t seed)
{
    struct rt_config cfg = { .loops = 2 };
    struct rt *rt = NULL;

    report_fd = fd;
    round_seed = seed;
    store = open_store();
    check(rt_start(&cfg, &rt) == RC_OK, "runtime");
    check(rt_run(rt, start_writers, NULL) == RC_OK, "run");
    for (;;)
        pause();
}

/* ---- the parent ---- */

static void take(const struct message *m)
{
    if (m->event == ACKED) {
        check(tracked_n < TRACKED_MAX, "room to track");
        tracked[tracked_n++] = *m;
        return;
    }
    for (size_t i = tracked_n; i-- > 0;)
        if (memcmp(&tracked[i].extent, &m->extent, sizeof m->extent) == 0) {
            tracked[i] = tracked[--tracked_n];
            return;
        }
    check(false, "a remove of something acknowledged");
}

static size_t run_round(uint64_t seed, unsigned ms)
{
    struct message m;
    struct timespec start, now;
    size_t before = tracked_n;
    int fds[2];
    pid_t pid;
    bool killed = false;

    check(pipe(fds) == 0, "pipe");
    pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
        close(fds[0]);
        child(fds[1], seed);
    }
    close(fds[1]);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct pollfd p = { .fd = fds[0], .events = POLLIN };
        ssize_t n;

        poll(&p, 1, 1);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!killed &&
            (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 >= ms) {
            kill(pid, SIGKILL);
            killed = true;
        }
        if (!(p.revents & (POLLIN | POLLHUP)))
            continue;
        n = read(fds[0], &m, sizeof m);
        if (n <= 0)
            break;
        check(n == sizeof m, "a whole message");
        take(&m);
    }
    check(killed, "the child to live until it is killed");
    close(fds[0]);
    waitpid(pid, NULL, 0);
    return tracked_n - before;
}

static size_t listed_good;

static bool list_one(void *arg, const struct extent *e, int64_t written_at_ns)
{
    listed_good++;
    return true;
}

static void verify(void)
{
    AUTO(free_p) char *want = malloc(SIZE_MAX_BYTES), *got = malloc(SIZE_MAX_BYTES);
    struct data *d = open_store();

    check(want && got, "memory");
    for (size_t i = 0; i < tracked_n; i++) {
        struct message *m = &tracked[i];

        fill(want, m->extent.length, m->seed);
        check(data_get(d, &m->extent, 0, got, m->extent.length) == RC_OK,
              "an acknowledged chunk reads");
        check(memcmp(want, got, m->extent.length) == 0, "an acknowledged chunk is the same");
    }
    listed_good = 0;
    check(data_scan(d, list_one, NULL) == RC_OK, "scan");
    check(listed_good >= tracked_n, "a scan lists what was acknowledged");
    data_close(d);
}

static void clean(void)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(directory);
}

int main(void)
{
    tracked = malloc(TRACKED_MAX * sizeof *tracked);
    snprintf(directory, sizeof directory, "/tmp/data_kill_XXXXXX");
    check(tracked && mkdtemp(directory), "a directory");
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t seed = mix((uint64_t)getpid() << 32 | i);
        size_t n = run_round(seed, 20 + (unsigned)(seed % 180));

        verify();
        printf("round %u: %zu chunks more, %zu in all, %zu listed\n", i, n, tracked_n, listed_good);
    }
    clean();
    free(tracked);
    return 0;
}
