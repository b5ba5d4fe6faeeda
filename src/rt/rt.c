/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the runtime.
 *
 * rt_stop goes in steps: cancel all fibers and wait until none is left; run out the pool of
 * threads, whose last completions still find their loops; refuse new fibers; let each loop end once
 * its inbox is empty.
 */
#include "rt/rt_priv.h"

#include <sched.h>
#include <stdio.h>

struct rt *rt_the;

static unsigned cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (unsigned)MAX(CPU_COUNT(&set), 1);
}

/* Signals of the process are for main's thread; the others keep only those that a fault raises. */
static void block_signals(sigset_t *ret_old)
{
    sigset_t set;

    sigfillset(&set);
    sigdelset(&set, SIGSEGV);
    sigdelset(&set, SIGBUS);
    sigdelset(&set, SIGFPE);
    sigdelset(&set, SIGILL);
    sigdelset(&set, SIGABRT);
    sigdelset(&set, SIGTRAP);
    sigdelset(&set, SIGSYS);
    sigdelset(&set, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &set, ret_old);
}

static void on_cancel(struct loop_task *t)
{
    struct loop *l = container_of(t, struct loop, cancel_task);

    l->cancelling = true;
    for (struct fiber *f = l->all; f; f = f->all_next)
        fiber_cancel(f);
}

static void on_end(struct loop_task *t)
{
    container_of(t, struct loop, end_task)->ending = true;
}

static void end_loops(struct rt *rt)
{
    __atomic_store_n(&rt->closed, true, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < rt->started; i++) {
        rt->loops[i].end_task.run = on_end;
        loop_post(&rt->loops[i], &rt->loops[i].end_task);
    }
    for (unsigned i = 0; i < rt->started; i++)
        pthread_join(rt->loops[i].thread, NULL);
}

static void free_rt(struct rt *rt)
{
    for (unsigned i = 0; i < rt->loops_n; i++)
        loop_fini(&rt->loops[i]);
    free(rt->loops);
    pthread_cond_destroy(&rt->all_ended);
    pthread_mutex_destroy(&rt->lock);
    pthread_mutex_destroy(&rt->spare_lock);
    stack_guard_restore();
    sigaction(SIGPIPE, &rt->old_sigpipe, NULL);
    rt_the = NULL;
    free(rt);
}

static enum rc start_threads(struct rt *rt, unsigned offload_threads)
{
    enum rc rc = offload_pool_start(&rt->pool, offload_threads);

    if (rc != RC_OK)
        return rc;
    for (; rt->started < rt->loops_n; rt->started++) {
        struct loop *l = &rt->loops[rt->started];

        if (pthread_create(&l->thread, NULL, loop_main, l) != 0) {
            offload_pool_stop(&rt->pool);
            end_loops(rt);
            return fail_rc(RC_NO_MEM, "cannot start the thread of loop %u", l->index);
        }
    }
    return RC_OK;
}

static enum rc make_loops(struct rt *rt, unsigned n)
{
    rt->loops = aligned_alloc(64, n * sizeof *rt->loops);
    if (!rt->loops)
        return RC_NO_MEM;
    for (unsigned i = 0; i < n; i++) {
        enum rc rc = loop_init(&rt->loops[i], rt, i);

        if (rc != RC_OK)
            return rc;
        rt->loops_n++;
    }
    return RC_OK;
}

enum rc rt_start(const struct rt_config *cfg, struct rt **ret_rt)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct rt *rt = calloc(1, sizeof *rt);
    sigset_t old;
    enum rc rc;

    assert(!rt_the);
    if (!rt)
        return RC_NO_MEM;
    rt->fibers_max = cfg->fibers_max ? cfg->fibers_max : 100000;
    rt->stack_size = MAX(cfg->stack_size ? cfg->stack_size : 256 << 10, (size_t)16 << 10);
#if defined(RT_ASAN) || defined(RT_TSAN)
    rt->stack_size *= 2; /* instrumented frames are larger */
