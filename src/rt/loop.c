/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop: one thread that runs its inbox, its timers and its ready fibers, then polls.
 *
 * Invariants:
 *  - The inbox is a stack of tasks, newest first; the loop takes it whole and turns it round, so
 * each poster's tasks run in order.
 *  - Before the loop blocks it sets `sleeping` and then looks at the inbox once more; a poster
 * pushes and then looks at `sleeping`. Both are sequentially consistent, so one of the two sees the
 * other. Whoever clears `sleeping` writes to the eventfd: at most one write per sleep.
 *  - The eventfd is edge-triggered and never read: each write is a new edge.
 */
#include "rt/rt_priv.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RUNS_PER_POLL 64

#ifdef RT_TSAN
void *__tsan_get_current_fiber(void);
#endif

_Thread_local struct loop *loop_self;

struct loop *loop_current(void)
{
    return loop_self;
}

unsigned loop_index(const struct loop *l)
{
    return l->index;
}

int64_t loop_now_ns(const struct loop *l)
{
    return l->now_ns;
}

struct rt *loop_rt(const struct loop *l)
{
    return l->rt;
}

/* ---- inbox ----------------------------------------------------------------------------------- */

/* newest … oldest are linked by next. */
static void push(struct loop *l, struct loop_task *newest, struct loop_task *oldest)
{
    struct loop_task *head = __atomic_load_n(&l->inbox, __ATOMIC_RELAXED);

    do
        oldest->next = head;
    while (!__atomic_compare_exchange_n(&l->inbox, &head, newest, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
    /* From here on the tasks may be gone. */
    if (__atomic_load_n(&l->sleeping, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&l->sleeping, 0, __ATOMIC_SEQ_CST)) {
        uint64_t one = 1;
        ssize_t n;

        do
            n = write(l->event_fd, &one, sizeof one);
        while (n < 0 && errno == EINTR);
        assert(n == sizeof one);
    }
}

void loop_post(struct loop *l, struct loop_task *t)
{
    push(l, t, t);
}

static struct loop_task *turn_round(struct loop_task *t)
{
    struct loop_task *turned = NULL;

    while (t) {
        struct loop_task *next = t->next;

        t->next = turned;
        turned = t;
        t = next;
    }
    return turned;
}

void loop_post_chain(struct loop *l, struct loop_task *first, struct loop_task *last)
{
    last->next = NULL;
    push(l, turn_round(first), first);
}

static void run_inbox(struct loop *l)
{
    struct loop_task *t;

    if (!__atomic_load_n(&l->inbox, __ATOMIC_RELAXED))
        return;
    t = turn_round(__atomic_exchange_n(&l->inbox, NULL, __ATOMIC_ACQUIRE));
    while (t) {
        struct loop_task *next = t->next;

        STAT_ADD(l->posts, 1);
        t->run(t);
        t = next;
    }
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void run_ready(struct loop *l)
{
    struct fiber *f;

    for (unsigned runs = 0; runs < RUNS_PER_POLL && (f = l->ready_head); runs++) {
        l->ready_head = f->next;
        if (!l->ready_head)
            l->ready_tail = &l->ready_head;
        fiber_run(l, f);
        if (!l->ready_head)
            run_inbox(l);
    }
}

static int wait_events(struct loop *l, int64_t wait_ns)
{
    static bool coarse; /* the kernel has no epoll_pwait2 */
    int n;

    if (!__atomic_load_n(&coarse, __ATOMIC_RELAXED)) {
        struct timespec ts = { .tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S };

        n = epoll_pwait2(l->epoll_fd, l->events, LOOP_EVENTS, wait_ns < 0 ? NULL : &ts, NULL);
        if (n >= 0 || errno != ENOSYS)
            return n;
        __atomic_store_n(&coarse, true, __ATOMIC_RELAXED);
    }
    if (wait_ns > 0)
        wait_ns = MIN((wait_ns + NS_PER_MS - 1) / NS_PER_MS, INT32_MAX);
    return epoll_wait(l->epoll_fd, l->events, LOOP_EVENTS, (int)wait_ns);
}

/* How long to block: 0 when there is work, -1 for ever. */
static int64_t idle_ns(const struct loop *l)
{
    int64_t left;

    if (l->ready_head)
        return 0;
    if (l->heap_n == 0)
        return -1;
    left = l->heap[1]->at_ns - clock_mono_ns();
    return MAX(left, 0);
}

static void poll_events(struct loop *l)
{
    int64_t wait_ns = idle_ns(l);
    int n;

    if (wait_ns != 0) {
        __atomic_store_n(&l->sleeping, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&l->inbox, __ATOMIC_SEQ_CST))
            wait_ns = 0;
    }
    n = wait_events(l, wait_ns);
    if (__atomic_load_n(&l->sleeping, __ATOMIC_RELAXED))
        __atomic_store_n(&l->sleeping, 0, __ATOMIC_SEQ_CST);
    l->now_ns = clock_mono_ns();
    l->event_n = n;
    for (l->event_pos = 0; l->event_pos < l->event_n; l->event_pos++) {
        struct epoll_event *e = &l->events[l->event_pos];

        if (e->data.ptr == l)
            STAT_ADD(l->wakeups, 1);
        else if (e->data.ptr)
            io_dispatch(e->data.ptr, e->events);
    }
    l->event_n = 0;
}

static bool finished(struct loop *l)
{
    return l->ending && l->fibers == 0 && !__atomic_load_n(&l->inbox, __ATOMIC_ACQUIRE);
}

void *loop_main(void *loop)
{
    struct loop *l = loop;
    char name[16];

    snprintf(name, sizeof name, "loop-%u", l->index);
    pthread_setname_np(pthread_self(), name);
    loop_self = l;
    l->signal_stack = stack_signal_enter();
#ifdef RT_TSAN
    l->tsan = __tsan_get_current_fiber();
#endif
    l->now_ns = clock_mono_ns();
    while (!finished(l)) {
        timers_fire(l);
        run_inbox(l);
        run_ready(l);
        if (!finished(l))
            poll_events(l);
    }
    fiber_pool_free(l);
    stack_signal_leave(l->signal_stack);
    loop_self = NULL;
    return NULL;
}

enum rc loop_init(struct loop *l, struct rt *rt, unsigned index)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.ptr = l };

    memset(l, 0, sizeof *l);
    l->rt = rt;
    l->index = index;
    l->ready_tail = &l->ready_head;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll_fd < 0 || l->event_fd < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->event_fd, &e) != 0 ||
        timers_init(l, rt->fibers_max) != RC_OK) {
        int err = errno;

        loop_fini(l);
        return fail_rc(RC_NO_MEM, "cannot make an event loop: %s", strerror(err));
    }
    return RC_OK;
}

void loop_fini(struct loop *l)
{
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    if (l->event_fd >= 0)
        close(l->event_fd);
    timers_fini(l);
}
