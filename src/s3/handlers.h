/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handlers — one function per implemented operation, for the operation table.
 *
 * Owns:    nothing.
 * Errors:  see s3/call.h. A handler that returns RC_OK has answered.
 * Threads: each call on its own fiber.
 */
#ifndef STRATA_S3_HANDLERS_H
#define STRATA_S3_HANDLERS_H

#include "s3/call.h"

enum rc s3_list_buckets(struct s3_call *c) MUST_CHECK;
enum rc s3_create_bucket(struct s3_call *c) MUST_CHECK;
enum rc s3_head_bucket(struct s3_call *c) MUST_CHECK;
enum rc s3_delete_bucket(struct s3_call *c) MUST_CHECK;
enum rc s3_get_bucket_location(struct s3_call *c) MUST_CHECK;
/* Sub-resources of a bucket or object that were never configured: AWS's answer to that. */
enum rc s3_get_unconfigured(struct s3_call *c) MUST_CHECK;
enum rc s3_get_acl(struct s3_call *c) MUST_CHECK;
enum rc s3_preflight(struct s3_call *c) MUST_CHECK;
enum rc s3_list_objects(struct s3_call *c) MUST_CHECK;
enum rc s3_list_objects_v2(struct s3_call *c) MUST_CHECK;
enum rc s3_put_object(struct s3_call *c) MUST_CHECK;
enum rc s3_get_object(struct s3_call *c) MUST_CHECK; /* and HeadObject */
enum rc s3_copy_object(struct s3_call *c) MUST_CHECK;
enum rc s3_delete_object(struct s3_call *c) MUST_CHECK;
enum rc s3_delete_objects(struct s3_call *c) MUST_CHECK;

#endif
