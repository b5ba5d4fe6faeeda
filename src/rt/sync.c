/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutex, condition, semaphore, wait group, bounded queue.
 *
 * Invariants:
 *  - A node is linked while it waits, and only then; `granted` and the links change under the
 * guard.
 *  - Who grants takes the node out, with all that it waited for already done on its behalf, and
 * wakes it after the guard is free. So a granted node's owner always awaits that wake, even when
 * its time was up, and returns RC_OK.
 */
#include "rt/sync.h"

struct sync_node {
    struct waiter w;
    struct sync_node *next, *prev;
    int64_t n;  /* semaphore: wanted */
    void *item; /* queue: to put, or taken */
    struct fiber *fiber;
    enum rc rc; /* of the grant */
    bool granted;
};

static void append(struct sync_waiters *s, struct sync_node *node)
{
    node->next = NULL;
    node->prev = s->tail;
    if (s->tail)
        s->tail->next = node;
    else
        s->head = node;
    s->tail = node;
}

static void take_out(struct sync_waiters *s, struct sync_node *node)
{
    if (node->prev)
        node->prev->next = node->next;
    else
        s->head = node->next;
    if (node->next)
        node->next->prev = node->prev;
    else
        s->tail = node->prev;
}

/* Takes the first out as granted and puts it in front of `chain`, for wake_chain. */
static struct sync_node *grant(struct sync_waiters *s, enum rc rc, struct sync_node *chain)
{
    struct sync_node *node = s->head;

    take_out(s, node);
    node->granted = true;
    node->rc = rc;
    node->next = chain;
    return node;
}

static struct sync_node *grant_all(struct sync_waiters *s, enum rc rc, struct sync_node *chain)
{
    /* From the last on, so that the chain, built from its end, wakes the first one first. */
    while (s->tail) {
        struct sync_node *node = s->tail;

        take_out(s, node);
        node->granted = true;
        node->rc = rc;
        node->next = chain;
        chain = node;
    }
    return chain;
}

static void wake_chain(struct sync_node *chain)
{
    while (chain) {
        struct sync_node *next = chain->next;

        waiter_wake(&chain->w);
        chain = next;
    }
}

/* Queues node and parks; called with the guard held, which it releases. */
static enum rc wait_in(pthread_mutex_t *guard, struct sync_waiters *s, struct sync_node *node,
                       int64_t deadline_ns)
{
    enum rc rc;

    waiter_init(&node->w);
    node->granted = false;
    append(s, node);
    pthread_mutex_unlock(guard);
    rc = waiter_wait(&node->w, deadline_ns);
    if (rc == RC_OK)
        return node->rc;
    pthread_mutex_lock(guard);
    if (node->granted) {
        pthread_mutex_unlock(guard);
        waiter_wait_always(&node->w);
        return node->rc;
    }
    take_out(s, node);
    pthread_mutex_unlock(guard);
    return rc;
}

/* ---- mutex ----------------------------------------------------------------------------------- */

void fiber_mutex_init(struct fiber_mutex *m)
{
    *m = (struct fiber_mutex){ 0 };
    pthread_mutex_init(&m->guard, NULL);
}

void fiber_mutex_fini(struct fiber_mutex *m)
{
    assert(!m->owner && !m->waiters.head);
    pthread_mutex_destroy(&m->guard);
}

enum rc fiber_mutex_lock(struct fiber_mutex *m, int64_t deadline_ns)
{
    struct sync_node node = { .fiber = fiber_current() };

    assert(node.fiber);
    pthread_mutex_lock(&m->guard);
    if (m->owner) {
        assert(m->owner != node.fiber);
        return wait_in(&m->guard, &m->waiters, &node, deadline_ns);
    }
    m->owner = node.fiber;
    pthread_mutex_unlock(&m->guard);
    return RC_OK;
}

static void lock_always(struct fiber_mutex *m)
{
    struct sync_node node = { .fiber = fiber_current() };

    pthread_mutex_lock(&m->guard);
    if (!m->owner) {
        m->owner = node.fiber;
        pthread_mutex_unlock(&m->guard);
        return;
    }
    waiter_init(&node.w);
    append(&m->waiters, &node);
    pthread_mutex_unlock(&m->guard);
    waiter_wait_always(&node.w);
}

