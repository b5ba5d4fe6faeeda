/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants: a connection is idle, waiting for its due time (open loop), or has one request in
 * flight. `active` counts those that are not idle for good; the loop ends when it is zero.
 */
#include "cli/bench/bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER_SIZE (256u << 10)
#define PAGE_MAX (16u << 20)

enum conn_state { CONN_IDLE, CONN_DUE, CONN_BUSY };

struct conn {
    int fd;
    enum conn_state state;
    bool want_out, mismatch;
    struct bench_request request;
    char head[8192];
    size_t head_n, sent; /* of head and body together */
    int64_t start_ns;    /* due time in the open loop */
    struct bench_response response;
    struct buf page; /* of a listing or an error */
    char token[2048];
};

struct loop_state {
    struct bench_worker *w;
    const struct bench_options *o;
    struct bench_signer signer;
    struct conn *conns;
    unsigned active;
    int epoll;
    uint64_t random;
    char *buffer;
};

static void begin(struct loop_state *s, struct conn *c);

static uint64_t next_random(struct loop_state *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void drop(struct conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->want_out = false;
}

static bool connect_to(struct loop_state *s, struct conn *c)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
    int one = 1;

    c->fd = socket(s->o->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return false;
    if (connect(c->fd, (const struct sockaddr *)&s->o->addr, s->o->addr_len) < 0 &&
        errno != EINPROGRESS) {
        drop(c);
        return false;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &ev) < 0) {
        drop(c);
        return false;
    }
    return true;
}

static void note_error(struct loop_state *s, const struct conn *c, const char *what)
{
    struct bench_result *r = &s->w->result;

    r->errors++;
    atomic_fetch_add_explicit(&s->w->run->failed, 1, memory_order_relaxed);
    if (!r->first_error[0])
        snprintf(r->first_error, sizeof r->first_error, "%s object %llu: %s, status %d: %.*s",
                 bench_op_names[c->request.op], (unsigned long long)c->request.object, what,
                 c->response.status, SLICE_ARG(slice_first(buf_slice(&c->page), 300)));
}

/* Undoes the XML escapes of the token; all that S3 servers use in it are these. */
static void keep_token(struct conn *c)
{
    static const struct {
        struct slice text;
        char c;
    } escapes[] = { { SLICE_INIT("&amp;"), '&' },  { SLICE_INIT("&lt;"), '<' },
                    { SLICE_INIT("&gt;"), '>' },   { SLICE_INIT("&quot;"), '"' },
                    { SLICE_INIT("&#39;"), '\'' }, { SLICE_INIT("&apos;"), '\'' } };
    static const struct slice tag = SLICE_INIT("<NextContinuationToken>");
    struct slice page = buf_slice(&c->page), rest;
    size_t at = slice_find(page, tag), n = 0;

    c->token[0] = 0;
    if (at == SIZE_MAX)
        return;
    rest = slice_from(page, at + tag.n);
    rest = slice_first(rest, slice_find_char(rest, '<'));
    while (rest.n && n < sizeof c->token - 1) {
        size_t skip = 1;

        c->token[n] = rest.p[0];
        for (size_t i = 0; rest.p[0] == '&' && i < ARRAY_LEN(escapes); i++)
            if (slice_starts(rest, escapes[i].text)) {
                c->token[n] = escapes[i].c;
                skip = escapes[i].text.n;
            }
        n++;
        rest = slice_from(rest, skip);
    }
    c->token[n] = 0;
}

static uint64_t count_keys(struct slice page)
{
    uint64_t n = 0;

    for (size_t at; (at = slice_find(page, SLICE("<Key>"))) != SIZE_MAX; n++)
        page = slice_from(page, at + 5);
    return n;
}

static void succeed(struct loop_state *s, struct conn *c, int64_t now)
{
    struct bench_result *r = &s->w->result;

    if (c->request.op == BENCH_LIST)
        keep_token(c);
    if (now < s->w->run->measure_ns)
        return;
    histogram_add(&r->latency, (uint64_t)(now - c->start_ns));
    r->ops++;
    r->last_ns = now;
    if (c->request.op == BENCH_PUT)
        r->bytes += c->request.body.n;
    else if (c->request.op == BENCH_GET || c->request.op == BENCH_RANGE)
        r->bytes += c->response.body_n;
    else if (c->request.op == BENCH_LIST)
        r->keys += count_keys(buf_slice(&c->page));
}

