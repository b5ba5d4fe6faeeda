/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway — what every request shares. Private to src/s3.
 *
 * Owns:    see s3/s3.h.
 * Threads: immutable after s3_gateway_new, but for the metric slots, which are filled atomically.
 */
#ifndef STRATA_S3_GATEWAY_H
#define STRATA_S3_GATEWAY_H

#include "s3/call.h"

#include <stdatomic.h>

#define S3_STATUS_SLOTS 24u

struct s3_op_metrics {
    _Atomic(struct metric_series *) by_status[S3_STATUS_SLOTS];
    _Atomic(struct metric_series *) seconds;
};

struct s3_gateway {
    struct object_engine *engine;
    struct auth *auth;
    struct slice region; /* NUL-terminated */
    char *region_text;
    struct s3_vhosts vhosts;
    bool (*builtin)(void *ctx, struct http_req *req);
    void *builtin_ctx;
    bool log_requests;
    char host_id[48]; /* x-amz-id-2: the same for all requests of this process */
    struct metric_family *requests, *seconds;
    struct s3_op_metrics *ops; /* by position in s3_ops; one more for what was not routed */
};

/* Counts the finished request and writes its log line. */
void s3_account(struct s3_call *c);

#endif
