/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers and what they park on.
 *
 * A fiber is never torn down after its function: it waits in its loop's pool, inside fiber_entry,
 * for the next one. So a spawn touches only warm memory.
 *
 * Waiter states:
 *     INIT ──wait──▶ PARKED ──wake──▶ WOKEN      wake hands the waiter's task to the loop, which
 * readies the │              │                         fiber: the fiber stays parked until then, so
 * the │◀─time, cancel┘                         storage is safe └──wake──▶ WOKEN nothing to do: the
 * wait will return at once Every change is one atomic exchange, so of a wake, a timeout and a
 * cancellation exactly one wins.
 */
#include "rt/rt_priv.h"

#include "base/clock.h"

#ifdef RT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef RT_TSAN
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

#define POOL_MAX 256      /* stacks kept by a loop */
#define SPARE_MAX 1024    /* stacks kept for all loops */
#define POOL_RESERVE 64   /* of a loop's, so many keep their memory */
#define MEASURE_EVERY 256 /* releases per look at a stack's high-water mark */
#define TRIM_AFTER_NS NS_PER_S
#define TRIM_BATCH 64
#define TRIM_PAUSE_NS (10 * NS_PER_MS)

enum waiter_state { W_INIT, W_PARKED, W_WOKEN };

/* ---- switching ------------------------------------------------------------------------------- */

static void to_loop(struct fiber *f, bool for_good)
{
    struct loop *l = f->loop;

#ifdef RT_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &f->asan_fake, l->asan_bottom, l->asan_size);
#endif
#ifdef RT_TSAN
    __tsan_switch_to_fiber(l->tsan, 0);
#endif
    ctx_switch(&f->ctx, &l->ctx);
#ifdef RT_ASAN
    __sanitizer_finish_switch_fiber(f->asan_fake, &l->asan_bottom, &l->asan_size);
#endif
}

/* fn is NULL when the stack is about to be freed. */
static void fiber_entry(void)
{
    struct fiber *f = loop_self->running;

#ifdef RT_ASAN
    __sanitizer_finish_switch_fiber(NULL, &f->loop->asan_bottom, &f->loop->asan_size);
#endif
    while (f->fn) {
        f->fn(f->arg);
        f->ended = true;
        if (f->joiner)
            waiter_wake_local(f->joiner);
        to_loop(f, false);
    }
    to_loop(f, true);
    abort();
}

static void to_fiber(struct loop *l, struct fiber *f)
{
    l->running = f;
    note_slot = &f->note;
#ifdef RT_ASAN
    __sanitizer_start_switch_fiber(&l->asan_fake, f->map + f->guard_size,
                                   (size_t)((char *)f - f->map) - f->guard_size);
#endif
#ifdef RT_TSAN
    __tsan_switch_to_fiber(f->tsan, 0);
#endif
    ctx_switch(&l->ctx, &f->ctx);
#ifdef RT_ASAN
    __sanitizer_finish_switch_fiber(l->asan_fake, NULL, NULL);
#endif
    l->running = NULL;
    note_slot = NULL;
}

static void release(struct loop *l, struct fiber *f);

void fiber_run(struct loop *l, struct fiber *f)
{
    STAT_ADD(l->switches, 1);
    to_fiber(l, f);
    if (f->ended && !f->joinable)
        release(l, f);
}

void fiber_park(struct fiber *f)
{
    to_loop(f, false);
}

struct fiber *fiber_current(void)
{
    return loop_self ? loop_self->running : NULL;
}

/* ---- birth and death ------------------------------------------------------------------------- */

static void destroy(struct loop *l, struct fiber *f)
{
#ifdef RT_ASAN
    /* ASan frees what it keeps for a stack only when that leaves for good. */
    f->loop = l;
    f->fn = NULL;
    to_fiber(l, f);
#endif
    stack_free(f);
}

/* Pops one; NULL when there is none. */
static struct fiber *take_spare(struct rt *rt)
{
    struct fiber *f;

    pthread_mutex_lock(&rt->spare_lock);
    f = rt->spare;
    if (f) {
        rt->spare = f->next;
        rt->spare_n--;
    }
    pthread_mutex_unlock(&rt->spare_lock);
    return f;
}

static bool give_spare(struct rt *rt, struct fiber *f)
{
    bool room;

    pthread_mutex_lock(&rt->spare_lock);
    room = rt->spare_n < SPARE_MAX;
    if (room) {
        f->next = rt->spare;
        rt->spare = f;
        rt->spare_n++;
    }
    pthread_mutex_unlock(&rt->spare_lock);
    return room;
}

/* The last loop to end frees the last spare ones. */
void fiber_pool_free(struct loop *l)
{
    struct fiber *f;

    loop_timer_stop(&l->trim_timer);
    while ((f = l->pool)) {
        l->pool = f->next;
        destroy(l, f);
    }
    while ((f = take_spare(l->rt)))
        destroy(l, f);
}

