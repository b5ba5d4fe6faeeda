/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of threads for what blocks: one bounded queue, first come, first served. */
#include "rt/rt_priv.h"

#include <stdio.h>

static struct offload_job *take(struct offload_pool *p)
{
    struct offload_job *job;

    pthread_mutex_lock(&p->lock);
    while (!p->head && !p->closed) {
        p->idle++;
        pthread_cond_wait(&p->work, &p->lock);
        p->idle--;
    }
    job = p->head;
    if (job) {
        p->head = job->next;
        if (!p->head)
            p->tail = &p->head;
        STAT_ADD(p->queued, -1u);
    }
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void *thread_main(void *arg)
{
    struct offload_pool *p = arg;
    struct offload_job *job;

    pthread_setname_np(pthread_self(), "offload");
    while ((job = take(p))) {
        struct loop *l = job->loop; /* without a loop the job may be gone after fn */

        job->fn(job->arg);
        note_clear();
        if (l)
            loop_post(l, &job->done);
    }
    return NULL;
}

enum rc offload_pool_start(struct offload_pool *p, unsigned threads)
{
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->tail = &p->head;
    p->threads = calloc(threads, sizeof *p->threads);
    for (; p->threads && p->threads_n < threads; p->threads_n++)
        if (pthread_create(&p->threads[p->threads_n], NULL, thread_main, p) != 0)
            break;
    if (p->threads_n == threads)
        return RC_OK;
    offload_pool_stop(p);
    return fail_rc(RC_NO_MEM, "cannot start %u threads for blocking work", threads);
}

void offload_pool_stop(struct offload_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->threads_n; i++)
        pthread_join(p->threads[i], NULL);
    free(p->threads);
    p->threads = NULL;
    p->threads_n = 0;
}

enum rc offload_start(struct offload_job *job)
{
    struct offload_pool *p = rt_the ? &rt_the->pool : NULL;
    bool refused, wake;

    if (!p)
        return fail_rc(RC_UNAVAILABLE, "the pool of threads does not run");
    job->next = NULL;
    pthread_mutex_lock(&p->lock);
    refused = p->closed || p->queued >= OFFLOAD_QUEUE_MAX;
    if (!refused) {
        *p->tail = job;
        p->tail = &job->next;
        STAT_ADD(p->queued, 1);
        STAT_ADD(p->started, 1);
    }
    wake = !refused && p->idle > 0;
    pthread_mutex_unlock(&p->lock);
    if (wake)
        pthread_cond_signal(&p->work);
    if (refused)
        return fail_rc(RC_UNAVAILABLE, "too much blocking work is queued");
    return RC_OK;
}

struct call {
    struct offload_job job;
    void (*fn)(void *arg);
    void *arg;
    struct note *note;
    struct waiter w;
};

static void run_call(void *arg)
{
    struct call *c = arg;

    note_slot = c->note;
    c->fn(c->arg);
    note_slot = NULL;
    waiter_wake(&c->w);
}

enum rc offload(void (*fn)(void *arg), void *arg)
{
    struct call c = { .job.fn = run_call, .job.arg = &c, .fn = fn, .arg = arg, .note = note_slot };
    enum rc rc;

    if (!fiber_current()) {
        fn(arg);
        return RC_OK;
    }
    waiter_init(&c.w);
    rc = offload_start(&c.job);
    if (rc == RC_OK)
        waiter_wait_always(&c.w);
    return rc;
}
