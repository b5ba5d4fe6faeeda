/* SPDX-License-Identifier: Apache-2.0 */
/* What the domain model costs on the memory KV: puts, gets, listings, an idle GC pass. */
#include "base/clock.h"
#include "data/memory.h"
#include "kv/memory.h"
#include "object/object.h"
#include "rt/rt.h"

#include <stdio.h>

#define KEYS 100000u
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct bench {
    struct meta *meta;
    struct object_engine *engine;
    struct meta_bucket bucket;
    struct arena arena;
    uint64_t seen;
};

static struct slice make_key(char buf[32], unsigned i)
{
    return slice_of(buf, (size_t)snprintf(buf, 32, "dir%03u/key-%05u", i / 100, i % 100));
}

static void report(const char *what, int64_t start_ns, uint64_t n)
{
    double s = (double)(clock_thread_cpu_ns() - start_ns) / 1e9;

    printf("%-28s %10.3f us each, %12.0f /s of CPU\n", what, s / (double)n * 1e6, (double)n / s);
}

static enum rc source_read(void *arg, void *p, size_t n, size_t *ret_n)
{
    size_t *left = arg;

    if (!*left)
        return RC_EOF;
    n = MIN(n, *left);
    memset(p, 'x', n);
    *left -= n;
    *ret_n = n;
    return RC_OK;
}

static void bench_puts(struct bench *b)
{
    int64_t start = clock_thread_cpu_ns();
    char key[32];

    for (unsigned i = 0; i < KEYS; i++) {
        size_t left = 1024;
        struct object_source source = { .read = source_read, .arg = &left, .size = left };
        struct meta_object o = { .content_type = SLICE("binary/octet-stream") };
        struct arena a;

        arena_init(&a, 1 << 20);
        CHECK(!object_put(b->engine, &a, &b->bucket, make_key(key, i), &o, NULL, &source));
        arena_fini(&a);
    }
    report("put 1 KiB inline", start, KEYS);
}

static enum rc sink(void *arg, const void *p, size_t n)
{
    *(uint64_t *)arg += n;
    return RC_OK;
}

static void bench_gets(struct bench *b)
{
    int64_t start = clock_thread_cpu_ns();
    char key[32];

    for (unsigned i = 0; i < KEYS; i++) {
        struct meta_bucket bucket;
        struct meta_object o;
        struct arena a;

        arena_init(&a, 1 << 20);
        CHECK(!meta_bucket_get(b->meta, &a, SLICE("bench"), &bucket));
        CHECK(!meta_object_get(b->meta, &a, &bucket, make_key(key, i), false, &o));
        CHECK(!object_read(b->engine, &o, 0, o.head.size, sink, &b->seen));
        arena_fini(&a);
    }
    report("get 1 KiB inline", start, KEYS);
}

static enum rc count_entry(void *arg, const struct meta_list_entry *e)
{
    ++*(uint64_t *)arg;
    return RC_OK;
}

static uint64_t list_all(struct bench *b, struct slice delimiter)
{
    struct meta_list_params p = { .delimiter = delimiter, .max = 1000 };
    struct meta_list_result r;
    uint64_t n = 0;

    do {
        CHECK(!meta_list(b->meta, &b->arena, &b->bucket, &p, count_entry, &n, &r));
        p.after = r.next;
    } while (r.truncated);
    return n;
}

static void bench_lists(struct bench *b)
{
    int64_t start = clock_thread_cpu_ns();
    uint64_t n = 0, deleted;

    for (unsigned i = 0; i < 20; i++)
        n += list_all(b, SLICE_NONE);
    report("list, per key", start, n);
    start = clock_thread_cpu_ns();
    n = 0;
    for (unsigned i = 0; i < 100; i++)
        n += list_all(b, SLICE("/"));
    report("list of prefixes, per prefix", start, n);
    start = clock_thread_cpu_ns();
    CHECK(!object_gc_pass(b->engine, &deleted));
    report("idle GC pass", start, 1);
}

static void run(void *arg)
{
    struct bench *b = arg;

    b->bucket = (struct meta_bucket){ .name = SLICE("bench"), .owner = SLICE("bench") };
    CHECK(!meta_bucket_create(b->meta, &b->arena, &b->bucket));
    bench_puts(b);
    bench_gets(b);
    bench_lists(b);
}

int main(void)
{
    struct bench b = { 0 };
    struct data *data;
    struct kv *kv;
    struct rt *rt;

    arena_init(&b.arena, (size_t)1 << 30);
    CHECK(!kv_memory_open((size_t)4 << 30, &kv) && !data_memory_open((size_t)1 << 30, &data));
    CHECK(!meta_new(&(struct meta_config){ .kv = kv, .bucket_cache_ms = 1000 }, &b.meta));
    CHECK(!object_engine_new(
        &(struct object_config){ .meta = b.meta, .data = data, .inline_max = 65536 }, &b.engine));
    CHECK(!rt_start(&(struct rt_config){ .loops = 1 }, &rt));
    CHECK(!rt_run(rt, run, &b));
    rt_stop(rt);
    object_engine_free(b.engine);
    meta_free(b.meta);
    kv_close(kv);
    data_close(data);
    arena_fini(&b.arena);
    return 0;
}
