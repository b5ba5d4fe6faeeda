/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv/wrap — stores for tests around another one: failing, slow, and telling what was called.
 *
 * Owns:    each takes inner and closes it with itself; when opening fails, inner stays the
 * caller's. Errors:  those of inner, RC_NO_MEM on open, and the injected ones. Threads: as inner.
 * The figures may be read at any time.
 */
#ifndef STRATA_KV_WRAP_H
#define STRATA_KV_WRAP_H

#include "base/buf.h"
#include "kv/kv.h"

enum kv_call {
    KV_CALL_GET,
    KV_CALL_SCAN_OPEN,
    KV_CALL_SCAN_NEXT,
    KV_CALL_SCAN_SEEK,
    KV_CALL_BEGIN,
    KV_CALL_TXN_GET,
    KV_CALL_TXN_WRITE,
    KV_CALL_TXN_COMMIT,
    KV_CALL_PROBE,
    KV_CALL_CHECKPOINT,
    KV_CALL_N
};
/* "get", "scan_open" and so on; static. */
const char *kv_call_name(enum kv_call call);

/* ---- faulty --------------------------------------------------------------------------------- */

enum kv_fault_mode {
    KV_FAULT_CALL,          /* any call gives rc instead of being made */
    KV_FAULT_COMMIT,        /* a commit gives rc and writes nothing */
    KV_FAULT_COMMIT_ANSWER, /* a commit that succeeds gives RC_TIMEOUT all the same */
};

struct kv_fault {
    enum kv_fault_mode mode;
    enum rc rc;        /* ignored by KV_FAULT_COMMIT_ANSWER */
    int64_t nth;       /* fails this call of those the mode is about (0 is the first); < 0: none */
    unsigned rate_ppm; /* and each with this probability, in millionths */
    uint64_t seed;
};

/* Passes everything on until armed. */
enum rc kv_faulty_open(struct kv *inner, struct kv **ret) MUST_CHECK;
/* Counts from zero again. Not while calls are in flight. */
void kv_faulty_arm(struct kv *faulty, const struct kv_fault *fault);
void kv_faulty_disarm(struct kv *faulty);
/* Calls that the mode was about since it was armed, and how many of them failed by injection. */
uint64_t kv_faulty_calls(const struct kv *faulty);
uint64_t kv_faulty_injected(const struct kv *faulty);

/* ---- slow ----------------------------------------------------------------------------------- */

/* Each call first waits for a random time from the range, parked when on a fiber. Deadline and
 * cancellation end the wait: then the call was not made and gives their result. */
enum rc kv_slow_open(struct kv *inner, unsigned min_us, unsigned max_us,
                     struct kv **ret) MUST_CHECK;

/* ---- trace ---------------------------------------------------------------------------------- */

struct kv_trace_counts {
    uint64_t calls[KV_CALL_N];  /* by enum kv_call */
    uint64_t errors[KV_CALL_N]; /* those that gave neither RC_OK nor RC_NOT_FOUND */
};

/* Keeps at most log_max bytes of log, a line per call; later lines are dropped. 0: counts alone. */
enum rc kv_trace_open(struct kv *inner, size_t log_max, struct kv **ret) MUST_CHECK;
void kv_trace_counts(const struct kv *trace, struct kv_trace_counts *ret);
/* Appends the log to out and begins a new one. RC_TOO_LARGE, RC_NO_MEM: the log stays. */
enum rc kv_trace_take_log(struct kv *trace, struct buf *out) MUST_CHECK;

#endif
