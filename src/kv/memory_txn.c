/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction keeps its writes in a list of nodes like those of the map, each with one version,
 * so that commit allocates nothing: under the map's lock it checks the read set, finds the targets,
 * checks room, and links.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/memory_priv.h"

#define READ_SET_MAX ((size_t)256 << 20) /* bytes of names */
#define COUNTERS_SIZE (KV_COUNTERS_MAX * sizeof(int64_t))
#define COLLECT_PER_COMMIT 8u

/* Notes that the transaction depends on key being at version. */
enum rc memory_txn_record(struct memory_txn *t, struct slice key, uint64_t version)
{
    char *name;

    if (t->reads_n == t->reads_cap) {
        size_t cap = MAX(t->reads_cap * 2, (size_t)8);
        struct read *grown = realloc(t->reads, cap * sizeof *grown);

        if (!grown)
            return RC_NO_MEM;
        t->reads = grown;
        t->reads_cap = cap;
    }
    name = arena_alloc(&t->arena, t->home.n + key.n);
    if (!name)
        return RC_NO_MEM;
    memcpy(name, t->home.p, t->home.n);
    memcpy(name + t->home.n, key.p, key.n);
    t->reads[t->reads_n++] =
        (struct read){ .name = slice_of(name, t->home.n + key.n), .version = version };
    return RC_OK;
}

static bool counters_valid(size_t n)
{
    return n % 8 == 0 && n <= COUNTERS_SIZE;
}

/* Adds the columns of base to those of v, which has room for COUNTERS_SIZE bytes. Wraps around. */
static void counters_add(struct version *v, struct slice base)
{
    assert(counters_valid(base.n) && v->cap >= COUNTERS_SIZE);
    if (v->n < base.n) {
        memset(v->value + v->n, 0, base.n - v->n);
        v->n = base.n;
    }
    for (size_t i = 0; i < base.n; i += 8)
        put_be64(v->value + i, get_be64(v->value + i) + get_be64(base.p + i));
}

/* What the transaction itself has put or added. */
static enum rc own_item(const struct version *v, struct slice key, const struct kv_item *below,
                        struct arena *a, struct kv_item *ret)
{
    struct version *sum;
    enum rc rc;

    if (v->dead || (v->expires_at_ns && v->expires_at_ns <= clock_wall_ns()))
        return RC_NOT_FOUND;
    if (!v->adds || !below)
        return memory_copy_item(a, key, slice_of(v->value, v->n), UINT64_MAX, ret);
    if (!counters_valid(below->value.n))
        return RC_CORRUPT;
    sum = map_version_new(COUNTERS_SIZE);
    if (!sum)
        return RC_NO_MEM;
    sum->n = v->n;
    memcpy(sum->value, v->value, v->n);
    counters_add(sum, below->value);
    rc = memory_copy_item(a, key, slice_of(sum->value, sum->n), UINT64_MAX, ret);
    free(sum);
    return rc;
}

enum rc memory_txn_get(struct kv_txn *txn, struct slice key, struct arena *a, struct kv_item *ret)
{
    struct memory_txn *t = container_of(txn, struct memory_txn, base);
    char buf[MAP_NAME_MAX];
    struct slice name = map_name(buf, slice_from(t->home, 1), key);
    const struct node *own = map_list_find(t->writes.head, name);
    struct kv_item item;
    enum rc rc, noted;

    count(&t->store->gets, 1);
    if (own && !own->newest->adds)
        return own_item(own->newest, key, NULL, a, ret);
    rc = memory_read_at(t->store, name, t->view.seq, t->view.now_ns, a, &item);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    noted = memory_txn_record(t, key, rc ? 0 : item.version);
    if (noted)
        return noted;
    if (own)
        return own_item(own->newest, key, rc ? NULL : &item, a, ret);
    if (!rc)
        *ret = item;
    return rc;
}

enum rc memory_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    struct memory_txn *t = malloc(sizeof *t);
    char *name;

    if (!t)
        return RC_NO_MEM;
    *t = (struct memory_txn){ .base = { .kv = kv }, .store = memory_of(kv) };
    arena_init(&t->arena, READ_SET_MAX);
    name = arena_alloc(&t->arena, 1 + home.n);
    if (!name) {
        free(t);
        return RC_NO_MEM;
    }
    name[0] = (char)home.n;
    memcpy(name + 1, home.p, home.n);
    t->home = slice_of(name, 1 + home.n);
    map_snapshot_open(&t->store->map, &t->view);
    *ret = &t->base;
    return RC_OK;
}

static struct version *version_of_write(const struct kv_write *w)
{
    size_t n = w->kind == KV_PUT ? w->value.n : w->kind == KV_ADD ? w->deltas_n * 8 : 0;
    struct version *v = map_version_new(w->kind == KV_ADD ? COUNTERS_SIZE : n);

    if (!v)
        return NULL;
    v->n = n;
    v->dead = w->kind == KV_DELETE;
    v->adds = w->kind == KV_ADD;
    if (w->kind == KV_PUT) {
        v->expires_at_ns = w->expires_at_ns;
        if (n)
            memcpy(v->value, w->value.p, n);
    }
    for (unsigned i = 0; w->kind == KV_ADD && i < w->deltas_n; i++)
        put_be64(v->value + (size_t)i * 8, (uint64_t)w->deltas[i]);
    return v;
}

/* Lets v, a later write to the same key, take the place of what is pending. */
static enum rc replace_pending(struct node *n, struct version *v)
{
    const struct version *old = n->newest;

