/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "kv/memory.h"
#include "kv/wrap.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define P SLICE("p")

static struct kv *memory(void)
{
    struct kv *kv = NULL;

    assert_int_equal(kv_memory_open(1 << 20, &kv), RC_OK);
    return kv;
}

static enum rc put_k(struct kv_txn *txn, void *arg)
{
    return kv_txn_put(txn, P, SLICE("k"), SLICE("v"));
}

static enum rc get_k(struct kv *kv)
{
    struct kv_item item;
    struct arena a;
    enum rc rc;

    arena_init(&a, 4096);
    rc = kv_get(kv, P, SLICE("k"), &a, &item);
    arena_fini(&a);
    return rc;
}

static enum rc scan_all(struct kv *kv)
{
    struct kv_scan *scan;
    struct kv_item item;
    enum rc rc = kv_scan_open(kv, &(struct kv_range){ .partition = P }, &scan);

    if (rc)
        return rc;
    while (!rc)
        rc = kv_scan_next(scan, &item);
    kv_scan_close(scan);
    return rc == RC_NOT_FOUND ? RC_OK : rc;
}

static enum rc some_calls(struct kv *kv)
{
    enum rc rc = kv_transact(kv, P, put_k, NULL); /* begin, write, commit */

    if (!rc)
        rc = get_k(kv);
    return rc ? rc : scan_all(kv); /* open, next, next */
}

static void each_call_can_fail_in_turn(void **state)
{
    struct kv *kv;

    assert_int_equal(kv_faulty_open(memory(), &kv), RC_OK);
    for (int64_t nth = 0; nth < 8; nth++) {
        kv_faulty_arm(kv, &(struct kv_fault){ .rc = RC_UNAVAILABLE, .nth = nth });
        assert_int_equal(some_calls(kv), nth < 7 ? RC_UNAVAILABLE : RC_OK);
        assert_int_equal(kv_faulty_injected(kv), nth < 7);
        assert_int_equal(kv_faulty_calls(kv), nth < 7 ? nth + 1 : 7);
    }
    kv_faulty_disarm(kv);
    assert_int_equal(some_calls(kv), RC_OK);
    kv_close(kv);
}

static void commits_fail_before_or_after_they_are_made(void **state)
{
    struct kv *kv;

    assert_int_equal(kv_faulty_open(memory(), &kv), RC_OK);
    kv_faulty_arm(kv, &(struct kv_fault){ .mode = KV_FAULT_COMMIT, .rc = RC_NO_SPACE, .nth = 0 });
    assert_int_equal(kv_transact(kv, P, put_k, NULL), RC_NO_SPACE);
    assert_int_equal(get_k(kv), RC_NOT_FOUND);
    kv_faulty_arm(kv, &(struct kv_fault){ .mode = KV_FAULT_COMMIT_ANSWER, .nth = 0 });
    assert_int_equal(kv_transact(kv, P, put_k, NULL), RC_TIMEOUT);
    assert_int_equal(get_k(kv), RC_OK);
    kv_close(kv);
}

static void random_faults_come_at_their_rate_and_again_with_their_seed(void **state)
{
    struct kv_fault fault = { .rc = RC_UNAVAILABLE, .nth = -1, .rate_ppm = 100000, .seed = 42 };
    unsigned failed[2] = { 0 };
    struct kv *kv;

    assert_int_equal(kv_faulty_open(memory(), &kv), RC_OK);
    for (unsigned round = 0; round < 2; round++) {
        kv_faulty_arm(kv, &fault);
        for (unsigned i = 0; i < 10000; i++)
            failed[round] += get_k(kv) == RC_UNAVAILABLE;
        assert_int_equal(failed[round], kv_faulty_injected(kv));
    }
    assert_in_range(failed[0], 800, 1200);
    assert_int_equal(failed[0], failed[1]);
    kv_close(kv);
}

static void slow_stores_take_their_time(void **state)
{
    int64_t begin = clock_mono_ns();
    struct kv *kv;

    assert_int_equal(kv_slow_open(memory(), 2000, 4000, &kv), RC_OK);
    assert_int_equal(some_calls(kv), RC_OK);
    assert_true(clock_mono_ns() - begin >= 7 * 2 * NS_PER_MS);
    kv_close(kv);
}

static void traces_count_and_tell(void **state)
{
    AUTO(buf_fini) struct buf log = { .max = 4096 };
    struct kv_trace_counts counts;
    struct kv *kv;

    assert_int_equal(kv_trace_open(memory(), 4096, &kv), RC_OK);
    assert_int_equal(some_calls(kv), RC_OK);
    kv_trace_counts(kv, &counts);
    assert_int_equal(counts.calls[KV_CALL_TXN_WRITE], 1);
    assert_int_equal(counts.calls[KV_CALL_SCAN_NEXT], 2);
    assert_int_equal(counts.errors[KV_CALL_SCAN_NEXT], 0);
    assert_int_equal(kv_trace_take_log(kv, &log), RC_OK);
    assert_true(slice_eq(buf_slice(&log), SLICE("begin \"p\" OK\n"
                                                "txn_write \"p\" \"k\" OK\n"
                                                "txn_commit OK\n"
                                                "get \"p\" \"k\" OK\n"
                                                "scan_open \"p\" OK\n"
                                                "scan_next \"k\" OK\n"
                                                "scan_next NOT_FOUND\n")));
    buf_clear(&log);
    assert_int_equal(kv_trace_take_log(kv, &log), RC_OK);
    assert_int_equal(log.n, 0);
    kv_close(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_can_fail_in_turn),
        cmocka_unit_test(commits_fail_before_or_after_they_are_made),
        cmocka_unit_test(random_faults_come_at_their_rate_and_again_with_their_seed),
        cmocka_unit_test(slow_stores_take_their_time),
        cmocka_unit_test(traces_count_and_tell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
