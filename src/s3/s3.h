/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3 — the S3 protocol over http, auth and object: routing, requests, answers and errors.
 *
 * Owns:    the gateway copies its settings; engine, auth and metrics are borrowed.
 * Errors:  RC_NO_MEM; RC_INVALID for a bad host pattern, with a note.
 * Threads: one gateway serves all loops at once.
 * Source:  AWS S3 API Reference; Ceph RGW where its users rely on it.
 */
#ifndef STRATA_S3_S3_H
#define STRATA_S3_S3_H

#include "auth/auth.h"
#include "http/http.h"
#include "object/object.h"
#include "obs/metrics.h"

struct s3_gateway;

struct s3_config {
    struct object_engine *engine;
    struct auth *auth;
    const char *region;         /* answered as bucket region */
    const char *vhost_patterns; /* "*.s3.local,*.example.com"; NULL, "" or "-": path style only */
    struct metrics *metrics;    /* NULL: not counted */
    /* Called first for requests that address no virtual host; true when it has answered. May be
     * NULL. */
    bool (*builtin)(void *ctx, struct http_req *req);
    void *builtin_ctx;
    bool log_requests; /* one line per request at level info; otherwise at debug */
};

enum rc s3_gateway_new(const struct s3_config *cfg, struct s3_gateway **ret) MUST_CHECK;
void s3_gateway_free(struct s3_gateway *g); /* NULL is fine */

/* For struct http_handler; ctx is the gateway. */
void s3_serve(void *ctx, struct http_req *req);
void s3_refuse(void *ctx, struct http_req *req, int status, const char *why);

#endif
