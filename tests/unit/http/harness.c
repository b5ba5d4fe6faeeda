/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

/* ---- handlers ---- */

static enum rc answer_text(struct http_req *req, int status, const char *text)
{
    http_res_status(req, status);
    http_res_header(req, SLICE("Content-Type"), SLICE("text/plain"));
    return http_res_send(req, slice_str(text));
}

unsigned char pattern_at(uint64_t i)
{
    return (unsigned char)(i * 131 + (i >> 8) * 7);
}

/* Reads the body in pieces of `step` and checks it against the pattern. */
static enum rc serve_upload(struct http_req *req, size_t step, bool peek)
{
    static _Thread_local char piece[65536];
    uint64_t n = 0, wrong = 0;
    char text[96];

    for (;;) {
        struct slice s = { piece, 0 };
        enum rc rc = peek ? http_body_peek(req, step, &s) : http_body_read(req, piece, step, &s.n);

        if (rc == RC_EOF)
            break;
        if (rc) {
            const struct s3_error_info *e = s3_error_info(note_error(rc));

            return answer_text(req, e->status, e->code);
        }
        assert_true(s.n > 0 && s.n <= step);
        for (size_t i = 0; i < s.n; i++)
            wrong += (unsigned char)s.p[i] != pattern_at(n + i);
        n += s.n;
        if (peek)
            http_body_skip(req, s.n);
    }
    snprintf(text, sizeof text, "%llu bytes %llu wrong", (unsigned long long)n,
             (unsigned long long)wrong);
    return answer_text(req, 200, text);
}

static enum rc serve_echo(struct http_req *req)
{
    static _Thread_local char piece[8192];
    enum rc rc;

    http_res_status(req, 200);
    rc = http_res_begin(req, HTTP_CHUNKED);
    while (!rc) {
        size_t n;

        rc = http_body_read(req, piece, sizeof piece, &n);
        if (rc == RC_EOF)
            return http_res_end(req);
        if (!rc)
            rc = http_res_write(req, piece, n);
    }
    http_res_abort(req);
    return rc;
}

static enum rc serve_big(struct http_req *req)
{
    char *p = malloc(BIG_BYTES);
    enum rc rc;

    assert_non_null(p);
    for (size_t i = 0; i < BIG_BYTES; i++)
        p[i] = (char)pattern_at(i);
    http_res_status(req, 200);
    rc = http_res_begin(req, BIG_BYTES);
    if (!rc)
        rc = http_res_write(req, p, BIG_BYTES);
    if (!rc)
        rc = http_res_end(req);
    free(p);
    return rc;
}

static enum rc serve_partly(struct http_req *req, bool abort)
{
    enum rc rc;

    http_res_status(req, 200);
    rc = http_res_begin(req, 100);
    if (!rc)
        rc = http_res_write(req, "0123456789", 10);
    assert_true(rc || http_res_begun(req));
    assert_true(rc || http_res_body_sent(req) == 10);
    if (abort)
        http_res_abort(req);
    else if (!rc)
        rc = http_res_end(req);
    return rc;
}

static enum rc serve_trailers(struct http_req *req)
{
    struct slice body;
    const struct http_header *t;
    unsigned n;
    char text[256];
    enum rc rc = http_body_all(req, 1000, &body);

    if (rc)
        return answer_text(req, 400, rc_name(rc));
    t = http_trailers(req, &n);
    snprintf(text, sizeof text, "%.*s|%u|%.*s", SLICE_ARG(body), n, n ? (int)t[0].value.n : 0,
             n ? t[0].value.p : "");
    return answer_text(req, 200, text);
}

