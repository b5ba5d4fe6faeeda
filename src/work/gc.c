/* SPDX-License-Identifier: Apache-2.0 */
#include "work/gc.h"

#include "base/clock.h"
#include "obs/log.h"
#include "rt/sync.h"

#include <stdatomic.h>

struct gc_worker {
    struct object_engine *engine;
    int64_t interval_ms;
    struct metric_series *deleted, *passes_ok, *passes_failed;
    struct fiber_sem stop; /* posted once, to end the pause early */
    struct wait_group running;
    _Atomic bool stopping;
};

static enum rc declare(struct gc_worker *w, struct metrics *m)
{
    static const char *const labels[] = { "worker", "status", NULL };
    static const char *const ok[] = { "gc", "ok" }, *const failed[] = { "gc", "error" };
    struct metric_family *f;
    enum rc rc =
        metrics_declare(m,
                        &(struct metric_desc){ .name = "gc_processed_chunks_total",
                                               .help = "Chunks deleted by garbage collection",
                                               .type = METRIC_COUNTER },
                        &f);

    if (rc)
        return rc;
    w->deleted = metrics_series(f, NULL);
    rc = metrics_declare(m,
                         &(struct metric_desc){ .name = "worker_iteration_total",
                                                .help = "Passes of background workers",
                                                .type = METRIC_COUNTER,
                                                .labels = labels },
                         &f);
    if (rc)
        return rc;
    w->passes_ok = metrics_series(f, ok);
    w->passes_failed = metrics_series(f, failed);
    return RC_OK;
}

static void pass(struct gc_worker *w)
{
    uint64_t deleted = 0;
    enum rc rc;

    note_clear();
    rc = object_gc_pass(w->engine, &deleted);
    metric_add(w->deleted, (double)deleted);
    metric_add(rc ? w->passes_failed : w->passes_ok, 1);
    if (rc && rc != RC_CANCELLED)
        log_msg(LOG_WARN, "gc: pass ended with %s %s", rc_name(rc), note_text());
}

static void run(void *arg)
{
    struct gc_worker *w = arg;

    while (!atomic_load(&w->stopping)) {
        enum rc rc = fiber_sem_wait(&w->stop, 1, clock_mono_ns() + w->interval_ms * NS_PER_MS);

        if (rc != RC_TIMEOUT)
            break; /* stopped or cancelled */
        pass(w);
    }
    wait_group_done(&w->running);
}

enum rc gc_worker_start(struct rt *rt, struct object_engine *engine, struct metrics *metrics,
                        int64_t interval_ms, struct gc_worker **ret)
{
    struct gc_worker *w = calloc(1, sizeof *w);
    enum rc rc;

    if (!w)
        return RC_NO_MEM;
    w->engine = engine;
    w->interval_ms = interval_ms;
    fiber_sem_init(&w->stop, 0);
    wait_group_init(&w->running);
    wait_group_add(&w->running, 1);
    rc = declare(w, metrics);
    if (!rc)
        rc = fiber_spawn(rt_loop(rt, 0), run, w);
    if (rc) {
        fiber_sem_fini(&w->stop);
        wait_group_fini(&w->running);
        free(w);
        return rc;
    }
    *ret = w;
    return RC_OK;
}

void gc_worker_stop(struct gc_worker *w)
{
    if (!w)
        return;
    atomic_store(&w->stopping, true);
    fiber_sem_post(&w->stop, 1);
    while (wait_group_wait(&w->running, NO_DEADLINE))
        fiber_uncancel(); /* it must have ended before its memory goes */
    fiber_sem_fini(&w->stop);
    wait_group_fini(&w->running);
    free(w);
}
