/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf — a growing byte buffer with a cap that it is born with.
 *
 * Owns:    its bytes; a slice of it is valid until the next call that adds or frees.
 * Errors:  RC_TOO_LARGE past max, RC_NO_MEM; the buffer keeps what it had.
 * Threads: one at a time.
 */
#ifndef STRATA_BASE_BUF_H
#define STRATA_BASE_BUF_H

#include "base/rc.h"
#include "base/slice.h"

struct buf {
    char *p;
    size_t n;   /* bytes used */
    size_t cap; /* bytes allocated */
    size_t max; /* n never exceeds it */
};

static inline void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){ .max = max };
}

void buf_fini(struct buf *b); /* keeps max; usable again as empty */

static inline void buf_clear(struct buf *b)
{
    b->n = 0;
}

static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){ b->p, b->n };
}

/* Makes room for `more` bytes behind n, without changing n. */
enum rc buf_reserve(struct buf *b, size_t more) MUST_CHECK;
enum rc buf_add(struct buf *b, struct slice s) MUST_CHECK;
enum rc buf_add_char(struct buf *b, char c) MUST_CHECK;
enum rc buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
enum rc buf_add_u64(struct buf *b, uint64_t v) MUST_CHECK; /* decimal */

#endif
