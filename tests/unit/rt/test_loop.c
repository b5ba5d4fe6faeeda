/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "rt_test.h"

#include <pthread.h>
#include <unistd.h>

/* ---- timers ---------------------------------------------------------------------------------- */

#define TIMERS 500

struct probe {
    struct loop_timer timer;
    int64_t want_ns;
    bool fired;
};

static int64_t last_ns;
static unsigned fired_n;

static void on_fire(struct loop_timer *t)
{
    struct probe *p = container_of(t, struct probe, timer);

    CHECK(!p->fired && p->want_ns >= last_ns && loop_now_ns(t->loop) >= p->want_ns);
    CHECK(!fiber_current());
    p->fired = true;
    last_ns = p->want_ns;
    fired_n++;
}

static void timers(void *arg)
{
    struct probe *p = calloc(TIMERS, sizeof *p);
    struct loop *l = loop_current();
    int64_t t0 = clock_mono_ns();
    unsigned r = 1;

    CHECK(p);
    last_ns = 0;
    fired_n = 0;
    for (int i = 0; i < TIMERS; i++) {
        r = r * 1103515245 + 12345;
        p[i].timer.fire = on_fire;
        p[i].want_ns = t0 + (int64_t)(r >> 8) % (20 * NS_PER_MS);
        CHECK(loop_timer_start(l, &p[i].timer, p[i].want_ns) == RC_OK);
    }
    for (int i = 0; i < TIMERS; i += 5) { /* a fifth is stopped, another starts anew */
        loop_timer_stop(&p[i].timer);
        loop_timer_stop(&p[i].timer);
        p[i + 1].want_ns = t0 + 25 * NS_PER_MS - i * 1000;
        CHECK(loop_timer_start(l, &p[i + 1].timer, p[i + 1].want_ns) == RC_OK);
    }
    CHECK(fiber_sleep_until(t0 + 30 * NS_PER_MS) == RC_OK);
    CHECK(fired_n == TIMERS - TIMERS / 5);
    for (int i = 0; i < TIMERS; i++)
        CHECK(p[i].fired == (i % 5 != 0));
    free(p);
}

static void timers_fire_once_in_order_and_not_after_stop(void **state)
{
    on_runtime(1, timers, NULL);
}

static void naps(void *arg)
{
    for (int i = 0; i < 3000; i++)
        CHECK(fiber_sleep_until(clock_mono_ns() + i % 40 * 100) == RC_OK);
}

/* A timer may fall due just while the loop works out how long to sleep. */
static void very_short_sleeps_end(void **state)
{
    on_runtime(1, naps, NULL);
}

/* ---- inbox ----------------------------------------------------------------------------------- */

#define POSTERS 4
#define POSTS 5000

struct mail {
    struct loop_task task;
    unsigned poster, number;
};

static unsigned next_number[POSTERS];
static unsigned posted; /* atomic */

static void on_mail(struct loop_task *t)
{
    struct mail *m = container_of(t, struct mail, task);

    CHECK(loop_index(loop_current()) == 0 && !fiber_current());
    CHECK(next_number[m->poster]++ == m->number);
    free(m);
    __atomic_fetch_add(&posted, 1, __ATOMIC_RELEASE);
}

static struct mail *write_mail(unsigned poster, unsigned number)
{
    struct mail *m = malloc(sizeof *m);

    CHECK(m);
    *m = (struct mail){ .task.run = on_mail, .poster = poster, .number = number };
    return m;
}

struct poster {
    pthread_t thread;
    unsigned index;
    struct loop *loop;
};

static void *post_many(void *arg)
{
    struct poster *p = arg;

    for (unsigned i = 0; i < POSTS;) {
        if (i % 7 == 0 && i + 3 <= POSTS) { /* a chain of three */
            struct mail *a = write_mail(p->index, i), *b = write_mail(p->index, i + 1),
                        *c = write_mail(p->index, i + 2);

            a->task.next = &b->task;
            b->task.next = &c->task;
            loop_post_chain(p->loop, &a->task, &c->task);
            i += 3;
        } else {
            loop_post(p->loop, &write_mail(p->index, i)->task);
            i++;
        }
        if (i % 500 == 0)
            usleep(100); /* so that the loop sleeps now and then */
    }
    return NULL;
}

