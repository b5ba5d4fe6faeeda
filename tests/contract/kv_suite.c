/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_suite_priv.h"

#include "base/clock.h"
#include "rt/sync.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define LOOPS 2u
#define PARALLEL_MAX 64u
#define CASES_MAX 128u

void kv_check_failed(const char *file, int line, const char *what, enum rc rc)
{
    fprintf(stderr, "%s:%d: check failed: %s (%s) %s\n", file, line, what, rc_name(rc),
            note_text());
    abort();
}

unsigned kv_effort(const struct kv_env *env, unsigned steps)
{
    return MAX(steps * env->suite->effort / 100, 1u);
}

void kv_sleep_ms(int64_t ms)
{
    if (fiber_current())
        CHECK_OK(fiber_sleep_ms(ms));
    else
        usleep((useconds_t)ms * 1000);
}

uint64_t kv_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(2685821657736338717) >> 8;
}

/* ---- workers -------------------------------------------------------------------------------- */

struct worker {
    struct kv_env *env;
    unsigned i;
    void (*fn)(struct kv_env *, unsigned, void *);
    void *arg;
    struct wait_group *group;
    pthread_t thread;
};

static void run_on_fiber(void *arg)
{
    struct worker *w = arg;

    w->fn(w->env, w->i, w->arg);
    wait_group_done(w->group);
}

static void *run_on_thread(void *arg)
{
    struct worker *w = arg;

    w->fn(w->env, w->i, w->arg);
    return NULL;
}

static void parallel_fibers(struct kv_env *env, struct worker *workers, unsigned n)
{
    struct wait_group group;

    wait_group_init(&group);
    wait_group_add(&group, n);
    for (unsigned i = 0; i < n; i++) {
        workers[i].group = &group;
        CHECK_OK(fiber_spawn(rt_loop(env->rt, i % rt_loops(env->rt)), run_on_fiber, &workers[i]));
    }
    CHECK_OK(wait_group_wait(&group, NO_DEADLINE));
    wait_group_fini(&group);
}

void kv_parallel(struct kv_env *env, unsigned n, void (*fn)(struct kv_env *, unsigned i, void *arg),
                 void *arg)
{
    struct worker *workers = calloc(n, sizeof *workers);

    CHECK(workers && n <= PARALLEL_MAX);
    for (unsigned i = 0; i < n; i++)
        workers[i] = (struct worker){ .env = env, .i = i, .fn = fn, .arg = arg };
    if (env->rt) {
        parallel_fibers(env, workers, n);
    } else {
        for (unsigned i = 0; i < n; i++)
            CHECK(!pthread_create(&workers[i].thread, NULL, run_on_thread, &workers[i]));
        for (unsigned i = 0; i < n; i++)
            CHECK(!pthread_join(workers[i].thread, NULL));
    }
    free(workers);
}

/* ---- short forms ---------------------------------------------------------------------------- */

static enum rc write_one(struct kv_txn *txn, void *arg)
{
    return kv_txn_write(txn, arg);
}

void kv_put1(struct kv_env *env, struct slice partition, struct slice key, struct slice value)
{
    struct kv_write w = { .kind = KV_PUT, .partition = partition, .key = key, .value = value };

    CHECK_OK(kv_transact(env->kv, partition, write_one, &w));
}

void kv_delete1(struct kv_env *env, struct slice partition, struct slice key)
{
    struct kv_write w = { .kind = KV_DELETE, .partition = partition, .key = key };

    CHECK_OK(kv_transact(env->kv, partition, write_one, &w));
}

uint64_t kv_version1(struct kv_env *env, struct slice partition, struct slice key)
{
    struct arena a;
    struct kv_item item;
    enum rc rc;

    arena_init(&a, SIZE_MAX);
    rc = kv_get(env->kv, partition, key, &a, &item);
    arena_fini(&a);
    if (rc == RC_NOT_FOUND)
        return 0;
    CHECK_OK(rc);
    CHECK(item.version != 0);
    return item.version;
}

