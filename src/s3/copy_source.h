/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_source — the x-amz-copy-source header.
 *
 * Owns:    results live in the arena or the header.
 * Errors:  S3E_INVALID_ARGUMENT, S3E_INVALID_URI, S3E_KEY_TOO_LONG; RC_NO_MEM.
 * Threads: any.
 */
#ifndef STRATA_S3_COPY_SOURCE_H
#define STRATA_S3_COPY_SOURCE_H

#include "base/arena.h"
#include "base/fail.h"

struct s3_copy_source {
    struct slice bucket, key;
    struct slice version; /* p NULL: none */
};

/* "[/]bucket/key[?versionId=id]", percent-encoded or raw. The version is split off first, so that a
 * key may hold '?'. */
enum rc s3_copy_source_parse(struct arena *a, struct slice header,
                             struct s3_copy_source *ret) MUST_CHECK;

#endif
