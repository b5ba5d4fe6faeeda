/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canonical — the canonical request of Signature Version 4, as S3 forms it.
 *
 * Owns:    all results live in the request's arena or point into the request.
 * Errors:  S3E_INVALID_URI for a bad percent escape; RC_NO_MEM; more per function.
 * Threads: any.
 * Source:  AWS "Signature calculations for the Authorization header": sig-v4-header-based-auth. The
 * path is decoded and encoded once; dots and double slashes stay.
 */
#ifndef STRATA_AUTH_CANONICAL_H
#define STRATA_AUTH_CANONICAL_H

#include "http/http.h"

struct canonical_param {
    struct slice raw_value;   /* as sent */
    struct slice name, value; /* decoded and encoded again */
};

struct canonical_query {
    struct canonical_param *params; /* in the order of the query */
    size_t n;
};

enum rc canonical_query_parse(struct arena *a, struct slice query,
                              struct canonical_query *ret) MUST_CHECK;

struct canonical_input {
    const struct http_req *req;
    const struct canonical_query *query; /* sorted by the call; X-Amz-Signature is left out */
    struct slice signed_headers;         /* names separated by ';' */
    struct slice payload_hash;
};

/* S3E_AUTHORIZATION_HEADER_MALFORMED when a name is listed twice, or too many are. *ret_unsigned
 * lists (by ", ") Host and the x-amz-* headers that are there but not signed; empty when none. */
enum rc canonical_request(const struct canonical_input *in, struct slice *ret,
                          struct slice *ret_unsigned) MUST_CHECK;

#endif
