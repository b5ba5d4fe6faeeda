/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a process that commits, opens the store again and compares: what was acknowledged is there,
 * and each transaction is there in all its partitions or in none.
 *
 * Each writer commits transactions 1, 2, 3, …: an entry in partition "a", a large one in "b", its
 * number in "last", and one more in a counter that all share. Stores are opened in child processes
 * alone, since RocksDB's threads do not survive a fork.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 6u
#define ROUNDS 12
#define ALIVE_MS_MAX 250

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #cond, note_text());            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct ack {
    uint32_t writer, number;
};

struct writer {
    struct kv *kv;
    unsigned id;
    int fd;
};

static char directory[64] = "/tmp/strata-kill-XXXXXX";

static struct kv *open_store(void)
{
    /* A small buffer: kills shall meet flushes and new log files, too. */
    struct kv_rocks_config cfg = { .directory = directory, .write_buffer_bytes = 256 << 10 };
    struct kv *kv = NULL;

    CHECK(kv_rocks_open(&cfg, &kv) == RC_OK);
    return kv;
}

static struct slice number_key(char buf[16], unsigned writer, uint32_t number)
{
    return slice_of(buf, (size_t)snprintf(buf, 16, "%u/%08u", writer, number));
}

/* Some go to the tail column family, some of these to blob files. */
static size_t large_size(uint32_t number)
{
    return number % 3 == 0 ? 100 : number % 3 == 1 ? 1500 : 5000;
}

static uint32_t read_last(struct kv *kv, unsigned writer)
{
    char buf[16];
    struct kv_item item;
    struct arena a;
    uint32_t number = 0;
    enum rc rc;

    arena_init(&a, 1 << 20);
    rc = kv_get(kv, SLICE("last"), number_key(buf, writer, 0), &a, &item);
    CHECK(rc == RC_OK || rc == RC_NOT_FOUND);
    if (!rc) {
        CHECK(item.value.n == 4);
        number = get_be32(item.value.p);
    }
    arena_fini(&a);
    return number;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void commit_one(struct writer *w, uint32_t number)
{
    static const int64_t one = 1;
    char name[16], zero[16], last[4], large[5000];
    struct slice key = number_key(name, w->id, number);
    struct kv_txn *t;

    put_be32(last, number);
    memset(large, (int)(number & 0xff), sizeof large);
    CHECK(kv_begin(w->kv, SLICE("a"), &t) == RC_OK);
    CHECK(kv_txn_put(t, SLICE("a"), key, slice_of(last, 4)) == RC_OK);
    CHECK(kv_txn_put(t, SLICE("b"), key, slice_of(large, large_size(number))) == RC_OK);
    CHECK(kv_txn_put(t, SLICE("last"), number_key(zero, w->id, 0), slice_of(last, 4)) == RC_OK);
    CHECK(kv_txn_add(t, SLICE("count"), SLICE("all"), &one, 1) == RC_OK);
    CHECK(kv_txn_commit(t) == RC_OK);
    kv_txn_free(t);
}

static void *write_on(void *arg)
{
    struct writer *w = arg;

    for (uint32_t number = read_last(w->kv, w->id) + 1;; number++) {
        struct ack ack = { w->id, number };

        commit_one(w, number);
        CHECK(write(w->fd, &ack, sizeof ack) == (ssize_t)sizeof ack);
    }
}

static void run_writers(int fd)
{
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    struct kv *kv = open_store();

    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ .kv = kv, .id = i, .fd = fd };
        CHECK(pthread_create(&threads[i], NULL, write_on, &writers[i]) == 0);
    }
    for (;;)
        pause();
}

/* ---- checking ------------------------------------------------------------------------------- */

static void check_transaction(struct kv *kv, unsigned writer, uint32_t number, bool there)
{
    char buf[16];
    struct slice key = number_key(buf, writer, number);
    struct kv_item item;
    struct arena a;

    arena_init(&a, 1 << 20);
    CHECK(kv_get(kv, SLICE("a"), key, &a, &item) == (there ? RC_OK : RC_NOT_FOUND));
    CHECK(!there || (item.value.n == 4 && get_be32(item.value.p) == number));
    CHECK(kv_get(kv, SLICE("b"), key, &a, &item) == (there ? RC_OK : RC_NOT_FOUND));
    CHECK(!there || item.value.n == large_size(number));
    for (size_t i = 0; there && i < item.value.n; i++)
        CHECK((unsigned char)item.value.p[i] == (number & 0xff));
    arena_fini(&a);
}

static void check_store(const uint32_t *acked)
{
    struct kv *kv = open_store();
    int64_t count = 0;
    uint64_t total = 0;
    struct kv_item item;
    struct arena a;
    enum rc rc;

    for (unsigned w = 0; w < WRITERS; w++) {
        uint32_t last = read_last(kv, w);

        CHECK(last >= acked[w] && last <= acked[w] + 1);
        for (uint32_t number = 1; number <= last; number++)
            check_transaction(kv, w, number, true);
        for (uint32_t number = last + 1; number < last + 3; number++)
            check_transaction(kv, w, number, false);
        total += last;
    }
    arena_init(&a, 1 << 20);
    rc = kv_get(kv, SLICE("count"), SLICE("all"), &a, &item);
    CHECK(rc == RC_OK || (rc == RC_NOT_FOUND && total == 0));
    if (!rc)
        CHECK(kv_counters_decode(item.value, &count, 1) == RC_OK);
    CHECK((uint64_t)count == total);
    arena_fini(&a);
    kv_close(kv);
    printf("%llu transactions are there\n", (unsigned long long)total);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static void collect_acks(int fd, uint32_t *acked, bool one)
{
    struct ack ack;

    for (;;) {
        if (read(fd, &ack, sizeof ack) != (ssize_t)sizeof ack)
            return;
        acked[ack.writer] = MAX(acked[ack.writer], ack.number);
        if (one)
            return;
    }
}

static pid_t start_killer(pid_t victim)
{
    useconds_t delay = (useconds_t)(20000 + random() % (ALIVE_MS_MAX * 1000));
    pid_t pid = fork();

    if (pid == 0) {
        usleep(delay);
        kill(victim, SIGKILL);
        _exit(0);
    }
    return pid;
}

/* Early: perhaps while the store is still being opened. */
static void kill_round(uint32_t *acked, bool early)
{
    int fds[2], status = 0;
    pid_t victim, killer;

    CHECK(pipe(fds) == 0);
    victim = fork();
    CHECK(victim >= 0);
    if (victim == 0) {
        close(fds[0]);
        run_writers(fds[1]);
    }
    close(fds[1]);
    if (!early)
        collect_acks(fds[0], acked, true);
    killer = start_killer(victim);
    collect_acks(fds[0], acked, false);
    close(fds[0]);
    CHECK(waitpid(killer, NULL, 0) == killer);
    CHECK(waitpid(victim, &status, 0) == victim);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void check_round(const uint32_t *acked)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        check_store(acked);
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    uint32_t acked[WRITERS] = { 0 };

    CHECK(mkdtemp(directory));
    srandom((unsigned)clock_mono_ns());
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < rounds; i++) {
        kill_round(acked, i % 4 == 3);
        check_round(acked);
    }
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
