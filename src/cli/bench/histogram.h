/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram — latencies in log-linear slots: 128 per power of two, so an error of at most 0.8 %.
 *
 * Threads: one at a time; merge what threads gathered.
 */
#ifndef STRATA_CLI_BENCH_HISTOGRAM_H
#define STRATA_CLI_BENCH_HISTOGRAM_H

#include "base/base.h"

#define HISTOGRAM_SUB 128
#define HISTOGRAM_SLOTS (40 * HISTOGRAM_SUB)

struct histogram {
    uint64_t slot[HISTOGRAM_SLOTS];
    uint64_t n, max; /* max in nanoseconds */
    double sum;
};

void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The value in ns below which a fraction p of all lies; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double p);

#endif
