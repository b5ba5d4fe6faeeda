/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bufpool — fixed-size buffers for body data, with a limit in bytes and fair waiting: the
 * back-pressure that keeps memory bounded by (streams × window), never by object size.
 *
 * Owns:    all buffers, lent out between get and put.
 * Errors:  RC_TIMEOUT, RC_CANCELLED from the wait; RC_NO_MEM.
 * Threads: any fiber; put also from plain threads. Freed buffers are kept per loop for the next
 * get.
 */
#ifndef STRATA_RT_BUFPOOL_H
#define STRATA_RT_BUFPOOL_H

#include "rt/rt.h"

struct bufpool;

/* Buffers of `size` bytes each, page-aligned; at most `max_bytes` in all lent out at once. */
enum rc bufpool_new(size_t size, size_t max_bytes, struct bufpool **ret) MUST_CHECK;
void bufpool_free(struct bufpool *p); /* all buffers are back */
size_t bufpool_size(const struct bufpool *p);
enum rc bufpool_get(struct bufpool *p, void **ret, int64_t deadline_ns) MUST_CHECK;
void bufpool_put(struct bufpool *p, void *buffer); /* NULL is allowed */
/* Bytes lent out now, and kept for reuse. Idle buffers beyond a small reserve go back to the
 * system. */
void bufpool_stats(const struct bufpool *p, size_t *ret_lent, size_t *ret_idle);

#endif
