/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap — stores around another store, for tests: faulty fails chosen calls, slow delays them, trace
 * tells of them.
 *
 * Owns:    a wrapper owns its inner store and closes it; when opening fails the inner store is
 * still the caller's. Errors:  those of the inner store, and what a fault says. Threads: as data.h;
 * data_faulty_arm with no calls in flight.
 */
#ifndef STRATA_DATA_WRAP_H
#define STRATA_DATA_WRAP_H

#include "data/data.h"

enum data_verb {
    DATA_PUT = 1,
    DATA_GET = 2,
    DATA_REMOVE = 4,
    DATA_STAT = 8,
    DATA_SCAN = 16,
    DATA_PROBE = 32,
    DATA_ANY = 63,
};

struct data_fault {
    unsigned verbs; /* enum data_verb: the calls that are counted */
    uint64_t nth;   /* the call that fails, from 1; 0: none */
    bool onwards;   /* all later ones, too */
    bool after;     /* the call is made, and its answer is lost */
    bool flip;      /* a get gives one wrong bit in place of rc */
    enum rc rc;
};
enum rc data_faulty_open(struct data *inner, const struct data_fault *fault,
                         struct data **ret) MUST_CHECK;
/* Starts counting anew with another fault; NULL: none. */
void data_faulty_arm(struct data *faulty, const struct data_fault *fault);

/* Each call of `verbs` first sleeps min_ms … max_ms. */
struct data_delay {
    unsigned verbs;
    unsigned min_ms, max_ms;
};
enum rc data_slow_open(struct data *inner, const struct data_delay *delay,
                       struct data **ret) MUST_CHECK;

/* Called after each call, on its fiber. bytes: of the chunk or the read; extents for removes. */
typedef void (*data_trace_fn)(void *arg, enum data_verb verb, size_t bytes, enum rc rc,
                              int64_t took_ns);
enum rc data_trace_open(struct data *inner, data_trace_fn fn, void *arg,
                        struct data **ret) MUST_CHECK;

#endif
