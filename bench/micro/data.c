/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts and gets of the local chunk store: `bench_data [directory] [seconds] [heads]`. One JSON line
 * per run. Reads are of what was just written, so from the page cache.
 */
#include "base/clock.h"
#include "data/local.h"
#include "rt/rt.h"
#include "rt/sync.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP 16u /* chunks that each worker leaves to be read */
#define SAMPLES 4096u

struct run {
    struct data *store;
    uint32_t size;
    unsigned workers;
    bool gets;
    int64_t until_ns;
    struct wait_group left;
    atomic_ulong ops;
    atomic_uint sampled;
    int64_t samples[SAMPLES];
};

struct worker {
    struct run *run;
    struct extent kept[KEEP];
    unsigned kept_n;
};

static struct worker workers[64];
static double seconds = 2;

static void must(enum rc rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "%s: %s %s\n", what, rc_name(rc), note_text());
    _exit(1);
}

static void put_one(struct worker *w, char *p)
{
    struct iovec iov = { p, w->run->size };
    struct extent e;

    must(data_put(w->run->store, NULL, &iov, 1, &e), "put");
    if (w->kept_n < KEEP)
        w->kept[w->kept_n++] = e;
    else
        must(data_remove(w->run->store, &e, 1), "remove");
}

static void work(void *arg)
{
    struct worker *w = arg;
    struct run *r = w->run;
    char *p = aligned_alloc(4096, r->size);

    if (!p)
        must(RC_NO_MEM, "buffer");
    memset(p, 0x5a, r->size);
    for (unsigned i = 0; clock_mono_ns() < r->until_ns; i++) {
        int64_t from = clock_mono_ns();
        unsigned at;

        if (r->gets)
            must(data_get(r->store, &w->kept[i % w->kept_n], 0, p, r->size), "get");
        else
            put_one(w, p);
        at = atomic_fetch_add(&r->sampled, 1);
        if (at < SAMPLES)
            r->samples[at] = clock_mono_ns() - from;
        atomic_fetch_add(&r->ops, 1);
        if (r->gets)
            fiber_yield();
    }
    free(p);
    wait_group_done(&r->left);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void measure(struct run *r)
{
    struct rt *rt = loop_rt(loop_current());
    struct data_stats before, after;
    int64_t from = clock_mono_ns();
    double s;
    unsigned n;

    data_stats(r->store, &before);
    r->until_ns = from + (int64_t)(seconds * 1e9);
    wait_group_init(&r->left);
    wait_group_add(&r->left, r->workers);
    for (unsigned i = 0; i < r->workers; i++) {
        workers[i].run = r;
        must(fiber_spawn(rt_loop(rt, i % rt_loops(rt)), work, &workers[i]), "spawn");
    }
    must(wait_group_wait(&r->left, NO_DEADLINE), "wait");
    wait_group_fini(&r->left);
    s = (double)(clock_mono_ns() - from) / 1e9;
    data_stats(r->store, &after);
    n = MIN(r->sampled, SAMPLES);
    qsort(r->samples, n, sizeof r->samples[0], by_value);
    printf(
        "{\"bench\":\"data_local\",\"op\":\"%s\",\"size\":%u,\"concurrency\":%u,\"ops_per_s\":%.0f,"
        "\"mb_per_s\":%.1f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"puts_per_sync\":%.1f}\n",
        r->gets ? "get" : "put", r->size, r->workers, (double)r->ops / s,
        (double)r->ops * r->size / s / 1e6, (double)r->samples[n / 2] / 1e3,
        (double)r->samples[n * 99 / 100] / 1e3,
        after.syncs > before.syncs ? (double)r->ops / (double)(after.syncs - before.syncs) : 0);
    fflush(stdout);
}

static void all(void *arg)
{
    static const uint32_t sizes[] = { 4u << 20, 64u << 10, 4u << 10 };
    static const unsigned crowds[] = { 1, 8, 32 };

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (size_t c = 0; c < ARRAY_LEN(crowds); c++) {
            for (int gets = 0; gets < 2; gets++) {
                struct run *r = calloc(1, sizeof *r);

                if (!r)
                    must(RC_NO_MEM, "run");
                r->store = arg;
                r->size = sizes[s];
                r->workers = crowds[c];
                r->gets = gets;
                measure(r);
                free(r);
            }
            for (unsigned i = 0; i < crowds[c]; i++) {
                must(data_remove(arg, workers[i].kept, workers[i].kept_n), "remove");
                workers[i].kept_n = 0;
            }
        }
}

static void clean(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(directory);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/bench_data_XXXXXX";
    struct data_local_config cfg = { .directory = argc > 1 ? argv[1] : mkdtemp(made) };
    struct rt_config rt_cfg = { .loops = 0 };
    struct data *d = NULL;
    struct rt *rt = NULL;

    seconds = argc > 2 ? strtod(argv[2], NULL) : seconds;
    cfg.heads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    must(data_local_open(&cfg, &d), "open");
    must(rt_start(&rt_cfg, &rt), "runtime");
    must(rt_run(rt, all, d), "run");
    rt_stop(rt);
    data_close(d);
    if (argc <= 1)
        clean(cfg.directory);
    return 0;
}
