/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gc — the worker that deletes chunks which no object refers to any more.
 *
 * Owns:    one fiber, from start to stop.
 * Errors:  of a pass are logged and counted; the next pass tries again.
 * Threads: start off fibers or on one; stop on a fiber.
 */
#ifndef STRATA_WORK_GC_H
#define STRATA_WORK_GC_H

#include "object/object.h"
#include "obs/metrics.h"
#include "rt/rt.h"

struct gc_worker;

enum rc gc_worker_start(struct rt *rt, struct object_engine *engine, struct metrics *metrics,
                        int64_t interval_ms, struct gc_worker **ret) MUST_CHECK;
void gc_worker_stop(struct gc_worker *w); /* waits for the pass in hand; NULL is allowed */

#endif