void kv_expect(struct kv_env *env, struct slice partition, struct slice key, struct slice value)
{
    struct arena a;
    struct kv_item item;

    arena_init(&a, SIZE_MAX);
    CHECK_OK(kv_get(env->kv, partition, key, &a, &item));
    CHECK(slice_eq(item.key, key));
    CHECK(slice_eq(item.value, value));
    CHECK(item.version != 0);
    arena_fini(&a);
}

void kv_expect_absent(struct kv_env *env, struct slice partition, struct slice key)
{
    CHECK(kv_version1(env, partition, key) == 0);
}

void kv_expect_keys(struct kv_env *env, const struct kv_range *range, const struct slice *keys,
                    unsigned n)
{
    struct kv_scan *scan;
    struct kv_item item;

    CHECK_OK(kv_scan_open(env->kv, range, &scan));
    for (unsigned i = 0; i < n; i++) {
        CHECK_OK(kv_scan_next(scan, &item));
        CHECK(slice_eq(item.key, keys[i]));
        CHECK(item.version != 0);
    }
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    kv_scan_close(scan);
}

void kv_counters1(struct kv_env *env, struct slice partition, struct slice key, int64_t *columns,
                  unsigned n)
{
    struct arena a;
    struct kv_item item;

    arena_init(&a, SIZE_MAX);
    CHECK_OK(kv_get(env->kv, partition, key, &a, &item));
    CHECK_OK(kv_counters_decode(item.value, columns, n));
    arena_fini(&a);
}

/* ---- running -------------------------------------------------------------------------------- */

struct run {
    const struct kv_case *c;
    struct kv_env env;
    char name[160];
};

static void run_body(void *arg)
{
    struct run *r = arg;

    r->c->fn(&r->env);
}

static void run_case(void **state)
{
    struct run *r = *state;
    const struct kv_suite *suite = r->env.suite;

    assert_int_equal(suite->open(suite->arg, &r->env.kv), RC_OK);
    if (r->env.rt)
        assert_int_equal(rt_run(r->env.rt, run_body, r), RC_OK);
    else
        run_body(r);
    kv_close(STEAL(r->env.kv));
    if (suite->clean)
        suite->clean(suite->arg);
}

static unsigned add_cases(struct run *runs, unsigned n, const struct kv_env *env,
                          const struct kv_case *cases, unsigned cases_n)
{
    for (unsigned i = 0; i < cases_n; i++) {
        if (cases[i].needs_reopen && !(env->suite->reopen && env->suite->durable))
            continue;
        assert(n < CASES_MAX);
        runs[n] = (struct run){ .c = &cases[i], .env = *env };
        snprintf(runs[n].name, sizeof runs[n].name, "%s, %s: %s", env->suite->name,
                 env->rt ? "fibers" : "threads", cases[i].name);
        n++;
    }
    return n;
}

static int run_mode(const struct kv_suite *suite, struct rt *rt)
{
    struct kv_env env = { .suite = suite, .rt = rt };
    struct run *runs = calloc(CASES_MAX, sizeof *runs);
    struct CMUnitTest *tests = calloc(CASES_MAX, sizeof *tests);
    unsigned n = 0;
    int failed;

    CHECK(runs && tests);
    n = add_cases(runs, n, &env, kv_basic_cases, kv_basic_cases_n);
    n = add_cases(runs, n, &env, kv_txn_cases, kv_txn_cases_n);
    n = add_cases(runs, n, &env, kv_many_cases, kv_many_cases_n);
    n = add_cases(runs, n, &env, kv_model_cases, kv_model_cases_n);
    for (unsigned i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){ .name = runs[i].name,
                                        .test_func = run_case,
                                        .initial_state = &runs[i] };
    failed = _cmocka_run_group_tests(suite->name, tests, n, NULL, NULL);
    free(tests);
    free(runs);
    return failed;
}

int kv_suite_run(const struct kv_suite *suite)
{
    int failed = 0;

    if (suite->modes & KV_SUITE_THREADS)
        failed += run_mode(suite, NULL);
    if (suite->modes & KV_SUITE_FIBERS) {
        struct rt *rt;

        CHECK_OK(rt_start(&(struct rt_config){ .loops = LOOPS, .offload_threads = 4 }, &rt));
        failed += run_mode(suite, rt);
        rt_stop(rt);
    }
    return failed;
}
