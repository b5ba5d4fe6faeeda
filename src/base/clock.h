/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock — times of day and durations, and their forms on the wire.
 *
 * Wall times are nanoseconds since 1970 UTC (int64_t, names end in _ns); durations and deadlines
 * are of the monotonic clock.
 *
 * Threads: any.
 */
#ifndef STRATA_BASE_CLOCK_H
#define STRATA_BASE_CLOCK_H

#include "base/slice.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

int64_t clock_wall_ns(void);
int64_t clock_mono_ns(void);
int64_t clock_thread_cpu_ns(void);

/* "2006-01-02T15:04:05.000Z": the LastModified of S3's XML. */
#define CLOCK_ISO_SIZE 24
void clock_format_iso(char out[CLOCK_ISO_SIZE], int64_t wall_ns);
/* "Mon, 02 Jan 2006 15:04:05 GMT": IMF-fixdate of RFC 9110 §5.6.7. */
#define CLOCK_HTTP_SIZE 29
void clock_format_http(char out[CLOCK_HTTP_SIZE], int64_t wall_ns);
/* "20060102T150405Z": x-amz-date. */
#define CLOCK_AMZ_SIZE 16
void clock_format_amz(char out[CLOCK_AMZ_SIZE], int64_t wall_ns);

/* IMF-fixdate, RFC 850 and asctime forms (RFC 9110 §5.6.7). */
bool clock_parse_http(struct slice s, int64_t *ret_ns) MUST_CHECK;
/* ISO 8601 in UTC: extended or basic form, with or without a fraction of a second. */
bool clock_parse_iso(struct slice s, int64_t *ret_ns) MUST_CHECK;

#endif
