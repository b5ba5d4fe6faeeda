/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings: one scan per shard, merged by a heap of their next keys, so that the cost is that of
 * the results. A common prefix is emitted once and jumped over. Nothing is allocated per key.
 */
#include "meta/meta_priv.h"

struct cursor {
    struct kv_scan *scan;
    struct slice key; /* of the next object */
    struct slice value;
};

struct merge {
    struct cursor *cursors;
    unsigned opened;      /* scans to close */
    struct cursor **heap; /* those with a next key, smallest first */
    unsigned n;
};

struct listing {
    struct merge merge;
    const struct meta_list_params *params;
    enum rc (*emit)(void *arg, const struct meta_list_entry *e);
    void *arg;
    struct meta_list_result result;
    char last[META_KEY_MAX];
    char group[1 + META_KEY_MAX]; /* "k" + a common prefix */
};

/* ---- cursors and their heap -------------------------------------------------------------------
 */

static enum rc cursor_next(struct cursor *c)
{
    struct kv_item item;
    enum rc rc = kv_scan_next(c->scan, &item);

    if (rc)
        return rc;
    c->key = slice_from(item.key, 1);
    c->value = item.value;
    return c->key.n <= META_KEY_MAX ? RC_OK : fail_rc(RC_CORRUPT, "object key too long");
}

static void sift_down(struct merge *g, unsigned i)
{
    for (;;) {
        unsigned least = i;
        struct cursor *c;

        for (unsigned k = 2 * i + 1; k <= 2 * i + 2 && k < g->n; k++)
            if (slice_cmp(g->heap[k]->key, g->heap[least]->key) < 0)
                least = k;
        if (least == i)
            return;
        c = g->heap[i];
        g->heap[i] = g->heap[least];
        g->heap[least] = c;
        i = least;
    }
}

/* Restores the order after the first cursor has moved with this result. */
static enum rc moved(struct merge *g, enum rc rc)
{
    if (rc == RC_NOT_FOUND)
        g->heap[0] = g->heap[--g->n];
    else if (rc)
        return rc;
    if (g->n > 1)
        sift_down(g, 0);
    return RC_OK;
}

static enum rc merge_next(struct merge *g)
{
    return moved(g, cursor_next(g->heap[0]));
}

static enum rc merge_open(struct merge *g, struct meta *m, struct arena *a,
                          const struct meta_bucket *b, struct kv_range *range)
{
    char partition[KEYS_INDEX_PARTITION_SIZE];

    g->cursors = arena_alloc(a, b->index_shards * sizeof *g->cursors);
    g->heap = arena_alloc(a, b->index_shards * sizeof(struct cursor *));
    if (!g->cursors || !g->heap)
        return RC_NO_MEM;
    for (unsigned i = 0; i < b->index_shards; i++) {
        struct cursor *c = &g->cursors[i];
        enum rc rc;

        range->partition = keys_index_partition(partition, b, i);
        rc = kv_scan_open(m->kv, range, &c->scan);
        if (rc)
            return rc;
        g->opened++;
        rc = cursor_next(c);
        if (!rc)
            g->heap[g->n++] = c;
        else if (rc != RC_NOT_FOUND)
            return rc;
    }
    for (unsigned i = g->n / 2; i-- > 0;)
        sift_down(g, i);
    return RC_OK;
}

static void merge_close(struct merge *g)
{
    for (unsigned i = 0; i < g->opened; i++)
        kv_scan_close(g->cursors[i].scan);
}

/* ---- entries ----------------------------------------------------------------------------------
 */

/* Bytes of the common prefix that key belongs to; 0: none. */
static size_t group_size(const struct meta_list_params *p, struct slice key)
{
    struct slice rest = slice_from(key, p->prefix.n);
    size_t at;

    if (!p->delimiter.n)
        return 0;
    if (p->delimiter.n == 1) {
        at = slice_find_char(rest, p->delimiter.p[0]);
        if (at == rest.n)
            return 0;
    } else {
        at = slice_find(rest, p->delimiter);
        if (at == SIZE_MAX)
            return 0;
    }
    return p->prefix.n + at + p->delimiter.n;
}

/* Past all keys that start with group. A small group costs less by one step than by a seek. */
static enum rc skip_group(struct listing *l, struct slice group, struct slice behind)
{
    struct merge *g = &l->merge;