static enum rc serve_headers(struct http_req *req)
{
    http_res_status(req, 500); /* taken back */
    http_res_header(req, SLICE("X-Gone"), SLICE("1"));
    http_res_status(req, 201);
    http_res_header(req, SLICE("X-Inject"), SLICE("a\r\nSet-Cookie: b\001c"));
    http_res_header(req, SLICE("X Bad: 1\r\nY"), SLICE("v"));
    http_res_header(req, SLICE("Content-Length"), SLICE("9999"));
    http_res_header(req, SLICE("Transfer-Encoding"), SLICE("chunked"));
    http_res_header_u64(req, SLICE("X-Number"), UINT64_MAX);
    for (int i = 0; i < 100; i++) /* more than the first buffer holds */
        http_res_header(req, SLICE("X-Many"),
                        SLICE("0123456789012345678901234567890123456789012345678901234567890123"));
    return http_res_send(req, slice_of(req->id, 16));
}

static enum rc serve_body_all(struct http_req *req)
{
    struct slice body;
    enum rc rc = http_body_all(req, 100, &body);

    if (rc)
        return answer_text(req, 400, rc_name(rc));
    http_res_status(req, 200);
    return http_res_send(req, body);
}

static enum rc serve_slow(struct http_req *req)
{
    enum rc rc = fiber_sleep_ms(300);

    return rc ? rc : answer_text(req, 200, "slow");
}

static void serve(void *ctx, struct http_req *req)
{
    struct slice p = req->path;
    enum rc rc = RC_OK;

    if (slice_eq(p, SLICE("/upload")))
        rc = serve_upload(req, 65536, false);
    else if (slice_eq(p, SLICE("/upload-small")))
        rc = serve_upload(req, 100, false);
    else if (slice_eq(p, SLICE("/upload-peek")))
        rc = serve_upload(req, 5000, true);
    else if (slice_eq(p, SLICE("/echo")))
        rc = serve_echo(req);
    else if (slice_eq(p, SLICE("/all")))
        rc = serve_body_all(req);
    else if (slice_eq(p, SLICE("/trailers")))
        rc = serve_trailers(req);
    else if (slice_eq(p, SLICE("/big")))
        rc = serve_big(req);
    else if (slice_eq(p, SLICE("/reject")))
        rc = answer_text(req, 403, "no");
    else if (slice_eq(p, SLICE("/short")))
        rc = serve_partly(req, false);
    else if (slice_eq(p, SLICE("/abort")))
        rc = serve_partly(req, true);
    else if (slice_eq(p, SLICE("/nothing")))
        return;
    else if (slice_eq(p, SLICE("/close")))
        http_res_close(req);
    else if (slice_eq(p, SLICE("/headers")))
        rc = serve_headers(req);
    else if (slice_eq(p, SLICE("/slow")))
        rc = serve_slow(req);
    else if (slice_eq(p, SLICE("/204")))
        rc = answer_text(req, 204, "dropped");
    else if (slice_eq(p, SLICE("/loop")))
        rc = answer_text(req, 200, loop_index(loop_current()) == 0 ? "0" : "1");
    else if (slice_eq(p, SLICE("/304")))
        rc = answer_text(req, 304, "dropped");
    if (!http_res_status_sent(req) && !rc && !slice_eq(p, SLICE("/abort")))
        rc = answer_text(req, 200, "hello");
    (void)rc;
}

static void refuse(void *ctx, struct http_req *req, int status, const char *why)
{
    assert_int_equal(strlen(req->id), 16);
    (void)!answer_text(req, status, why);
}

/* ---- the server ---- */

void bench_start(struct bench *b, const struct http_server_config *cfg)
{
    struct rt_config rt = { .loops = 2, .offload_threads = 1 };

    b->cfg = *cfg;
    assert_int_equal(rt_start(&rt, &b->rt), RC_OK);
    assert_int_equal(http_server_start(b->rt, &b->cfg, &b->server), RC_OK);
}

void bench_stop(struct bench *b, uint32_t grace_ms)
{
    http_server_stop(b->server, grace_ms);
    rt_stop(b->rt);
}

struct http_server_config bench_config(void)
{
    struct http_server_config cfg = {
        .listen = "127.0.0.1:0",
        .handler = { .serve = serve, .refuse = refuse },
        .server_name = "Strata",
    };