static void measure(struct loop *l, const struct fiber *f)
{
    uint64_t n = stack_resident(f);

    if (n > l->stack_high_water)
        __atomic_store_n(&l->stack_high_water, n, __ATOMIC_RELAXED);
}

static void trim(struct loop_timer *t);

static void trim_later(struct loop *l, int64_t after_ns)
{
    enum rc rc;

    if (l->trim_timer.heap_pos)
        return;
    l->trim_timer.fire = trim;
    rc = loop_timer_start(l, &l->trim_timer, l->now_ns + after_ns);
    (void)rc; /* without memory: the next release tries again */
}

/* False when there is more to do. */
static bool trim_list(struct loop *l, struct fiber *f)
{
    unsigned i = 0, trimmed = 0;

    for (; f; f = f->next) {
        if (i++ < POOL_RESERVE || f->trimmed)
            continue;
        if (trimmed++ == TRIM_BATCH)
            return false;
        measure(l, f);
        stack_trim(f);
        f->trimmed = true;
    }
    return true;
}

/* Gives back the memory of stacks that a burst left behind. */
static void trim(struct loop_timer *t)
{
    struct loop *l = container_of(t, struct loop, trim_timer);
    bool done = trim_list(l, l->pool);

    pthread_mutex_lock(&l->rt->spare_lock);
    done &= trim_list(l, l->rt->spare);
    pthread_mutex_unlock(&l->rt->spare_lock);
    if (!done)
        trim_later(l, TRIM_PAUSE_NS);
}

/* Puts the stack of an ended fiber where the next spawn finds it. */
static void keep(struct loop *l, struct fiber *f)
{
    f->trimmed = false;
    if (l->pool_n < POOL_MAX) {
        f->next = l->pool;
        l->pool = f;
        if (++l->pool_n > POOL_RESERVE)
            trim_later(l, TRIM_AFTER_NS);
        return;
    }
    if (!give_spare(l->rt, f)) {
        measure(l, f);
        destroy(l, f);
    }
}

static void release(struct loop *l, struct fiber *f)
{
    *f->all_prev = f->all_next;
    if (f->all_next)
        f->all_next->all_prev = f->all_prev;
    l->fibers--;
    if (l->released++ % MEASURE_EVERY == 0)
        measure(l, f);
    keep(l, f);
    rt_fiber_leave(l->rt);
}

/* A new stack, ready to enter. */
static enum rc build(struct rt *rt, struct fiber **ret)
{
    struct fiber *f;
    enum rc rc = stack_new(rt->stack_size, &f);

    if (rc != RC_OK)
        return rc;
    ctx_init(&f->ctx, f->map + f->guard_size, f, fiber_entry);
    *ret = f;
    return RC_OK;
}

static void begin(struct loop *l, struct fiber *f, void (*fn)(void *arg), void *arg)
{
    f->loop = l;
    f->fn = fn;
    f->arg = arg;
    f->waiting = NULL;
    f->joiner = NULL;
    f->deadline_ns = NO_DEADLINE;
    f->timer.fire = fiber_timeout;
    f->timer.heap_pos = 0;
    f->joinable = f->ended = f->cancelled = false;
    f->note.error = S3E_NONE;
    f->note.text[0] = 0;
}

static void attach(struct loop *l, struct fiber *f)
{
    f->cancelled = l->cancelling;
    f->all_next = l->all;
    f->all_prev = &l->all;
    if (l->all)
        l->all->all_prev = &f->all_next;
    l->all = f;
    l->fibers++;
    loop_ready(l, f);
}

static void arrive(struct loop_task *t)
{
    struct fiber *f = container_of(t, struct fiber, arrival);

    attach(f->loop, f);
}

static enum rc spawn(struct loop *l, void (*fn)(void *arg), void *arg, struct fiber **ret)
{
    struct fiber *f;
    enum rc rc = rt_fiber_enter(l->rt);

    if (rc != RC_OK)
        return rc;
    if (l == loop_self && l->pool) {
        f = l->pool;
        l->pool = f->next;
        l->pool_n--;
    } else if (!(f = take_spare(l->rt))) {
        rc = build(l->rt, &f);
        if (rc != RC_OK) {
            rt_fiber_leave(l->rt);
            return fail_rc(rc, "no memory for another fiber");
        }
    }
    begin(l, f, fn, arg);
    *ret = f;
    return RC_OK;
}

enum rc fiber_spawn(struct loop *l, void (*fn)(void *arg), void *arg)
{
    struct fiber *f = NULL;
    enum rc rc = spawn(l, fn, arg, &f);

    if (rc != RC_OK)
        return rc;
    if (l == loop_self) {
        attach(l, f);
    } else {
        f->arrival.run = arrive;
        loop_post(l, &f->arrival);
    }
    return RC_OK;
}

