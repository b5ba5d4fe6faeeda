/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt_priv — what the files of the runtime share: loops, fibers, contexts, the pool of threads.
 *
 * Owns:    see each struct.
 * Threads: fields are loop-owned unless a comment says otherwise.
 */
#ifndef STRATA_RT_RT_PRIV_H
#define STRATA_RT_RT_PRIV_H

#include "rt/io.h"
#include "rt/rt.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#if defined(__SANITIZE_ADDRESS__)
#define RT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define RT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RT_TSAN 1
#endif
#endif

/* Counters are written by one loop and read by rt_stats on any thread. */
#define STAT_ADD(x, n) __atomic_store_n(&(x), (x) + (n), __ATOMIC_RELAXED)
#define STAT_GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

/* ---- contexts: switch_*.S, switch_ucontext.c ------------------------------------------------- */

/* -DRT_UCONTEXT chooses the portable one everywhere. */
#if !defined(RT_UCONTEXT) && (defined(__x86_64__) || defined(__aarch64__))
struct ctx {
    void *sp;
};
#else
#include <ucontext.h>
struct ctx {
    void *sp; /* about where it was when it switched away */
    ucontext_t uc;
};
#endif

/* Saves the registers that calls keep in *from and goes on where *to was saved. */
void ctx_switch(struct ctx *from, struct ctx *to);
/* Makes ctx_switch enter `entry`, which never returns, on a stack that ends below top. */
void ctx_init(struct ctx *c, void *stack_lo, void *stack_top, void (*entry)(void));

/* ---- fibers ---------------------------------------------------------------------------------- */

/* Lives at the top of its own stack's mapping. */
struct fiber {
    struct ctx ctx;
    struct loop *loop;
    struct fiber *next; /* in the ready queue or in the loop's pool */
    void (*fn)(void *arg);
    void *arg;
    struct waiter *waiting; /* parked here and may be interrupted; else NULL */
    struct waiter *joiner;
    int64_t deadline_ns;
    struct loop_timer timer; /* of the present wait */
    enum rc wait_rc;
    bool cancelled, joinable, ended, trimmed;
    struct fiber *all_next, **all_prev; /* the loop's list of living fibers */
    struct loop_task arrival;           /* when spawned from elsewhere */
    char *map;                          /* guard, stack, this struct */
    size_t map_size, guard_size;
    unsigned valgrind_id;
    void *asan_fake, *tsan;
    struct note note;
};

/* ---- loops ----------------------------------------------------------------------------------- */

#define LOOP_EVENTS 128

struct loop {
    /* Read or written by posters. */
    struct loop_task *inbox __attribute__((aligned(64))); /* atomic; newest first */
    int sleeping; /* atomic; a poster that clears it wakes */
    int event_fd;

    struct rt *rt __attribute__((aligned(64)));
    unsigned index;
    pthread_t thread;
    int epoll_fd;
    int64_t now_ns;
    bool cancelling; /* rt_stop began: fibers are born cancelled */
    bool ending;     /* leave when no fiber is left */
    struct loop_task cancel_task, end_task;

    struct fiber *running;
    struct ctx ctx; /* of the loop itself, while a fiber runs */
    struct fiber *ready_head, **ready_tail;
    struct fiber *all;
    unsigned fibers; /* in `all` */

    struct fiber *pool; /* last used first */
    unsigned pool_n, released;
    struct loop_timer trim_timer;

    struct loop_timer **heap; /* 1-based 4-ary heap */
    size_t heap_n, heap_cap, user_timers;

    struct epoll_event events[LOOP_EVENTS];
    int event_pos, event_n; /* being dispatched */

    uint64_t switches, wakeups, timers_fired, posts, stack_high_water;
    const void *asan_bottom;
    size_t asan_size;
    void *asan_fake, *tsan;
    void *signal_stack;
};

/* Makes f run in its turn. */
static inline void loop_ready(struct loop *l, struct fiber *f)
{
    f->next = NULL;
    *l->ready_tail = f;
    l->ready_tail = &f->next;
}

extern _Thread_local struct loop *loop_self;

enum rc loop_init(struct loop *l, struct rt *rt, unsigned index) MUST_CHECK;
void loop_fini(struct loop *l); /* its thread has ended or never ran */
void *loop_main(void *loop);

/* timer.c */
enum rc timers_init(struct loop *l, size_t fibers_max) MUST_CHECK;
void timers_fini(struct loop *l);
void timers_fire(struct loop *l);
/* A fiber's own timer: its place in the heap is reserved. */
void timer_start_reserved(struct loop *l, struct loop_timer *t, int64_t at_ns);
void fiber_timeout(struct loop_timer *t);

/* fiber.c */
void fiber_run(struct loop *l, struct fiber *f); /* from the loop's own stack */
void fiber_park(struct fiber *f);                /* back to the loop */
void fiber_interrupt(struct fiber *f, enum rc rc);
void fiber_pool_free(struct loop *l);

/* stack.c */
enum rc stack_new(size_t stack_size, struct fiber **ret) MUST_CHECK;
void stack_free(struct fiber *f);
size_t stack_resident(const struct fiber *f); /* bytes ever touched since the last trim */
void stack_trim(struct fiber *f);
void stack_guard_install(void);
void stack_guard_restore(void);
void *stack_signal_enter(void); /* alternate signal stack of the calling thread; NULL: none */
void stack_signal_leave(void *stack);

/* io.c */
void io_dispatch(struct io *io, uint32_t events);

/* ---- the pool of threads: offload.c ---------------------------------------------------------- */

#define OFFLOAD_QUEUE_MAX 4096

struct offload_pool {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;
    struct offload_job *head, **tail;
    unsigned queued, idle;
    bool closed;
    pthread_t *threads;
    unsigned threads_n;
    uint64_t started;
};
enum rc offload_pool_start(struct offload_pool *p, unsigned threads) MUST_CHECK;
void offload_pool_stop(struct offload_pool *p); /* runs what is queued, then joins */

/* ---- the runtime: rt.c ----------------------------------------------------------------------- */

struct rt {
    unsigned loops_n, started;
    struct loop *loops;
    size_t stack_size;
    unsigned fibers_max;
    unsigned fibers_now, fibers_peak; /* atomic */
    uint64_t fibers_refused;          /* atomic */
    bool closed;                      /* atomic: no more spawns */
    bool stopping;                    /* atomic */
    pthread_mutex_t lock;             /* with all_ended: fibers_now became 0 */
    pthread_cond_t all_ended;
    pthread_mutex_t spare_lock; /* guards spare, spare_n */
    struct fiber *spare;        /* what overflows the loops' pools, for spawns from elsewhere */
    unsigned spare_n;
    struct offload_pool pool;
    struct sigaction old_sigpipe;
};

extern struct rt *rt_the; /* the one that runs; NULL when none */

/* Counts a fiber in, or refuses. */
enum rc rt_fiber_enter(struct rt *rt) MUST_CHECK;
void rt_fiber_leave(struct rt *rt);

#endif
