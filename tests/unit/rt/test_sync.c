/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "rt/bufpool.h"
#include "rt/sync.h"
#include "rt_test.h"

#include <pthread.h>

#define FIBERS 12
#define ROUNDS 500
#define SOON_NS (clock_mono_ns() + 3 * NS_PER_MS)

/* Runs fn(arg) on n fibers over all loops and waits for them. */
struct team {
    struct wait_group left;
    void (*fn)(void *arg);
    void *arg;
};

static void member(void *arg)
{
    struct team *t = arg;

    t->fn(t->arg);
    wait_group_done(&t->left);
}

static void run_team(int n, void (*fn)(void *arg), void *arg)
{
    struct team t = { .fn = fn, .arg = arg };
    struct rt *rt = loop_rt(loop_current());

    wait_group_init(&t.left);
    wait_group_add(&t.left, n);
    for (int i = 0; i < n; i++)
        CHECK(fiber_spawn(rt_loop(rt, (unsigned)i % rt_loops(rt)), member, &t) == RC_OK);
    CHECK(wait_group_wait(&t.left, NO_DEADLINE) == RC_OK);
    wait_group_fini(&t.left);
}

/* ---- mutex ----------------------------------------------------------------------------------- */

struct counter {
    struct fiber_mutex m;
    int plain, timeouts; /* guarded by m; timeouts atomic */
};

static void count(void *arg)
{
    struct counter *c = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int n;

        CHECK(fiber_mutex_lock(&c->m, NO_DEADLINE) == RC_OK);
        n = c->plain;
        if (i % 16 == 0)
            fiber_yield(); /* holds it over a park */
        c->plain = n + 1;
        fiber_mutex_unlock(&c->m);
    }
}

static void count_hurried(void *arg)
{
    struct counter *c = arg;

    for (int i = 0; i < ROUNDS; i++) {
        if (fiber_mutex_lock(&c->m, clock_mono_ns() + 20000) != RC_OK) {
            __atomic_fetch_add(&c->timeouts, 1, __ATOMIC_RELAXED);
            continue;
        }
        c->plain++;
        fiber_yield();
        fiber_mutex_unlock(&c->m);
    }
}

static void mutexes(void *arg)
{
    struct counter c = { .plain = 0 };

    fiber_mutex_init(&c.m);
    run_team(FIBERS, count, &c);
    CHECK(c.plain == FIBERS * ROUNDS);
    c.plain = 0;
    run_team(FIBERS, count_hurried, &c);
    CHECK(c.plain + c.timeouts == FIBERS * ROUNDS && c.plain > 0);
    CHECK(fiber_mutex_lock(&c.m, NO_DEADLINE) == RC_OK);
    fiber_mutex_unlock(&c.m);
    fiber_mutex_fini(&c.m);
}

static void a_mutex_excludes_across_loops_even_when_waits_time_out(void **state)
{
    on_runtime(2, mutexes, NULL);
}

/* ---- condition ------------------------------------------------------------------------------- */

struct turns {
    struct fiber_mutex m;
    struct fiber_cond c;
    int turn, seats;
};

static void take_turns(void *arg)
{
    struct turns *t = arg;
    int seat;

    CHECK(fiber_mutex_lock(&t->m, NO_DEADLINE) == RC_OK);
    seat = t->seats++;
    for (int i = 0; i < 50; i++) {
        while (t->turn % 4 != seat)
            CHECK(fiber_cond_wait(&t->c, &t->m, NO_DEADLINE) == RC_OK);
        t->turn++;
        fiber_cond_broadcast(&t->c);
    }
    fiber_mutex_unlock(&t->m);
}

static void conditions(void *arg)
{
    struct turns t = { .turn = 0 };

    fiber_mutex_init(&t.m);
    fiber_cond_init(&t.c);
    run_team(4, take_turns, &t);
    CHECK(t.turn == 200);
    CHECK(fiber_mutex_lock(&t.m, NO_DEADLINE) == RC_OK);
    CHECK(fiber_cond_wait(&t.c, &t.m, SOON_NS) == RC_TIMEOUT);
    CHECK(t.m.owner == fiber_current()); /* held again */
    fiber_cancel(fiber_current());
    CHECK(fiber_cond_wait(&t.c, &t.m, NO_DEADLINE) == RC_CANCELLED);
    CHECK(t.m.owner == fiber_current());
    fiber_mutex_unlock(&t.m);
    fiber_cond_fini(&t.c);
    fiber_mutex_fini(&t.m);
}

static void a_condition_hands_turns_round_and_always_relocks(void **state)
{
    on_runtime(2, conditions, NULL);
}

/* ---- semaphore ------------------------------------------------------------------------------- */

struct limit {
    struct fiber_sem s;
    int inside, most; /* atomic */
};

