/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection:
 *
 *   open → idle ⇄ busy → closed
 *
 * idle: no fiber, no buffers; the loop watches the socket, and a timer closes it. busy: bytes came;
 * a fiber with a working set serves requests until no input is left.
 *
 * Invariants: work and fiber are set only while busy. An idle connection has no input in hand:
 * neither in its own buffer (released) nor in OpenSSL's. Only the serving fiber closes a busy
 * connection.
 */
#include "http/conn_priv.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 5000u /* in all */
#define LINGER_WAIT_MS 2000u
#define LINGER_BYTES (UINT64_C(16) << 20)
#define ARENA_MAX ((size_t)1 << 20)
#define IN_MIN ((size_t)64 << 10)
#define IN_BEYOND_HEAD ((size_t)4096)
#define BURST_MAX 16u /* requests before others on the loop get a turn */

enum next { NEXT_REQUEST, NEXT_IDLE, NEXT_CLOSE };

static void serve_burst(void *arg);
static void on_readable(struct io *io);

/* ---- working sets ---- */

static struct http_work *work_take(struct http_lane *lane)
{
    size_t cap = MAX(IN_MIN, lane->server->limits.head_bytes_max + IN_BEYOND_HEAD);
    struct http_work *w = lane->spare;

    if (w) {
        lane->spare = w->next;
        lane->spare_n--;
    } else {
        w = malloc(sizeof *w + cap);
        if (!w)
            return NULL;
        arena_init(&w->arena, ARENA_MAX);
        w->in_cap = cap;
    }
    w->next = NULL;
    w->head_n = w->pos = w->end = 0;
    return w;
}

static void work_give(struct http_lane *lane, struct http_work *w)
{
    if (!w)
        return;
    if (lane->spare_n >= HTTP_SPARE_WORKS) {
        arena_fini(&w->arena);
        free(w);
        return;
    }
    arena_reset(&w->arena);
    w->next = lane->spare;
    lane->spare = w;
    lane->spare_n++;
}

/* ---- opening, idling, closing ---- */

static void on_timer(struct loop_timer *t)
{
    struct http_conn *c = container_of(t, struct http_conn, timer);

    c->timer_on = false;
    if (c->busy)
        return; /* started again when idle */
    if (loop_now_ns(c->io.loop) < c->idle_until_ns &&
        loop_timer_start(c->io.loop, t, c->idle_until_ns) == RC_OK) {
        c->timer_on = true;
        return;
    }
    http_conn_close(c);
}

/* The timer is left running over short busy spells: it is set once per timeout, not once per
 * request. */
static enum rc go_idle(struct http_conn *c)
{
    const struct http_limits *l = &c->lane->server->limits;

    c->idle_until_ns = http_after_ms(c, c->over_limit ? l->head_timeout_ms : l->idle_timeout_ms);
    if (!c->timer_on) {
        enum rc rc = loop_timer_start(c->io.loop, &c->timer, c->idle_until_ns);

        if (rc)
            return rc;
        c->timer_on = true;
    }
    c->busy = false;
    c->fiber = NULL;
    io_watch(&c->io, on_readable);
    return RC_OK;
}

static void on_readable(struct io *io)
{
    struct http_conn *c = container_of(io, struct http_conn, io);

    c->busy = true;
    if (fiber_spawn(io->loop, serve_burst, c) != RC_OK)
        http_conn_close(c);
}

static void count_conn(struct http_conn *c, int by)
{
    struct http_lane *lane = c->lane;

    lane->conns_n += (unsigned)by;
    lane->over_limit_n += c->over_limit ? (unsigned)by : 0;
    __atomic_fetch_add(&lane->server->connections, (uint32_t)by, __ATOMIC_RELAXED);
    __atomic_store_n(&lane->stats.connections, lane->conns_n, __ATOMIC_RELAXED);
}

enum rc http_conn_open(struct http_lane *lane, int fd, const char *peer, bool over_limit)
{
    struct http_conn *c = calloc(1, sizeof *c);
    int one = 1;
    enum rc rc;

