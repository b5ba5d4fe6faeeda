/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the runtime; one JSON object per line: {"bench":…,"per_second":…,"ns":…}. */
#include "base/clock.h"
#include "rt/io.h"
#include "rt/sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>

static void must(enum rc rc)
{
    if (rc == RC_OK)
        return;
    fprintf(stderr, "bench_rt: %s: %s\n", rc_name(rc), note_text());
    exit(1);
}

static void report(const char *name, int64_t n, int64_t t0_ns)
{
    double ns = (double)(clock_mono_ns() - t0_ns) / (double)n;

    printf("{\"bench\":\"%s\",\"n\":%" PRId64 ",\"per_second\":%.0f,\"ns\":%.1f}\n", name, n,
           1e9 / ns, ns);
    fflush(stdout);
}

/* ---- switches -------------------------------------------------------------------------------- */

#define YIELDS 2000000

static void yield_many(void *arg)
{
    for (int i = 0; i < YIELDS; i++)
        fiber_yield();
}

/* In and out of a fiber counts as one. */
static void switches(void)
{
    struct fiber *a, *b;
    int64_t t0 = clock_mono_ns();

    must(fiber_spawn_joinable(loop_current(), yield_many, NULL, &a));
    must(fiber_spawn_joinable(loop_current(), yield_many, NULL, &b));
    fiber_join(a);
    fiber_join(b);
    report("switch", 2 * YIELDS, t0);
}

/* ---- spawns ---------------------------------------------------------------------------------- */

#define SPAWNS 2000000

static void nothing(void *arg)
{
}

static void spawns(void)
{
    int64_t t0 = clock_mono_ns();

    for (int i = 0; i < SPAWNS; i++) {
        must(fiber_spawn(loop_current(), nothing, NULL));
        if (i % 16 == 15)
            fiber_yield();
    }
    report("spawn_run_end", SPAWNS, t0);
}

static void count_down(void *arg)
{
    wait_group_done(arg);
}

static void spawns_across(void)
{
    struct loop *other = rt_loop(loop_rt(loop_current()), 1);
    struct wait_group g;
    int64_t t0 = clock_mono_ns();
    int n = 50000;

    wait_group_init(&g);
    for (int i = 0; i < n; i += 500) {
        wait_group_add(&g, 500);
        for (int k = 0; k < 500; k++)
            must(fiber_spawn(other, count_down, &g));
        must(wait_group_wait(&g, NO_DEADLINE));
    }
    report("spawn_across_loops", n, t0);
    wait_group_fini(&g);
}

/* ---- wake-ups -------------------------------------------------------------------------------- */

#define ROUND_TRIPS 100000

struct table {
    struct fiber_sem there, back;
};

static void answer(void *arg)
{
    struct table *t = arg;

    for (int i = 0; i < ROUND_TRIPS; i++) {
        must(fiber_sem_wait(&t->there, 1, NO_DEADLINE));
        fiber_sem_post(&t->back, 1);
    }
}

static void ping_pong(const char *name, unsigned loop)
{
    struct table t;
    int64_t t0;

    fiber_sem_init(&t.there, 0);
    fiber_sem_init(&t.back, 0);
    must(fiber_spawn(rt_loop(loop_rt(loop_current()), loop), answer, &t));
    t0 = clock_mono_ns();
    for (int i = 0; i < ROUND_TRIPS; i++) {
        fiber_sem_post(&t.there, 1);
        must(fiber_sem_wait(&t.back, 1, NO_DEADLINE));
    }
    report(name, 2 * ROUND_TRIPS, t0);
    must(fiber_sleep_ms(5));
    fiber_sem_fini(&t.there);
    fiber_sem_fini(&t.back);
}

static void queue_reader(void *arg)
{
    void *item;

    while (fiber_queue_take(arg, &item, NO_DEADLINE) == RC_OK)
        ;
}

static void queue_across(void)
{
    struct fiber_queue q;
    int64_t t0 = clock_mono_ns();
    int n = 1000000;

    must(fiber_queue_init(&q, 256));
    must(fiber_spawn(rt_loop(loop_rt(loop_current()), 1), queue_reader, &q));
    for (int i = 0; i < n; i++)
        must(fiber_queue_put(&q, &q, NO_DEADLINE));
    fiber_queue_close(&q);
    report("queue_item_across_loops", n, t0);
    must(fiber_sleep_ms(5));
    fiber_queue_fini(&q);
}

static void offloads(void)
{
    int64_t t0 = clock_mono_ns();
    int n = 50000;

    for (int i = 0; i < n; i++)
        must(offload(nothing, NULL));
    report("offload", n, t0);
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void on_fire(struct loop_timer *t)
{
}

static void timers(void)
{
    enum { N = 10000, ROUNDS = 100 };
    struct loop_timer *t = calloc(N, sizeof *t);
    int64_t t0 = clock_mono_ns();

    if (!t)
        exit(1);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < N; i++) {
            t[i].fire = on_fire;
            must(loop_timer_start(loop_current(), &t[i], t0 + NS_PER_S * 60 + i * 7919 % 10007));
        }
        for (int i = 0; i < N; i++)
            loop_timer_stop(&t[i]);
    }
    report("timer_start_stop", N * ROUNDS, t0);
    t0 = clock_mono_ns();
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < N; i++)
            must(loop_timer_start(loop_current(), &t[i], t0 - i * 7919 % 10007));
        fiber_yield();
        must(fiber_sleep_ms(0));
        while (t[0].heap_pos)
            fiber_yield();
    }
    report("timer_fire", N * ROUNDS, t0);
    free(t);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void echo(void *arg)
{
    struct io io;
    char c;
    size_t n;

    must(io_init(&io, (int)(intptr_t)arg));
    while (io_read(&io, &c, 1, &n, NO_DEADLINE) == RC_OK)
        must(io_write(&io, &c, 1, NO_DEADLINE));
    io_close(&io);
}

static void sockets(void)
{
    int fd[2], n = 100000;
    struct io io;
    int64_t t0;
    size_t got;
    char c = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
        exit(1);
    must(io_init(&io, fd[0]));
    must(fiber_spawn(loop_current(), echo, (void *)(intptr_t)fd[1]));
    t0 = clock_mono_ns();
    for (int i = 0; i < n; i++) {
        must(io_write(&io, &c, 1, NO_DEADLINE));
        must(io_read(&io, &c, 1, &got, clock_mono_ns() + 10 * NS_PER_S));
    }
    report("socket_round_trip_one_loop", n, t0);
    io_close(&io);
}

static void all(void *arg)
{
    switches();
    spawns();
    spawns_across();
    ping_pong("wake_same_loop", 0);
    ping_pong("wake_across_loops", 1);
    queue_across();
    offloads();
    timers();
    sockets();
}

int main(void)
{
    struct rt *rt;

    must(rt_start(&(struct rt_config){ .loops = 2, .offload_threads = 2 }, &rt));
    must(rt_run(rt, all, NULL));
    rt_stop(rt);
    return 0;
}
