/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query — the parameters of a request target.
 *
 * Owns:    decoded names and values live in the arena or in the target.
 * Errors:  S3E_INVALID_URI for a bad escape or bytes that are no UTF-8; RC_NO_MEM.
 * Threads: any.
 */
#ifndef STRATA_S3_QUERY_H
#define STRATA_S3_QUERY_H

#include "base/arena.h"
#include "base/fail.h"

struct s3_param {
    struct slice name, value; /* decoded; value "" (p not NULL) without "=" */
};

struct s3_query {
    struct s3_param *params;
    size_t n;
};

enum rc s3_query_parse(struct arena *a, struct slice raw, struct s3_query *ret) MUST_CHECK;
/* The first of that name; p == NULL when absent. */
struct slice s3_query_get(const struct s3_query *q, struct slice name);

#endif
