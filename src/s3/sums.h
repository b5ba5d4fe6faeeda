/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sums — the digests that a client sends along with a body, and their check.
 *
 * Owns:    nothing.
 * Errors:  S3E_INVALID_DIGEST, S3E_BAD_DIGEST, S3E_INVALID_REQUEST,
 * S3E_X_AMZ_CONTENT_SHA256_MISMATCH. Threads: the request's fiber. Source:  AWS "Checking object
 * integrity in Amazon S3", PutObject.
 */
#ifndef STRATA_S3_SUMS_H
#define STRATA_S3_SUMS_H

#include "s3/call.h"

struct s3_sums {
    bool has_md5;
    unsigned char md5[MD5_SIZE];
    enum meta_checksum kind; /* announced by header or trailer, or asked for; META_SUM_NONE */
    bool has_value;          /* value is known before the body ends */
    bool in_trailer;
    unsigned char value[META_SUM_SIZE_MAX];
};

size_t s3_sum_size(enum meta_checksum kind);             /* bytes */
const char *s3_sum_name(enum meta_checksum kind);        /* "CRC32" */
struct slice s3_sum_header(enum meta_checksum kind);     /* "x-amz-checksum-crc32" */
enum meta_checksum s3_sum_parse(struct slice algorithm); /* case ignored; META_SUM_NONE: unknown */

/* Reads Content-MD5, x-amz-checksum-*, x-amz-trailer and x-amz-sdk-checksum-algorithm. */
enum rc s3_sums_read(struct s3_call *c, struct s3_sums *ret) MUST_CHECK;
/* Bits for object_source.want. */
unsigned s3_sums_want(const struct s3_call *c, const struct s3_sums *s);
/* Checks what was computed against what was sent; body may be NULL when none was read. */
enum rc s3_sums_check(struct s3_call *c, struct s3_sums *s, const struct auth_body *body,
                      const struct object_sums *got) MUST_CHECK;
/* x-amz-checksum-* and x-amz-checksum-type of an object. */
void s3_sums_answer(struct s3_call *c, const struct meta_object *o);

#endif
