/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The response, pushed. Its head is collected in one buffer and leaves together with the first body
 * bytes; body bytes go out from the caller's memory. Until the head has left, a new status starts
 * over.
 */
#include "http/conn_priv.h"

static const struct {
    int status;
    struct slice reason;
} reasons[] = {
    { 200, SLICE_INIT("OK") },
    { 201, SLICE_INIT("Created") },
    { 202, SLICE_INIT("Accepted") },
    { 204, SLICE_INIT("No Content") },
    { 206, SLICE_INIT("Partial Content") },
    { 301, SLICE_INIT("Moved Permanently") },
    { 302, SLICE_INIT("Found") },
    { 303, SLICE_INIT("See Other") },
    { 304, SLICE_INIT("Not Modified") },
    { 307, SLICE_INIT("Temporary Redirect") },
    { 308, SLICE_INIT("Permanent Redirect") },
    { 400, SLICE_INIT("Bad Request") },
    { 401, SLICE_INIT("Unauthorized") },
    { 403, SLICE_INIT("Forbidden") },
    { 404, SLICE_INIT("Not Found") },
    { 405, SLICE_INIT("Method Not Allowed") },
    { 406, SLICE_INIT("Not Acceptable") },
    { 408, SLICE_INIT("Request Timeout") },
    { 409, SLICE_INIT("Conflict") },
    { 411, SLICE_INIT("Length Required") },
    { 412, SLICE_INIT("Precondition Failed") },
    { 413, SLICE_INIT("Content Too Large") },
    { 414, SLICE_INIT("URI Too Long") },
    { 415, SLICE_INIT("Unsupported Media Type") },
    { 416, SLICE_INIT("Range Not Satisfiable") },
    { 417, SLICE_INIT("Expectation Failed") },
    { 422, SLICE_INIT("Unprocessable Content") },
    { 429, SLICE_INIT("Too Many Requests") },
    { 431, SLICE_INIT("Request Header Fields Too Large") },
    { 500, SLICE_INIT("Internal Server Error") },
    { 501, SLICE_INIT("Not Implemented") },
    { 502, SLICE_INIT("Bad Gateway") },
    { 503, SLICE_INIT("Service Unavailable") },
    { 504, SLICE_INIT("Gateway Timeout") },
    { 505, SLICE_INIT("HTTP Version Not Supported") },
    { 507, SLICE_INIT("Insufficient Storage") },
};

static struct slice reason_of(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return SLICE("Unknown");
}

/* Room for n more bytes of head; NULL, noted in no_mem, when there is none. */
static char *reserve(struct http_work *w, size_t n)
{
    struct http_res *r = &w->res;
    size_t cap = r->out_cap;
    char *p;

    if (LIKELY(n <= cap - r->out_n))
        return r->out + r->out_n;
    while (cap - r->out_n < n)
        cap *= 2;
    p = arena_alloc(&w->arena, cap);
    if (!p) {
        r->no_mem = true;
        return NULL;
    }
    memcpy(p, r->out, r->out_n);
    r->out = p;
    r->out_cap = cap;
    return p + r->out_n;
}

static void add(struct http_work *w, struct slice s)
{
    char *p = reserve(w, s.n);

    if (p) {
        memcpy(p, s.p, s.n);
        w->res.out_n += s.n;
    }
}

static struct slice format_u64(char *end, uint64_t v)
{
    char *p = end;

    do
        *--p = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    return slice_of(p, (size_t)(end - p));
}

void http_res_start(struct http_conn *c)
{
    struct http_work *w = c->work;

    w->res = (struct http_res){ .out = w->out, .out_cap = sizeof w->out };
}

void http_res_status(struct http_req *req, int status)
{
    struct http_work *w = req->conn->work;
    struct http_res *r = &w->res;
    char digits[8];

    assert(status >= 200 && status <= 599);
    if (r->state >= HTTP_RES_BODY)
        return;
    r->state = HTTP_RES_HEADERS;
    r->status = status;
    r->out_n = 0;
    r->no_mem = r->chunked = r->until_close = false;
    r->no_body = status == 204 || status == 304 || slice_eq(req->method, SLICE("HEAD"));
    add(w, SLICE("HTTP/1.1 "));
    add(w, format_u64(digits + sizeof digits, (unsigned)status));
    add(w, SLICE(" "));
    add(w, reason_of(status));
    add(w, SLICE("\r\n"));
}

