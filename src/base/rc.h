/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rc — the one result code of fallible functions: what happened, never where.
 *
 * Owns:    nothing; names are static.
 * Threads: any.
 */
#ifndef STRATA_BASE_RC_H
#define STRATA_BASE_RC_H

#include "base/base.h"

enum rc {
    RC_OK = 0,
    RC_NOT_FOUND,    /* no such key, bucket, chunk, … ; never used for a failing backend */
    RC_EXISTS,       /* it is there already */
    RC_CONFLICT,     /* somebody else changed what this depended on; begin again */
    RC_PRECONDITION, /* a condition of the caller's does not hold */
    RC_INVALID,      /* the input makes no sense */
    RC_TOO_LARGE,    /* past a limit */
    RC_DENIED,       /* not allowed */
    RC_UNSUPPORTED,  /* makes sense, but is not offered */
    RC_NO_MEM,
    RC_NO_SPACE,    /* the store is full */
    RC_TIMEOUT,     /* the deadline passed; for a commit: the outcome is unknown */
    RC_CANCELLED,   /* the client or the shutdown took it back */
    RC_UNAVAILABLE, /* a backend or resource cannot serve now */
    RC_CORRUPT,     /* stored bytes are not what was written */
    RC_EOF,         /* the stream ended (early, where an end was not due) */
    RC_INTERNAL,    /* a bug or an error of the system that has no better name */
    RC_COUNT
};

/* "NOT_FOUND" and so on; static. */
const char *rc_name(enum rc rc);
/* True when the same call may well succeed later without any change by the caller. */
bool rc_retryable(enum rc rc);

#endif
