/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_map — the memory driver's ordered map of versioned entries: a skip list, the open
 * snapshots, and the removal of what no snapshot can see any more.
 *
 * Names of entries are [length of partition][partition][key], so that one memcmp orders both.
 *
 * Owns:    linked nodes and their versions.
 * Errors:  NULL or RC_NO_MEM without memory.
 * Threads: reading under `lock` for reading, changing under `lock` for writing; snapshots have a
 *          mutex of their own, taken inside of `lock`.
 */
#ifndef STRATA_KV_MEMORY_MAP_H
#define STRATA_KV_MEMORY_MAP_H

#include "kv/kv.h"

#include <pthread.h>

#define MAP_HEIGHT_MAX 16
#define MAP_NAME_MAX (1 + KV_PARTITION_MAX + KV_KEY_MAX)

struct version {
    struct version *older;
    uint64_t seq;          /* of the commit that made it */
    int64_t expires_at_ns; /* 0 = never */
    size_t cap, n;         /* room and use of value */
    bool dead;             /* a delete */
    bool adds;             /* of a pending write: value is to be added to what is there */
    char value[] __attribute__((aligned(8)));
};

struct node {
    struct version *newest;
    union {
        struct node *gc_next;
        struct node *target; /* of a pending write: the map's node that it will change */
    };
    size_t expiry_pos; /* in map.expiries, from 1; 0 = not there */
    bool gc_queued;
    uint8_t height;
    uint16_t name_n;
    struct node *next[]; /* height links, then the name */
};

struct snapshot {
    struct snapshot *prev, *next;
    uint64_t seq;   /* sees versions up to this */
    int64_t now_ns; /* and what had not expired by then */
};

struct map {
    pthread_rwlock_t lock;
    struct node *head[MAP_HEIGHT_MAX];
    uint64_t seq; /* of the last commit; atomic */
    size_t bytes; /* of nodes and versions; atomic for readers */

    struct node *gc_first, *gc_last; /* nodes with versions that only old snapshots need */
    size_t gc_n;                     /* atomic for readers */
    struct node **expiries;          /* a heap by the newest version's expiry */
    size_t expiries_n, expiries_cap;

    pthread_mutex_t snapshots_lock;
    struct snapshot *oldest, *youngest; /* ordered by seq and now_ns */
    int64_t last_now_ns;
};

/* What was unlinked under the lock, to be freed after it. */
struct garbage {
    struct node *nodes;       /* by gc_next */
    struct version *versions; /* by older */
};

/* A list of nodes outside of any map: a transaction's writes. Uses `head` alone. */
struct node_list {
    struct node *head[MAP_HEIGHT_MAX];
};

enum rc map_init(struct map *m) MUST_CHECK;
void map_fini(struct map *m);

/* Writes the name of (partition, key) to buf of MAP_NAME_MAX bytes. */
struct slice map_name(char *buf, struct slice partition, struct slice key);
static inline struct slice map_node_name(const struct node *n)
{
    return slice_of(&n->next[n->height], n->name_n);
}

struct node *map_node_new(struct slice name);
struct version *map_version_new(size_t cap);
void map_node_free(struct node *n); /* with its versions */
size_t map_node_bytes(const struct node *n);
size_t map_version_bytes(const struct version *v);

/* The first node at or behind name. */
struct node *map_list_seek(struct node *const head[MAP_HEIGHT_MAX], struct slice name);
struct node *map_list_find(struct node *const head[MAP_HEIGHT_MAX], struct slice name);
void map_list_link(struct node *head[MAP_HEIGHT_MAX], struct node *n);
void map_list_unlink(struct node *head[MAP_HEIGHT_MAX], struct node *n);

static inline bool map_version_alive(const struct version *v, int64_t now_ns)
{
    return v && !v->dead && (v->expires_at_ns == 0 || v->expires_at_ns > now_ns);
}
/* What a snapshot sees of n; NULL when absent. */
const struct version *map_node_at(const struct node *n, uint64_t seq, int64_t now_ns);

void map_snapshot_open(struct map *m, struct snapshot *s);
void map_snapshot_close(struct map *m, struct snapshot *s);
bool map_snapshots_open(struct map *m);
/* The oldest open snapshot's view; that of the present when none is open. */
void map_snapshot_oldest(struct map *m, int64_t now_ns, uint64_t *ret_seq, int64_t *ret_now_ns);
int64_t map_now_ns(struct map *m); /* wall time that does not go back */

/* Room for `more` further expiring entries. */
enum rc map_reserve_expiries(struct map *m, size_t more) MUST_CHECK;
/* Makes v the newest of n, linked into m; min_seq: the oldest snapshot's. */
void map_push(struct map *m, struct node *n, struct version *v, uint64_t min_seq,
              struct garbage *g);
/* Removes up to max entries each of what was superseded and what expired. */
void map_collect(struct map *m, int64_t now_ns, size_t max, struct garbage *g);
void map_garbage_free(struct garbage *g);

#endif