static void enter(void *arg)
{
    struct limit *l = arg;

    for (int i = 0; i < 200; i++) {
        int64_t n = 1 + i % 3;
        int now, most;

        if (fiber_sem_wait(&l->s, n, i % 5 ? NO_DEADLINE : clock_mono_ns() + 10000) != RC_OK)
            continue;
        now = __atomic_add_fetch(&l->inside, (int)n, __ATOMIC_RELAXED);
        most = __atomic_load_n(&l->most, __ATOMIC_RELAXED);
        while (now > most && !__atomic_compare_exchange_n(&l->most, &most, now, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        fiber_yield();
        __atomic_sub_fetch(&l->inside, (int)n, __ATOMIC_RELAXED);
        fiber_sem_post(&l->s, n);
    }
}

static void want_three(void *arg)
{
    enum rc rc = fiber_sem_wait(arg, 3, NO_DEADLINE);

    CHECK(rc == RC_CANCELLED);
}

static void want_one(void *arg)
{
    enum rc rc = fiber_sem_wait(arg, 1, NO_DEADLINE);

    CHECK(rc == RC_OK);
}

static void semaphores(void *arg)
{
    struct limit l = { .most = 0 };
    struct fiber *big, *small;

    fiber_sem_init(&l.s, 4);
    run_team(FIBERS, enter, &l);
    CHECK(l.most > 0 && l.most <= 4 && l.s.value == 4);

    /* In order: the small one waits behind the large one, and gets its turn when that one leaves.
     */
    CHECK(fiber_sem_wait(&l.s, 3, NO_DEADLINE) == RC_OK);
    CHECK(fiber_spawn_joinable(loop_current(), want_three, &l.s, &big) == RC_OK);
    fiber_yield();
    CHECK(!fiber_sem_try(&l.s, 1));
    CHECK(fiber_spawn_joinable(loop_current(), want_one, &l.s, &small) == RC_OK);
    fiber_yield();
    CHECK(l.s.value == 1);
    fiber_cancel(big);
    fiber_join(big);
    fiber_join(small);
    CHECK(l.s.value == 0);
    fiber_sem_fini(&l.s);
}

static void a_semaphore_limits_in_order_and_skips_who_left(void **state)
{
    on_runtime(2, semaphores, NULL);
}

/* ---- queue ----------------------------------------------------------------------------------- */

struct pipe_test {
    struct fiber_queue q;
    int64_t sum, taken; /* atomic */
    unsigned next;      /* atomic */
};

static void produce_or_consume(void *arg)
{
    struct pipe_test *p = arg;
    void *item;
    enum rc rc;

    if (__atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED) % 2 == 0) {
        for (intptr_t i = 1; i <= 300; i++)
            CHECK(fiber_queue_put(&p->q, (void *)i, NO_DEADLINE) == RC_OK);
        CHECK(fiber_queue_put(&p->q, NULL, NO_DEADLINE) == RC_OK); /* one consumer ends */
        return;
    }
    for (;;) {
        rc = fiber_queue_take(&p->q, &item, clock_mono_ns() + 50000);
        if (rc == RC_TIMEOUT)
            continue;
        CHECK(rc == RC_OK);
        if (!item)
            return;
        __atomic_fetch_add(&p->sum, (intptr_t)item, __ATOMIC_RELAXED);
        __atomic_fetch_add(&p->taken, 1, __ATOMIC_RELAXED);
    }
}

static void take_from_closed(void *arg)
{
    void *item;

    CHECK(fiber_queue_take(arg, &item, NO_DEADLINE) == RC_EOF);
}

static void put_to_closed(void *arg)
{
    CHECK(fiber_queue_put(arg, "late", NO_DEADLINE) == RC_CANCELLED);
}

static void queues(void *arg)
{
    struct pipe_test p = { .sum = 0 };
    struct fiber *f;
    void *item;

    CHECK(fiber_queue_init(&p.q, 3) == RC_OK);
    run_team(8, produce_or_consume, &p);
    CHECK(p.taken == 4 * 300 && p.sum == 4 * 300 * 301 / 2);

    CHECK(fiber_queue_take(&p.q, &item, SOON_NS) == RC_TIMEOUT);
    for (int i = 0; i < 3; i++)
        CHECK(fiber_queue_put(&p.q, "item", NO_DEADLINE) == RC_OK);
    CHECK(fiber_queue_put(&p.q, "more", SOON_NS) == RC_TIMEOUT);
    CHECK(fiber_spawn_joinable(loop_current(), put_to_closed, &p.q, &f) == RC_OK);
    fiber_yield(); /* it waits for room */
    fiber_queue_close(&p.q);
    fiber_join(f);
    CHECK(fiber_queue_put(&p.q, "late", NO_DEADLINE) == RC_CANCELLED);
    for (int i = 0; i < 3; i++)
        CHECK(fiber_queue_take(&p.q, &item, NO_DEADLINE) == RC_OK);
    CHECK(fiber_queue_take(&p.q, &item, NO_DEADLINE) == RC_EOF);
    fiber_queue_fini(&p.q);

    CHECK(fiber_queue_init(&p.q, 1) == RC_OK);
    CHECK(fiber_spawn_joinable(loop_current(), take_from_closed, &p.q, &f) == RC_OK);
    fiber_yield();
    fiber_queue_close(&p.q);
    fiber_join(f);
    fiber_queue_fini(&p.q);
}

static void a_queue_moves_each_item_once_and_ends_when_closed(void **state)
{
    on_runtime(2, queues, NULL);
}

/* ---- wait group from a plain thread ---------------------------------------------------------- */

static void *finish(void *arg)
{
    wait_group_done(arg);
    return NULL;
}

static void groups(void *arg)
{
    struct wait_group g;
    pthread_t t;

    wait_group_init(&g);
    CHECK(wait_group_wait(&g, NO_DEADLINE) == RC_OK);
    wait_group_add(&g, 2);
    wait_group_done(&g);
    CHECK(wait_group_wait(&g, SOON_NS) == RC_TIMEOUT);
    CHECK(pthread_create(&t, NULL, finish, &g) == 0);
    CHECK(wait_group_wait(&g, NO_DEADLINE) == RC_OK);
    pthread_join(t, NULL);
    wait_group_fini(&g);
}

static void a_wait_group_ends_when_the_last_is_done(void **state)
{
    on_runtime(1, groups, NULL);
}

/* ---- bufpool --------------------------------------------------------------------------------- */

static void use_buffers(void *arg)
{
    struct bufpool *p = arg;

    for (int i = 0; i < 200; i++) {
        size_t lent, idle;
        unsigned char *b;
        void *v;

        CHECK(bufpool_get(p, &v, NO_DEADLINE) == RC_OK);
        b = v;
        CHECK((uintptr_t)b % 4096 == 0);
        b[0] = b[bufpool_size(p) - 1] = (unsigned char)i;
        fiber_yield();
        CHECK(b[0] == (unsigned char)i && b[bufpool_size(p) - 1] == (unsigned char)i);
        bufpool_stats(p, &lent, &idle);
        CHECK(lent <= 5 * 65536);
        bufpool_put(p, b);
    }
}

static void put_back(void *arg)
{
    void **a = arg;

    bufpool_put(a[0], a[1]);
}

static void bufpools(void *arg)
{
    struct bufpool *p;
    size_t lent, idle;
    void *b[5], *more, *give[2];

    CHECK(bufpool_new(65536, 5 * 65536 + 100, &p) == RC_OK);
    run_team(FIBERS, use_buffers, p);
    bufpool_put(p, NULL);
    bufpool_stats(p, &lent, &idle);
    CHECK(lent == 0 && idle >= 65536 && idle <= 10 * 65536);
    for (int i = 0; i < 5; i++)
        CHECK(bufpool_get(p, &b[i], NO_DEADLINE) == RC_OK);
    CHECK(bufpool_get(p, &more, SOON_NS) == RC_TIMEOUT);
    give[0] = p;
    give[1] = b[4];
    CHECK(offload(put_back, give) == RC_OK); /* from a plain thread */
    CHECK(bufpool_get(p, &b[4], NO_DEADLINE) == RC_OK);
    give[1] = b[4];
    CHECK(fiber_spawn(loop_current(), put_back, give) == RC_OK);
    CHECK(bufpool_get(p, &b[4], NO_DEADLINE) == RC_OK); /* waits for it */
    fiber_cancel(fiber_current());
    CHECK(bufpool_get(p, &more, NO_DEADLINE) == RC_CANCELLED);
    for (int i = 0; i < 5; i++)
        bufpool_put(p, b[i]);
    bufpool_free(p);

    CHECK(bufpool_new(1 << 20, 64 << 20, &p) == RC_OK);
    CHECK(fiber_uncancel());
    void *many[20];
    for (int i = 0; i < 20; i++)
        CHECK(bufpool_get(p, &many[i], NO_DEADLINE) == RC_OK);
    for (int i = 0; i < 20; i++)
        bufpool_put(p, many[i]);
    bufpool_stats(p, &lent, &idle);
    CHECK(lent == 0 && idle == 8 << 20); /* the rest went back to the system */
    bufpool_free(p);
}

static void buffers_are_limited_and_waited_for(void **state)
{
    on_runtime(2, bufpools, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mutex_excludes_across_loops_even_when_waits_time_out),
        cmocka_unit_test(a_condition_hands_turns_round_and_always_relocks),
        cmocka_unit_test(a_semaphore_limits_in_order_and_skips_who_left),
        cmocka_unit_test(a_queue_moves_each_item_once_and_ends_when_closed),
        cmocka_unit_test(a_wait_group_ends_when_the_last_is_done),
        cmocka_unit_test(buffers_are_limited_and_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
