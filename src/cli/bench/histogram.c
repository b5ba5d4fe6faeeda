/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/histogram.h"

static unsigned slot_of(uint64_t ns)
{
    unsigned e;

    if (ns < HISTOGRAM_SUB)
        return (unsigned)ns;
    e = 63 - (unsigned)__builtin_clzll(ns) - 6; /* 7 bits stay: 64 … 127 in the upper half */
    return MIN(e * (HISTOGRAM_SUB / 2) + (unsigned)(ns >> e), HISTOGRAM_SLOTS - 1);
}

static uint64_t middle_of(unsigned slot)
{
    unsigned e;

    if (slot < HISTOGRAM_SUB)
        return slot;
    e = slot / (HISTOGRAM_SUB / 2) - 1;
    return ((uint64_t)(slot - e * (HISTOGRAM_SUB / 2)) << e) + ((UINT64_C(1) << e) >> 1);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    h->slot[slot_of(ns)]++;
    h->n++;
    h->sum += (double)ns;
    h->max = MAX(h->max, ns);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++)
        into->slot[i] += from->slot[i];
    into->n += from->n;
    into->sum += from->sum;
    into->max = MAX(into->max, from->max);
}

uint64_t histogram_quantile(const struct histogram *h, double p)
{
    uint64_t want = (uint64_t)((double)h->n * p), seen = 0;

    for (unsigned i = 0; i < HISTOGRAM_SLOTS && h->n; i++) {
        seen += h->slot[i];
        if (seen > want)
            return MIN(middle_of(i), h->max);
    }
    return h->max;
}
