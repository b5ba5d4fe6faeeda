/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sync — what fibers wait for each other with: mutex, condition, semaphore, wait group, bounded
 * queue.
 *
 * All may be used by fibers of different loops at once. Waiting is first come, first served.
 *
 * Owns:    caller's storage; init before, fini after all use (with nobody waiting).
 * Errors:  waits end with RC_TIMEOUT, RC_CANCELLED (then nothing was acquired).
 * Threads: fibers of any loop; sem_post, wait_group_done and queue_close also from plain threads.
 */
#ifndef STRATA_RT_SYNC_H
#define STRATA_RT_SYNC_H

#include "rt/rt.h"

#include <pthread.h>

struct sync_waiters { /* private: a queue of parked fibers */
    struct sync_node *head, *tail;
};

struct fiber_mutex {
    pthread_mutex_t guard; /* held for a few instructions, never across a park */
    struct fiber *owner;
    struct sync_waiters waiters;
};
void fiber_mutex_init(struct fiber_mutex *m);
void fiber_mutex_fini(struct fiber_mutex *m);
enum rc fiber_mutex_lock(struct fiber_mutex *m, int64_t deadline_ns) MUST_CHECK;
void fiber_mutex_unlock(struct fiber_mutex *m);

struct fiber_cond {
    pthread_mutex_t guard;
    struct sync_waiters waiters;
};
void fiber_cond_init(struct fiber_cond *c);
void fiber_cond_fini(struct fiber_cond *c);
/* Releases m while waiting and always holds it again on return. */
enum rc fiber_cond_wait(struct fiber_cond *c, struct fiber_mutex *m,
                        int64_t deadline_ns) MUST_CHECK;
void fiber_cond_signal(struct fiber_cond *c);
void fiber_cond_broadcast(struct fiber_cond *c);

/* A counting semaphore: also the limit of bytes or requests in flight. */
struct fiber_sem {
    pthread_mutex_t guard;
    int64_t value;
    struct sync_waiters waiters;
};
void fiber_sem_init(struct fiber_sem *s, int64_t value);
void fiber_sem_fini(struct fiber_sem *s);
enum rc fiber_sem_wait(struct fiber_sem *s, int64_t n, int64_t deadline_ns) MUST_CHECK;
bool fiber_sem_try(struct fiber_sem *s, int64_t n);
void fiber_sem_post(struct fiber_sem *s, int64_t n);

/* Counts tasks; wait returns when the count is zero. */
struct wait_group {
    pthread_mutex_t guard;
    int64_t count;
    struct sync_waiters waiters;
};
void wait_group_init(struct wait_group *g);
void wait_group_fini(struct wait_group *g);
void wait_group_add(struct wait_group *g, int64_t n);
void wait_group_done(struct wait_group *g);
enum rc wait_group_wait(struct wait_group *g, int64_t deadline_ns) MUST_CHECK;

/* A bounded queue of pointers. */
struct fiber_queue {
    pthread_mutex_t guard;
    void **items;
    size_t head, count, cap;
    bool closed;
    struct sync_waiters readers, writers;
};
enum rc fiber_queue_init(struct fiber_queue *q, size_t cap) MUST_CHECK; /* RC_NO_MEM */
void fiber_queue_fini(struct fiber_queue *q);                           /* items left are dropped */
/* Waits for room. RC_CANCELLED also when closed. */
enum rc fiber_queue_put(struct fiber_queue *q, void *item, int64_t deadline_ns) MUST_CHECK;
/* Waits for an item. RC_EOF when closed and empty. */
enum rc fiber_queue_take(struct fiber_queue *q, void **ret, int64_t deadline_ns) MUST_CHECK;
void fiber_queue_close(struct fiber_queue *q);

#endif
