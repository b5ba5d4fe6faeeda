/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/memory_priv.h"

#include "base/clock.h"

#define COLLECT_IDLE 64u

/* Removes what the last reader may have kept, unless somebody is at work anyway. */
void memory_tidy(struct memory *s)
{
    struct garbage g = { 0 };

    if (__atomic_load_n(&s->map.gc_n, __ATOMIC_RELAXED) == 0 ||
        pthread_rwlock_trywrlock(&s->map.lock))
        return;
    map_collect(&s->map, map_now_ns(&s->map), COLLECT_IDLE, &g);
    pthread_rwlock_unlock(&s->map.lock);
    map_garbage_free(&g);
}

enum rc memory_copy_item(struct arena *a, struct slice key, struct slice value, uint64_t version,
                         struct kv_item *ret)
{
    char *p = arena_alloc(a, value.n + key.n);

    if (!p)
        return RC_NO_MEM;
    if (value.n)
        memcpy(p, value.p, value.n);
    memcpy(p + value.n, key.p, key.n);
    *ret = (struct kv_item){ .key = slice_of(p + value.n, key.n),
                             .value = slice_of(p, value.n),
                             .version = version };
    return RC_OK;
}

enum rc memory_read_at(struct memory *s, struct slice name, uint64_t seq, int64_t now_ns,
                       struct arena *a, struct kv_item *ret)
{
    enum rc rc = RC_NOT_FOUND;
    const struct node *n;
    const struct version *v;

    pthread_rwlock_rdlock(&s->map.lock);
    n = map_list_find(s->map.head, name);
    v = n ? map_node_at(n, seq, now_ns) : NULL;
    if (v)
        rc = memory_copy_item(a, slice_from(name, 1 + (uint8_t)name.p[0]), slice_of(v->value, v->n),
                              v->seq, ret);
    pthread_rwlock_unlock(&s->map.lock);
    return rc;
}

static enum rc memory_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                          struct kv_item *ret)
{
    struct memory *s = memory_of(kv);
    char name[MAP_NAME_MAX];

    count(&s->gets, 1);
    return memory_read_at(s, map_name(name, partition, key), UINT64_MAX, clock_wall_ns(), a, ret);
}

static enum rc memory_probe(struct kv *kv)
{
    struct memory *s = memory_of(kv);

    return __atomic_load_n(&s->map.bytes, __ATOMIC_RELAXED) < s->max_bytes ? RC_OK : RC_NO_SPACE;
}

static void memory_stats(struct kv *kv, struct kv_stats *ret)
{
    struct memory *s = memory_of(kv);

    *ret = (struct kv_stats){
        .gets = __atomic_load_n(&s->gets, __ATOMIC_RELAXED),
        .scans = __atomic_load_n(&s->scans, __ATOMIC_RELAXED),
        .scan_items = __atomic_load_n(&s->scan_items, __ATOMIC_RELAXED),
        .commits = __atomic_load_n(&s->commits, __ATOMIC_RELAXED),
        .conflicts = __atomic_load_n(&s->conflicts, __ATOMIC_RELAXED),
        .errors = __atomic_load_n(&s->errors, __ATOMIC_RELAXED),
        .memory_bytes = __atomic_load_n(&s->map.bytes, __ATOMIC_RELAXED),
    };
}

static void memory_close(struct kv *kv)
{
    struct memory *s = memory_of(kv);

    map_fini(&s->map);
    free(s);
}

static const struct kv_ops memory_ops = {
    .name = "memory",
    .get = memory_get,
    .scan_open = memory_scan_open,
    .scan_next = memory_scan_next,
    .scan_seek = memory_scan_seek,
    .scan_close = memory_scan_close,
    .begin = memory_begin,
    .txn_get = memory_txn_get,
    .txn_write = memory_txn_write,
    .txn_commit = memory_txn_commit,
    .txn_free = memory_txn_free,
    .probe = memory_probe,
    .stats = memory_stats,
    .close = memory_close,
};

enum rc kv_memory_open(size_t max_bytes, struct kv **ret)
{
    struct memory *s = malloc(sizeof *s);
    enum rc rc;

    if (!s)
        return RC_NO_MEM;
    *s = (struct memory){ .base = { .ops = &memory_ops }, .max_bytes = max_bytes };
    rc = map_init(&s->map);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return RC_OK;
}
