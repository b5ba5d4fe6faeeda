/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigv4 — what a request claims about its signature, from the Authorization header or the query.
 *
 * Owns:    slices point into the request or its arena.
 * Errors:  noted with AWS's codes and texts.
 * Threads: any.
 * Source:  AWS sigv4-auth-using-authorization-header, sigv4-query-string-auth.
 */
#ifndef STRATA_AUTH_SIGV4_H
#define STRATA_AUTH_SIGV4_H

#include "auth/canonical.h"

/* The headers that authentication looks at; p == NULL when absent. */
struct sigv4_head {
    struct slice authorization, amz_date, date, content_sha256, security_token;
};
void sigv4_head_read(const struct http_req *req, struct sigv4_head *ret);

struct sigv4_claim {
    bool presigned;
    struct slice access_key, day, region, service, terminator; /* the credential scope */
    struct slice signed_headers, signature;
    struct slice content_sha256; /* p == NULL: none given */
    bool has_token;
    char amz_date[17]; /* "20060102T150405Z" and NUL */
    int64_t at_ns;     /* the same */
    uint64_t expires_s;
};

/* SigV4 or SigV2 parameters are in the query. */
bool sigv4_query_has(const struct canonical_query *q);
enum rc sigv4_parse_header(const struct sigv4_head *h, struct sigv4_claim *ret) MUST_CHECK;
enum rc sigv4_parse_query(struct arena *a, const struct sigv4_head *h,
                          const struct canonical_query *q, struct sigv4_claim *ret) MUST_CHECK;
/* Day, region (unless want_region.p is NULL), service and terminator of the scope. */
enum rc sigv4_check_scope(const struct sigv4_claim *c, struct slice want_region) MUST_CHECK;

#endif
