/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request body, pulled. The input buffer holds the head, then unread bytes in [pos, end): body
 * data, chunk framing or the next request. Data goes from the socket straight to the reader when
 * the buffer is empty; then never more is asked for than belongs to this body.
 */
#include "http/conn_priv.h"

/* Reads for less than this go through the buffer: more may arrive in the same call. */
#define DIRECT_MIN 4096u
/* Much framing for little data wastes time; a drain stops then. */
#define DRAIN_READS_MAX 4096u

void http_body_start(struct http_conn *c, const struct http_head *head)
{
    struct http_work *w = c->work;

    w->body = HTTP_BODY_DONE;
    w->body_left = head->content_length;
    w->body_rc = RC_OK;
    if (head->chunked) {
        char *trailer = arena_alloc(&w->arena, HTTP_TRAILER_BYTES);

        w->body = HTTP_BODY_CHUNKED;
        http_chunked_init(&w->chunked, trailer, trailer ? HTTP_TRAILER_BYTES : 0);
    } else if (head->content_length) {
        w->body = HTTP_BODY_LENGTH;
    }
    w->continue_due = head->expects_continue && w->body != HTTP_BODY_DONE;
}

/* Keeps the first failure; the connection cannot be used for another request after one. */
static enum rc broken(struct http_work *w, enum rc rc)
{
    w->body_rc = rc;
    w->keep_alive = false;
    return rc;
}

static enum rc broken_net(struct http_work *w, enum rc rc)
{
    if (rc == RC_EOF)
        rc = fail_s3(S3E_INCOMPLETE_BODY, NULL);
    else if (rc == RC_TIMEOUT)
        rc = fail_s3(S3E_REQUEST_TIMEOUT, NULL);
    return broken(w, rc);
}

static int64_t deadline(const struct http_conn *c)
{
    return http_after_ms(c, c->lane->server->limits.body_timeout_ms);
}

static enum rc fill(struct http_conn *c)
{
    struct http_work *w = c->work;
    size_t n;
    enum rc rc;

    if (w->pos == w->end)
        w->pos = w->end = w->head_n;
    rc = http_net_read(c, w->in + w->end, w->in_cap - w->end, &n, deadline(c));
    if (rc)
        return broken_net(w, rc);
    w->end += n;
    return RC_OK;
}

static enum rc end_chunked(struct http_work *w)
{
    w->body = HTTP_BODY_DONE;
    if (w->chunked.trailer_n) {
        w->trailers = arena_alloc(&w->arena, HTTP_TRAILERS_MAX * sizeof *w->trailers);
        if (!w->trailers)
            return broken(w, RC_NO_MEM);
        w->trailers_n = http_chunked_trailers(&w->chunked, w->trailers, HTTP_TRAILERS_MAX);
    }
    return RC_EOF;
}

/* Walks over chunk framing to the next data; *ret_left is how much belongs to the chunk. */
static enum rc find_chunk_data(struct http_conn *c, uint64_t *ret_left)
{
    struct http_work *w = c->work;

    for (;;) {
        size_t used;
        enum http_chunk r =
            http_chunked_next(&w->chunked, slice_of(w->in + w->pos, w->end - w->pos), &used);
        enum rc rc;

        w->pos += used;
        switch (r) {
        case HTTP_CHUNK_DATA:
            *ret_left = w->chunked.left;
            return RC_OK;
        case HTTP_CHUNK_END:
            return end_chunked(w);
        case HTTP_CHUNK_BAD:
            return broken(w, fail_s3(S3E_INVALID_REQUEST, "%s", w->chunked.why));
        case HTTP_CHUNK_MORE:
            rc = fill(c);
            if (rc)
                return rc;
        }
    }
}

/* Positions at body data: RC_OK with at least one byte due, RC_EOF at the end. */
static enum rc find_data(struct http_conn *c, uint64_t *ret_left)
{
    struct http_work *w = c->work;

