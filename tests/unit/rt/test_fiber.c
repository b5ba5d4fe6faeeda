/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "rt_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOON_NS (clock_mono_ns() + 5 * NS_PER_MS)

static char trace[256];
static size_t trace_n;

static void say(char c)
{
    CHECK(trace_n < sizeof trace - 1);
    trace[trace_n++] = c;
    trace[trace_n] = 0;
}

/* ---- switching ------------------------------------------------------------------------------- */

static void say_thrice(void *arg)
{
    char c = *(char *)arg;

    for (int i = 0; i < 3; i++) {
        say(c);
        fiber_yield();
    }
}

static void take_turns(void *arg)
{
    struct fiber *a, *b;

    trace_n = 0;
    CHECK(fiber_spawn_joinable(loop_current(), say_thrice, "a", &a) == RC_OK);
    CHECK(fiber_spawn_joinable(loop_current(), say_thrice, "b", &b) == RC_OK);
    CHECK(trace_n == 0); /* a spawn does not run at once */
    fiber_join(a);
    fiber_join(b);
    CHECK(strcmp(trace, "ababab") == 0);
}

static void fibers_take_turns_when_they_yield(void **state)
{
    on_runtime(1, take_turns, NULL);
}

static void keep_note(void *arg)
{
    enum rc rc = fail_s3(S3E_NO_SUCH_KEY, "%s", (const char *)arg);

    CHECK(rc == RC_NOT_FOUND);
    for (int i = 0; i < 3; i++) {
        fiber_yield();
        CHECK(strcmp(note_text(), arg) == 0);
    }
}

static void notes(void *arg)
{
    struct fiber *a, *b;

    CHECK(note_text()[0] == 0);
    CHECK(fiber_spawn_joinable(loop_current(), keep_note, "first", &a) == RC_OK);
    CHECK(fiber_spawn_joinable(loop_current(), keep_note, "second", &b) == RC_OK);
    fiber_join(a);
    fiber_join(b);
    CHECK(note_text()[0] == 0);
}

static void each_fiber_has_its_own_note(void **state)
{
    on_runtime(1, notes, NULL);
    on_runtime(1, notes, NULL); /* and no note is left from the fibers before */
}

static double keep_registers(double x, int depth)
{
    double a = x * 1.5, b = x + 2;

    if (depth > 0)
        return keep_registers(a, depth - 1) + b;
    fiber_yield();
    return a + b;
}

static void compute(void *arg)
{
    double *x = arg;

    *x = keep_registers(*x, 20);
}

static void registers(void *arg)
{
    struct fiber *f[8];
    double x[8];

    for (int i = 0; i < 8; i++) {
        x[i] = i;
        CHECK(fiber_spawn_joinable(loop_current(), compute, &x[i], &f[i]) == RC_OK);
    }
    for (int i = 0; i < 8; i++)
        fiber_join(f[i]);
    CHECK(x[0] > 0);
    /* Linear in x: f(i) - f(i-1) is constant. */
    for (int i = 2; i < 8; i++)
        CHECK((x[i] - x[i - 1]) - (x[1] - x[0]) < 1e-3 && (x[1] - x[0]) - (x[i] - x[i - 1]) < 1e-3);
}

static void a_switch_keeps_the_stack_and_registers(void **state)
{
    on_runtime(1, registers, NULL);
}

/* ---- waiters --------------------------------------------------------------------------------- */

static void wake_arg(void *arg)
{
    waiter_wake(arg);
}

