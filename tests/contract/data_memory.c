/* SPDX-License-Identifier: Apache-2.0 */
#include "data_suite.h"

#include "data/memory.h"
#include "data/wrap.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct data *open_memory(void)
{
    struct data *d;

    assert_int_equal(data_memory_open(256u << 20, &d), RC_OK);
    return d;
}

static void memory_is_bounded(void **state)
{
    char bytes[1000];
    struct iovec iov = { bytes, sizeof bytes };
    struct extent first, e;
    struct data *d;
    unsigned n = 0;
    enum rc rc;

    memset(bytes, 7, sizeof bytes);
    assert_int_equal(data_memory_open(100000, &d), RC_OK);
    assert_int_equal(data_probe(d), RC_OK);
    assert_int_equal(data_put(d, NULL, &iov, 1, &first), RC_OK);
    while ((rc = data_put(d, NULL, &iov, 1, &e)) == RC_OK)
        n++;
    assert_int_equal(rc, RC_NO_SPACE);
    assert_int_equal(note_error(rc), S3E_STORAGE_FULL);
    assert_true(n > 80 && n < 100);
    assert_int_equal(suite_count(d), n + 1);
    assert_int_equal(data_remove(d, &first, 1), RC_OK);
    assert_int_equal(data_put(d, NULL, &iov, 1, &e), RC_OK);
    data_close(d);
    assert_int_equal(data_memory_open(10, &d), RC_OK);
    assert_int_equal(data_probe(d), RC_NO_SPACE);
    data_close(d);
}

static void faults_hit_the_chosen_call(void **state)
{
    struct data_fault second = { .verbs = DATA_PUT, .nth = 2, .rc = RC_UNAVAILABLE };
    struct data_fault lost = { .verbs = DATA_PUT, .nth = 1, .rc = RC_TIMEOUT, .after = true };
    struct data_fault all = { .verbs = DATA_ANY, .nth = 1, .onwards = true, .rc = RC_UNAVAILABLE };
    struct data_fault flip = { .verbs = DATA_GET, .nth = 1, .flip = true };
    char bytes[100] = "x";
    struct iovec iov = { bytes, sizeof bytes };
    struct extent e;
    struct data *d;

    assert_int_equal(data_faulty_open(open_memory(), &second, &d), RC_OK);
    assert_int_equal(data_put(d, NULL, &iov, 1, &e), RC_OK);
    assert_int_equal(data_put(d, NULL, &iov, 1, &e), RC_UNAVAILABLE);
    assert_int_equal(data_put(d, NULL, &iov, 1, &e), RC_OK);
    assert_int_equal(suite_count(d), 2);
    data_faulty_arm(d, &lost);
    assert_int_equal(data_put(d, NULL, &iov, 1, &e), RC_TIMEOUT);
    assert_int_equal(suite_count(d), 3);
    data_faulty_arm(d, &flip);
    assert_int_equal(data_get(d, &e, 0, bytes, sizeof bytes), RC_CORRUPT);
    assert_int_equal(data_get(d, &e, 0, bytes, sizeof bytes), RC_OK);
    data_faulty_arm(d, &all);
    assert_int_equal(data_get(d, &e, 0, bytes, sizeof bytes), RC_UNAVAILABLE);
    assert_int_equal(data_stat(d, &e), RC_UNAVAILABLE);
    assert_int_equal(data_remove(d, &e, 1), RC_UNAVAILABLE);
    assert_int_equal(data_probe(d), RC_UNAVAILABLE);
    data_faulty_arm(d, NULL);
    assert_int_equal(data_stat(d, &e), RC_OK);
    data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(faults_hit_the_chosen_call),
    };
    int failed = cmocka_run_group_tests_name("memory", tests, NULL, NULL);

    failed += data_suite_run("memory", open_memory);
    return failed != 0;
}
