/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants (under lock):
 *  1. A node's versions have falling seq; below the newest, each is needed by a snapshot that was
 * open when it was superseded, or the node is in the gc queue.
 *  2. A node whose newest version is a delete is in the gc queue: it is unlinked once no snapshot
 * is older than the delete.
 *  3. A node is in the heap of expiries exactly when its newest version expires.
 *  4. map.seq grows before any snapshot can be opened with the new value.
 */
#include "kv/memory_map.h"

#include "base/clock.h"

/* ---- nodes and versions --------------------------------------------------------------------- */

struct slice map_name(char *buf, struct slice partition, struct slice key)
{
    assert(1 + partition.n + key.n <= MAP_NAME_MAX);
    buf[0] = (char)partition.n;
    memcpy(buf + 1, partition.p, partition.n);
    if (key.n)
        memcpy(buf + 1 + partition.n, key.p, key.n);
    return slice_of(buf, 1 + partition.n + key.n);
}

/* One node in four is a level higher. */
static unsigned random_height(void)
{
    static _Thread_local uint64_t x;
    unsigned height = 1;
    uint64_t bits;

    if (!x)
        x = (uint64_t)clock_mono_ns() | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    for (bits = x >> 16; height < MAP_HEIGHT_MAX && (bits & 3) == 0; bits >>= 2)
        height++;
    return height;
}

struct node *map_node_new(struct slice name)
{
    unsigned height = random_height();
    struct node *n = malloc(sizeof *n + height * sizeof n->next[0] + name.n);

    if (!n)
        return NULL;
    *n = (struct node){ .height = (uint8_t)height, .name_n = (uint16_t)name.n };
    memcpy(&n->next[height], name.p, name.n);
    return n;
}

struct version *map_version_new(size_t cap)
{
    struct version *v = malloc(sizeof *v + cap);

    if (v)
        *v = (struct version){ .cap = cap };
    return v;
}

size_t map_node_bytes(const struct node *n)
{
    return sizeof *n + n->height * sizeof n->next[0] + n->name_n;
}

size_t map_version_bytes(const struct version *v)
{
    return sizeof *v + v->cap;
}

static void free_versions(struct version *v)
{
    while (v) {
        struct version *older = v->older;

        free(v);
        v = older;
    }
}

void map_node_free(struct node *n)
{
    free_versions(n->newest);
    free(n);
}

const struct version *map_node_at(const struct node *n, uint64_t seq, int64_t now_ns)
{
    const struct version *v = n->newest;

    while (v && v->seq > seq)
        v = v->older;
    return map_version_alive(v, now_ns) ? v : NULL;
}

/* ---- skip list ------------------------------------------------------------------------------ */

struct node *map_list_seek(struct node *const head[MAP_HEIGHT_MAX], struct slice name)
{
    struct node *const *links = head;
    const struct node *known = NULL; /* already found to be at or behind name */

    for (unsigned level = MAP_HEIGHT_MAX; level-- > 0;) {
        while (links[level] && links[level] != known &&
               slice_cmp(map_node_name(links[level]), name) < 0)
            links = links[level]->next;
        known = links[level];
    }
    return links[0];
}

struct node *map_list_find(struct node *const head[MAP_HEIGHT_MAX], struct slice name)
{
    struct node *n = map_list_seek(head, name);

    return n && slice_eq(map_node_name(n), name) ? n : NULL;
}

/* The links that lead to name, or to where it would stand. */
static void find_links(struct node *head[MAP_HEIGHT_MAX], struct slice name,
                       struct node **ret[MAP_HEIGHT_MAX])
{
    struct node **links = head;

    for (unsigned level = MAP_HEIGHT_MAX; level-- > 0;) {
        while (links[level] && slice_cmp(map_node_name(links[level]), name) < 0)
            links = links[level]->next;
        ret[level] = &links[level];
    }
}

void map_list_link(struct node *head[MAP_HEIGHT_MAX], struct node *n)
{
    struct node **links[MAP_HEIGHT_MAX];

    find_links(head, map_node_name(n), links);
    for (unsigned level = 0; level < n->height; level++) {
        n->next[level] = *links[level];
        *links[level] = n;
    }
}

void map_list_unlink(struct node *head[MAP_HEIGHT_MAX], struct node *n)
{
    struct node **links[MAP_HEIGHT_MAX];

    find_links(head, map_node_name(n), links);
    for (unsigned level = 0; level < n->height; level++) {
        assert(*links[level] == n);
        *links[level] = n->next[level];
    }
}

