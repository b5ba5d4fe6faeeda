/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/rocks/rocks_priv.h"

/* 1 MiB for each of the two tables, half full at most. */
#define SLOTS ((size_t)65536)
#define FULL (SLOTS / 2)

enum rc recent_init(struct recent *rec, uint64_t floor)
{
    *rec = (struct recent){ .floor = floor, .young_floor = floor };
    rec->young = calloc(SLOTS, sizeof *rec->young);
    rec->old = calloc(SLOTS, sizeof *rec->old);
    if (!rec->young || !rec->old) {
        recent_fini(rec);
        return RC_NO_MEM;
    }
    return RC_OK;
}

void recent_fini(struct recent *rec)
{
    free(rec->young);
    free(rec->old);
    *rec = (struct recent){ 0 };
}

static void clear(struct recent_slot *table)
{
    memset(table, 0, SLOTS * sizeof *table);
}

void recent_reset(struct recent *rec, uint64_t batch)
{
    clear(rec->young);
    clear(rec->old);
    rec->young_n = 0;
    rec->floor = rec->young_floor = batch;
}

static struct recent_slot *find(struct recent_slot *table, uint64_t hash)
{
    size_t i = hash & (SLOTS - 1);

    while (table[i].batch && table[i].hash != hash)
        i = (i + 1) & (SLOTS - 1);
    return &table[i];
}

static void turn_over(struct recent *rec, uint64_t batch)
{
    struct recent_slot *t = rec->old;

    rec->old = rec->young;
    rec->young = t;
    clear(t);
    rec->young_n = 0;
    rec->floor = rec->young_floor;
    /* Part of this batch is in the old table, so the young one alone knows only what comes after.
     */
    rec->young_floor = batch;
}

void recent_note(struct recent *rec, uint64_t hash, uint64_t batch)
{
    struct recent_slot *s = find(rec->young, hash);

    if (!s->batch) {
        if (rec->young_n == FULL) {
            turn_over(rec, batch);
            s = find(rec->young, hash);
        }
        rec->young_n++;
    }
    *s = (struct recent_slot){ hash, batch };
}

uint64_t recent_find(const struct recent *rec, uint64_t hash)
{
    uint64_t batch = find(rec->young, hash)->batch;

    return batch ? batch : find(rec->old, hash)->batch;
}