    http_limits_default(&cfg.limits);
    return cfg;
}

void wait_connections(const struct bench *b, uint64_t n)
{
    struct http_server_stats s;
    int64_t t = clock_mono_ns();

    do {
        usleep(1000);
        http_server_stats(b->server, &s);
    } while (s.connections != n && elapsed_ms(t) < 30000);
    assert_int_equal(s.connections, n);
}

/* ---- the client ---- */

int dial(const struct bench *b)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(http_server_port(b->server)) };
    struct timeval limit = { .tv_sec = 10 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

bool try_say(int fd, const void *p, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k <= 0)
            return false;
        p = (const char *)p + k;
        n -= (size_t)k;
    }
    return true;
}

void say(int fd, const char *text)
{
    assert_true(try_say(fd, text, strlen(text)));
}

void read_head(int fd, struct answer *a)
{
    size_t n = 0;

    /* Byte by byte, so that nothing behind the head is taken. */
    while (n < 4 || memcmp(a->head + n - 4, "\r\n\r\n", 4) != 0) {
        assert_true(n < sizeof a->head - 1);
        if (recv(fd, a->head + n, 1, 0) != 1) {
            a->status = -1;
            return;
        }
        n++;
    }
    a->head[n] = 0;
    assert_int_equal(strncmp(a->head, "HTTP/1.1 ", 9), 0);
    a->status = atoi(a->head + 9);
}

static void read_exactly(int fd, struct answer *a, size_t n)
{
    a->body = realloc(a->body, a->body_n + n + 1);
    assert_non_null(a->body);
    while (n > 0) {
        ssize_t k = recv(fd, a->body + a->body_n, n, 0);

        if (k <= 0) {
            a->closed = true;
            break;
        }
        a->body_n += (size_t)k;
        n -= (size_t)k;
    }
    a->body[a->body_n] = 0;
}

static void read_chunks(int fd, struct answer *a)
{
    for (;;) {
        char line[32] = "";
        size_t n = 0, size, before;

        while (n < sizeof line - 1 && (n == 0 || line[n - 1] != '\n'))
            if (recv(fd, line + n++, 1, 0) != 1) {
                a->closed = true;
                return;
            }
        size = strtoul(line, NULL, 16);
        before = a->body_n;
        read_exactly(fd, a, size + 2);
        if (a->closed)
            return;
        assert_memory_equal(a->body + before + size, "\r\n", 2);
        a->body_n = before + size;
        a->body[a->body_n] = 0;
        if (size == 0)
            return;
    }
}

struct answer hear(int fd)
{
    struct answer a = { 0 };
    const char *length;

    read_head(fd, &a);
    length = strstr(a.head, "\r\nContent-Length: ");
    if (a.status < 0 || a.status == 100 || a.status == 204 || a.status == 304)
        a.body = calloc(1, 1);
    else if (length)
        read_exactly(fd, &a, strtoul(length + 18, NULL, 10));
    else if (strstr(a.head, "\r\nTransfer-Encoding: chunked"))
        read_chunks(fd, &a);
    else
        while (!a.closed)
            read_exactly(fd, &a, 1000);
    return a;
}

void answer_fini(struct answer *a)
{
    free(a->body);
}

void expect_answer(int fd, int status, const char *body)
{
    AUTO(answer_fini) struct answer a = hear(fd);

    assert_int_equal(a.status, status);
    if (body) {
        assert_non_null(a.body);
        assert_string_equal(a.body, body);
    }
}

void expect_closed(int fd)
{
    char c;

    assert_true(recv(fd, &c, 1, 0) <= 0 && errno != EAGAIN);
}

void make_pattern(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)pattern_at(i);
}

int64_t elapsed_ms(int64_t since_ns)
{
    return (clock_mono_ns() - since_ns) / NS_PER_MS;
}
