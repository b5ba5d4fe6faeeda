/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction keeps its writes in a list of nodes like those of the map, each with one version,
 * so that commit allocates nothing: under the map's lock it checks the read set, finds the targets,
 * checks room, and links. Scans copy a batch of entries out under the lock and never hold it
 * between calls.
 */
#include "kv/memory.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/encode.h"
#include "kv/memory_map.h"

#define READ_SET_MAX ((size_t)256 << 20) /* bytes of names */
#define COUNTERS_SIZE (KV_COUNTERS_MAX * sizeof(int64_t))
#define BATCH_FIRST 4u
#define BATCH_MAX 64u
#define BATCH_BYTES ((size_t)128 << 10)
#define BATCH_STEPS 1024u /* nodes passed in one hold of the lock */
#define COLLECT_PER_COMMIT 8u
#define COLLECT_IDLE 64u

struct memory {
    struct kv base;
    struct map map;
    size_t max_bytes;
    uint64_t gets, scans, scan_items, commits, conflicts, errors; /* atomic */
};

struct read {
    struct slice name;
    uint64_t version; /* 0 = was absent */
};

struct memory_txn {
    struct kv_txn base;
    struct memory *store;
    struct snapshot view;
    bool done; /* view is closed */
    unsigned open_scans;
    struct slice home; /* as a name with an empty key */
    struct read *reads;
    size_t reads_n, reads_cap;
    struct node_list writes;
    size_t writes_n; /* at least as many as there are nodes in writes */
    struct arena arena; /* home and the names of reads */
};

struct scan_item {
    size_t key_at, key_n, value_n;
    uint64_t version;
};

struct memory_scan {
    struct kv_scan base;
    struct memory *store;
    struct memory_txn *txn; /* NULL outside */
    struct snapshot own;    /* without txn */
    const struct snapshot *view;
    unsigned flags, batch;
    struct scan_item items[BATCH_MAX];
    unsigned at, n; /* of items: the next one, and how many */
    struct buf data;
    bool end; /* nothing comes after items */
    size_t prefix_n, to_n, pos_n;
    char to[MAP_NAME_MAX];      /* its first prefix_n bytes are the partition */
    char pos[MAP_NAME_MAX + 1]; /* the next batch begins at or behind it */
};

static void count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static struct memory *memory_of(struct kv *kv)
{
    return container_of(kv, struct memory, base);
}

/* Removes what the last reader may have kept, unless somebody is at work anyway. */
static void tidy(struct memory *s)
{
    struct garbage g = { 0 };

    if (__atomic_load_n(&s->map.gc_n, __ATOMIC_RELAXED) == 0 ||
        pthread_rwlock_trywrlock(&s->map.lock))
        return;
    map_collect(&s->map, map_now_ns(&s->map), COLLECT_IDLE, &g);
    pthread_rwlock_unlock(&s->map.lock);
    garbage_free(&g);
}

/* ---- point reads ---------------------------------------------------------------------------- */

static enum rc copy_item(struct arena *a, struct slice key, struct slice value, uint64_t version,
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

static enum rc read_at(struct memory *s, struct slice name, uint64_t seq, int64_t now_ns,
                       struct arena *a, struct kv_item *ret)
{
    enum rc rc = RC_NOT_FOUND;
    const struct node *n;
    const struct version *v;

    pthread_rwlock_rdlock(&s->map.lock);
    n = list_find(s->map.head, name);
    v = n ? node_at(n, seq, now_ns) : NULL;
    if (v)
        rc = copy_item(a, slice_from(name, 1 + (uint8_t)name.p[0]), slice_of(v->value, v->n),
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
    return read_at(s, map_name(name, partition, key), UINT64_MAX, clock_wall_ns(), a, ret);
}

/* Notes that the transaction depends on key being at version. */
static enum rc record(struct memory_txn *t, struct slice key, uint64_t version)
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
        return copy_item(a, key, slice_of(v->value, v->n), UINT64_MAX, ret);
    if (!counters_valid(below->value.n))
        return RC_CORRUPT;
    sum = version_new(COUNTERS_SIZE);
    if (!sum)
        return RC_NO_MEM;
    sum->n = v->n;
    memcpy(sum->value, v->value, v->n);
    counters_add(sum, below->value);
    rc = copy_item(a, key, slice_of(sum->value, sum->n), UINT64_MAX, ret);
    free(sum);
    return rc;
}

static enum rc memory_txn_get(struct kv_txn *txn, struct slice key, struct arena *a,
                              struct kv_item *ret)
{
    struct memory_txn *t = container_of(txn, struct memory_txn, base);
    char buf[MAP_NAME_MAX];
    struct slice name = map_name(buf, slice_from(t->home, 1), key);
    const struct node *own = list_find(t->writes.head, name);
    struct kv_item item;
    enum rc rc, noted;

    count(&t->store->gets, 1);
    if (own && !own->newest->adds)
        return own_item(own->newest, key, NULL, a, ret);
    rc = read_at(t->store, name, t->view.seq, t->view.now_ns, a, &item);
    if (rc && rc != RC_NOT_FOUND)
        return rc;
    noted = record(t, key, rc ? 0 : item.version);
    if (noted)
        return noted;
    if (own)
        return own_item(own->newest, key, rc ? NULL : &item, a, ret);
    if (!rc)
        *ret = item;
    return rc;
}

/* ---- scans ---------------------------------------------------------------------------------- */

static enum rc memory_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                                struct kv_scan **ret)
{
    struct memory *store = memory_of(kv);
    struct memory_scan *s = malloc(sizeof *s);
    struct slice partition = range->partition;

