/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_kv — what the RocksDB store does per second from fibers: commits, gets and scans.
 *
 *     bench_kv [directory] [value bytes] [seconds per line] [keys]
 *
 * Prints one JSON object per line. The client runs in the same process, on the same cores.
 */
#include "base/clock.h"
#include "kv/rocks.h"
#include "rt/rt.h"
#include "rt/sync.h"

#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define VALUE_MAX 65536

struct bench {
    struct kv *kv;
    struct rt *rt;
    size_t value_n;
    unsigned keys;
    int64_t run_ns;
    /* Of the line being measured. */
    const char *name;
    void (*op)(struct bench *b, uint64_t *random);
    _Atomic uint64_t ops, nanos;
    int64_t end_ns;
    struct wait_group group;
};

static char value[VALUE_MAX];

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void check(enum rc rc, const char *what)
{
    if (rc) {
        fprintf(stderr, "%s: %s: %s\n", what, rc_name(rc), note_text());
        exit(1);
    }
}

static struct slice key_of(char buf[32], uint64_t n)
{
    return slice_of(buf, (size_t)snprintf(buf, 32, "photos/2026/%08u.jpg", (unsigned)n));
}

/* ---- operations ----------------------------------------------------------------------------- */

/* As an object PUT does: read the old row, write the new one, count. */
static void put(struct bench *b, uint64_t *random)
{
    char buf[32];
    struct slice key = key_of(buf, next_random(random) % b->keys);
    int64_t deltas[2] = { 1, (int64_t)b->value_n };
    struct kv_txn *t;
    struct kv_item item;
    struct arena a;
    enum rc rc;

    arena_init(&a, 1 << 20);
    check(kv_begin(b->kv, SLICE("o/bucket/0"), &t), "begin");
    rc = kv_txn_get(t, key, &a, &item);
    if (rc != RC_NOT_FOUND)
        check(rc, "txn_get");
    check(kv_txn_put(t, SLICE("o/bucket/0"), key, slice_of(value, b->value_n)), "put");
    check(
        kv_txn_add(t, SLICE("s/bucket"), slice_of(&"0123456789abcdef"[*random & 7], 1), deltas, 2),
        "add");
    rc = kv_txn_commit(t);
    if (rc != RC_CONFLICT)
        check(rc, "commit");
    kv_txn_free(t);
    arena_fini(&a);
}

static void blind_put(struct bench *b, uint64_t *random)
{
    char buf[32];
    struct kv_txn *t;

    check(kv_begin(b->kv, SLICE("o/bucket/0"), &t), "begin");
    check(kv_txn_put(t, SLICE("o/bucket/0"), key_of(buf, next_random(random) % b->keys),
                     slice_of(value, b->value_n)),
          "put");
    check(kv_txn_commit(t), "commit");
    kv_txn_free(t);
}

static void get(struct bench *b, uint64_t *random)
{
    char buf[32];
    struct kv_item item;
    struct arena a;
    enum rc rc;

    arena_init(&a, 1 << 20);
    rc = kv_get(b->kv, SLICE("o/bucket/0"), key_of(buf, next_random(random) % b->keys), &a, &item);
    if (rc != RC_NOT_FOUND)
        check(rc, "get");
    arena_fini(&a);
}

static void get_in_txn(struct bench *b, uint64_t *random)
{
    char buf[32];
    struct kv_item item;
    struct kv_txn *t;
    struct arena a;
    enum rc rc;

    arena_init(&a, 1 << 20);
    check(kv_begin(b->kv, SLICE("o/bucket/0"), &t), "begin");
    rc = kv_txn_get(t, key_of(buf, next_random(random) % b->keys), &a, &item);
    if (rc != RC_NOT_FOUND)
        check(rc, "get");
    kv_txn_free(t);
    arena_fini(&a);
}

