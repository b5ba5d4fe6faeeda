/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

void buf_fini(struct buf *b)
{
    free(b->p);
    *b = (struct buf){ .max = b->max };
}

enum rc buf_reserve(struct buf *b, size_t more)
{
    size_t need, cap;
    char *p;

    if (more > b->max - b->n)
        return RC_TOO_LARGE;
    need = b->n + more;
    if (need <= b->cap)
        return RC_OK;
    cap = MIN(MAX(MAX(need, b->cap * 2), (size_t)64), b->max);
    p = realloc(b->p, cap);
    if (!p)
        return RC_NO_MEM;
    b->p = p;
    b->cap = cap;
    return RC_OK;
}

enum rc buf_add(struct buf *b, struct slice s)
{
    enum rc rc = buf_reserve(b, s.n);

    if (rc)
        return rc;
    if (s.n)
        memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
    return RC_OK;
}

enum rc buf_add_char(struct buf *b, char c)
{
    return buf_add(b, slice_of(&c, 1));
}

enum rc buf_addf(struct buf *b, const char *fmt, ...)
{
    char small[256];
    AUTO(free_p) char *big = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0)
        return RC_INTERNAL;
    if ((size_t)n < sizeof small)
        return buf_add(b, slice_of(small, (size_t)n));
    big = malloc((size_t)n + 1);
    if (!big)
        return RC_NO_MEM;
    va_start(ap, fmt);
    vsnprintf(big, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return buf_add(b, slice_of(big, (size_t)n));
}

enum rc buf_add_u64(struct buf *b, uint64_t v)
{
    char d[20];
    size_t at = sizeof d;

    do {
        d[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return buf_add(b, slice_of(d + at, sizeof d - at));
}
