/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server is a lane per loop, each with its own listening socket on the same port, so the kernel
 * spreads connections. Start and stop reach the lanes by messages; a lane reports once when it has
 * stopped listening and its last connection is gone.
 */
#include "http/conn_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_RETRY_MS 50
/* Connections past the limit that are still given a proper 503; more than that are just closed. */
#define OVER_LIMIT_MAX 128u
#define LISTEN_MAX 256u

static void on_connection(struct io *io);

void http_limits_default(struct http_limits *l)
{
    *l = (struct http_limits){
        .head_bytes_max = 64 << 10,
        .target_max = 16 << 10,
        .head_timeout_ms = 30000,
        .body_timeout_ms = 60000,
        .idle_timeout_ms = 120000,
        .write_timeout_ms = 60000,
        .connections_max = 20000,
        .drain_bytes_max = 256 << 10,
    };
}

struct slice http_header_get(const struct http_req *req, struct slice name)
{
    return http_headers_find(req->headers, req->headers_n, name);
}

struct slice http_header_nth(const struct http_req *req, struct slice name, unsigned nth)
{
    for (unsigned i = 0; i < req->headers_n; i++)
        if (slice_eq_nocase(req->headers[i].name, name) && nth-- == 0)
            return req->headers[i].value;
    return SLICE_NONE;
}

/* ---- accepting ---- */

static void format_peer(const struct sockaddr_storage *a, char out[HTTP_PEER_SIZE])
{
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;

    memset(out, 0, HTTP_PEER_SIZE);
    if (a->ss_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, out, HTTP_PEER_SIZE);
    else if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], out, HTTP_PEER_SIZE);
    else if (a->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, out, HTTP_PEER_SIZE);
}

static void admit(struct http_lane *lane, int fd, const struct sockaddr_storage *from)
{
    struct http_server *s = lane->server;
    bool over = __atomic_load_n(&s->connections, __ATOMIC_RELAXED) >= s->limits.connections_max;
    char peer[HTTP_PEER_SIZE];

    http_stat_add(&lane->stats.accepted, 1);
    if (over)
        http_stat_add(&lane->stats.refused, 1);
    format_peer(from, peer);
    if ((over && lane->over_limit_n >= OVER_LIMIT_MAX) ||
        http_conn_open(lane, fd, peer, over) != RC_OK)
        close(fd);
}

/* Out of descriptors: the reserve makes room to accept one client and close it, rather than let it
 * wait without an answer. False when that did not work either. */
static bool shed(struct http_lane *lane)
{
    int fd;

    if (lane->reserve_fd < 0)
        return false;
    close(lane->reserve_fd);
    fd = accept4(lane->listener.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    lane->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    http_stat_add(&lane->stats.refused, 1);
    return fd >= 0;
}

static void accept_retry(struct loop_timer *t)
{
    struct http_lane *lane = container_of(t, struct http_lane, accept_retry);

    lane->listener.readable = true;
    on_connection(&lane->listener);
}

static void on_connection(struct io *io)
{
    struct http_lane *lane = container_of(io, struct http_lane, listener);

    for (;;) {
        struct sockaddr_storage from;
        socklen_t from_n = sizeof from;
        int fd = accept4(io->fd, (struct sockaddr *)&from, &from_n, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            admit(lane, fd, &from);
            continue;
        }
        if (errno == EAGAIN)
            break;
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO)
            continue;
        if ((errno == EMFILE || errno == ENFILE) && shed(lane))
            continue;
        if (loop_timer_start(lane->loop, &lane->accept_retry,
                             loop_now_ns(lane->loop) + ACCEPT_RETRY_MS * NS_PER_MS) == RC_OK)
            return;
        break;
    }
    io->readable = false;
    io_watch(io, on_connection);
}

/* ---- lanes ---- */

static void lane_begin(struct loop_task *t)
{
    struct http_lane *lane = container_of(t, struct http_lane, begin);

    if (io_init(&lane->listener, lane->listen_fd) != RC_OK)
        return; /* out of memory at start: the other lanes listen */
    lane->listen_fd = -1;
    lane->listening = true;
    io_watch(&lane->listener, on_connection);
}

static void lane_stop(struct loop_task *t)
{
    struct http_lane *lane = container_of(t, struct http_lane, stop);

    lane->stopping = true;
    loop_timer_stop(&lane->accept_retry);
    if (lane->listening) {
        io_unwatch(&lane->listener);
        io_close(&lane->listener);
        lane->listening = false;
    }
    for (struct http_conn *c = lane->conns, *next; c; c = next) {
        next = c->next;
        if (c->busy)
            continue;
        if (!next) { /* the lane may be gone after its last connection */
            http_conn_close(c);
            return;
        }
        http_conn_close(c);
    }
    http_lane_check_done(lane);
}

/* The server may be freed once the last lane has said so. */
static void tell_done(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->busy_n--;
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->lock);
}

static void lane_cut(struct loop_task *t)
{
    struct http_lane *lane = container_of(t, struct http_lane, cut);

    for (struct http_conn *c = lane->conns; c; c = c->next)
        http_conn_cut(c);
    tell_done(lane->server);
}

void http_lane_check_done(struct http_lane *lane)
{
    if (!lane->stopping || lane->conns_n || lane->done)
        return;
    lane->done = true;
    tell_done(lane->server);
}

/* ---- starting and stopping ---- */

