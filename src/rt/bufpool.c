/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooled body buffers. The limit is a semaphore, which also gives the waiting its order. A freed
 * buffer goes to the cache of the loop that frees it, from other threads to a shared one; what no
 * cache has room for goes back to the system.
 */
#include "rt/bufpool.h"

#include "rt/rt_priv.h"
#include "rt/sync.h"

#include <sys/mman.h>

#ifdef RT_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define CACHE_BYTES (8u << 20)
#define CACHE_MIN 4
#define CACHE_MAX 256

struct cache {
    unsigned n; /* written by its owner, read by anybody */
    void *buffers[CACHE_MAX];
} __attribute__((aligned(64)));

struct bufpool {
    size_t size;
    unsigned cache_max;
    struct fiber_sem limit; /* in buffers */
    int64_t lent;           /* atomic */
    pthread_mutex_t lock;   /* guards shared */
    struct cache shared;
    unsigned loops_n;
    struct cache *loops; /* loop-owned each */
};

enum rc bufpool_new(size_t size, size_t max_bytes, struct bufpool **ret)
{
    struct bufpool *p = aligned_alloc(64, sizeof *p);
    unsigned loops_n = rt_the ? rt_the->loops_n : 0;

    assert(size > 0 && max_bytes >= size);
    if (!p)
        return RC_NO_MEM;
    memset(p, 0, sizeof *p);
    p->size = size;
    p->cache_max = (unsigned)MIN(MAX(CACHE_BYTES / size, CACHE_MIN), CACHE_MAX);
    if (loops_n > 0) {
        p->loops = aligned_alloc(64, loops_n * sizeof *p->loops);
        if (!p->loops) {
            free(p);
            return RC_NO_MEM;
        }
        memset(p->loops, 0, loops_n * sizeof *p->loops);
        p->loops_n = loops_n;
    }
    fiber_sem_init(&p->limit, (int64_t)(max_bytes / size));
    pthread_mutex_init(&p->lock, NULL);
    *ret = p;
    return RC_OK;
}

static void release(const struct bufpool *p, void *buffer)
{
    ASAN_UNPOISON_MEMORY_REGION(buffer, p->size);
    munmap(buffer, p->size);
}

static void empty(const struct bufpool *p, struct cache *c)
{
    while (c->n > 0)
        release(p, c->buffers[--c->n]);
}

void bufpool_free(struct bufpool *p)
{
    if (!p)
        return;
    assert(p->lent == 0);
    empty(p, &p->shared);
    for (unsigned i = 0; i < p->loops_n; i++)
        empty(p, &p->loops[i]);
    fiber_sem_fini(&p->limit);
    pthread_mutex_destroy(&p->lock);
    free(p->loops);
    free(p);
}

size_t bufpool_size(const struct bufpool *p)
{
    return p->size;
}

static void *pop(struct cache *c)
{
    unsigned n = c->n;

    if (n == 0)
        return NULL;
    __atomic_store_n(&c->n, n - 1, __ATOMIC_RELAXED);
    return c->buffers[n - 1];
}

static bool push(struct cache *c, unsigned max, void *buffer)
{
    unsigned n = c->n;

    if (n >= max)
        return false;
    c->buffers[n] = buffer;
    __atomic_store_n(&c->n, n + 1, __ATOMIC_RELAXED);
    return true;
}

/* The calling loop's own cache; NULL elsewhere. */
static struct cache *own_cache(struct bufpool *p)
{
    struct loop *l = loop_self;

    return l && l->index < p->loops_n ? &p->loops[l->index] : NULL;
}

static void *find_idle(struct bufpool *p)
{
    struct cache *own = own_cache(p);
    void *buffer = own ? pop(own) : NULL;

    if (buffer || STAT_GET(p->shared.n) == 0)
        return buffer;
    pthread_mutex_lock(&p->lock);
    buffer = pop(&p->shared);
    pthread_mutex_unlock(&p->lock);
    return buffer;
}

enum rc bufpool_get(struct bufpool *p, void **ret, int64_t deadline_ns)
{
    enum rc rc = fiber_sem_wait(&p->limit, 1, deadline_ns);
    void *buffer;

    if (rc != RC_OK)
        return rc;
    buffer = find_idle(p);
    if (!buffer) {
        buffer = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buffer == MAP_FAILED) {
            fiber_sem_post(&p->limit, 1);
            return fail_rc(RC_NO_MEM, "no memory for a buffer of %zu bytes", p->size);
        }
    }
    ASAN_UNPOISON_MEMORY_REGION(buffer, p->size);
    __atomic_fetch_add(&p->lent, 1, __ATOMIC_RELAXED);
    *ret = buffer;
    return RC_OK;
}

void bufpool_put(struct bufpool *p, void *buffer)
{
    struct cache *own = own_cache(p);
    bool kept;

    if (!buffer)
        return;
    ASAN_POISON_MEMORY_REGION(buffer, p->size);
    if (own) {
        kept = push(own, p->cache_max, buffer);
    } else {
        pthread_mutex_lock(&p->lock);
        kept = push(&p->shared, p->cache_max, buffer);
        pthread_mutex_unlock(&p->lock);
    }
    if (!kept)
        release(p, buffer);
    __atomic_fetch_sub(&p->lent, 1, __ATOMIC_RELAXED);
    fiber_sem_post(&p->limit, 1);
}

void bufpool_stats(const struct bufpool *p, size_t *ret_lent, size_t *ret_idle)
{
    size_t idle = STAT_GET(p->shared.n);

    for (unsigned i = 0; i < p->loops_n; i++)
        idle += STAT_GET(p->loops[i].n);
    *ret_lent = (size_t)__atomic_load_n(&p->lent, __ATOMIC_RELAXED) * p->size;
    *ret_idle = idle * p->size;
}
