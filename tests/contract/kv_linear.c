/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search of Wing and Gong with Lowe's memory of states already seen: take any event that was
 * invoked before the first answer among those left, apply it, go on; step back when nothing fits.
 */
#include "kv_suite_priv.h"

#define SEEN_BITS 16u
#define SEEN_MAX ((size_t)1 << 22)

struct seen {
    uint64_t done, value;
    bool used;
};

struct search {
    const struct kv_event *events;
    unsigned n;
    struct seen *seen; /* open addressing; size is a power of two */
    size_t size, count;
};

static size_t slot_of(const struct seen *table, size_t size, uint64_t done, uint64_t value)
{
    uint64_t h = (done ^ value * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    size_t i = (h >> 20) & (size - 1);

    while (table[i].used && (table[i].done != done || table[i].value != value))
        i = (i + 1) & (size - 1);
    return i;
}

static void grow(struct search *s)
{
    size_t size = s->size * 2;
    struct seen *table = calloc(size, sizeof *table);

    CHECK(table && size <= SEEN_MAX);
    for (size_t i = 0; i < s->size; i++)
        if (s->seen[i].used)
            table[slot_of(table, size, s->seen[i].done, s->seen[i].value)] = s->seen[i];
    free(s->seen);
    s->seen = table;
    s->size = size;
}

/* True the first time. */
static bool is_new(struct search *s, uint64_t done, uint64_t value)
{
    size_t i = slot_of(s->seen, s->size, done, value);

    if (s->seen[i].used)
        return false;
    s->seen[i] = (struct seen){ .done = done, .value = value, .used = true };
    if (++s->count * 2 > s->size)
        grow(s);
    return true;
}

static bool explain(struct search *s, uint64_t done, uint64_t value)
{
    uint64_t all = s->n == 64 ? UINT64_MAX : (UINT64_C(1) << s->n) - 1;
    uint64_t first_answer = UINT64_MAX;

    if (done == all)
        return true;
    if (!is_new(s, done, value))
        return false;
    for (unsigned i = 0; i < s->n; i++)
        if (!(done >> i & 1))
            first_answer = MIN(first_answer, s->events[i].answered);
    for (unsigned i = 0; i < s->n; i++) {
        const struct kv_event *e = &s->events[i];

        if (done >> i & 1 || e->invoked > first_answer)
            continue;
        if (e->kind != KV_EVENT_WRITE && e->saw != value)
            continue;
        if (explain(s, done | UINT64_C(1) << i, e->kind == KV_EVENT_READ ? value : e->wrote))
            return true;
    }
    return false;
}

bool kv_linearizable(const struct kv_event *events, unsigned n)
{
    struct search s = { .events = events, .n = n, .size = (size_t)1 << SEEN_BITS };
    bool found;

    CHECK(n <= KV_HISTORY_MAX);
    s.seen = calloc(s.size, sizeof *s.seen);
    CHECK(s.seen);
    found = explain(&s, 0, 0);
    free(s.seen);
    return found;
}