void fiber_mutex_unlock(struct fiber_mutex *m)
{
    struct sync_node *next = NULL;

    pthread_mutex_lock(&m->guard);
    assert(m->owner == fiber_current());
    if (m->waiters.head)
        next = grant(&m->waiters, RC_OK, NULL);
    m->owner = next ? next->fiber : NULL;
    pthread_mutex_unlock(&m->guard);
    wake_chain(next);
}

/* ---- condition ------------------------------------------------------------------------------- */

void fiber_cond_init(struct fiber_cond *c)
{
    *c = (struct fiber_cond){ 0 };
    pthread_mutex_init(&c->guard, NULL);
}

void fiber_cond_fini(struct fiber_cond *c)
{
    assert(!c->waiters.head);
    pthread_mutex_destroy(&c->guard);
}

enum rc fiber_cond_wait(struct fiber_cond *c, struct fiber_mutex *m, int64_t deadline_ns)
{
    struct sync_node node = { 0 };
    enum rc rc;

    /* Queued before m is free, so that no signal is missed. The wake may come before wait_in parks.
     */
    pthread_mutex_lock(&c->guard);
    waiter_init(&node.w);
    append(&c->waiters, &node);
    pthread_mutex_unlock(&c->guard);
    fiber_mutex_unlock(m);
    rc = waiter_wait(&node.w, deadline_ns);
    if (rc != RC_OK) {
        pthread_mutex_lock(&c->guard);
        if (node.granted)
            rc = RC_OK;
        else
            take_out(&c->waiters, &node);
        pthread_mutex_unlock(&c->guard);
        if (rc == RC_OK)
            waiter_wait_always(&node.w);
    }
    lock_always(m);
    return rc;
}

void fiber_cond_signal(struct fiber_cond *c)
{
    struct sync_node *chain = NULL;

    pthread_mutex_lock(&c->guard);
    if (c->waiters.head)
        chain = grant(&c->waiters, RC_OK, NULL);
    pthread_mutex_unlock(&c->guard);
    wake_chain(chain);
}

void fiber_cond_broadcast(struct fiber_cond *c)
{
    struct sync_node *chain;

    pthread_mutex_lock(&c->guard);
    chain = grant_all(&c->waiters, RC_OK, NULL);
    pthread_mutex_unlock(&c->guard);
    wake_chain(chain);
}

/* ---- semaphore ------------------------------------------------------------------------------- */

void fiber_sem_init(struct fiber_sem *s, int64_t value)
{
    *s = (struct fiber_sem){ .value = value };
    pthread_mutex_init(&s->guard, NULL);
}

void fiber_sem_fini(struct fiber_sem *s)
{
    assert(!s->waiters.head);
    pthread_mutex_destroy(&s->guard);
}

/* Grants as many as the value allows, in order. Under the guard. */
static struct sync_node *grant_value(struct fiber_sem *s)
{
    struct sync_node *first = NULL, **end = &first;

    while (s->waiters.head && s->waiters.head->n <= s->value) {
        s->value -= s->waiters.head->n;
        *end = grant(&s->waiters, RC_OK, NULL);
        end = &(*end)->next;
    }
    return first;
}

enum rc fiber_sem_wait(struct fiber_sem *s, int64_t n, int64_t deadline_ns)
{
    struct sync_node node = { .n = n }, *chain;
    enum rc rc;

    if (fiber_sem_try(s, n))
        return RC_OK;
    pthread_mutex_lock(&s->guard);
    if (!s->waiters.head && s->value >= n) {
        s->value -= n;
        pthread_mutex_unlock(&s->guard);
        return RC_OK;
    }
    rc = wait_in(&s->guard, &s->waiters, &node, deadline_ns);
    if (rc == RC_OK)
        return RC_OK;
    /* One that wanted much and left may have held up others that want less. */
    pthread_mutex_lock(&s->guard);
    chain = grant_value(s);
    pthread_mutex_unlock(&s->guard);
    wake_chain(chain);
    return rc;
}

bool fiber_sem_try(struct fiber_sem *s, int64_t n)
{
    bool got;

    pthread_mutex_lock(&s->guard);
    got = !s->waiters.head && s->value >= n;
    if (got)
        s->value -= n;
    pthread_mutex_unlock(&s->guard);
    return got;
}