static void waits(void *arg)
{
    struct waiter w;

    waiter_init(&w);
    waiter_wake(&w);
    CHECK(waiter_wait(&w, SOON_NS) == RC_OK); /* not lost */

    waiter_init(&w);
    CHECK(waiter_wait(&w, SOON_NS) == RC_TIMEOUT);
    CHECK(waiter_wait(&w, SOON_NS) == RC_TIMEOUT); /* may wait again */
    waiter_wake(&w);
    waiter_wait_always(&w); /* the late wake is collected */

    waiter_init(&w);
    CHECK(waiter_wait(&w, clock_mono_ns() - 1) == RC_TIMEOUT);

    waiter_init(&w);
    CHECK(fiber_spawn(loop_current(), wake_arg, &w) == RC_OK);
    CHECK(waiter_wait(&w, NO_DEADLINE) == RC_OK);

    waiter_init(&w);
    CHECK(fiber_spawn(rt_loop(loop_rt(loop_current()), 1), wake_arg, &w) == RC_OK);
    CHECK(waiter_wait(&w, NO_DEADLINE) == RC_OK);
    CHECK(loop_index(loop_current()) == 0); /* still at home */
}

static void a_wake_before_or_after_the_wait_ends_it(void **state)
{
    on_runtime(2, waits, NULL);
}

/* Wakes and deadlines that meet: the storage must be free again only when the wake is in. */
static void race(void *arg)
{
    struct loop *other = rt_loop(loop_rt(loop_current()), 1);

    for (int i = 0; i < 300; i++) {
        struct waiter *w = malloc(sizeof *w);

        CHECK(w);
        waiter_init(w);
        CHECK(fiber_spawn(other, wake_arg, w) == RC_OK);
        if (waiter_wait(w, clock_mono_ns() + (i % 30) * 1000) == RC_TIMEOUT)
            waiter_wait_always(w);
        free(w);
    }
}

static void wakes_that_race_with_deadlines_are_never_lost(void **state)
{
    on_runtime(2, race, NULL);
}

/* ---- cancellation and deadlines -------------------------------------------------------------- */

static void wait_long(void *arg)
{
    enum rc *rc = arg;

    rc[0] = fiber_sleep_ms(60000);
    rc[1] = fiber_sleep_ms(60000);
    CHECK(fiber_cancelled());
    CHECK(fiber_uncancel());
    CHECK(!fiber_cancelled());
    rc[2] = fiber_sleep_ms(1);
}

static void cancels(void *arg)
{
    enum rc rc[3] = { RC_OK, RC_OK, RC_INTERNAL };
    struct fiber *f;

    CHECK(fiber_spawn_joinable(loop_current(), wait_long, rc, &f) == RC_OK);
    fiber_yield();
    fiber_cancel(f);
    fiber_join(f);
    CHECK(rc[0] == RC_CANCELLED && rc[1] == RC_CANCELLED && rc[2] == RC_OK);

    /* Before it has begun to wait. */
    CHECK(fiber_spawn_joinable(loop_current(), wait_long, rc, &f) == RC_OK);
    fiber_cancel(f);
    fiber_join(f);
    CHECK(rc[0] == RC_CANCELLED && rc[2] == RC_OK);
}

static void cancellation_ends_this_wait_and_later_ones(void **state)
{
    on_runtime(1, cancels, NULL);
}

static void deadlines(void *arg)
{
    int64_t t0 = clock_mono_ns(), soon = SOON_NS;

    CHECK(fiber_set_deadline(soon) == NO_DEADLINE);
    CHECK(fiber_sleep_ms(60000) == RC_TIMEOUT);
    CHECK(fiber_set_deadline(NO_DEADLINE) == soon);
    CHECK(clock_mono_ns() - t0 < NS_PER_S * 30);
    CHECK(clock_mono_ns() >= soon);
    t0 = clock_mono_ns();
    CHECK(fiber_sleep_ms(3) == RC_OK);
    CHECK(clock_mono_ns() - t0 >= 3 * NS_PER_MS);
}

static void a_fibers_deadline_bounds_every_wait(void **state)
{
    on_runtime(1, deadlines, NULL);
}

/* ---- limits, statistics, the end ------------------------------------------------------------- */

static void park(void *arg)
{
    int *ended = arg;
    enum rc rc = fiber_sleep_until(NO_DEADLINE);

    CHECK(rc == RC_CANCELLED);
    __atomic_fetch_add(ended, 1, __ATOMIC_RELAXED);
}

