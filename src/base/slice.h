/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice — a borrowed run of bytes, passed by value.
 *
 * Owns:    nothing; a slice lives as long as what it points into. It need not end in NUL.
 * Errors:  none.
 * Threads: any.
 */
#ifndef STRATA_BASE_SLICE_H
#define STRATA_BASE_SLICE_H

#include "base/base.h"

struct slice {
    const char *p; /* may be NULL when n is 0 */
    size_t n;
};

/* For a literal, without its NUL. SLICE_INIT is the form for static initialisers. */
#define SLICE_INIT(lit)                                                                            \
    {                                                                                              \
        (lit), sizeof(lit) - 1                                                                     \
    }
#define SLICE(lit) ((struct slice)SLICE_INIT(lit))
#define SLICE_NONE ((struct slice){ NULL, 0 })
/* For printf's "%.*s". */
#define SLICE_ARG(s) (int)(s).n, (s).n ? (s).p : ""

static inline struct slice slice_of(const void *p, size_t n)
{
    return (struct slice){ p, n };
}

static inline struct slice slice_str(const char *z)
{
    return (struct slice){ z, z ? strlen(z) : 0 };
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* memcmp order; a proper prefix comes first. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    size_t n = MIN(a.n, b.n);
    int c = n ? memcmp(a.p, b.p, n) : 0;

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static inline bool slice_starts(struct slice s, struct slice prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool slice_ends(struct slice s, struct slice suffix)
{
    return s.n >= suffix.n &&
           (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

/* From offset `from` (clamped) to the end. */
static inline struct slice slice_from(struct slice s, size_t from)
{
    from = MIN(from, s.n);
    return (struct slice){ s.p ? s.p + from : NULL, s.n - from };
}

static inline struct slice slice_first(struct slice s, size_t n)
{
    return (struct slice){ s.p, MIN(n, s.n) };
}

/* Index of the first c, or s.n. */
static inline size_t slice_find_char(struct slice s, char c)
{
    const char *q = s.n ? memchr(s.p, c, s.n) : NULL;

    return q ? (size_t)(q - s.p) : s.n;
}

/* Index of the first occurrence of needle, or SIZE_MAX. An empty needle is found at 0. */
size_t slice_find(struct slice s, struct slice needle);

/* ASCII case is ignored, other bytes compare as they are. */
bool slice_eq_nocase(struct slice a, struct slice b);

/* Without leading and trailing spaces and tabs (RFC 9110 OWS). */
struct slice slice_trim(struct slice s);

/* Cuts s at the first sep: returns what is before, leaves what is after in *rest. Without a sep the
 * whole is returned and *rest becomes empty with p == NULL. */
struct slice slice_cut(struct slice s, char sep, struct slice *rest);

/* Decimal digits only, no sign or space. False, and *ret untouched, when empty, not a number or too
 * large for 64 bits. */
bool slice_to_u64(struct slice s, uint64_t *ret) MUST_CHECK;

/* A well-formed UTF-8 string (RFC 3629: no surrogates, no overlong forms). */
bool slice_is_utf8(struct slice s);

#endif