/* The request in flight has been answered (or, with answered false, will not be). */
static void end(struct loop_state *s, struct conn *c, bool answered)
{
    int status = c->response.status;
    bool good = answered && status / 100 == 2;

    c->state = CONN_IDLE;
    s->active--;
    atomic_fetch_add_explicit(&s->w->run->done, 1, memory_order_relaxed);
    if (answered && c->request.op == BENCH_MKBUCKET && status == 409)
        good = true;
    if (good && !c->mismatch) {
        succeed(s, c, clock_mono_ns());
    } else if (!answered) {
        s->w->result.lost++;
        note_error(s, c, "connection lost or timeout");
    } else if (good) {
        s->w->result.wrong++;
        note_error(s, c, "the body is not what was written");
    } else {
        s->w->result.by_status[MIN(status, 599)]++;
        note_error(s, c, "refused");
    }
    if (!answered || c->response.close)
        drop(c);
    if (!good)
        c->token[0] = 0;
    begin(s, c);
}

static void send_more(struct loop_state *s, struct conn *c)
{
    size_t total = c->head_n + c->request.body.n;
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

    while (c->sent < total) {
        size_t off = c->sent > c->head_n ? c->sent - c->head_n : 0;
        struct iovec v[2] = {
            { c->head + MIN(c->sent, c->head_n), c->head_n - MIN(c->sent, c->head_n) },
            { (char *)c->request.body.p + off, c->request.body.n - off },
        };
        struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
        ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            /* After a reset an answer may still be readable: the reading side decides. */
            if (errno == EAGAIN || errno == ENOTCONN) {
                ev.events |= EPOLLOUT;
                if (!c->want_out)
                    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &ev);
                c->want_out = true;
            }
            return;
        }
        c->sent += (size_t)n;
    }
    if (c->want_out)
        epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &ev);
    c->want_out = false;
}

static enum bench_op pick_op(struct loop_state *s)
{
    if (s->o->op != BENCH_MIXED)
        return s->o->op;
    return next_random(s) % 100 < s->o->mix_get ? BENCH_GET : BENCH_PUT;
}

static void fill(struct loop_state *s, struct conn *c, uint64_t n)
{
    const struct bench_options *o = s->o;
    enum bench_op op = pick_op(s);
    bool reads = op == BENCH_GET || op == BENCH_HEAD || op == BENCH_RANGE;

    c->request = (struct bench_request){ .op = op, .token = c->token };
    c->request.object = o->first + n % o->objects;
    if ((reads && !o->sequential) || o->op == BENCH_MIXED)
        c->request.object = o->first + next_random(s) % o->objects;
    if (op == BENCH_PUT)
        c->request.body = slice_of(bench_pattern(c->request.object), o->size);
    if (op == BENCH_RANGE && o->size > o->range)
        c->request.range_at = next_random(s) % (o->size - o->range + 1);
}

static void launch(struct loop_state *s, struct conn *c)
{
    c->state = CONN_BUSY;
    if (!s->o->rate || c->start_ns == 0)
        c->start_ns = clock_mono_ns();
    bench_response_reset(&c->response);
    buf_clear(&c->page);
    c->mismatch = false;
    c->sent = 0;
    c->head_n = bench_request_head(&s->signer, &c->request, c->head, sizeof c->head);
    if (c->head_n == 0 || (c->fd < 0 && !connect_to(s, c))) {
        usleep(1000); /* a server that is away must not be hammered */
        end(s, c, false);
        return;
    }
    send_more(s, c);
}

/* Takes the next request number, or leaves the connection idle for good. */
static void begin(struct loop_state *s, struct conn *c)
{
    struct bench_run *run = s->w->run;
    const struct bench_options *o = s->o;
    int64_t now = clock_mono_ns();
    bool once = o->op == BENCH_DELETE;
    uint64_t n;

    if (now >= run->end_ns)
        return;
    n = atomic_fetch_add_explicit(&run->issued, 1, memory_order_relaxed);
    if ((o->count && n >= o->count) || (once && n >= o->objects))
        return;
    s->active++;
    fill(s, c, n);
    if (!o->rate) {
        launch(s, c);
        return;
    }
    c->start_ns = run->begin_ns + (int64_t)((double)n / o->rate * 1e9);
    if (c->start_ns >= run->end_ns) {
        s->active--;
        return;
    }
    c->state = CONN_DUE;
    if (c->start_ns <= now)
        launch(s, c);
}

