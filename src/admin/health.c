/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/health.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>

#define PROBE_MS 1000
#define METRICS_MAX (16u << 20)

struct probe {
    const char *name;
    enum rc (*run)(struct health *h);
    struct health *health;
    enum rc rc;
    char why[128];
};

static enum rc probe_kv(struct health *h)
{
    return kv_probe(h->kv);
}

static enum rc probe_data(struct health *h)
{
    return data_probe(h->data);
}

static void probe_fiber(void *arg)
{
    struct probe *p = arg;

    fiber_set_deadline(clock_mono_ns() + PROBE_MS * NS_PER_MS);
    note_clear();
    p->rc = p->run(p->health);
    snprintf(p->why, sizeof p->why, "%s", p->rc ? note_text() : "");
}

static void run_probes(struct probe *p, struct fiber **fibers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fiber_spawn_joinable(loop_current(), probe_fiber, &p[i], &fibers[i])) {
            fibers[i] = NULL;
            p[i].rc = RC_NO_MEM;
        }
    for (size_t i = 0; i < n; i++)
        if (fibers[i])
            fiber_join(fibers[i]);
}

static void answer(struct http_req *req, int status, struct slice type, struct slice body)
{
    http_res_status(req, status);
    http_res_header(req, SLICE("Content-Type"), type);
    if (http_res_send(req, body))
        http_res_close(req);
}

static enum rc add_probe(struct buf *b, const struct probe *p, bool first)
{
    enum rc rc = buf_addf(b, "%s\"%s\":{\"ok\":%s,\"result\":\"%s\",\"detail\":\"",
                          first ? "" : ",", p->name, p->rc ? "false" : "true", rc_name(p->rc));

    for (const char *c = p->why; *c && !rc; c++)
        rc = buf_add_char(b, *c == '"' || *c == '\\' || (unsigned char)*c < 32 ? '\'' : *c);
    return rc ? rc : buf_add(b, SLICE("\"}"));
}

static void serve_ready(struct health *h, struct http_req *req)
{
    AUTO(buf_fini) struct buf body = { .max = 4096 };
    struct probe probes[] = {
        { .name = "meta", .run = probe_kv, .health = h },
        { .name = "data", .run = probe_data, .health = h },
    };
    struct fiber *fibers[ARRAY_LEN(probes)];
    bool stopping = atomic_load(&h->stopping), ok = !stopping;
    enum rc rc;

    run_probes(probes, fibers, ARRAY_LEN(probes));
    for (size_t i = 0; i < ARRAY_LEN(probes); i++)
        ok = ok && probes[i].rc == RC_OK;
    rc = buf_addf(&body, "{\"ready\":%s,\"stopping\":%s,\"backends\":{", ok ? "true" : "false",
                  stopping ? "true" : "false");
    for (size_t i = 0; i < ARRAY_LEN(probes) && !rc; i++)
        rc = add_probe(&body, &probes[i], i == 0);
    if (!rc)
        rc = buf_add(&body, SLICE("}}\n"));
    if (rc)
        ok = false;
    answer(req, ok ? 200 : 503, SLICE("application/json"), buf_slice(&body));
}

static void serve_metrics(struct health *h, struct http_req *req)
{
    AUTO(buf_fini) struct buf body = { .max = METRICS_MAX };

    if (metrics_render(h->metrics, &body)) {
        answer(req, 503, SLICE("text/plain"), SLICE("out of memory\n"));
        return;
    }
    answer(req, 200, SLICE("text/plain; version=0.0.4; charset=utf-8"), buf_slice(&body));
}

bool health_serve(void *health, struct http_req *req)
{
    bool reads = slice_eq(req->method, SLICE("GET")) || slice_eq(req->method, SLICE("HEAD"));

    if (!reads || req->path.n < 7)
        return false;
    if (slice_eq(req->path, SLICE("/healthz")))
        answer(req, 200, SLICE("text/plain"), SLICE("ok\n"));
    else if (slice_eq(req->path, SLICE("/readyz")))
        serve_ready(health, req);
    else if (slice_eq(req->path, SLICE("/metrics")))
        serve_metrics(health, req);
    else
        return false;
    return true;
}