/* A page of a listing; counts as one operation. */
static void list(struct bench *b, uint64_t *random)
{
    char buf[32];
    struct kv_range range = { .partition = SLICE("o/bucket/0"), .flags = KV_HEAD };
    struct kv_scan *s;
    struct kv_item item;

    range.from = key_of(buf, next_random(random) % b->keys);
    check(kv_scan_open(b->kv, &range, &s), "scan");
    for (int i = 0; i < 1000 && kv_scan_next(s, &item) == RC_OK; i++)
        ;
    kv_scan_close(s);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static int64_t cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void client(void *arg)
{
    struct bench *b = arg;
    uint64_t random = (uint64_t)clock_mono_ns() * 2654435761u | 1, ops = 0, nanos = 0;
    int64_t now = clock_mono_ns();

    while (now < b->end_ns) {
        int64_t then = now;

        b->op(b, &random);
        now = clock_mono_ns();
        nanos += (uint64_t)(now - then);
        if (++ops % 64 == 0)
            fiber_yield();
    }
    atomic_fetch_add(&b->ops, ops);
    atomic_fetch_add(&b->nanos, nanos);
    wait_group_done(&b->group);
}

static void measure(struct bench *b, const char *name, void (*op)(struct bench *, uint64_t *),
                    unsigned clients)
{
    struct kv_stats before, after;
    int64_t start = clock_mono_ns(), cpu = cpu_ns();
    double seconds;

    if (getenv("BENCH_ONLY") && strcmp(getenv("BENCH_ONLY"), name) != 0)
        return;
    kv_stats(b->kv, &before);
    b->op = op;
    b->ops = b->nanos = 0;
    b->end_ns = start + b->run_ns;
    wait_group_init(&b->group);
    wait_group_add(&b->group, clients);
    for (unsigned i = 0; i < clients; i++)
        check(fiber_spawn(rt_loop(b->rt, i % rt_loops(b->rt)), client, b), "spawn");
    check(wait_group_wait(&b->group, NO_DEADLINE), "wait");
    wait_group_fini(&b->group);
    seconds = (double)(clock_mono_ns() - start) / 1e9;
    kv_stats(b->kv, &after);
    printf(
        "{\"bench\":\"kv\",\"op\":\"%s\",\"clients\":%u,\"value_bytes\":%zu,\"per_second\":%.0f,"
        "\"mean_us\":%.2f,\"cpu_us_per_op\":%.2f,\"per_batch\":%.1f,\"syncs_per_second\":%.0f}\n",
        name, clients, b->value_n, (double)b->ops / seconds,
        (double)b->nanos / 1e3 / (double)b->ops, (double)(cpu_ns() - cpu) / 1e3 / (double)b->ops,
        after.batches == before.batches
            ? 0.0
            : (double)(after.commits - before.commits) / (double)(after.batches - before.batches),
        (double)(after.syncs - before.syncs) / seconds);
    fflush(stdout);
}

static void fill(struct bench *b)
{
    for (unsigned i = 0; i < b->keys;) {
        struct kv_txn *t;
        char buf[32];

        check(kv_begin(b->kv, SLICE("o/bucket/0"), &t), "begin");
        for (unsigned end = MIN(i + 1000, b->keys); i < end; i++)
            check(kv_txn_put(t, SLICE("o/bucket/0"), key_of(buf, i), slice_of(value, b->value_n)),
                  "put");
        check(kv_txn_commit(t), "fill");
        kv_txn_free(t);
    }
}

static void full_scan(struct bench *b)
{
    struct kv_range range = { .partition = SLICE("o/bucket/0"), .flags = KV_HEAD };

    for (int round = 0; round < 3; round++) {
        int64_t start = clock_mono_ns();
        struct kv_scan *s;
        struct kv_item item;
        uint64_t n = 0;

        check(kv_scan_open(b->kv, &range, &s), "scan");
        while (kv_scan_next(s, &item) == RC_OK)
            n++;
        kv_scan_close(s);
        printf("{\"bench\":\"kv\",\"op\":\"full scan\",\"clients\":1,\"value_bytes\":%zu,"
               "\"per_second\":%.0f}\n",
               b->value_n, (double)n * 1e9 / (double)(clock_mono_ns() - start));
    }
}

static void run(void *arg)
{
    static const unsigned clients[] = { 1, 8, 32, 128 };
    struct bench *b = arg;

    fill(b);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        measure(b, "put", put, clients[i]);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        measure(b, "blind put", blind_put, clients[i]);
    measure(b, "get", get, 1);
    measure(b, "get", get, 2);
    measure(b, "get", get, 32);
    measure(b, "get in transaction", get_in_txn, 1);
    measure(b, "get in transaction", get_in_txn, 2);
    measure(b, "list 1000", list, 1);
    measure(b, "list 1000", list, 8);
    full_scan(b);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/strata-bench-kv-XXXXXX";
    struct kv_rocks_config cfg = { .directory = argc > 1 && *argv[1] ? argv[1] : mkdtemp(made) };
    struct bench b = { .value_n = argc > 2 ? MIN((size_t)atol(argv[2]), VALUE_MAX) : 1024,
                       .keys = argc > 4 ? (unsigned)atol(argv[4]) : 50000,
                       .run_ns = (argc > 3 ? atol(argv[3]) : 2) * NS_PER_S };

    cfg.no_sync = getenv("BENCH_NO_SYNC") != NULL;
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (char)(i * 31 + i / 64);
    check(rt_start(&(struct rt_config){ 0 }, &b.rt), "rt_start");
    check(kv_rocks_open(&cfg, &b.kv), "open");
    check(rt_run(b.rt, run, &b), "run");
    rt_stop(b.rt);
    kv_close(b.kv);
    if (cfg.directory == made)
        nftw(made, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
