/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/rocks/rocks_priv.h"

static struct counter **find_link(struct counters *cs, uint64_t hash, struct slice key)
{
    struct counter **link = &cs->buckets[(hash >> 32) % COUNTER_BUCKETS];

    while (*link &&
           ((*link)->hash != hash || !slice_eq(slice_of((*link)->key, (*link)->key_n), key)))
        link = &(*link)->next;
    return link;
}

struct counter *counters_find(struct counters *cs, uint64_t hash, struct slice key)
{
    return cs->count ? *find_link(cs, hash, key) : NULL;
}

struct counter *counters_add(struct counters *cs, uint64_t hash, struct slice key)
{
    struct counter *c = calloc(1, sizeof *c + key.n);
    struct counter **bucket = &cs->buckets[(hash >> 32) % COUNTER_BUCKETS];

    if (!c)
        return NULL;
    c->hash = hash;
    c->key_n = key.n;
    memcpy(c->key, key.p, key.n);
    c->next = *bucket;
    *bucket = c;
    cs->count++;
    return c;
}

void counters_drop(struct counters *cs, uint64_t hash, struct slice key)
{
    struct counter **link, *c;

    if (cs->count == 0)
        return;
    link = find_link(cs, hash, key);
    c = *link;
    if (!c)
        return;
    assert(!c->dirty);
    *link = c->next;
    cs->count--;
    free(c);
}

void counters_clear(struct counters *cs)
{
    for (size_t i = 0; i < COUNTER_BUCKETS; i++) {
        struct counter *c = cs->buckets[i];

        while (c) {
            struct counter *next = c->next;

            free(c);
            c = next;
        }
        cs->buckets[i] = NULL;
    }
    cs->count = 0;
    cs->dirty = NULL;
}