    if (w->body_rc)
        return w->body_rc;
    if (w->dead)
        return RC_CANCELLED;
    if (w->body == HTTP_BODY_DONE)
        return RC_EOF;
    if (w->continue_due) {
        enum rc rc = http_res_continue(c);

        if (rc)
            return broken_net(w, rc);
    }
    if (w->body == HTTP_BODY_CHUNKED)
        return find_chunk_data(c, ret_left);
    *ret_left = w->body_left;
    return RC_OK;
}

static void took(struct http_work *w, size_t n)
{
    if (w->body == HTTP_BODY_CHUNKED) {
        http_chunked_took(&w->chunked, n);
        return;
    }
    w->body_left -= n;
    if (w->body_left == 0)
        w->body = HTTP_BODY_DONE;
}

enum rc http_body_read(struct http_req *req, void *p, size_t n, size_t *ret_n)
{
    struct http_conn *c = req->conn;
    struct http_work *w = c->work;
    uint64_t left = 0;
    size_t got;
    enum rc rc = find_data(c, &left);

    if (rc)
        return rc;
    n = (size_t)MIN(n, left);
    if (w->pos == w->end && n >= DIRECT_MIN) {
        rc = http_net_read(c, p, n, &got, deadline(c));
        if (rc)
            return broken_net(w, rc);
    } else {
        if (w->pos == w->end && (rc = fill(c)) != RC_OK)
            return rc;
        got = MIN(n, w->end - w->pos);
        memcpy(p, w->in + w->pos, got);
        w->pos += got;
    }
    took(w, got);
    *ret_n = got;
    return RC_OK;
}

enum rc http_body_peek(struct http_req *req, size_t n, struct slice *ret)
{
    struct http_conn *c = req->conn;
    struct http_work *w = c->work;
    uint64_t left = 0;
    enum rc rc = find_data(c, &left);

    if (!rc && w->pos == w->end)
        rc = fill(c);
    if (rc)
        return rc;
    n = MIN(n, w->end - w->pos);
    *ret = slice_of(w->in + w->pos, (size_t)MIN(n, left));
    return RC_OK;
}

void http_body_skip(struct http_req *req, size_t n)
{
    struct http_work *w = req->conn->work;

    if (n == 0)
        return;
    assert(w->body != HTTP_BODY_DONE && n <= w->end - w->pos);
    w->pos += n;
    took(w, n);
}

/* A body of unknown length: doubles its room in the arena. */
static enum rc grow(struct http_req *req, struct slice have, size_t *cap, char **ret)
{
    char *p = arena_alloc(req->arena, *cap * 2);

    if (!p)
        return RC_NO_MEM;
    if (have.n)
        memcpy(p, have.p, have.n);
    *cap *= 2;
    *ret = p;
    return RC_OK;
}

enum rc http_body_all(struct http_req *req, size_t max, struct slice *ret)
{
    size_t cap = req->chunked ? 4096 : (size_t)req->content_length + 1;
    size_t n = 0;
    char *p;

    if (req->content_length > max)
        return RC_TOO_LARGE;
    p = arena_alloc(req->arena, cap);
    if (!p)
        return RC_NO_MEM;
    for (;;) {
        size_t got;
        enum rc rc = RC_OK;

        if (n == cap)
            rc = grow(req, slice_of(p, n), &cap, &p);
        if (!rc)
            rc = http_body_read(req, p + n, cap - n, &got);
        if (rc == RC_EOF)
            break;
        if (rc)
            return rc;
        n += got;
        if (n > max)
            return RC_TOO_LARGE;
    }
    *ret = slice_of(p, n);
    return RC_OK;
}

const struct http_header *http_trailers(const struct http_req *req, unsigned *ret_n)
{
    *ret_n = req->conn->work->trailers_n;
    return req->conn->work->trailers;
}

bool http_body_drain(struct http_conn *c, uint64_t max)
{
    struct http_req *req = &c->work->req;
    uint64_t dropped = 0;

    for (unsigned reads = 0; reads < DRAIN_READS_MAX && dropped <= max; reads++) {
        struct slice s;
        enum rc rc = http_body_peek(req, SIZE_MAX, &s);

        if (rc)
            return rc == RC_EOF;
        http_body_skip(req, s.n);
        dropped += s.n;
    }
    return false;
}
