/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "kv/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <unistd.h>

#include <cmocka.h>

#define P SLICE("p")
#define SMALL ((size_t)256 << 10)

static enum rc write_one(struct kv_txn *txn, void *arg)
{
    return kv_txn_write(txn, arg);
}

static enum rc put(struct kv *kv, unsigned key, struct slice value, int64_t expires_at_ns)
{
    struct kv_write w = { .kind = KV_PUT,
                          .partition = P,
                          .key = slice_of(&key, sizeof key),
                          .value = value,
                          .expires_at_ns = expires_at_ns };

    return kv_transact(kv, P, write_one, &w);
}

static enum rc remove_key(struct kv *kv, unsigned key)
{
    struct kv_write w = { .kind = KV_DELETE, .partition = P, .key = slice_of(&key, sizeof key) };

    return kv_transact(kv, P, write_one, &w);
}

static uint64_t memory_now(struct kv *kv)
{
    struct kv_stats stats;

    kv_stats(kv, &stats);
    return stats.memory_bytes;
}

static void a_full_store_refuses_puts_and_takes_deletes(void **state)
{
    static char value[1000];
    struct kv *kv;
    unsigned n = 0;
    enum rc rc;

    assert_int_equal(kv_memory_open(SMALL, &kv), RC_OK);
    while ((rc = put(kv, n, slice_of(value, sizeof value), 0)) == RC_OK)
        n++;
    assert_int_equal(rc, RC_NO_SPACE);
    assert_true(n > 200 && memory_now(kv) <= SMALL);
    assert_int_equal(put(kv, 0, slice_of(value, sizeof value), 0), RC_OK); /* in place */
    assert_int_equal(put(kv, n, slice_of(value, sizeof value), 0), RC_NO_SPACE);
    assert_int_equal(remove_key(kv, 5), RC_OK);
    assert_int_equal(remove_key(kv, 6), RC_OK); /* entries differ in size by a few bytes */
    assert_int_equal(put(kv, n, slice_of(value, sizeof value), 0), RC_OK);
    for (unsigned i = 0; i <= n; i++)
        assert_int_equal(remove_key(kv, i), RC_OK);
    assert_int_equal(memory_now(kv), 0);
    kv_close(kv);
}

static void old_versions_go_with_the_last_snapshot(void **state)
{
    struct kv_scan *scan;
    struct kv_item item;
    uint64_t usual;
    struct kv *kv;

    assert_int_equal(kv_memory_open(SMALL, &kv), RC_OK);
    assert_int_equal(put(kv, 1, SLICE("0123456789"), 0), RC_OK);
    assert_int_equal(put(kv, 2, SLICE("0123456789"), 0), RC_OK);
    usual = memory_now(kv);
    assert_int_equal(kv_scan_open(kv, &(struct kv_range){ .partition = P }, &scan), RC_OK);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(put(kv, 1, SLICE("9876543210"), 0), RC_OK);
    assert_int_equal(remove_key(kv, 2), RC_OK);
    assert_true(memory_now(kv) > usual);
    assert_int_equal(kv_scan_next(scan, &item), RC_OK);
    assert_true(slice_eq(item.value, SLICE("0123456789")));
    assert_int_equal(kv_scan_next(scan, &item), RC_OK);
    kv_scan_close(scan);
    assert_true(memory_now(kv) < usual);
    assert_int_equal(remove_key(kv, 1), RC_OK);
    assert_int_equal(memory_now(kv), 0);
    kv_close(kv);
}

static void expired_entries_are_swept_by_later_commits(void **state)
{
    int64_t soon = clock_wall_ns() + 50 * NS_PER_MS;
    uint64_t full;
    struct kv *kv;

    assert_int_equal(kv_memory_open(SMALL, &kv), RC_OK);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(put(kv, i * 37 % 100, SLICE("v"), soon + (int64_t)i * 1000), RC_OK);
    full = memory_now(kv);
    while (clock_wall_ns() <= soon + NS_PER_MS)
        usleep(5000);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(put(kv, 1000, SLICE("v"), 0), RC_OK);
    assert_true(memory_now(kv) < full / 50);
    kv_close(kv);
}

static void a_store_full_of_expired_entries_has_room(void **state)
{
    static char value[1000];
    int64_t soon = clock_wall_ns() + 50 * NS_PER_MS;
    struct kv *kv;
    unsigned n = 0;

    assert_int_equal(kv_memory_open(SMALL, &kv), RC_OK);
    while (put(kv, n, slice_of(value, sizeof value), soon) == RC_OK)
        n++;
    while (clock_wall_ns() <= soon)
        usleep(5000);
    assert_int_equal(put(kv, n, slice_of(value, sizeof value), 0), RC_OK);
    assert_int_equal(kv_probe(kv), RC_OK);
    kv_close(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_store_refuses_puts_and_takes_deletes),
        cmocka_unit_test(old_versions_go_with_the_last_snapshot),
        cmocka_unit_test(expired_entries_are_swept_by_later_commits),
        cmocka_unit_test(a_store_full_of_expired_entries_has_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