#endif
    pthread_mutex_init(&rt->lock, NULL);
    pthread_cond_init(&rt->all_ended, NULL);
    pthread_mutex_init(&rt->spare_lock, NULL);
    sigaction(SIGPIPE, &ignore, &rt->old_sigpipe);
    stack_guard_install();
    rt_the = rt;
    rc = make_loops(rt, cfg->loops ? cfg->loops : cpus());
    if (rc == RC_OK) {
        block_signals(&old);
        rc = start_threads(rt, cfg->offload_threads ? cfg->offload_threads : 4 + 2 * cpus());
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (rc != RC_OK) {
        free_rt(rt);
        return rc;
    }
    *ret_rt = rt;
    return RC_OK;
}

void rt_stop(struct rt *rt)
{
    assert(!loop_self);
    __atomic_store_n(&rt->stopping, true, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < rt->loops_n; i++) {
        rt->loops[i].cancel_task.run = on_cancel;
        loop_post(&rt->loops[i], &rt->loops[i].cancel_task);
    }
    pthread_mutex_lock(&rt->lock);
    while (__atomic_load_n(&rt->fibers_now, __ATOMIC_SEQ_CST) > 0)
        pthread_cond_wait(&rt->all_ended, &rt->lock);
    pthread_mutex_unlock(&rt->lock);
    offload_pool_stop(&rt->pool);
    end_loops(rt);
    free_rt(rt);
}

enum rc rt_fiber_enter(struct rt *rt)
{
    unsigned now = __atomic_add_fetch(&rt->fibers_now, 1, __ATOMIC_SEQ_CST);
    unsigned peak = __atomic_load_n(&rt->fibers_peak, __ATOMIC_RELAXED);

    if (now > rt->fibers_max || __atomic_load_n(&rt->closed, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&rt->fibers_refused, 1, __ATOMIC_RELAXED);
        rt_fiber_leave(rt);
        return fail_rc(RC_UNAVAILABLE, "too many fibers");
    }
    while (now > peak && !__atomic_compare_exchange_n(&rt->fibers_peak, &peak, now, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return RC_OK;
}

void rt_fiber_leave(struct rt *rt)
{
    if (__atomic_sub_fetch(&rt->fibers_now, 1, __ATOMIC_SEQ_CST) > 0 ||
        !__atomic_load_n(&rt->stopping, __ATOMIC_SEQ_CST))
        return;
    pthread_mutex_lock(&rt->lock);
    pthread_cond_broadcast(&rt->all_ended);
    pthread_mutex_unlock(&rt->lock);
}

unsigned rt_loops(const struct rt *rt)
{
    return rt->loops_n;
}

struct loop *rt_loop(const struct rt *rt, unsigned index)
{
    assert(index < rt->loops_n);
    return &rt->loops[index];
}

struct run {
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
};

static void run_and_tell(void *arg)
{
    struct run *r = arg;

    r->fn(r->arg);
    pthread_mutex_lock(&r->lock);
    r->done = true;
    pthread_cond_signal(&r->ended);
    pthread_mutex_unlock(&r->lock);
}

enum rc rt_run(struct rt *rt, void (*fn)(void *arg), void *arg)
{
    struct run r = { .fn = fn, .arg = arg };
    enum rc rc;

    assert(!fiber_current());
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.ended, NULL);
    rc = fiber_spawn(&rt->loops[0], run_and_tell, &r);
    if (rc == RC_OK) {
        pthread_mutex_lock(&r.lock);
        while (!r.done)
            pthread_cond_wait(&r.ended, &r.lock);
        pthread_mutex_unlock(&r.lock);
    }
    pthread_cond_destroy(&r.ended);
    pthread_mutex_destroy(&r.lock);
    return rc;
}

void rt_stats(const struct rt *rt, struct rt_stats *ret)
{
    struct rt_stats s = {
        .fibers_now = STAT_GET(rt->fibers_now),
        .fibers_peak = STAT_GET(rt->fibers_peak),
        .fibers_refused = STAT_GET(rt->fibers_refused),
        .offloads = STAT_GET(rt->pool.started),
        .offload_queued = STAT_GET(rt->pool.queued),
    };

    for (unsigned i = 0; i < rt->loops_n; i++) {
        const struct loop *l = &rt->loops[i];

        s.switches += STAT_GET(l->switches);
        s.wakeups += STAT_GET(l->wakeups);
        s.timers_fired += STAT_GET(l->timers_fired);
        s.posts += STAT_GET(l->posts);
        s.stack_high_water = MAX(s.stack_high_water, STAT_GET(l->stack_high_water));
    }
    *ret = s;
}