    if (!s)
        return RC_NO_MEM;
    memset(s, 0, offsetof(struct memory_scan, to));
    s->base.kv = kv;
    s->store = store;
    s->flags = range->flags;
    s->batch = BATCH_FIRST;
    buf_init(&s->data, BATCH_BYTES + KV_KEY_MAX + KV_VALUE_MAX);
    if (txn) {
        s->txn = container_of(txn, struct memory_txn, base);
        s->txn->open_scans++;
        s->view = &s->txn->view;
        partition = slice_from(s->txn->home, 1);
    } else {
        snapshot_open(&store->map, &s->own);
        s->view = &s->own;
    }
    s->prefix_n = 1 + partition.n;
    s->to_n = map_name(s->to, partition, range->to).n;
    s->pos_n = map_name(s->pos, partition, range->from).n;
    count(&store->scans, 1);
    *ret = &s->base;
    return RC_OK;
}

static bool in_range(const struct memory_scan *s, struct slice name)
{
    if (s->to_n > s->prefix_n && slice_cmp(name, slice_of(s->to, s->to_n)) >= 0)
        return false;
    return slice_starts(name, slice_of(s->to, s->prefix_n));
}

static enum rc add_item(struct memory_scan *s, struct slice key, const struct version *v)
{
    size_t value_n = s->flags & KV_HEAD ? MIN(v->n, (size_t)KV_HEAD_SIZE) : v->n;
    enum rc rc = buf_reserve(&s->data, key.n + value_n);

    if (rc)
        return rc;
    s->items[s->n++] = (struct scan_item){
        .key_at = s->data.n, .key_n = key.n, .value_n = value_n, .version = v->seq
    };
    memcpy(s->data.p + s->data.n, key.p, key.n);
    if (value_n)
        memcpy(s->data.p + s->data.n + key.n, v->value, value_n);
    s->data.n += key.n + value_n;
    return RC_OK;
}

/* Copies the next batch out; it may be empty before the end. */
static enum rc fill_locked(struct memory_scan *s)
{
    const struct node *n = list_seek(s->store->map.head, slice_of(s->pos, s->pos_n));
    unsigned steps = 0;

    for (; n && in_range(s, node_name(n)); n = n->next[0]) {
        const struct version *v = node_at(n, s->view->seq, s->view->now_ns);
        enum rc rc;

        if (s->n == s->batch || s->data.n >= BATCH_BYTES || steps++ == BATCH_STEPS) {
            s->pos_n = n->name_n;
            memcpy(s->pos, node_name(n).p, n->name_n);
            return RC_OK;
        }
        rc = v ? add_item(s, slice_from(node_name(n), s->prefix_n), v) : RC_OK;
        if (rc)
            return rc;
    }
    s->end = true;
    return RC_OK;
}

static enum rc fill(struct memory_scan *s)
{
    enum rc rc;

    s->at = s->n = 0;
    buf_clear(&s->data);
    pthread_rwlock_rdlock(&s->store->map.lock);
    rc = fill_locked(s);
    pthread_rwlock_unlock(&s->store->map.lock);
    if (rc)
        s->n = 0;
    s->batch = MIN(s->batch * 2, BATCH_MAX);
    return rc;
}

static enum rc memory_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    struct memory_scan *s = container_of(scan, struct memory_scan, base);
    const struct scan_item *i;
    const char *key;
    enum rc rc;

    while (s->at == s->n) {
        if (s->end)
            return RC_NOT_FOUND;
        rc = fill(s);
        if (rc)
            return rc;
    }
    i = &s->items[s->at];
    key = s->data.p + i->key_at;
    if (s->txn) {
        rc = record(s->txn, slice_of(key, i->key_n), i->version);
        if (rc)
            return rc;
    }
    s->at++;
    count(&s->store->scan_items, 1);
    *ret = (struct kv_item){ .key = slice_of(key, i->key_n),
                             .value = slice_of(key + i->key_n, i->value_n),
                             .version = i->version };
    return RC_OK;
}

static enum rc memory_scan_seek(struct kv_scan *scan, struct slice key)
{
    struct memory_scan *s = container_of(scan, struct memory_scan, base);

