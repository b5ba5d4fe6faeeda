/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench — the load generator's parts: options, requests with Signature V4, connections, results.
 *
 * Each thread runs an own epoll loop over its share of the connections; one request is in flight on
 * each. Closed loop: the next request starts when the last has ended. Open loop (--rate): request n
 * is due at start + n / rate, and its latency counts from then, whether or not a connection was
 * free (so a stall of the server is seen in full: no coordinated omission).
 *
 * Threads: struct bench_options is immutable during a run; a worker belongs to its thread.
 */
#ifndef STRATA_CLI_BENCH_BENCH_H
#define STRATA_CLI_BENCH_BENCH_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/slice.h"
#include "cli/bench/histogram.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>

enum bench_op {
    BENCH_PUT,
    BENCH_GET,
    BENCH_HEAD,
    BENCH_RANGE,
    BENCH_DELETE,
    BENCH_LIST,
    BENCH_MIXED,
    BENCH_MKBUCKET,
    BENCH_RMBUCKET,
    BENCH_OPS
};
extern const char *const bench_op_names[BENCH_OPS];

#define BENCH_PIDS_MAX 16

struct bench_options {
    const char *endpoint, *access, *secret, *region, *bucket, *prefix, *list_prefix, *label;
    char host[256]; /* Host header */
    struct sockaddr_storage addr;
    socklen_t addr_len;
    enum bench_op op;
    uint64_t objects, first, size, range, count, max_keys;
    unsigned concurrency, threads, mix_get; /* mix_get: percent of GETs in mixed */
    double duration_s, warmup_s, timeout_s, rate;
    bool sequential, verify, sign_body, delimiter, progress;
    const char *pid_name[BENCH_PIDS_MAX];
    int pid[BENCH_PIDS_MAX];
    unsigned pids;
};

/* 0 to go on; otherwise the exit status + 1 (1: help was printed, 3: wrong usage). */
int bench_options_parse(struct bench_options *o, int argc, char **argv);

/* ---- bodies: windows into one pattern, so that they cost nothing and can be verified ----------
 */

#define BENCH_SHIFTS 4096u
bool bench_pattern_init(uint64_t size);
const char *bench_pattern(uint64_t object); /* `size` bytes, for the object of this number */

/* ---- requests ---------------------------------------------------------------------------------
 */

struct bench_signer {
    const struct bench_options *o;
    struct hmac_key key;
    char day[9], stamp[17], scope[128];
    int64_t second; /* for which stamp was made */
};
void bench_signer_init(struct bench_signer *s, const struct bench_options *o);

struct bench_request {
    enum bench_op op;
    uint64_t object, range_at;
    const char *token; /* of a listing; "" at its start */
    struct slice body;
};
/* Writes the head; returns its length, or 0 when it does not fit. */
size_t bench_request_head(struct bench_signer *s, const struct bench_request *r, char *out,
                          size_t size);

/* ---- responses --------------------------------------------------------------------------------
 */

/* A strict enough reader of what servers answer: status, length, chunked coding, keep-alive. */
struct bench_response {
    char head[16384];
    size_t head_n;
    int status;
    bool have_head, chunked, close, until_close, chunk_ended;
    uint64_t left;   /* of the body or the chunk */
    uint64_t body_n; /* bytes of body seen */
    char line[32];   /* of a chunk size */
    size_t line_n;
};
enum bench_read { BENCH_MORE, BENCH_DONE, BENCH_BAD };
void bench_response_reset(struct bench_response *r);
/* Takes bytes in; body pieces go to sink. BENCH_DONE at the end of the response. */
enum bench_read bench_response_feed(struct bench_response *r, const char *p, size_t n, bool is_head,
                                    void (*sink)(void *arg, const char *p, size_t n), void *arg);

/* ---- results ----------------------------------------------------------------------------------
 */

struct bench_result {
    struct histogram latency;
    uint64_t ops, bytes, keys, errors, lost, wrong, by_status[600];
    int64_t last_ns; /* when the last counted request ended */
    char first_error[512];
};

struct bench_run {
    const struct bench_options *o;
    int64_t begin_ns, measure_ns, end_ns; /* monotonic; end INT64_MAX: by count alone */
    atomic_ullong issued;
    atomic_ullong done; /* for the progress line */
    atomic_ullong failed;
};

struct bench_worker {
    struct bench_run *run;
    unsigned connections, index;
    struct bench_result result;
    int rc; /* not 0: could not run at all */
};
void *bench_worker_main(void *worker);

/* Starts the threads, waits, prints one JSON line. Returns the exit status. */
int bench_s3_run(const struct bench_options *o);

#endif
