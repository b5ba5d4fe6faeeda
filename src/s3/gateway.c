/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/gateway.h"

#include "base/clock.h"
#include "base/encode.h"
#include "obs/log.h"
#include "s3/error.h"

#include <stdio.h>

struct object_engine *s3_engine(const struct s3_call *c)
{
    return c->g->engine;
}

struct meta *s3_meta(const struct s3_call *c)
{
    return object_engine_meta(c->g->engine);
}

struct slice s3_region(const struct s3_call *c)
{
    return c->g->region;
}

/* ---- life ----------------------------------------------------------------------------------- */

static enum rc declare_metrics(struct s3_gateway *g, struct metrics *m)
{
    static const char *const count_labels[] = { "method", "operation", "code", NULL };
    static const char *const time_labels[] = { "operation", NULL };
    static const double bounds[] = { 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                     0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                     1,      2.5,     5,      10,    30,     60 };
    enum rc rc;

    g->ops = calloc(s3_ops_n + 1, sizeof *g->ops);
    if (!g->ops)
        return RC_NO_MEM;
    if (!m)
        return RC_OK;
    rc = metrics_declare(m,
                         &(struct metric_desc){ .name = "http_requests_total",
                                                .help = "Requests answered.",
                                                .type = METRIC_COUNTER,
                                                .labels = count_labels,
                                                .series_max = 4000 },
                         &g->requests);
    if (rc)
        return rc;
    return metrics_declare(m,
                           &(struct metric_desc){ .name = "http_request_duration_seconds",
                                                  .help = "Time from first byte to answer.",
                                                  .type = METRIC_HISTOGRAM,
                                                  .labels = time_labels,
                                                  .bounds = bounds,
                                                  .bounds_n = ARRAY_LEN(bounds) },
                           &g->seconds);
}

enum rc s3_gateway_new(const struct s3_config *cfg, struct s3_gateway **ret)
{
    struct s3_gateway *g = calloc(1, sizeof *g);
    unsigned char random[33];
    enum rc rc;

    if (!g)
        return RC_NO_MEM;
    g->engine = cfg->engine;
    g->auth = cfg->auth;
    g->builtin = cfg->builtin;
    g->builtin_ctx = cfg->builtin_ctx;
    g->log_requests = cfg->log_requests;
    random_bytes(random, sizeof random);
    g->host_id[base64_encode(g->host_id, random, sizeof random)] = 0;
    g->region_text = strdup(cfg->region ? cfg->region : "");
    g->region = slice_str(g->region_text);
    rc = g->region_text ? s3_vhosts_init(&g->vhosts, cfg->vhost_patterns) : RC_NO_MEM;
    if (!rc)
        rc = declare_metrics(g, cfg->metrics);
    if (rc)
        s3_gateway_free(g);
    else
        *ret = g;
    return rc;
}

void s3_gateway_free(struct s3_gateway *g)
{
    if (!g)
        return;
    s3_vhosts_fini(&g->vhosts);
    free(g->region_text);
    free(g->ops);
    free(g);
}

/* ---- accounting ----------------------------------------------------------------------------- */

static struct metric_series *status_series(struct s3_call *c, struct s3_op_metrics *m, int status)
{
    static const int known[] = { 200, 204, 206, 304, 400, 403, 404, 405,
                                 409, 411, 412, 416, 500, 501, 503 };
    const char *name = c->op ? c->op->name : "other";
    char code[16];
    const char *labels[3] = { s3_method_name(s3_method_parse(c->req->method)), name, code };
    struct metric_series *s = NULL;
    size_t slot = 0;

    while (slot < ARRAY_LEN(known) && known[slot] != status)
        slot++;
    if (slot < ARRAY_LEN(known) && c->op)
        s = atomic_load_explicit(&m->by_status[slot], memory_order_acquire);
    if (s)
        return s;
    snprintf(code, sizeof code, "%d", status);
    s = metrics_series(c->g->requests, labels);
    if (slot < ARRAY_LEN(known) && c->op)
        atomic_store_explicit(&m->by_status[slot], s, memory_order_release);
    return s;
}

