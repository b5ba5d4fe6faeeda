/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers of a loop: a 4-ary heap of pointers, from index 1 on; children of i are 4i-2 … 4i+1.
 *
 * Invariant: heap_cap >= 1 + fibers_max + user_timers, so that a fiber's own timer always has room.
 * Places never used cost no memory.
 */
#include "rt/rt_priv.h"

#define SPARE 1024

enum rc timers_init(struct loop *l, size_t fibers_max)
{
    l->heap_cap = 1 + fibers_max + SPARE;
    l->heap = malloc(l->heap_cap * sizeof *l->heap);
    return l->heap ? RC_OK : RC_NO_MEM;
}

void timers_fini(struct loop *l)
{
    free(l->heap);
}

static void place(struct loop *l, size_t i, struct loop_timer *t)
{
    l->heap[i] = t;
    t->heap_pos = i;
}

static void sift_up(struct loop *l, size_t i, struct loop_timer *t)
{
    while (i > 1) {
        size_t parent = (i + 2) / 4;

        if (l->heap[parent]->at_ns <= t->at_ns)
            break;
        place(l, i, l->heap[parent]);
        i = parent;
    }
    place(l, i, t);
}

static void sift_down(struct loop *l, size_t i, struct loop_timer *t)
{
    for (;;) {
        size_t child = 4 * i - 2, end = MIN(4 * i + 2, l->heap_n + 1), least = child;

        if (child > l->heap_n)
            break;
        while (++child < end)
            if (l->heap[child]->at_ns < l->heap[least]->at_ns)
                least = child;
        if (t->at_ns <= l->heap[least]->at_ns)
            break;
        place(l, i, l->heap[least]);
        i = least;
    }
    place(l, i, t);
}

static void insert(struct loop *l, struct loop_timer *t, int64_t at_ns)
{
    t->at_ns = at_ns;
    t->loop = l;
    sift_up(l, ++l->heap_n, t);
}

static void take_out(struct loop *l, struct loop_timer *t)
{
    size_t i = t->heap_pos;
    struct loop_timer *last = l->heap[l->heap_n--];

    t->heap_pos = 0;
    if (last == t)
        return;
    if (last->at_ns < t->at_ns)
        sift_up(l, i, last);
    else
        sift_down(l, i, last);
}

void timer_start_reserved(struct loop *l, struct loop_timer *t, int64_t at_ns)
{
    insert(l, t, at_ns);
}

static enum rc reserve(struct loop *l)
{
    struct loop_timer **heap;
    size_t need = 1 + l->rt->fibers_max + l->user_timers + 1;

    if (need <= l->heap_cap)
        return RC_OK;
    heap = realloc(l->heap, 2 * l->heap_cap * sizeof *heap);
    if (!heap)
        return RC_NO_MEM;
    l->heap = heap;
    l->heap_cap *= 2;
    return RC_OK;
}

enum rc loop_timer_start(struct loop *l, struct loop_timer *t, int64_t at_ns)
{
    enum rc rc;

    assert(l == loop_self);
    loop_timer_stop(t);
    rc = reserve(l);
    if (rc != RC_OK)
        return rc;
    l->user_timers++;
    insert(l, t, at_ns);
    return RC_OK;
}

void loop_timer_stop(struct loop_timer *t)
{
    if (t->heap_pos == 0)
        return;
    assert(t->loop == loop_self);
    take_out(t->loop, t);
    if (t->fire != fiber_timeout)
        t->loop->user_timers--;
}

void timers_fire(struct loop *l)
{
    /* A timer that starts itself again for the past must not hold up the loop. */
    for (size_t most = l->heap_n; most > 0 && l->heap_n > 0; most--) {
        struct loop_timer *t = l->heap[1];

        if (t->at_ns > l->now_ns)
            return;
        loop_timer_stop(t);
        STAT_ADD(l->timers_fired, 1);
        t->fire(t);
    }
}