    if (v->adds && old->dead) {
        v->adds = false;
    } else if (v->adds) {
        if (!counters_valid(old->n))
            return RC_CORRUPT;
        counters_add(v, slice_of(old->value, old->n));
        v->adds = old->adds;
        v->expires_at_ns = old->expires_at_ns;
    }
    free(n->newest);
    n->newest = v;
    return RC_OK;
}

enum rc memory_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    struct memory_txn *t = container_of(txn, struct memory_txn, base);
    char buf[MAP_NAME_MAX];
    struct slice name = map_name(buf, w->partition, w->key);
    struct node *n = map_list_find(t->writes.head, name);
    struct version *v = version_of_write(w);
    enum rc rc;

    if (!v)
        return RC_NO_MEM;
    if (n) {
        rc = replace_pending(n, v);
        if (rc) {
            free(v);
            return rc;
        }
    } else {
        n = map_node_new(name);
        if (!n) {
            free(v);
            return RC_NO_MEM;
        }
        n->newest = v;
        map_list_link(t->writes.head, n);
    }
    t->writes_n++;
    return RC_OK;
}

/* ---- commit --------------------------------------------------------------------------------- */

static bool reads_hold(const struct memory_txn *t, int64_t now_ns)
{
    for (size_t i = 0; i < t->reads_n; i++) {
        const struct node *n = map_list_find(t->store->map.head, t->reads[i].name);
        const struct version *v = n ? map_node_at(n, UINT64_MAX, now_ns) : NULL;

        if ((v ? v->seq : 0) != t->reads[i].version)
            return false;
    }
    return true;
}

/* Finds the target of each write and checks all that could go wrong with it. */
static enum rc prepare(struct memory_txn *t, int64_t now_ns)
{
    struct map *m = &t->store->map;
    bool alone = !map_snapshots_open(m);
    size_t more = 0, less = 0;

    for (struct node *w = t->writes.head[0]; w; w = w->next[0]) {
        const struct version *v = w->newest, *old;

        w->target = map_list_find(m->head, map_node_name(w));
        old = w->target ? w->target->newest : NULL;
        if (v->adds && map_version_alive(old, now_ns) && !counters_valid(old->n))
            return RC_CORRUPT;
        if (!v->dead)
            more += map_version_bytes(v) + (old ? 0 : map_node_bytes(w));
        /* Without open snapshots the old version goes away. */
        if (old && alone)
            less += map_version_bytes(old);
    }
    if (more > less && m->bytes + (more - less) > t->store->max_bytes)
        return RC_NO_SPACE;
    return map_reserve_expiries(m, t->writes_n);
}

static void apply(struct memory_txn *t, int64_t now_ns, struct garbage *g)
{
    struct map *m = &t->store->map;
    uint64_t seq = m->seq + 1, min_seq;
    int64_t min_now_ns;
    struct node *next;

    __atomic_store_n(&m->seq, seq, __ATOMIC_RELEASE);
    map_snapshot_oldest(m, now_ns, &min_seq, &min_now_ns);
    for (struct node *w = t->writes.head[0]; w; w = next) {
        struct node *target = w->target ? w->target : w;
        struct version *old = w->target ? w->target->newest : NULL;
        struct version *v = STEAL(w->newest);

        next = w->next[0];
        if (v->adds && map_version_alive(old, now_ns)) {
            counters_add(v, slice_of(old->value, old->n));
            v->expires_at_ns = old->expires_at_ns;
        }
        v->adds = false;
        v->seq = seq;
        if (v->dead && (!old || old->dead)) {
            v->older = g->versions;
            g->versions = v;
        } else {
            map_push(m, target, v, min_seq, g);
        }
        if (!w->newest) {
            w->gc_next = g->nodes;
            g->nodes = w;
        }
    }
    t->writes = (struct node_list){ 0 };
}

static enum rc commit_locked(struct memory_txn *t, struct garbage *g)
{
    struct map *m = &t->store->map;
    int64_t now = map_now_ns(m);
    enum rc rc;

    if (!reads_hold(t, now))
        return RC_CONFLICT;
    if (!t->writes.head[0])
        return RC_OK;
    rc = prepare(t, now);
    if (rc == RC_NO_SPACE) {
        map_collect(m, now, SIZE_MAX, g);
        rc = prepare(t, now);
    }
    if (rc)
        return rc;
    apply(t, now, g);
    map_collect(m, now, COLLECT_PER_COMMIT, g);
    return RC_OK;
}

enum rc memory_txn_commit(struct kv_txn *txn)
{
    struct memory_txn *t = container_of(txn, struct memory_txn, base);
    struct memory *s = t->store;
    struct garbage g = { 0 };
    enum rc rc;

    assert(!t->done && t->open_scans == 0);
    t->done = true;
    map_snapshot_close(&s->map, &t->view);
    if (t->reads_n == 0 && !t->writes.head[0])
        return RC_OK;
    pthread_rwlock_wrlock(&s->map.lock);
    rc = commit_locked(t, &g);
    pthread_rwlock_unlock(&s->map.lock);
    map_garbage_free(&g);
    count(!rc ? &s->commits : rc == RC_CONFLICT ? &s->conflicts : &s->errors, 1);
    return rc;
}

void memory_txn_free(struct kv_txn *txn)
{
    struct memory_txn *t;
    struct node *n, *next;

    if (!txn)
        return;
    t = container_of(txn, struct memory_txn, base);
    assert(t->open_scans == 0);
    if (!t->done)
        map_snapshot_close(&t->store->map, &t->view);
    for (n = t->writes.head[0]; n; n = next) {
        next = n->next[0];
        map_node_free(n);
    }
    memory_tidy(t->store);
    free(t->reads);
    arena_fini(&t->arena);
    free(t);
}