enum rc fiber_spawn_joinable(struct loop *l, void (*fn)(void *arg), void *arg, struct fiber **ret)
{
    struct fiber *f = NULL;
    enum rc rc;

    assert(l == loop_self);
    rc = spawn(l, fn, arg, &f);
    if (rc != RC_OK)
        return rc;
    f->joinable = true;
    attach(l, f);
    *ret = f;
    return RC_OK;
}

void fiber_join(struct fiber *f)
{
    struct waiter w;

    assert(f->loop == loop_self && f->joinable && !f->joiner);
    if (!f->ended) {
        waiter_init(&w);
        f->joiner = &w;
        waiter_wait_always(&w);
    }
    f->joinable = false;
    release(f->loop, f);
}

/* ---- cancellation and deadlines -------------------------------------------------------------- */

static bool change(struct waiter *w, int from, int to)
{
    return __atomic_compare_exchange_n(&w->state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

void fiber_interrupt(struct fiber *f, enum rc rc)
{
    struct waiter *w = f->waiting;

    if (!w || !change(w, W_PARKED, W_INIT))
        return; /* does not wait, or its wake is on the way */
    f->waiting = NULL;
    f->wait_rc = rc;
    loop_ready(f->loop, f);
}

void fiber_timeout(struct loop_timer *t)
{
    fiber_interrupt(container_of(t, struct fiber, timer), RC_TIMEOUT);
}

void fiber_cancel(struct fiber *f)
{
    assert(f->loop == loop_self);
    f->cancelled = true;
    fiber_interrupt(f, RC_CANCELLED);
}

static struct fiber *self(void)
{
    struct fiber *f = fiber_current();

    assert(f);
    return f;
}

bool fiber_cancelled(void)
{
    return self()->cancelled;
}

bool fiber_uncancel(void)
{
    struct fiber *f = self();
    bool was = f->cancelled;

    f->cancelled = false;
    return was;
}

int64_t fiber_set_deadline(int64_t at_ns)
{
    struct fiber *f = self();
    int64_t was = f->deadline_ns;

    f->deadline_ns = at_ns;
    return was;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void woken(struct loop_task *t)
{
    struct waiter *w = container_of(t, struct waiter, task);

    w->fiber->waiting = NULL;
    w->fiber->wait_rc = RC_OK;
    loop_ready(w->loop, w->fiber);
}

void waiter_init(struct waiter *w)
{
    struct fiber *f = self();

    *w = (struct waiter){ .task.run = woken, .fiber = f, .loop = f->loop, .state = W_INIT };
}

enum rc waiter_wait(struct waiter *w, int64_t deadline_ns)
{
    struct fiber *f = self();
    int64_t at_ns = MIN(deadline_ns, f->deadline_ns);

    assert(w->fiber == f);
    if (__atomic_load_n(&w->state, __ATOMIC_ACQUIRE) == W_WOKEN)
        return RC_OK;
    if (f->cancelled)
        return RC_CANCELLED;
    if (at_ns <= f->loop->now_ns)
        return RC_TIMEOUT;
    if (!change(w, W_INIT, W_PARKED))
        return RC_OK;
    f->waiting = w;
    if (at_ns != NO_DEADLINE)
        timer_start_reserved(f->loop, &f->timer, at_ns);
    fiber_park(f);
    loop_timer_stop(&f->timer);
    return f->wait_rc;
}

void waiter_wait_always(struct waiter *w)
{
    struct fiber *f = self();

    assert(w->fiber == f);
    if (change(w, W_INIT, W_PARKED))
        fiber_park(f);
}

struct loop_task *waiter_wake_task(struct waiter *w)
{
    return __atomic_exchange_n(&w->state, W_WOKEN, __ATOMIC_ACQ_REL) == W_PARKED ? &w->task : NULL;
}

void waiter_wake(struct waiter *w)
{
    struct loop_task *t = waiter_wake_task(w);

    if (!t)
        return;
    if (w->loop == loop_self)
        woken(t);
    else
        loop_post(w->loop, t);
}

void waiter_wake_local(struct waiter *w)
{
    struct loop_task *t = waiter_wake_task(w);

    assert(!t || w->loop == loop_self);
    if (t)
        woken(t);
}

void fiber_yield(void)
{
    struct fiber *f = self();

    loop_ready(f->loop, f);
    fiber_park(f);
}

enum rc fiber_sleep_until(int64_t at_ns)
{
    struct waiter w;
    enum rc rc;

    waiter_init(&w);
    rc = waiter_wait(&w, at_ns);
    if (rc == RC_TIMEOUT && at_ns <= w.fiber->deadline_ns)
        return RC_OK;
    return rc;
}

enum rc fiber_sleep_ms(int64_t ms)
{
    return fiber_sleep_until(clock_mono_ns() + ms * NS_PER_MS);
}