static void limit(void *arg)
{
    struct rt_stats s;
    int *ended = arg;

    for (int i = 0; i < 9; i++)
        CHECK(fiber_spawn(rt_loop(loop_rt(loop_current()), i % 2), park, ended) == RC_OK);
    CHECK(fiber_spawn(loop_current(), park, ended) == RC_UNAVAILABLE);
    rt_stats(loop_rt(loop_current()), &s);
    CHECK(s.fibers_now == 10 && s.fibers_peak == 10 && s.fibers_refused == 1);
}

static void rt_stop_cancels_parked_fibers_and_the_limit_holds(void **state)
{
    struct rt *rt;
    int ended = 0;

    assert_int_equal(rt_start(&(struct rt_config){ .loops = 2, .fibers_max = 10 }, &rt), RC_OK);
    assert_int_equal(rt_loops(rt), 2);
    assert_int_equal(rt_run(rt, limit, &ended), RC_OK);
    rt_stop(rt);
    assert_int_equal(ended, 9);
}

static void use_stack(void *arg)
{
    volatile char bytes[64 << 10];

    for (size_t i = 0; i < sizeof bytes; i += 1024)
        bytes[i] = 1;
    fiber_yield();
}

/* Until only the calling fiber is left. */
static void wait_alone(void)
{
    struct rt_stats s;

    do {
        fiber_yield();
        rt_stats(loop_rt(loop_current()), &s);
    } while (s.fibers_now > 1);
}

static void many(void *arg)
{
    for (int i = 0; i < 600; i++) {
        CHECK(fiber_spawn(loop_current(), use_stack, NULL) == RC_OK);
        if (i % 100 == 99)
            wait_alone();
    }
    for (int i = 0; i < 400; i++) /* more than a loop keeps for itself */
        CHECK(fiber_spawn(loop_current(), use_stack, NULL) == RC_OK);
    wait_alone();
}

static void stacks_are_reused_and_their_depth_is_measured(void **state)
{
    struct rt_stats s;
    struct rt *rt;

    assert_int_equal(rt_start(&(struct rt_config){ .loops = 1 }, &rt), RC_OK);
    assert_int_equal(rt_run(rt, many, NULL), RC_OK);
    rt_stats(rt, &s);
    assert_true(s.switches >= 1200);
    assert_true(s.fibers_peak <= 400 + 2);
    assert_in_range(s.stack_high_water, 64 << 10, 512 << 10);
    usleep(1200 * 1000); /* the idle ones give back memory */
    assert_int_equal(rt_run(rt, many, NULL), RC_OK);
    rt_stop(rt);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int recurse(volatile char *above)
{
    volatile char bytes[512];

    bytes[0] = above[0];
    if (above[1] == 7) /* never */
        return 0;
    return recurse(bytes) + bytes[0] + above[1];
}

static void overflow(void *arg)
{
    char top[2] = { 0 };

    recurse(top);
}

static void a_stack_overflow_dies_with_a_message(void **state)
{
    char text[256] = "";
    int p[2], status;
    pid_t pid;

    assert_int_equal(pipe(p), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        dup2(p[1], 2);
        on_runtime(1, overflow, NULL);
        _exit(0);
    }
    close(p[1]);
    assert_true(read(p[0], text, sizeof text - 1) > 0);
    close(p[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_non_null(strstr(text, "stack overflow of a fiber"));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fibers_take_turns_when_they_yield),
        cmocka_unit_test(each_fiber_has_its_own_note),
        cmocka_unit_test(a_switch_keeps_the_stack_and_registers),
        cmocka_unit_test(a_wake_before_or_after_the_wait_ends_it),
        cmocka_unit_test(wakes_that_race_with_deadlines_are_never_lost),
        cmocka_unit_test(cancellation_ends_this_wait_and_later_ones),
        cmocka_unit_test(a_fibers_deadline_bounds_every_wait),
        cmocka_unit_test(rt_stop_cancels_parked_fibers_and_the_limit_holds),
        cmocka_unit_test(stacks_are_reused_and_their_depth_is_measured),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(a_stack_overflow_dies_with_a_message),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
