/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>

#define BLOCK_SIZE ((size_t)8192)
#define ALIGN ((size_t)16)

#if defined(__SANITIZE_ADDRESS__)
#define ONE_BY_ONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_BY_ONE 1
#endif
#endif
#ifndef ONE_BY_ONE
#define ONE_BY_ONE 0
#endif

struct arena_block {
    struct arena_block *next;
    size_t size; /* of bytes[] */
    char bytes[] __attribute__((aligned(16)));
};

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){ .max = max };
}

static void free_blocks(struct arena_block *b)
{
    while (b) {
        struct arena_block *next = b->next;

        free(b);
        b = next;
    }
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = NULL;

    if (!ONE_BY_ONE && a->blocks) {
        struct arena_block **link = &a->blocks;

        /* The oldest block has the plain size; larger ones were made for single requests. */
        while ((*link)->next)
            link = &(*link)->next;
        if ((*link)->size <= BLOCK_SIZE) {
            keep = *link;
            *link = NULL;
        }
    }
    free_blocks(a->blocks);
    a->blocks = keep;
    a->at = keep ? keep->bytes : NULL;
    a->end = keep ? keep->bytes + keep->size : NULL;
    a->used = 0;
}

void arena_fini(struct arena *a)
{
    free_blocks(a->blocks);
    *a = (struct arena){ .max = a->max };
}

static void *alloc_block(struct arena *a, size_t n)
{
    size_t size = ONE_BY_ONE || n > BLOCK_SIZE / 4 ? n : BLOCK_SIZE;
    struct arena_block *b = malloc(sizeof *b + size);

    if (!b)
        return NULL;
    b->size = size;
    if (size == n && a->blocks && !ONE_BY_ONE) {
        /* A big one goes behind the current block, whose free room stays in use. */
        b->next = a->blocks->next;
        a->blocks->next = b;
        return b->bytes;
    }
    b->next = a->blocks;
    a->blocks = b;
    a->at = b->bytes + n;
    a->end = b->bytes + size;
    return b->bytes;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t need = (n + ALIGN - 1) & ~(ALIGN - 1);
    void *p;

    if (need < n || need > a->max - a->used)
        return NULL;
    if (ONE_BY_ONE)
        need = n;
    a->used += need;
    if (!ONE_BY_ONE && need <= (size_t)(a->end - a->at)) {
        p = a->at;
        a->at += need;
        return p ? p : alloc_block(a, need);
    }
    return alloc_block(a, need);
}

void *arena_zalloc(struct arena *a, size_t n)
{
    void *p = arena_alloc(a, n);

    if (p)
        memset(p, 0, n);
    return p;
}

struct slice arena_copy(struct arena *a, struct slice s)
{
    char *p = arena_alloc(a, s.n + 1);

    if (!p)
        return SLICE_NONE;
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = 0;
    return slice_of(p, s.n);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return NULL;
    p = arena_alloc(a, (size_t)n + 1);
    if (!p)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
