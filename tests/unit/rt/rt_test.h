/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt_test — runs each test's body on a fiber of a fresh runtime.
 *
 * Owns:    the runtime, for one test.
 * Threads: cmocka's checks may jump out of a test, which no fiber survives: on fibers use CHECK.
 */
#ifndef STRATA_TESTS_RT_TEST_H
#define STRATA_TESTS_RT_TEST_H

#include "rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* On fiber of loop 0. */
static inline void on_runtime(unsigned loops, void (*fn)(void *arg), void *arg)
{
    struct rt *rt;

    CHECK(rt_start(&(struct rt_config){ .loops = loops, .offload_threads = 2 }, &rt) == RC_OK);
    CHECK(rt_run(rt, fn, arg) == RC_OK);
    rt_stop(rt);
}

#endif