/* ---- map ------------------------------------------------------------------------------------ */

enum rc map_init(struct map *m)
{
    pthread_rwlockattr_t attr;
    int err;

    *m = (struct map){ 0 };
    if (pthread_rwlockattr_init(&attr))
        return RC_NO_MEM;
    /* Without it a stream of readers keeps every commit waiting. */
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    err = pthread_rwlock_init(&m->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    if (err)
        return RC_NO_MEM;
    if (pthread_mutex_init(&m->snapshots_lock, NULL)) {
        pthread_rwlock_destroy(&m->lock);
        return RC_NO_MEM;
    }
    return RC_OK;
}

void map_fini(struct map *m)
{
    struct node *n = m->head[0];

    assert(!m->oldest);
    while (n) {
        struct node *next = n->next[0];

        map_node_free(n);
        n = next;
    }
    free(m->expiries);
    pthread_mutex_destroy(&m->snapshots_lock);
    pthread_rwlock_destroy(&m->lock);
}

/* Writers hold lock; readers of figures do not. */
static void add_bytes(struct map *m, size_t more)
{
    __atomic_store_n(&m->bytes, m->bytes + more, __ATOMIC_RELAXED);
}

static void sub_bytes(struct map *m, size_t less)
{
    assert(less <= m->bytes);
    __atomic_store_n(&m->bytes, m->bytes - less, __ATOMIC_RELAXED);
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static int64_t now_locked(struct map *m)
{
    m->last_now_ns = MAX(m->last_now_ns, clock_wall_ns());
    return m->last_now_ns;
}

int64_t map_now_ns(struct map *m)
{
    int64_t now;

    pthread_mutex_lock(&m->snapshots_lock);
    now = now_locked(m);
    pthread_mutex_unlock(&m->snapshots_lock);
    return now;
}

void map_snapshot_open(struct map *m, struct snapshot *s)
{
    pthread_mutex_lock(&m->snapshots_lock);
    *s = (struct snapshot){ .prev = m->youngest,
                            .seq = __atomic_load_n(&m->seq, __ATOMIC_ACQUIRE),
                            .now_ns = now_locked(m) };
    *(m->youngest ? &m->youngest->next : &m->oldest) = s;
    m->youngest = s;
    pthread_mutex_unlock(&m->snapshots_lock);
}

void map_snapshot_close(struct map *m, struct snapshot *s)
{
    pthread_mutex_lock(&m->snapshots_lock);
    *(s->prev ? &s->prev->next : &m->oldest) = s->next;
    *(s->next ? &s->next->prev : &m->youngest) = s->prev;
    pthread_mutex_unlock(&m->snapshots_lock);
}

bool map_snapshots_open(struct map *m)
{
    bool open;

    pthread_mutex_lock(&m->snapshots_lock);
    open = m->oldest;
    pthread_mutex_unlock(&m->snapshots_lock);
    return open;
}

void map_snapshot_oldest(struct map *m, int64_t now_ns, uint64_t *ret_seq, int64_t *ret_now_ns)
{
    pthread_mutex_lock(&m->snapshots_lock);
    *ret_seq = m->oldest ? m->oldest->seq : m->seq;
    *ret_now_ns = m->oldest ? m->oldest->now_ns : now_ns;
    pthread_mutex_unlock(&m->snapshots_lock);
}

/* ---- expiries: a binary heap, positions from 1 ----------------------------------------------- */

static int64_t expiry_at(const struct map *m, size_t pos)
{
    return m->expiries[pos - 1]->newest->expires_at_ns;
}

static void expiry_place(struct map *m, size_t pos, struct node *n)
{
    m->expiries[pos - 1] = n;
    n->expiry_pos = pos;
}

static void expiry_swap(struct map *m, size_t a, size_t b)
{
    struct node *n = m->expiries[a - 1];

    expiry_place(m, a, m->expiries[b - 1]);
    expiry_place(m, b, n);
}

static void expiry_settle(struct map *m, size_t pos)
{
    while (pos > 1 && expiry_at(m, pos) < expiry_at(m, pos / 2)) {
        expiry_swap(m, pos, pos / 2);
        pos /= 2;
    }
    for (;;) {
        size_t least = pos;

        for (size_t child = 2 * pos; child <= 2 * pos + 1 && child <= m->expiries_n; child++)
            if (expiry_at(m, child) < expiry_at(m, least))
                least = child;
        if (least == pos)
            return;
        expiry_swap(m, pos, least);
        pos = least;
    }
}

/* Puts the heap right after n got a new newest version. */
static void expiry_update(struct map *m, struct node *n)
{
    bool expires = !n->newest->dead && n->newest->expires_at_ns;
    size_t pos = n->expiry_pos;

    if (expires && !pos) {
        assert(m->expiries_n < m->expiries_cap);
        expiry_place(m, ++m->expiries_n, n);
        expiry_settle(m, m->expiries_n);
    } else if (expires) {
        expiry_settle(m, pos);
    } else if (pos) {
        struct node *last = m->expiries[--m->expiries_n];

        n->expiry_pos = 0;
        if (last == n)
            return;
        expiry_place(m, pos, last);
        expiry_settle(m, pos);
    }
}

enum rc map_reserve_expiries(struct map *m, size_t more)
{
    size_t cap = MAX(m->expiries_cap * 2, m->expiries_n + more);
    struct node **grown;

    if (more <= m->expiries_cap - m->expiries_n)
        return RC_OK;
    grown = realloc(m->expiries, cap * sizeof(struct node *));
    if (!grown)
        return RC_NO_MEM;
    m->expiries = grown;
    m->expiries_cap = cap;
    return RC_OK;
}

/* ---- removal -------------------------------------------------------------------------------- */

static void gc_queue(struct map *m, struct node *n)
{
    if (n->gc_queued)
        return;
    n->gc_queued = true;
    n->gc_next = NULL;
    *(m->gc_last ? &m->gc_last->gc_next : &m->gc_first) = n;
    m->gc_last = n;
    __atomic_store_n(&m->gc_n, m->gc_n + 1, __ATOMIC_RELAXED);
}

/* Drops the versions of n that no snapshot from min_seq on can see. */
static void prune(struct map *m, struct node *n, uint64_t min_seq, struct garbage *g)
{
    struct version *v = n->newest;

    while (v && v->seq > min_seq)
        v = v->older;
    if (!v)
        return;
    while (v->older) {
        struct version *old = v->older;

        v->older = old->older;
        sub_bytes(m, map_version_bytes(old));
        old->older = g->versions;
        g->versions = old;
    }
}

static void remove_node(struct map *m, struct node *n, struct garbage *g)
{
    map_list_unlink(m->head, n);
    sub_bytes(m, map_node_bytes(n));
    for (const struct version *v = n->newest; v; v = v->older)
        sub_bytes(m, map_version_bytes(v));
    n->gc_next = g->nodes;
    g->nodes = n;
}

void map_push(struct map *m, struct node *n, struct version *v, uint64_t min_seq, struct garbage *g)
{
    if (!n->newest) {
        map_list_link(m->head, n);
        add_bytes(m, map_node_bytes(n));
    }
    v->older = n->newest;
    n->newest = v;
    add_bytes(m, map_version_bytes(v));
    expiry_update(m, n);
    prune(m, n, min_seq, g);
    if (v->older || v->dead)
        gc_queue(m, n);
}

static void collect_first(struct map *m, uint64_t min_seq, struct garbage *g)
{
    struct node *n = m->gc_first;

    prune(m, n, min_seq, g);
    m->gc_first = n->gc_next;
    if (!m->gc_first)
        m->gc_last = NULL;
    n->gc_queued = false;
    __atomic_store_n(&m->gc_n, m->gc_n - 1, __ATOMIC_RELAXED);
    if (n->newest->dead && n->newest->seq <= min_seq)
        remove_node(m, n, g);
    else if (n->newest->older || n->newest->dead)
        gc_queue(m, n);
}

void map_collect(struct map *m, int64_t now_ns, size_t max, struct garbage *g)
{
    uint64_t min_seq;
    int64_t min_now_ns;
    size_t rounds = MIN(max, m->gc_n);

    map_snapshot_oldest(m, now_ns, &min_seq, &min_now_ns);
    while (rounds-- > 0)
        collect_first(m, min_seq, g);
    for (size_t i = 0; i < max && m->expiries_n > 0; i++) {
        struct node *n = m->expiries[0];

        /* Not while a snapshot sees it, or an older version of it. */
        if (expiry_at(m, 1) > min_now_ns || n->newest->seq > min_seq || n->gc_queued)
            return;
        n->newest->dead = true;
        expiry_update(m, n);
        remove_node(m, n, g);
    }
}

void map_garbage_free(struct garbage *g)
{
    while (g->nodes) {
        struct node *next = g->nodes->gc_next;

        map_node_free(g->nodes);
        g->nodes = next;
    }
    free_versions(STEAL(g->versions));
}
