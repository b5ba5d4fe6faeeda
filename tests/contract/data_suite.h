/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_suite — the cases that every chunk store passes, bare and inside each wrapper.
 *
 * Owns:    opens and closes a store per case, on a runtime that it starts once.
 * Threads: main thread; cases run on fibers.
 */
#ifndef STRATA_TESTS_DATA_SUITE_H
#define STRATA_TESTS_DATA_SUITE_H

#include "data/data.h"
#include "rt/rt.h"

/* Opens a fresh, empty store. */
typedef struct data *(*suite_open_fn)(void);

/* Runs all cases over the driver; returns the number of failed ones. */
int data_suite_run(const char *driver, suite_open_fn open);

/* For cases of one driver: runs fn on a fiber of a runtime with two loops. */
void suite_on_fiber(void (*fn)(void *arg), void *arg);

/* n bytes that depend on seed alone. */
void suite_fill(void *p, size_t n, uint64_t seed);
bool suite_filled(const void *p, size_t n, uint64_t seed);
/* Puts n such bytes, asserting success. */
struct extent suite_put(struct data *d, uint32_t n, uint64_t seed);
/* Asserts that the chunk reads as those bytes. */
void suite_check(struct data *d, const struct extent *e, uint64_t seed);
/* Chunks that a scan lists. */
size_t suite_count(struct data *d);

#endif
