/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_suite — the contract of kv/kv.h as one suite of tests for any store.
 *
 * Owns:    the suite closes the stores that it opens.
 * Errors:  a case that fails says where and aborts the process: cases run on fibers and threads,
 * out of reach of cmocka's jumps.
 */
#ifndef STRATA_TESTS_CONTRACT_KV_SUITE_H
#define STRATA_TESTS_CONTRACT_KV_SUITE_H

#include "kv/kv.h"

enum kv_suite_modes {
    KV_SUITE_THREADS = 1, /* cases run on plain threads */
    KV_SUITE_FIBERS = 2,  /* cases run on fibers of two loops */
};

/* Makes and unmakes the stores of one kind. */
struct kv_suite {
    const char *name;
    unsigned modes;  /* enum kv_suite_modes */
    unsigned effort; /* percent of the usual number of random steps; slow stores take less */
    bool durable;    /* what was committed survives reopen */
    void *arg;
    /* A new, empty store. */
    enum rc (*open)(void *arg, struct kv **ret);
    /* Closes *kv and opens the same data again. NULL: cannot. */
    enum rc (*reopen)(void *arg, struct kv **kv);
    /* After the close of each store, to remove its files. NULL: nothing to do. */
    void (*clean)(void *arg);
};

/* Runs all cases in all modes; the number of failed ones, for main to return. */
int kv_suite_run(const struct kv_suite *suite) MUST_CHECK;

#endif