static void free_lane(struct http_lane *lane)
{
    struct http_work *w = lane->spare;

    while (w) {
        struct http_work *next = w->next;

        arena_fini(&w->arena);
        free(w);
        w = next;
    }
    if (lane->listen_fd >= 0)
        close(lane->listen_fd);
    if (lane->reserve_fd >= 0)
        close(lane->reserve_fd);
}

static void free_server(struct http_server *s)
{
    for (unsigned i = 0; i < s->lanes_n; i++)
        free_lane(&s->lanes[i]);
    free(s->lanes);
    tls_source_free(s->tls);
    free(s->server_name);
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The address that all lanes but the first listen on: its port may have been picked by the system.
 */
static enum rc listen_all(struct http_server *s, const char *address)
{
    char same[LISTEN_MAX];
    const char *colon = strrchr(address, ':');
    enum rc rc = io_listen(address, true, &s->lanes[0].listen_fd, &s->port);

    if (rc)
        return rc;
    if (!colon || snprintf(same, sizeof same, "%.*s:%u", (int)(colon - address), address,
                           (unsigned)s->port) >= (int)sizeof same)
        return fail_rc(RC_INVALID, "listen address %s: host:port is needed", address);
    for (unsigned i = 1; i < s->lanes_n && !rc; i++)
        rc = io_listen(same, true, &s->lanes[i].listen_fd, NULL);
    return rc;
}

static void init_lane(struct http_server *s, unsigned index)
{
    struct http_lane *lane = &s->lanes[index];

    *lane = (struct http_lane){
        .server = s,
        .loop = rt_loop(s->rt, index),
        .listen_fd = -1,
        .accept_retry.fire = accept_retry,
        .begin.run = lane_begin,
        .stop.run = lane_stop,
        .cut.run = lane_cut,
    };
    lane->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getrandom(&lane->next_id, sizeof lane->next_id, 0) != sizeof lane->next_id)
        lane->next_id = (uint64_t)clock_wall_ns() * (index + 1);
}

static enum rc set_up(struct http_server *s, const struct http_server_config *cfg)
{
    if (cfg->server_name && !(s->server_name = strdup(cfg->server_name)))
        return RC_NO_MEM;
    s->lanes = calloc(rt_loops(s->rt), sizeof *s->lanes);
    if (!s->lanes)
        return RC_NO_MEM;
    s->lanes_n = s->busy_n = rt_loops(s->rt);
    for (unsigned i = 0; i < s->lanes_n; i++)
        init_lane(s, i);
    if (cfg->tls.cert_file) {
        enum rc rc = tls_source_new(&cfg->tls, &s->tls);

        if (rc)
            return rc;
    }
    return listen_all(s, cfg->listen);
}

enum rc http_server_start(struct rt *rt, const struct http_server_config *cfg,
                          struct http_server **ret)
{
    struct http_server *s;
    pthread_condattr_t monotonic;
    enum rc rc;

    if (!cfg->listen || !cfg->handler.serve)
        return fail_rc(RC_INVALID, "a listen address and a handler are needed");
    if (cfg->limits.target_max >= cfg->limits.head_bytes_max)
        return fail_rc(RC_INVALID, "the limit of the target must be below that of the head");
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    s->rt = rt;
    s->limits = cfg->limits;
    s->handler = cfg->handler;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    rc = set_up(s, cfg);
    if (rc) {
        free_server(s);
        return rc;
    }
    for (unsigned i = 0; i < s->lanes_n; i++)
        loop_post(s->lanes[i].loop, &s->lanes[i].begin);
    *ret = s;
    return RC_OK;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

enum rc http_server_reload_tls(struct http_server *s)
{
    return s->tls ? tls_source_reload(s->tls) : RC_OK;
}

void http_server_stats(const struct http_server *s, struct http_server_stats *ret)
{
    uint64_t *sum = (uint64_t *)ret;

    *ret = (struct http_server_stats){ 0 };
    for (unsigned i = 0; i < s->lanes_n; i++) {
        const uint64_t *figures = (const uint64_t *)&s->lanes[i].stats;

        for (size_t k = 0; k < sizeof *ret / sizeof *sum; k++)
            sum[k] += __atomic_load_n(&figures[k], __ATOMIC_RELAXED);
    }
}

/* Waits for all lanes to be done; false when the time is over first. */
static bool wait_done(struct http_server *s, int64_t until_ns)
{
    struct timespec t = { .tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S };
    bool done;

    pthread_mutex_lock(&s->lock);
    while (s->busy_n) {
        if (until_ns == NO_DEADLINE)
            pthread_cond_wait(&s->cond, &s->lock);
        else if (pthread_cond_timedwait(&s->cond, &s->lock, &t) == ETIMEDOUT)
            break;
    }
    done = s->busy_n == 0;
    pthread_mutex_unlock(&s->lock);
    return done;
}

void http_server_stop(struct http_server *s, uint32_t grace_ms)
{
    assert(!fiber_current());
    for (unsigned i = 0; i < s->lanes_n; i++)
        loop_post(s->lanes[i].loop, &s->lanes[i].stop);
    if (!wait_done(s, clock_mono_ns() + grace_ms * NS_PER_MS)) {
        pthread_mutex_lock(&s->lock);
        s->busy_n += s->lanes_n; /* each cut is waited for, too */
        pthread_mutex_unlock(&s->lock);
        for (unsigned i = 0; i < s->lanes_n; i++)
            loop_post(s->lanes[i].loop, &s->lanes[i].cut);
        (void)wait_done(s, NO_DEADLINE);
    }
    free_server(s);
}