/* Headers that the server alone sets. */
static bool reserved(struct http_req *req, struct slice name, struct slice value)
{
    switch (name.n) {
    case 4:
        return slice_eq_nocase(name, SLICE("Date"));
    case 6:
        return slice_eq_nocase(name, SLICE("Server"));
    case 10:
        if (!slice_eq_nocase(name, SLICE("Connection")))
            return false;
        if (slice_eq_nocase(value, SLICE("close")))
            http_res_close(req);
        return true;
    case 14:
        return slice_eq_nocase(name, SLICE("Content-Length"));
    case 16:
        return slice_eq_nocase(name, SLICE("x-amz-request-id"));
    case 17:
        return slice_eq_nocase(name, SLICE("Transfer-Encoding"));
    default:
        return false;
    }
}

void http_res_header(struct http_req *req, struct slice name, struct slice value)
{
    struct http_work *w = req->conn->work;
    char *p;

    if (w->res.state != HTTP_RES_HEADERS || !http_is_token(name) || reserved(req, name, value))
        return;
    p = reserve(w, name.n + value.n + 4);
    if (!p)
        return;
    memcpy(p, name.p, name.n);
    p += name.n;
    *p++ = ':';
    *p++ = ' ';
    for (size_t i = 0; i < value.n; i++) {
        unsigned char ch = (unsigned char)value.p[i];

        *p++ = (char)(ch < 0x20 || ch == 0x7f ? ' ' : ch);
    }
    *p++ = '\r';
    *p++ = '\n';
    w->res.out_n = (size_t)(p - w->res.out);
}

void http_res_header_u64(struct http_req *req, struct slice name, uint64_t value)
{
    char digits[24];

    http_res_header(req, name, format_u64(digits + sizeof digits, value));
}

static struct slice date(struct http_lane *lane)
{
    int64_t now = loop_now_ns(lane->loop);

    if (now >= lane->date_until_ns) {
        int64_t wall = clock_wall_ns();

        clock_format_http(lane->date, wall);
        lane->date_until_ns = now + NS_PER_S - wall % NS_PER_S;
    }
    return slice_of(lane->date, CLOCK_HTTP_SIZE);
}

/* Whether the connection can go on is known when the head is made: the client is told. */
static void decide_keep_alive(struct http_conn *c)
{
    struct http_work *w = c->work;

    if (c->lane->stopping || w->continue_due || w->body_rc || w->res.until_close)
        w->keep_alive = false;
    else if (w->body == HTTP_BODY_LENGTH && w->body_left > c->lane->server->limits.drain_bytes_max)
        w->keep_alive = false;
}

static void add_framing(struct http_work *w, uint64_t length)
{
    struct http_res *r = &w->res;
    char digits[24];

    if (r->status == 204 || r->status == 304)
        return;
    if (length != HTTP_CHUNKED) {
        add(w, SLICE("Content-Length: "));
        add(w, format_u64(digits + sizeof digits, length));
        add(w, SLICE("\r\n"));
    } else if (w->parser.head.minor == 0) {
        r->until_close = true;
    } else {
        add(w, SLICE("Transfer-Encoding: chunked\r\n"));
        r->chunked = true;
    }
}

static enum rc finish_head(struct http_req *req, uint64_t length)
{
    struct http_conn *c = req->conn;
    struct http_work *w = c->work;
    struct http_res *r = &w->res;

    if (w->dead)
        return RC_CANCELLED;
    if (r->state != HTTP_RES_HEADERS)
        return fail_rc(RC_INTERNAL, "response begun twice or without a status");
    r->length = length;
    add_framing(w, length);
    decide_keep_alive(c);
    add(w, SLICE("Date: "));
    add(w, date(c->lane));
    if (c->lane->server->server_name) {
        add(w, SLICE("\r\nServer: "));
        add(w, slice_str(c->lane->server->server_name));
    }
    add(w, SLICE("\r\nx-amz-request-id: "));
    add(w, slice_of(req->id, 16));
    if (!w->keep_alive)
        add(w, SLICE("\r\nConnection: close"));
    else if (w->parser.head.minor == 0)
        add(w, SLICE("\r\nConnection: keep-alive"));
    add(w, SLICE("\r\n\r\n"));
    if (r->no_mem)
        return fail_rc(RC_NO_MEM, "response headers too large");
    r->state = HTTP_RES_READY;
    return RC_OK;
}

/* A failed write leaves the connection unusable. */
static enum rc push(struct http_conn *c, struct iovec *iov, int iov_n)
{
    enum rc rc = http_net_write(c, iov, iov_n);

    if (rc) {
        c->work->dead = true;
        c->reset = true;
    }
    return rc;
}

static int take_head(struct http_work *w, struct iovec *iov)
{
    if (w->res.state != HTTP_RES_READY)
        return 0;
    w->res.state = HTTP_RES_BODY;
    iov[0] = (struct iovec){ w->res.out, w->res.out_n };
    return 1;
}