static void count(struct s3_call *c, int status, double seconds)
{
    struct s3_gateway *g = c->g;
    struct s3_op_metrics *m = &g->ops[c->op ? (size_t)(c->op - s3_ops) : s3_ops_n];
    struct metric_series *s = atomic_load_explicit(&m->seconds, memory_order_acquire);

    if (!g->requests)
        return;
    if (!s) {
        const char *labels[1] = { c->op ? c->op->name : "other" };

        s = metrics_series(g->seconds, labels);
        atomic_store_explicit(&m->seconds, s, memory_order_release);
    }
    metric_observe(s, seconds);
    metric_add(status_series(c, m, status), 1);
}

void s3_account(struct s3_call *c)
{
    int status = http_res_status_sent(c->req);
    double seconds = (double)(clock_mono_ns() - c->req->started_ns) / 1e9;
    enum log_level level = status >= 500 && status != 501 ? LOG_WARN
                           : c->g->log_requests           ? LOG_INFO
                                                          : LOG_DEBUG;
    struct log_line l;

    count(c, status, seconds);
    if (!log_enabled(level))
        return;
    log_begin(&l, level, "request");
    log_str(&l, "request_id", slice_str(c->req->id));
    log_str(&l, "peer", c->req->peer);
    log_str(&l, "method", c->req->method);
    log_str(&l, "path", c->req->path); /* never the query: it may hold a signature */
    log_str(&l, "operation", slice_str(c->op ? c->op->name : "other"));
    log_str(&l, "access_key", c->id.access_key);
    log_int(&l, "status", status);
    log_int(&l, "bytes", (int64_t)http_res_body_sent(c->req));
    log_float(&l, "seconds", seconds);
    if (c->error)
        log_str(&l, "error", slice_str(c->error));
    if (c->error && *note_text())
        log_str(&l, "detail", slice_str(note_text()));
    log_end(&l);
}

/* ---- answers -------------------------------------------------------------------------------- */

void s3_begin(struct s3_call *c, int status)
{
    http_res_status(c->req, status);
    http_res_header(c->req, SLICE("x-amz-id-2"), slice_str(c->g->host_id));
}

enum rc s3_answer_empty(struct s3_call *c, int status)
{
    s3_begin(c, status);
    return http_res_send(c->req, SLICE_NONE);
}

enum rc s3_answer_xml(struct s3_call *c, int status, struct slice doc)
{
    s3_begin(c, status);
    http_res_header(c->req, SLICE("Content-Type"), SLICE("application/xml"));
    return http_res_send(c->req, doc);
}

/* ---- a request ------------------------------------------------------------------------------ */

static bool has_header(void *arg, struct slice name)
{
    return http_header_get(arg, name).p != NULL;
}

enum rc s3_authorize(struct s3_call *c, const char *action, const struct meta_bucket *b,
                     struct slice key)
{
    if (!c->id.anonymous && !c->id.check_chunks) /* AUTH_OFF: everybody may do everything */
        return RC_OK;
    if (c->id.anonymous || (b && !slice_eq(b->owner, c->id.account.id)))
        return fail_s3(S3E_ACCESS_DENIED, NULL);
    return RC_OK;
}

enum rc s3_bucket_get(struct s3_call *c, struct slice name, struct meta_bucket *ret)
{
    if (!meta_bucket_name_valid(name))
        return fail_s3(S3E_INVALID_BUCKET_NAME, NULL);
    return meta_bucket_get(s3_meta(c), c->arena, name, ret);
}

/* x-amz-expected-bucket-owner: the client's guard against a bucket in other hands. */
static enum rc check_expected_owner(struct s3_call *c)
{
    struct slice want = s3_header(c, SLICE("x-amz-expected-bucket-owner"));

    if (want.p && !slice_eq(want, c->bucket.owner))
        return fail_s3(S3E_ACCESS_DENIED, NULL);
    return RC_OK;
}