    while (g->n && slice_starts(g->heap[0]->key, group)) {
        struct cursor *c = g->heap[0];
        enum rc rc = cursor_next(c);

        if (!rc && slice_starts(c->key, group)) {
            rc = kv_scan_seek(c->scan, behind);
            if (!rc)
                rc = cursor_next(c);
        }
        rc = moved(g, rc);
        if (rc)
            return rc;
    }
    return RC_OK;
}

static enum rc emit_entry(struct listing *l, const struct meta_list_entry *e)
{
    enum rc rc = l->emit(l->arg, e);

    if (rc)
        return rc;
    l->result.n++;
    if (l->result.n == l->params->max) {
        memcpy(l->last, e->key.p, e->key.n);
        l->result.next = slice_of(l->last, e->key.n);
    }
    return RC_OK;
}

static enum rc emit_group(struct listing *l, size_t size)
{
    char behind[1 + META_KEY_MAX];
    struct slice group = slice_of(l->group + 1, size);
    enum rc rc;

    l->group[0] = 'k';
    memcpy(l->group + 1, l->merge.heap[0]->key.p, size);
    rc = emit_entry(l, &(struct meta_list_entry){ .is_prefix = true, .key = group });
    if (rc)
        return rc;
    return skip_group(l, group, keys_successor(behind, slice_of(l->group, size + 1)));
}

static enum rc emit_key(struct listing *l)
{
    struct cursor *c = l->merge.heap[0];
    struct meta_list_entry e = { .key = c->key };
    enum rc rc = row_decode_head(c->value, &e.head);

    if (!rc)
        rc = emit_entry(l, &e);
    return rc ? rc : merge_next(&l->merge);
}

static enum rc list_run(struct listing *l)
{
    while (l->merge.n) {
        size_t size;
        enum rc rc;

        if (l->result.n == l->params->max) {
            l->result.truncated = true;
            return RC_OK;
        }
        size = group_size(l->params, l->merge.heap[0]->key);
        rc = size ? emit_group(l, size) : emit_key(l);
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* ---- the range --------------------------------------------------------------------------------
 */

static struct slice with_k(char *out, struct slice s)
{
    out[0] = 'k';
    if (s.n)
        memcpy(out + 1, s.p, s.n);
    return slice_of(out, s.n + 1);
}

/* False: nothing can match. from and to have room for META_KEY_MAX + 2. */
static bool list_range(const struct meta_list_params *p, char *from, char *to,
                       struct kv_range *range)
{
    struct slice after = slice_first(p->after, META_KEY_MAX), bound;

    if (!p->max || p->prefix.n > META_KEY_MAX)
        return false;
    range->flags = KV_HEAD;
    range->to = keys_successor(to, with_k(to, p->prefix));
    if (!p->after.n || slice_cmp(after, p->prefix) < 0) {
        range->from = with_k(from, p->prefix);
        return true;
    }
    if (!slice_starts(after, p->prefix))
        return false; /* behind all of them */
    bound = slice_first(after, group_size(p, after));
    range->from = with_k(from, bound.n ? bound : after);
    if (bound.n)
        range->from = keys_successor(from, range->from);
    else
        from[range->from.n++] = 0;
    return slice_cmp(range->from, range->to) < 0;
}

enum rc meta_list(struct meta *m, struct arena *a, const struct meta_bucket *b,
                  const struct meta_list_params *p,
                  enum rc (*emit)(void *arg, const struct meta_list_entry *e), void *arg,
                  struct meta_list_result *ret)
{
    char from[META_KEY_MAX + 2], to[META_KEY_MAX + 2];
    struct kv_range range = { 0 };
    struct listing *l = ARENA_NEW(a, struct listing);
    enum rc rc;

    if (!l)
        return RC_NO_MEM;
    l->params = p;
    l->emit = emit;
    l->arg = arg;
    if (!list_range(p, from, to, &range)) {
        *ret = l->result;
        return RC_OK;
    }
    rc = merge_open(&l->merge, m, a, b, &range);
    if (!rc)
        rc = list_run(l);
    merge_close(&l->merge);
    if (!rc)
        *ret = l->result;
    return rc;
}