static void take_body(void *arg, const char *p, size_t n)
{
    struct conn *c = arg;
    bool keep = c->request.op == BENCH_LIST || c->response.status / 100 != 2;

    if (keep && buf_add(&c->page, slice_of(p, n)))
        c->mismatch = true;
}

struct verify {
    struct conn *c;
    uint64_t size;
};

static void verify_body(void *arg, const char *p, size_t n)
{
    struct verify *v = arg;
    uint64_t at = v->c->response.body_n;

    if (v->c->response.status / 100 != 2)
        take_body(v->c, p, n);
    else if (at + n > v->size || memcmp(p, bench_pattern(v->c->request.object) + at, n) != 0)
        v->c->mismatch = true;
}

static void receive(struct loop_state *s, struct conn *c)
{
    bool verify = s->o->verify && c->request.op == BENCH_GET;
    struct verify v = { c, s->o->size };

    for (;;) {
        ssize_t n = recv(c->fd, s->buffer, BUFFER_SIZE, 0);
        enum bench_read r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            end(s, c, n == 0 && c->response.have_head && c->response.until_close);
            return;
        }
        r = bench_response_feed(&c->response, s->buffer, (size_t)n, c->request.op == BENCH_HEAD,
                                verify ? verify_body : take_body, verify ? (void *)&v : c);
        if (r != BENCH_MORE) {
            if (verify && c->response.status / 100 == 2 && c->response.body_n != s->o->size)
                c->mismatch = true;
            end(s, c, r == BENCH_DONE);
            return;
        }
        if (n < (ssize_t)BUFFER_SIZE) /* the rest comes with the next event */
            return;
    }
}

/* Launches what is due, ends what has waited too long; returns how long epoll may sleep, in ns. */
static int64_t tick(struct loop_state *s)
{
    int64_t now = clock_mono_ns(), wait = 100 * NS_PER_MS;
    int64_t timeout = (int64_t)(s->o->timeout_s * 1e9);

    for (unsigned i = 0; i < s->w->connections; i++) {
        struct conn *c = &s->conns[i];

        if (c->state == CONN_DUE && c->start_ns <= now)
            launch(s, c);
        else if (c->state == CONN_DUE)
            wait = MIN(wait, c->start_ns - now);
        else if (c->state == CONN_BUSY && now - c->start_ns > timeout && !s->o->rate)
            end(s, c, false);
    }
    return wait;
}

static void loop(struct loop_state *s)
{
    struct epoll_event events[256];
    int64_t next_tick = 0, wait = 0;

    for (unsigned i = 0; i < s->w->connections; i++)
        begin(s, &s->conns[i]);
    while (s->active) {
        int64_t now = clock_mono_ns();
        struct timespec t;
        int n;

        if (now >= next_tick) {
            wait = tick(s);
            next_tick = now + (s->o->rate ? wait : 100 * NS_PER_MS);
        }
        wait = MAX(next_tick - now, 0);
        t = (struct timespec){ wait / NS_PER_S, wait % NS_PER_S };
        n = epoll_pwait2(s->epoll, events, (int)ARRAY_LEN(events), &t, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;

            if (c->fd < 0)
                continue;
            if (c->state != CONN_BUSY) { /* the server closed an idle connection */
                drop(c);
                continue;
            }
            if (events[i].events & EPOLLOUT)
                send_more(s, c);
            if (events[i].events & ~(unsigned)EPOLLOUT)
                receive(s, c);
        }
    }
}

void *bench_worker_main(void *worker)
{
    struct bench_worker *w = worker;
    struct loop_state s = { .w = w,
                            .o = w->run->o,
                            .random = 0x2545f4914f6cdd1du + w->index * 977 };

    bench_signer_init(&s.signer, s.o);
    s.epoll = epoll_create1(EPOLL_CLOEXEC);
    s.buffer = malloc(BUFFER_SIZE);
    s.conns = calloc(w->connections, sizeof *s.conns);
    w->rc = s.epoll < 0 || !s.buffer || !s.conns;
    for (unsigned i = 0; i < w->connections && !w->rc; i++) {
        s.conns[i].fd = -1;
        buf_init(&s.conns[i].page, PAGE_MAX);
    }
    if (!w->rc)
        loop(&s);
    for (unsigned i = 0; i < w->connections && !w->rc; i++) {
        drop(&s.conns[i]);
        buf_fini(&s.conns[i].page);
    }
    free(s.conns);
    free(s.buffer);
    if (s.epoll >= 0)
        close(s.epoll);
    return NULL;
}