static enum rc admit(struct s3_call *c)
{
    bool no_auth = c->op->flags & S3_OP_NO_AUTH;
    enum rc rc = no_auth ? RC_OK : auth_request(c->g->auth, c->req, &c->id);

    if (rc)
        return rc;
    /* Object bytes alone may come with trailers. */
    if (!(c->op->flags & S3_OP_STREAM) && (c->id.payload == AUTH_PAYLOAD_STREAMING_TRAILER ||
                                           c->id.payload == AUTH_PAYLOAD_UNSIGNED_TRAILER))
        return fail_s3(S3E_INVALID_REQUEST, "The value of x-amz-content-sha256 header is invalid.");
    if (!c->op->handler)
        return fail_s3(S3E_NOT_IMPLEMENTED, "%s is not implemented.", c->op->name);
    if (no_auth)
        return RC_OK;
    if (c->op->scope == S3_SERVICE || (c->op->flags & S3_OP_NO_BUCKET))
        return s3_authorize(c, c->op->action, NULL, SLICE_NONE);
    rc = s3_bucket_get(c, c->target.bucket, &c->bucket);
    if (!rc)
        rc = s3_authorize(c, c->op->action, &c->bucket, c->target.key);
    return rc ? rc : check_expected_owner(c);
}

static enum rc serve(struct s3_call *c)
{
    struct http_req *req = c->req;
    enum s3_method method = s3_method_parse(req->method);
    enum s3_scope scope;
    enum rc rc = s3_target_parse(&c->g->vhosts, c->arena, req->host, req->path, &c->target);

    if (!rc)
        rc = s3_query_parse(c->arena, req->query, &c->query);
    if (rc)
        return rc;
    scope = c->target.key.n ? S3_OBJECT : c->target.bucket.n ? S3_BUCKET : S3_SERVICE;
    if (scope == S3_SERVICE && method == S3_OPTIONS)
        scope = S3_BUCKET; /* no bucket: no CORS configuration either */
    c->head = method == S3_HEAD;
    rc = s3_route(method, scope, &c->query, has_header, req, &c->op);
    if (!rc)
        rc = admit(c);
    return rc ? rc : c->op->handler(c);
}

static bool may_be_builtin(const struct s3_gateway *g, struct http_req *req)
{
    struct slice bucket;

    if (!g->builtin ||
        !(slice_eq(req->method, SLICE("GET")) || slice_eq(req->method, SLICE("HEAD"))))
        return false;
    if (req->path.n < 2 ||
        (req->path.p[1] != 'h' && req->path.p[1] != 'r' && req->path.p[1] != 'm'))
        return false;
    return s3_vhost_bucket(&g->vhosts, req->arena, req->host, &bucket) == RC_OK && !bucket.n;
}

void s3_serve(void *ctx, struct http_req *req)
{
    struct s3_gateway *g = ctx;
    struct s3_call c = { .g = g, .req = req, .arena = req->arena, .id = { .anonymous = true } };
    enum rc rc;

    if (may_be_builtin(g, req) && g->builtin(g->builtin_ctx, req))
        return;
    note_clear();
    rc = serve(&c);
    if (rc)
        s3_error_answer(&c, rc);
    s3_account(&c);
    if (c.body_arena.max)
        arena_fini(&c.body_arena);
}

void s3_refuse(void *ctx, struct http_req *req, int status, const char *why)
{
    struct s3_gateway *g = ctx;
    struct s3_call c = { .g = g, .req = req, .arena = req->arena, .id = { .anonymous = true } };
    enum s3_error e = S3E_BAD_REQUEST;
    enum rc rc;

    if (status == 408)
        e = S3E_REQUEST_TIMEOUT;
    else if (status == 431)
        e = S3E_REQUEST_HEADER_SECTION_TOO_LARGE;
    else if (status == 501)
        e = S3E_NOT_IMPLEMENTED;
    else if (status == 503)
        e = S3E_SLOW_DOWN;
    c.status = status;
    rc = status == 400 || status == 414 ? fail_s3(e, "%s", why ? why : "") : fail_s3(e, NULL);
    s3_error_answer(&c, rc);
    s3_account(&c);
}
