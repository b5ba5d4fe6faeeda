/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fields — what the headers of a request say about an object, and back.
 *
 * Owns:    results live in the request's arena.
 * Errors:  S3E_METADATA_TOO_LARGE, S3E_INVALID_STORAGE_CLASS, S3E_INVALID_ARGUMENT,
 *          S3E_NOT_IMPLEMENTED for what cannot be honoured.
 * Threads: the request's fiber.
 */
#ifndef STRATA_S3_FIELDS_H
#define STRATA_S3_FIELDS_H

#include "s3/call.h"

#define S3_USER_METADATA_MAX 2048u /* bytes of all names and values */

/* content_type, headers, user and storage class of *o. */
enum rc s3_fields_read(struct s3_call *c, struct meta_object *o) MUST_CHECK;
enum rc s3_storage_class_read(struct s3_call *c, struct meta_object *o) MUST_CHECK;
/* Refuses encryption, tags, locks, grants: all that we could only ignore. For writes. */
enum rc s3_refuse_unsupported(struct s3_call *c) MUST_CHECK;
enum rc s3_check_canned_acl(struct s3_call *c) MUST_CHECK;
/* Refuses SSE-C headers on reads: nothing is stored so. */
enum rc s3_refuse_sse_c(struct s3_call *c) MUST_CHECK;
/* The stored value without an "aws-chunked" token; n == 0 when nothing is left. */
enum rc s3_without_aws_chunked(struct arena *a, struct slice value, struct slice *ret) MUST_CHECK;
/* Adds the object's headers to the answer; response-* parameters override. */
enum rc s3_fields_answer(struct s3_call *c, const struct meta_object *o) MUST_CHECK;
/* The ETag in its quotes. */
#define S3_ETAG_MAX (META_ETAG_MAX + 2u)
struct slice s3_etag_text(const struct meta_head *h, char out[S3_ETAG_MAX]);
void s3_etag_answer(struct s3_call *c, const struct meta_head *h);
/* "versionId" of an unversioned bucket: only "null" names anything. */
enum rc s3_check_version(struct s3_call *c) MUST_CHECK;

#endif