void fiber_sem_post(struct fiber_sem *s, int64_t n)
{
    struct sync_node *chain;

    pthread_mutex_lock(&s->guard);
    s->value += n;
    chain = grant_value(s);
    pthread_mutex_unlock(&s->guard);
    wake_chain(chain);
}

/* ---- wait group ------------------------------------------------------------------------------ */

void wait_group_init(struct wait_group *g)
{
    *g = (struct wait_group){ 0 };
    pthread_mutex_init(&g->guard, NULL);
}

void wait_group_fini(struct wait_group *g)
{
    assert(!g->waiters.head);
    pthread_mutex_destroy(&g->guard);
}

void wait_group_add(struct wait_group *g, int64_t n)
{
    pthread_mutex_lock(&g->guard);
    g->count += n;
    pthread_mutex_unlock(&g->guard);
}

void wait_group_done(struct wait_group *g)
{
    struct sync_node *chain = NULL;

    pthread_mutex_lock(&g->guard);
    assert(g->count > 0);
    if (--g->count == 0)
        chain = grant_all(&g->waiters, RC_OK, NULL);
    pthread_mutex_unlock(&g->guard);
    wake_chain(chain);
}

enum rc wait_group_wait(struct wait_group *g, int64_t deadline_ns)
{
    struct sync_node node = { 0 };

    pthread_mutex_lock(&g->guard);
    if (g->count > 0)
        return wait_in(&g->guard, &g->waiters, &node, deadline_ns);
    pthread_mutex_unlock(&g->guard);
    return RC_OK;
}

/* ---- queue ----------------------------------------------------------------------------------- */

enum rc fiber_queue_init(struct fiber_queue *q, size_t cap)
{
    void **items = calloc(cap, sizeof *items);

    assert(cap > 0);
    if (!items)
        return RC_NO_MEM;
    *q = (struct fiber_queue){ .items = items, .cap = cap };
    pthread_mutex_init(&q->guard, NULL);
    return RC_OK;
}

void fiber_queue_fini(struct fiber_queue *q)
{
    assert(!q->readers.head && !q->writers.head);
    pthread_mutex_destroy(&q->guard);
    free(q->items);
    q->items = NULL;
}

static void push_item(struct fiber_queue *q, void *item)
{
    q->items[(q->head + q->count++) % q->cap] = item;
}

enum rc fiber_queue_put(struct fiber_queue *q, void *item, int64_t deadline_ns)
{
    struct sync_node node = { .item = item }, *reader = NULL;

    pthread_mutex_lock(&q->guard);
    if (q->closed) {
        pthread_mutex_unlock(&q->guard);
        return RC_CANCELLED;
    }
    if (q->readers.head) {
        reader = grant(&q->readers, RC_OK, NULL);
        reader->item = item;
    } else if (q->count < q->cap) {
        push_item(q, item);
    } else {
        return wait_in(&q->guard, &q->writers, &node, deadline_ns);
    }
    pthread_mutex_unlock(&q->guard);
    wake_chain(reader);
    return RC_OK;
}

enum rc fiber_queue_take(struct fiber_queue *q, void **ret, int64_t deadline_ns)
{
    struct sync_node node = { 0 }, *writer = NULL;
    enum rc rc;

    pthread_mutex_lock(&q->guard);
    if (q->count > 0) {
        *ret = q->items[q->head];
        q->head = (q->head + 1) % q->cap;
        q->count--;
        if (q->writers.head) {
            writer = grant(&q->writers, RC_OK, NULL);
            push_item(q, writer->item);
        }
        pthread_mutex_unlock(&q->guard);
        wake_chain(writer);
        return RC_OK;
    }
    if (q->closed) {
        pthread_mutex_unlock(&q->guard);
        return RC_EOF;
    }
    rc = wait_in(&q->guard, &q->readers, &node, deadline_ns);
    if (rc == RC_OK)
        *ret = node.item;
    return rc;
}

void fiber_queue_close(struct fiber_queue *q)
{
    struct sync_node *chain;

    pthread_mutex_lock(&q->guard);
    q->closed = true;
    chain = grant_all(&q->readers, RC_EOF, NULL);
    chain = grant_all(&q->writers, RC_CANCELLED, chain);
    pthread_mutex_unlock(&q->guard);
    wake_chain(chain);
}