    if (!c)
        return RC_NO_MEM;
    rc = io_init(&c->io, fd);
    if (rc) {
        free(c);
        return rc;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->lane = lane;
    c->over_limit = over_limit;
    c->timer.fire = on_timer;
    memcpy(c->peer, peer, sizeof c->peer);
    c->next = lane->conns;
    if (c->next)
        c->next->prev = c;
    lane->conns = c;
    count_conn(c, 1);
    if (go_idle(c) != RC_OK)
        http_conn_close(c);
    return RC_OK;
}

void http_conn_close(struct http_conn *c)
{
    struct http_lane *lane = c->lane;

    loop_timer_stop(&c->timer);
    if (!c->busy)
        io_unwatch(&c->io);
    if (c->reset) {
        struct linger now = { .l_onoff = 1 };

        setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    } else if (c->ssl) {
        http_net_shutdown(c);
    }
    SSL_free(c->ssl);
    io_close(&c->io);
    *(c->prev ? &c->prev->next : &lane->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    count_conn(c, -1);
    free(c);
    http_lane_check_done(lane);
}

void http_conn_cut(struct http_conn *c)
{
    c->cut = true;
    if (c->fiber)
        fiber_cancel(c->fiber);
}

/* ---- requests ---- */

static void new_id(struct http_lane *lane, char id[24])
{
    /* An odd factor keeps ids distinct while neighbours look unlike each other. */
    uint64_t v = lane->next_id++ * UINT64_C(0x9e3779b97f4a7c15);

    for (int i = 15; i >= 0; i--, v >>= 4)
        id[i] = "0123456789ABCDEF"[v & 15];
    id[16] = 0;
}

/* Fills in the request from what was parsed of its head (little, when it was bad). */
static void begin_request(struct http_conn *c, int64_t started_ns)
{
    struct http_work *w = c->work;
    const struct http_head *h = &w->parser.head;

    w->req = (struct http_req){
        .method = h->method,
        .target = h->target,
        .path = h->path,
        .query = h->query,
        .host = h->host,
        .headers = w->headers,
        .headers_n = h->headers_n,
        .has_body = h->chunked || h->content_length > 0,
        .chunked = h->chunked,
        .content_length = h->content_length,
        .has_content_length = h->has_content_length,
        .expects_continue = h->expects_continue,
        .tls = c->ssl != NULL,
        .arena = &w->arena,
        .started_ns = started_ns,
        .peer = slice_str(c->peer),
        .conn = c,
    };
    new_id(c->lane, w->req.id);
    w->head_n = w->pos = h->bytes;
    w->dead = false;
    w->keep_alive = h->keep_alive;
    w->trailers = NULL;
    w->trailers_n = 0;
    http_body_start(c, h);
    http_res_start(c);
    note_clear();
}

/* Tells the client that nothing more comes, and takes in what it is still sending: closing at once
 * would answer it with a reset, which may overtake the response. */
static void linger(struct http_conn *c)
{
    struct http_work *w = c->work;
    int64_t until = http_after_ms(c, LINGER_MS);
    uint64_t dropped = 0;

    http_net_shutdown(c);
    while (dropped < LINGER_BYTES && !c->cut) {
        int64_t deadline = MIN(until, http_after_ms(c, LINGER_WAIT_MS));
        size_t n;

        if (io_read(&c->io, w->in, w->in_cap, &n, deadline) != RC_OK)
            break;
        dropped += n;
    }
}

static enum next refuse(struct http_conn *c, int64_t started_ns, int status, const char *why)
{
    const struct http_handler *h = &c->lane->server->handler;
    struct http_work *w = c->work;

    begin_request(c, started_ns);
    w->keep_alive = false;
    w->body = HTTP_BODY_DONE;
    w->continue_due = false;
    http_stat_add(&c->lane->stats.bad_requests, 1);
    if (h->refuse) {
        h->refuse(h->ctx, &w->req, status, why);
    } else {
        http_res_status(&w->req, status);
        http_res_header(&w->req, SLICE("Content-Type"), SLICE("text/plain"));
        if (http_res_send(&w->req, slice_str(why)) != RC_OK)
            return NEXT_CLOSE;
    }
    if (http_res_complete(c))
        linger(c);
    return NEXT_CLOSE;
}

/* More of a head that has begun. NEXT_REQUEST: bytes came. */
static enum next read_more_head(struct http_conn *c, int64_t started_ns)
{
    struct http_work *w = c->work;
    int64_t deadline = started_ns + c->lane->server->limits.head_timeout_ms * NS_PER_MS;
    size_t n;
    enum rc rc = http_net_read(c, w->in + w->end, w->in_cap - w->end, &n, deadline);

    if (rc == RC_TIMEOUT && w->parser.line < w->end)
        return refuse(c, started_ns, 408, "the request head took too long");
    if (rc)
        return NEXT_CLOSE;
    w->end += n;
    return NEXT_REQUEST;
}

/* Reads and parses a head, starting with the bytes that are in the buffer already. */
static enum next read_head(struct http_conn *c, int64_t *ret_started_ns)
{
    const struct http_limits *l = &c->lane->server->limits;
    struct http_work *w = c->work;

    http_parser_init(&w->parser, w->headers, HTTP_HEADERS_MAX, l->head_bytes_max, l->target_max);
    if (w->end == 0) {
        if (http_net_try_read(c, w->in, w->in_cap, &w->end) != RC_OK)
            return NEXT_CLOSE;
        if (w->end == 0)
            return NEXT_IDLE;
    }
    *ret_started_ns = loop_now_ns(c->io.loop);
    for (;;) {
        enum next next;

        switch (http_parser_feed(&w->parser, slice_of(w->in, w->end))) {
        case HTTP_PARSE_DONE:
            if (c->over_limit)
                return refuse(c, *ret_started_ns, 503, "too many connections");
            return NEXT_REQUEST;
        case HTTP_PARSE_BAD:
            return refuse(c, *ret_started_ns, w->parser.status, w->parser.why);
        case HTTP_PARSE_MORE:
            next = read_more_head(c, *ret_started_ns);
            if (next != NEXT_REQUEST)
                return next;
        }
    }
}

/* After the handler: the response is completed, the body's rest dropped. */
static enum next finish_request(struct http_conn *c)
{
    struct http_work *w = c->work;
    bool sent = http_res_complete(c);

    if (!sent)
        return NEXT_CLOSE;
    if (w->keep_alive && w->body != HTTP_BODY_DONE &&
        !http_body_drain(c, c->lane->server->limits.drain_bytes_max))
        w->keep_alive = false;
    if (w->keep_alive)
        return NEXT_REQUEST;
    if (w->body != HTTP_BODY_DONE || w->body_rc)
        linger(c);
    return NEXT_CLOSE;
}

static enum next serve_request(struct http_conn *c)
{
    struct http_lane *lane = c->lane;
    struct http_work *w = c->work;
    int64_t started_ns = 0;
    enum next next = read_head(c, &started_ns);

    if (next != NEXT_REQUEST)
        return next;
    begin_request(c, started_ns);
    http_stat_add(&lane->stats.requests, 1);
    http_stat_add(&lane->stats.active, 1);
    lane->server->handler.serve(lane->server->handler.ctx, &w->req);
    next = finish_request(c);
    http_stat_add(&lane->stats.active, UINT64_MAX); /* one less */
    if (next != NEXT_REQUEST)
        return next;

    arena_reset(&w->arena);
    w->end -= w->pos;
    if (w->end)
        memmove(w->in, w->in + w->pos, w->end);
    w->pos = w->head_n = 0;
    if (w->end == 0 && !c->io.readable && !(c->ssl && SSL_pending(c->ssl)))
        return NEXT_IDLE;
    return NEXT_REQUEST;
}

static bool begin_burst(struct http_conn *c)
{
    struct http_lane *lane = c->lane;

    c->fiber = fiber_current();
    if (c->cut)
        return false;
    if (lane->server->tls && !c->ssl) {
        c->ssl = tls_source_accept(lane->server->tls, c->io.fd);
        if (!c->ssl)
            return false;
    }
    if (c->ssl && !c->handshaken &&
        http_net_handshake(c, http_after_ms(c, lane->server->limits.head_timeout_ms)) != RC_OK)
        return false;
    c->work = work_take(lane);
    return c->work != NULL;
}

static void serve_burst(void *arg)
{
    struct http_conn *c = arg;
    struct http_lane *lane = c->lane;
    enum next next = begin_burst(c) ? NEXT_REQUEST : NEXT_CLOSE;

    for (unsigned n = 1; next == NEXT_REQUEST; n++) {
        next = serve_request(c);
        if (n % BURST_MAX == 0)
            fiber_yield();
    }
    work_give(lane, STEAL(c->work));
    if (next == NEXT_IDLE && !lane->stopping && !c->cut && go_idle(c) == RC_OK)
        return;
    http_conn_close(c);
}
