/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base — the attributes, clean-up helpers and standard headers that every file needs.
 *
 * Owns:    nothing.
 * Threads: any.
 */
#ifndef STRATA_BASE_BASE_H
#define STRATA_BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NO_RETURN __attribute__((noreturn))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Runs fn(&variable) when the variable leaves scope. */
#define AUTO(fn) __attribute__((cleanup(fn)))

/* Reads a pointer and sets it to NULL, to hand its target over. */
#define STEAL(p)                                                                                   \
    ({                                                                                             \
        __auto_type stolen_ = (p);                                                                 \
        (p) = NULL;                                                                                \
        stolen_;                                                                                   \
    })

#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

/* For AUTO on a malloc'd pointer. */
static inline void free_p(void *p)
{
    free(*(void **)p);
}

#endif
