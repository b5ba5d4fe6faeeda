/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt — the runtime: one event loop per core, fibers pinned to loops, and a pool of threads for what blocks.
 *
 * Code on a fiber reads top to bottom. Every wait parks the fiber and lets its loop run others.
 *
 * Owns:    loops, pool threads and all fibers, from rt_start to rt_stop.
 * Errors:  a wait ends with RC_TIMEOUT at its deadline and RC_CANCELLED when the fiber was cancelled.
 * Threads: functions marked [any] may be called from every thread; the rest from a fiber or a callback
 *          of the loop that they act on.
 */
#ifndef STRATA_RT_RT_H
#define STRATA_RT_RT_H

#include "base/fail.h"

struct rt;
struct loop;
struct fiber;

struct rt_config {
    unsigned loops;           /* 0: one per online CPU */
    unsigned offload_threads; /* 0: 4 + 2 per CPU */
    size_t stack_size;        /* of a fiber, bytes of address space; 0: 256 KiB */
    unsigned fibers_max;      /* all loops together; 0: 100,000 */
};

/* Starts loops and pool threads. At most one runtime at a time in a process. SIGPIPE is ignored until rt_stop;
 * the runtime's threads block all other signals but those of faults. Before Linux 6.13 a stack takes two
 * mappings: vm.max_map_count bounds the fibers too (RC_NO_MEM). */
enum rc rt_start(const struct rt_config *cfg, struct rt **ret_rt) MUST_CHECK;
/* Cancels every fiber, waits until all have ended, joins all threads, frees everything. Not from a fiber. */
void rt_stop(struct rt *rt);
unsigned rt_loops(const struct rt *rt);                     /* [any] */
struct loop *rt_loop(const struct rt *rt, unsigned index);  /* [any] */

/* Runs fn on a fiber of loop 0 and waits for its end: for main() and tests. Not from a fiber. RC_NO_MEM. */
enum rc rt_run(struct rt *rt, void (*fn)(void *arg), void *arg) MUST_CHECK;

struct rt_stats {
    uint64_t switches, wakeups, timers_fired, posts, offloads;
    uint64_t fibers_now, fibers_peak, fibers_refused, stack_high_water; /* bytes, deepest seen */
    uint64_t offload_queued;
};
void rt_stats(const struct rt *rt, struct rt_stats *ret); /* [any] sums over the loops, not one instant */

/* ---- loops ---------------------------------------------------------------------------------- */

/* The loop of the calling thread; NULL on threads that are none. */
struct loop *loop_current(void);
unsigned loop_index(const struct loop *l); /* [any] */
/* Monotonic time read once per round of the loop: cheap, up to a round old. */
int64_t loop_now_ns(const struct loop *l);
struct rt *loop_rt(const struct loop *l); /* [any] */

/* A message to a loop. The poster keeps the storage valid until run is called, on the loop, in posting
 * order per poster; run may free it. */
struct loop_task {
    struct loop_task *next; /* private */
    void (*run)(struct loop_task *t);
};
void loop_post(struct loop *l, struct loop_task *t); /* [any] */
/* Posts a chain linked by next in one step (one wake-up): for completion threads. */
void loop_post_chain(struct loop *l, struct loop_task *first, struct loop_task *last); /* [any] */

/* A timer with a callback on the loop (not a fiber). Caller's storage; zeroed is stopped. */
struct loop_timer {
    void (*fire)(struct loop_timer *t);
    int64_t at_ns;   /* monotonic */
    size_t heap_pos; /* private; 0 = stopped */
    struct loop *loop;
};
/* (Re)starts t at a monotonic time. Fires once. RC_NO_MEM. */
enum rc loop_timer_start(struct loop *l, struct loop_timer *t, int64_t at_ns) MUST_CHECK;
void loop_timer_stop(struct loop_timer *t);

/* ---- fibers --------------------------------------------------------------------------------- */

#define NO_DEADLINE INT64_MAX

/* Starts fn(arg) on a new fiber of l; runs soon, not at once. RC_NO_MEM, RC_UNAVAILABLE at fibers_max. */
enum rc fiber_spawn(struct loop *l, void (*fn)(void *arg), void *arg) MUST_CHECK; /* [any] */
/* As fiber_spawn, from the loop itself and with a handle: the caller must end with fiber_join. */
enum rc fiber_spawn_joinable(struct loop *l, void (*fn)(void *arg), void *arg,
                             struct fiber **ret) MUST_CHECK;
/* Waits for f's end, not interrupted by cancellation, and frees the handle. */
void fiber_join(struct fiber *f);
struct fiber *fiber_current(void); /* NULL when not on a fiber */

/* The present wait of f, and each later one until fiber_uncancel, ends with RC_CANCELLED. Same loop. */
void fiber_cancel(struct fiber *f);
bool fiber_cancelled(void);
/* Lets the running fiber wait again (to clean up); returns whether it had been cancelled. */
bool fiber_uncancel(void);
/* A deadline (monotonic ns) for every wait of the running fiber, on top of each wait's own.
 * Returns the previous one, for the caller to put back. */
int64_t fiber_set_deadline(int64_t at_ns);

void fiber_yield(void); /* lets others that are ready run once */
enum rc fiber_sleep_ms(int64_t ms) MUST_CHECK;
enum rc fiber_sleep_until(int64_t at_ns) MUST_CHECK;

/* The primitive under all waits. One fiber parks on a waiter, anybody wakes it, once per park.
 *   struct waiter w; waiter_init(&w); …hand &w to the waker…; rc = waiter_wait(&w, deadline_ns);
 * A wake before the wait is not lost. After RC_TIMEOUT or RC_CANCELLED the waker may still call
 * waiter_wake later: the storage must be kept until it has, or the waker must be told not to. */
struct waiter {
    struct loop_task task; /* private from here on */
    struct fiber *fiber;
    struct loop *loop;
    int state; /* atomic */
};
void waiter_init(struct waiter *w); /* on the fiber that will wait */
enum rc waiter_wait(struct waiter *w, int64_t deadline_ns) MUST_CHECK;
/* Waits for the wake alone: neither deadline nor cancellation ends it. */
void waiter_wait_always(struct waiter *w);
void waiter_wake(struct waiter *w);       /* [any] */
void waiter_wake_local(struct waiter *w); /* from the same loop: no inbox, no eventfd */
/* For threads that wake many: prepares the wake-up and gives the task to pass to loop_post_chain
 * on w->loop; NULL when nobody needs it. */
struct loop_task *waiter_wake_task(struct waiter *w); /* [any] */

/* ---- blocking work -------------------------------------------------------------------------- */

/* Runs fn(arg) on a pool thread and parks until it is done (always: neither deadline nor cancellation
 * ends the wait, so arg may live on the stack). Off fibers it runs fn inline. RC_UNAVAILABLE when the
 * queue is full (then fn did not run). note_slot points to the fiber's note inside fn. */
enum rc offload(void (*fn)(void *arg), void *arg) MUST_CHECK;
/* Queues fn(arg) on the pool without waiting. done->run is then called on `l`. */
struct offload_job {
    struct loop_task done;
    void (*fn)(void *arg);
    void *arg;
    struct loop *loop;
    struct offload_job *next; /* private */
};
enum rc offload_start(struct offload_job *job) MUST_CHECK; /* [any] */

#endif
