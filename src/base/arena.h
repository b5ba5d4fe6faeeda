/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena — allocations of one request, all freed in one step.
 *
 * Owns:    all memory it returns, until arena_reset or arena_fini. No single free.
 * Errors:  NULL when memory or the arena's limit is exhausted.
 * Threads: one at a time.
 *
 * Under AddressSanitizer each allocation is its own malloc, so that overruns still show.
 */
#ifndef STRATA_BASE_ARENA_H
#define STRATA_BASE_ARENA_H

#include "base/slice.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    char *at, *end;             /* free room in the newest block */
    size_t used, max;           /* bytes handed out, and their limit */
};

void arena_init(struct arena *a, size_t max);
void arena_reset(struct arena *a); /* frees everything but one block, kept for the next use */
void arena_fini(struct arena *a);

/* Aligned to 16, not zeroed. n may be 0. */
void *arena_alloc(struct arena *a, size_t n) MUST_CHECK;
void *arena_zalloc(struct arena *a, size_t n) MUST_CHECK;
/* A copy that also has a NUL behind it. On failure p is NULL (also for an empty s: check p). */
struct slice arena_copy(struct arena *a, struct slice s) MUST_CHECK;
/* NULL on failure. */
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;

#define ARENA_NEW(a, type) ((type *)arena_zalloc((a), sizeof(type)))

#endif
