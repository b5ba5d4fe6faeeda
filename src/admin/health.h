/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health — /healthz, /readyz and /metrics.
 *
 * /healthz answers 200 while the process serves. /readyz probes every backend in parallel, one
 * second at most each, and answers 200 or 503 with a JSON body that names each.
 *
 * Owns:    nothing of what it is given.
 * Threads: any loop.
 */
#ifndef STRATA_ADMIN_HEALTH_H
#define STRATA_ADMIN_HEALTH_H

#include "data/data.h"
#include "http/http.h"
#include "kv/kv.h"
#include "obs/metrics.h"

struct health {
    struct kv *kv;
    struct data *data;
    struct metrics *metrics;
    _Atomic bool stopping; /* /readyz then answers 503, so that balancers look elsewhere */
};

/* Answers the request and returns true when its path is one of the three. */
bool health_serve(void *health, struct http_req *req);

#endif