static void the_inbox_keeps_the_order_of_each_of_many_threads(void **state)
{
    struct poster p[POSTERS];
    struct rt_stats s;
    struct rt *rt;

    posted = 0;
    memset(next_number, 0, sizeof next_number);
    assert_int_equal(rt_start(&(struct rt_config){ .loops = 2 }, &rt), RC_OK);
    for (unsigned i = 0; i < POSTERS; i++) {
        p[i].index = i;
        p[i].loop = rt_loop(rt, 0);
        CHECK(pthread_create(&p[i].thread, NULL, post_many, &p[i]) == 0);
    }
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(p[i].thread, NULL);
    for (int i = 0; i < 20000 && __atomic_load_n(&posted, __ATOMIC_ACQUIRE) < POSTERS * POSTS; i++)
        usleep(1000);
    rt_stats(rt, &s);
    assert_int_equal(posted, POSTERS * POSTS);
    assert_true(s.posts >= POSTERS * POSTS);
    assert_true(s.wakeups < s.posts); /* no write per post while the loop is awake */
    rt_stop(rt);
}

/* ---- offload --------------------------------------------------------------------------------- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_t loop_thread;

static void work(void *arg)
{
    int *n = arg;
    enum rc rc = fail_s3(S3E_NO_SUCH_KEY, "from the pool");

    CHECK(rc == RC_NOT_FOUND);
    CHECK(!loop_current() && !pthread_equal(pthread_self(), loop_thread));
    ++*n;
}

static void offloads(void *arg)
{
    int n = 0;

    loop_thread = pthread_self();
    CHECK(offload(work, &n) == RC_OK);
    CHECK(n == 1);
    CHECK(strcmp(note_text(), "from the pool") == 0); /* the note is the fiber's */
    fiber_cancel(fiber_current());
    CHECK(offload(work, &n) == RC_OK); /* not ended by cancellation */
    CHECK(n == 2);
}

static void offload_parks_until_done_and_keeps_the_note(void **state)
{
    on_runtime(1, offloads, NULL);
}

static unsigned jobs_run, jobs_done;

static void pass_gate(void *arg)
{
    pthread_mutex_lock(&gate);
    jobs_run++;
    pthread_mutex_unlock(&gate);
}

static void on_done(struct loop_task *t)
{
    CHECK(loop_index(loop_current()) == 1);
    __atomic_fetch_add(&jobs_done, 1, __ATOMIC_RELEASE);
}

static void saturation_refuses_and_stop_runs_out_the_queue(void **state)
{
    struct offload_job *jobs = calloc(10000, sizeof *jobs);
    struct rt_stats s;
    struct rt *rt;
    unsigned n = 0;

    CHECK(jobs);
    jobs_run = jobs_done = 0;
    assert_int_equal(rt_start(&(struct rt_config){ .loops = 2, .offload_threads = 3 }, &rt), RC_OK);
    pthread_mutex_lock(&gate);
    for (; n < 10000; n++) {
        jobs[n] =
            (struct offload_job){ .fn = pass_gate, .loop = rt_loop(rt, 1), .done.run = on_done };
        if (offload_start(&jobs[n]) != RC_OK)
            break;
    }
    assert_in_range(n, 100, 9999);
    rt_stats(rt, &s);
    assert_true(s.offload_queued >= n - 3 && s.offloads == n);
    pthread_mutex_unlock(&gate);
    rt_stop(rt);
    assert_int_equal(jobs_run, n);
    assert_int_equal(jobs_done, n);
    free(jobs);
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static void offload_runs_inline_off_fibers(void **state)
{
    bool ran = false;

    assert_int_equal(offload(set_true, &ran), RC_OK);
    assert_true(ran);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_once_in_order_and_not_after_stop),
        cmocka_unit_test(very_short_sleeps_end),
        cmocka_unit_test(the_inbox_keeps_the_order_of_each_of_many_threads),
        cmocka_unit_test(offload_parks_until_done_and_keeps_the_note),
        cmocka_unit_test(saturation_refuses_and_stop_runs_out_the_queue),
        cmocka_unit_test(offload_runs_inline_off_fibers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
