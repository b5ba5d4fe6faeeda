/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target — which bucket and key a request names: virtual-host style or path style.
 *
 * Owns:    patterns are copied; results live in the arena or in the request.
 * Errors:  S3E_INVALID_URI, S3E_KEY_TOO_LONG, S3E_INVALID_BUCKET_NAME; RC_NO_MEM.
 * Threads: patterns are immutable after init.
 */
#ifndef STRATA_S3_TARGET_H
#define STRATA_S3_TARGET_H

#include "base/arena.h"
#include "base/fail.h"

struct s3_vhosts {
    char *text;             /* owns what the suffixes point into */
    struct slice *suffixes; /* lower case, "s3.local" for "*.s3.local"; longest first */
    size_t n;
};

/* list: comma separated; "" and "-" give none. RC_INVALID for an empty or misplaced "*". */
enum rc s3_vhosts_init(struct s3_vhosts *v, const char *list) MUST_CHECK;
void s3_vhosts_fini(struct s3_vhosts *v);

struct s3_target {
    struct slice bucket, key; /* n == 0: none. The key is an opaque string of bytes */
    bool vhost;
};

/* The bucket in a Host header, lower case; n == 0 for path style: no pattern matches, an address,
 * or the bare suffix. */
enum rc s3_vhost_bucket(const struct s3_vhosts *v, struct arena *a, struct slice host,
                        struct slice *ret) MUST_CHECK;
enum rc s3_target_parse(const struct s3_vhosts *v, struct arena *a, struct slice host,
                        struct slice path, struct s3_target *ret) MUST_CHECK;
/* Decodes and checks a key: valid escapes, UTF-8, no NUL, at most META_KEY_MAX bytes. */
enum rc s3_key_decode(struct arena *a, struct slice raw, struct slice *ret) MUST_CHECK;
enum rc s3_key_check(struct slice key) MUST_CHECK;

#endif