    for (; s->at < s->n; s->at++) {
        const struct scan_item *i = &s->items[s->at];

        if (slice_cmp(slice_of(s->data.p + i->key_at, i->key_n), key) >= 0)
            return RC_OK;
    }
    if (slice_cmp(key, slice_of(s->pos + s->prefix_n, s->pos_n - s->prefix_n)) <= 0)
        return RC_OK;
    memcpy(s->pos + s->prefix_n, key.p, key.n);
    s->pos_n = s->prefix_n + key.n;
    s->batch = BATCH_FIRST;
    return RC_OK;
}

static void memory_scan_close(struct kv_scan *scan)
{
    struct memory_scan *s = container_of(scan, struct memory_scan, base);

    if (s->txn) {
        s->txn->open_scans--;
    } else {
        snapshot_close(&s->store->map, &s->own);
        tidy(s->store);
    }
    buf_fini(&s->data);
    free(s);
}

/* ---- transactions --------------------------------------------------------------------------- */

static enum rc memory_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
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
    snapshot_open(&t->store->map, &t->view);
    *ret = &t->base;
    return RC_OK;
}

static struct version *version_of_write(const struct kv_write *w)
{
    size_t n = w->kind == KV_PUT ? w->value.n : w->kind == KV_ADD ? w->deltas_n * 8 : 0;
    struct version *v = version_new(w->kind == KV_ADD ? COUNTERS_SIZE : n);

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

static enum rc memory_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    struct memory_txn *t = container_of(txn, struct memory_txn, base);
    char buf[MAP_NAME_MAX];
    struct slice name = map_name(buf, w->partition, w->key);
    struct node *n = list_find(t->writes.head, name);
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
        n = node_new(name);
        if (!n) {
            free(v);
            return RC_NO_MEM;
        }
        n->newest = v;
        list_link(t->writes.head, n);
    }
    t->writes_n++;
    return RC_OK;
}

/* ---- commit --------------------------------------------------------------------------------- */

static bool reads_hold(const struct memory_txn *t, int64_t now_ns)
{
    for (size_t i = 0; i < t->reads_n; i++) {
        const struct node *n = list_find(t->store->map.head, t->reads[i].name);
        const struct version *v = n ? node_at(n, UINT64_MAX, now_ns) : NULL;

        if ((v ? v->seq : 0) != t->reads[i].version)
            return false;
    }
    return true;
}

/* Finds the target of each write and checks all that could go wrong with it. */
static enum rc prepare(struct memory_txn *t, int64_t now_ns)
{
    struct map *m = &t->store->map;
    bool alone = !snapshots_open(m);
    size_t more = 0, less = 0;

    for (struct node *w = t->writes.head[0]; w; w = w->next[0]) {
        const struct version *v = w->newest, *old;

        w->target = list_find(m->head, node_name(w));
        old = w->target ? w->target->newest : NULL;
        if (v->adds && version_alive(old, now_ns) && !counters_valid(old->n))
            return RC_CORRUPT;
        if (!v->dead)
            more += version_bytes(v) + (old ? 0 : node_bytes(w));
        /* Without open snapshots the old version goes away. */
        if (old && alone)
            less += version_bytes(old);
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
    snapshot_oldest(m, now_ns, &min_seq, &min_now_ns);
    for (struct node *w = t->writes.head[0]; w; w = next) {
        struct node *target = w->target ? w->target : w;
        struct version *old = w->target ? w->target->newest : NULL;
        struct version *v = STEAL(w->newest);

        next = w->next[0];
        if (v->adds && version_alive(old, now_ns)) {
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

static enum rc memory_txn_commit(struct kv_txn *txn)
{
    struct memory_txn *t = container_of(txn, struct memory_txn, base);
    struct memory *s = t->store;
    struct garbage g = { 0 };
    enum rc rc;

    assert(!t->done && t->open_scans == 0);
    t->done = true;
    snapshot_close(&s->map, &t->view);
    if (t->reads_n == 0 && !t->writes.head[0])
        return RC_OK;
    pthread_rwlock_wrlock(&s->map.lock);
    rc = commit_locked(t, &g);
    pthread_rwlock_unlock(&s->map.lock);
    garbage_free(&g);
    count(!rc ? &s->commits : rc == RC_CONFLICT ? &s->conflicts : &s->errors, 1);
    return rc;
}

static void memory_txn_free(struct kv_txn *txn)
{
    struct memory_txn *t;
    struct node *n, *next;

    if (!txn)
        return;
    t = container_of(txn, struct memory_txn, base);
    assert(t->open_scans == 0);
    if (!t->done)
        snapshot_close(&t->store->map, &t->view);
    for (n = t->writes.head[0]; n; n = next) {
        next = n->next[0];
        node_free(n);
    }
    tidy(t->store);
    free(t->reads);
    arena_fini(&t->arena);
    free(t);
}

/* ---- the store ------------------------------------------------------------------------------ */

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