static struct iovec iov_of(const void *p, size_t n)
{
    return (struct iovec){ (void *)(uintptr_t)p, n };
}

enum rc http_res_send(struct http_req *req, struct slice body)
{
    struct http_conn *c = req->conn;
    struct http_work *w = c->work;
    struct iovec iov[2];
    int n;
    enum rc rc = finish_head(req, body.n);

    if (rc)
        return rc;
    n = take_head(w, iov);
    if (!w->res.no_body && body.n) {
        iov[n++] = iov_of(body.p, body.n);
        w->res.sent = body.n;
    }
    w->res.state = HTTP_RES_ENDED;
    return push(c, iov, n);
}

enum rc http_res_begin(struct http_req *req, uint64_t length)
{
    return finish_head(req, length);
}

static enum rc misuse(struct http_req *req, const char *what)
{
    http_res_abort(req);
    return fail_rc(RC_INTERNAL, "%s", what);
}

enum rc http_res_write(struct http_req *req, const void *p, size_t n)
{
    struct http_conn *c = req->conn;
    struct http_work *w = c->work;
    struct http_res *r = &w->res;
    struct iovec iov[4];
    char size[24] = "";
    int k;

    if (w->dead)
        return RC_CANCELLED;
    if (r->state != HTTP_RES_READY && r->state != HTTP_RES_BODY)
        return misuse(req, "response body without a head");
    if (n == 0 || r->no_body)
        return RC_OK;
    if (r->length != HTTP_CHUNKED && n > r->length - r->sent)
        return misuse(req, "more response body than announced");
    k = take_head(w, iov);
    if (r->chunked) {
        char *at = size + sizeof size;

        *--at = '\n';
        *--at = '\r';
        for (size_t v = n; v; v >>= 4)
            *--at = "0123456789abcdef"[v & 15];
        iov[k++] = iov_of(at, (size_t)(size + sizeof size - at));
    }
    iov[k++] = iov_of(p, n);
    if (r->chunked)
        iov[k++] = iov_of("\r\n", 2);
    r->sent += n;
    return push(c, iov, k);
}

enum rc http_res_end(struct http_req *req)
{
    struct http_conn *c = req->conn;
    struct http_work *w = c->work;
    struct http_res *r = &w->res;
    struct iovec iov[2];
    int n;

    if (w->dead)
        return RC_CANCELLED;
    if (r->state == HTTP_RES_ENDED)
        return RC_OK;
    if (r->state != HTTP_RES_READY && r->state != HTTP_RES_BODY)
        return misuse(req, "response end without a head");
    if (!r->no_body && r->length != HTTP_CHUNKED && r->sent < r->length)
        return misuse(req, "less response body than announced");
    n = take_head(w, iov);
    if (r->chunked && !r->no_body)
        iov[n++] = iov_of("0\r\n\r\n", 5);
    r->state = HTTP_RES_ENDED;
    return n ? push(c, iov, n) : RC_OK;
}

void http_res_abort(struct http_req *req)
{
    struct http_conn *c = req->conn;

    c->work->dead = true;
    c->work->keep_alive = false;
    c->reset = true;
}

bool http_res_begun(const struct http_req *req)
{
    return req->conn->work->res.state >= HTTP_RES_BODY;
}

int http_res_status_sent(const struct http_req *req)
{
    return http_res_begun(req) ? req->conn->work->res.status : 0;
}

uint64_t http_res_body_sent(const struct http_req *req)
{
    return req->conn->work->res.sent;
}

void http_res_close(struct http_req *req)
{
    req->conn->work->keep_alive = false;
}

enum rc http_res_continue(struct http_conn *c)
{
    struct iovec iov = iov_of("HTTP/1.1 100 Continue\r\n\r\n", 25);

    c->work->continue_due = false;
    if (c->work->res.state >= HTTP_RES_BODY)
        return RC_OK;
    return push(c, &iov, 1);
}

bool http_res_complete(struct http_conn *c)
{
    struct http_work *w = c->work;
    struct http_res *r = &w->res;
    bool bare =
        r->state == HTTP_RES_NONE || r->state == HTTP_RES_HEADERS ||
        (r->state == HTTP_RES_READY && !r->no_body && r->length != HTTP_CHUNKED && r->length > 0);

    if (w->dead)
        return false;
    if (!bare)
        return http_res_end(&w->req) == RC_OK;
    http_res_status(&w->req, 500);
    http_res_close(&w->req);
    return http_res_send(&w->req, SLICE_NONE) == RC_OK;
}
