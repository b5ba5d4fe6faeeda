/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cond — conditional requests and ranges.
 *
 * Owns:    nothing.
 * Errors:  S3E_PRECONDITION_FAILED, S3E_NOT_MODIFIED, S3E_INVALID_RANGE.
 * Threads: any.
 * Source:  RFC 9110 §13 and §14; AWS GetObject ("consideration 1, 2"): If-Match outranks
 *          If-Unmodified-Since, If-None-Match outranks If-Modified-Since.
 */
#ifndef STRATA_S3_COND_H
#define STRATA_S3_COND_H

#include "meta/meta.h"

struct s3_read_cond {
    struct slice if_match, if_none_match, if_modified_since, if_unmodified_since;
};
/* *ret_condition names the header that failed. */
enum rc s3_cond_check(const struct s3_read_cond *cond, const struct meta_head *h,
                      const char **ret_condition) MUST_CHECK;

struct s3_range {
    bool partial; /* false: the whole */
    uint64_t offset, length;
};
/* A Range header's value for a body of that size. Anything but one well-formed range gives the
 * whole; S3E_INVALID_RANGE when it lies outside. */
enum rc s3_range_parse(struct slice header, uint64_t size, struct s3_range *ret) MUST_CHECK;
/* Does an If-Range value still name this representation? */
bool s3_if_range_holds(struct slice header, const struct meta_head *h);

#endif
