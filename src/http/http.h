/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http — the HTTP/1.1 server side: strict parsing, bodies as pulls, responses as pushes.
 *
 * The server accepts on every loop; each request runs on a fiber. An idle connection has no fiber.
 *
 * Owns:    a request and everything reachable from it live until the handler returns.
 * Errors:  RC_EOF the client ended early, RC_TIMEOUT it was too slow, RC_CANCELLED shutdown,
 *          RC_INVALID bad framing, RC_TOO_LARGE. After an error of a body read or a write the
 * connection is closed when the handler returns. Threads: a request belongs to its fiber. Source:
 * RFC 9110, RFC 9112.
 */
#ifndef STRATA_HTTP_HTTP_H
#define STRATA_HTTP_HTTP_H

#include "base/arena.h"
#include "rt/rt.h"

#include <sys/uio.h>

#define HTTP_HEADERS_MAX 256u

struct http_header {
    struct slice name;  /* as sent */
    struct slice value; /* trimmed */
};

/* Headers that are looked up on every request are found while parsing. */
struct http_req {
    struct slice method, target; /* as sent */
    struct slice path,
        query;         /* raw parts of the target, without '?'; path starts with '/' or is "*" */
    struct slice host; /* Host, or the authority of an absolute target; may be empty */
    struct http_header *headers;
    unsigned headers_n;
    bool has_body; /* Content-Length > 0 or chunked */
    bool chunked;
    uint64_t content_length; /* 0 when chunked or absent */
    bool has_content_length;
    bool expects_continue;
    bool tls;
    struct arena *arena;    /* of the request; 1 MiB limit beyond the head */
    int64_t started_ns;     /* monotonic: when its first byte was seen */
    struct slice peer;      /* "address" of the client, numeric */
    char id[24];            /* request id: 16 upper-case hex digits and NUL; set by the server */
    struct http_conn *conn; /* private */
};

/* The value of the first header of that name (case ignored); p == NULL when absent. */
struct slice http_header_get(const struct http_req *req, struct slice name);
/* The nth of several; p == NULL past the last. */
struct slice http_header_nth(const struct http_req *req, struct slice name, unsigned nth);

/* ---- request body --------------------------------------------------------------------------- */

/* The next bytes, at least one; RC_EOF at the (correct) end. The first call answers an
 * Expect: 100-continue. A body cut short is RC_INVALID with S3E_INCOMPLETE_BODY noted; a client
 * that stalls is RC_TIMEOUT with S3E_REQUEST_TIMEOUT. */
enum rc http_body_read(struct http_req *req, void *p, size_t n, size_t *ret_n) MUST_CHECK;
/* Bytes already received are lent without copying; valid until the next body call. At least one
 * byte, at most n. Same errors. */
enum rc http_body_peek(struct http_req *req, size_t n, struct slice *ret) MUST_CHECK;
void http_body_skip(struct http_req *req, size_t n); /* consumes n bytes that were peeked */
/* The whole body into the arena; RC_TOO_LARGE past max (nothing more is read then). */
enum rc http_body_all(struct http_req *req, size_t max, struct slice *ret) MUST_CHECK;
/* Trailer fields of a chunked body, after its end; NULL and 0 when none. */
const struct http_header *http_trailers(const struct http_req *req, unsigned *ret_n);

/* ---- response ------------------------------------------------------------------------------- */

#define HTTP_CHUNKED UINT64_MAX

/* Begins a response. Date, Server, x-amz-request-id and Connection are added by the server. */
void http_res_status(struct http_req *req, int status);
/* Adds a header; name and value are copied. Control characters in a value are replaced by spaces.
 */
void http_res_header(struct http_req *req, struct slice name, struct slice value);
void http_res_header_u64(struct http_req *req, struct slice name, uint64_t value);
/* The whole response with its body, in one write. Nothing more may follow. On HEAD the body is left
 * out but its length is told. */
enum rc http_res_send(struct http_req *req, struct slice body) MUST_CHECK;
/* Sends the head; body bytes follow by http_res_write. HTTP_CHUNKED: length not known beforehand.
 * On HEAD, 204 and 304 nothing may follow. The head leaves together with the first body bytes. */
enum rc http_res_begin(struct http_req *req, uint64_t length) MUST_CHECK;
enum rc http_res_write(struct http_req *req, const void *p, size_t n) MUST_CHECK;
/* Ends the response and flushes. When fewer bytes than announced were written, the connection is
 * cut, so that the client sees a short body. */
enum rc http_res_end(struct http_req *req) MUST_CHECK;
/* Cuts the connection without a proper end (RST where possible): an error found in mid-body. */
void http_res_abort(struct http_req *req);
bool http_res_begun(const struct http_req *req);      /* bytes of a final response may have left */
int http_res_status_sent(const struct http_req *req); /* 0: none yet */
uint64_t http_res_body_sent(const struct http_req *req); /* bytes */
/* Closes the connection after this response. */
void http_res_close(struct http_req *req);

/* ---- server --------------------------------------------------------------------------------- */

struct http_limits {
    uint32_t head_bytes_max; /* request line + headers; default 64 KiB */
    uint32_t target_max;     /* bytes; default 16 KiB */
    uint32_t head_timeout_ms, body_timeout_ms, idle_timeout_ms,
        write_timeout_ms;     /* body and write: per wait */
    uint32_t connections_max; /* beyond: accepted, answered 503 and closed */
    uint32_t drain_bytes_max; /* of an unread body that is read and dropped to keep the connection;
                                 256 KiB */
};
void http_limits_default(struct http_limits *l);

struct http_handler {
    /* Answers one request. If it returns without a response, 500 is sent. */
    void (*serve)(void *ctx, struct http_req *req);
    /* A head that cannot be parsed, is too large or timed out, or a client too many: answers with
     * the status (400, 408, 414, 431, 501, 503, 505) and closes. req has a valid id, method and
     * target may be empty. NULL: a plain body. */
    void (*refuse)(void *ctx, struct http_req *req, int status, const char *why);
    void *ctx;
};

struct http_tls_config {
    const char *cert_file, *key_file; /* PEM, chain first; NULL: plain HTTP */
    const char *min_version;          /* "TLS1.2" (default) or "TLS1.3" */
};

struct http_server;

struct http_server_config {
    const char *listen; /* see io_listen */
    struct http_limits limits;
    struct http_tls_config tls;
    struct http_handler handler;
    const char *server_name; /* Server header; NULL: none */
};

struct http_server_stats {
    uint64_t accepted, refused, requests, bad_requests, bytes_in, bytes_out;
    uint64_t connections, active; /* now: open ones, and those with a request in hand */
};

/* Listens on every loop of rt. RC_INVALID for settings, RC_UNAVAILABLE when the address is taken;
 * the note says which. Call off fibers or on one. */
enum rc http_server_start(struct rt *rt, const struct http_server_config *cfg,
                          struct http_server **ret) MUST_CHECK;
uint16_t http_server_port(const struct http_server *s);
/* Reads certificate and key again; the old stay in use when the new are bad. [any thread] */
enum rc http_server_reload_tls(struct http_server *s) MUST_CHECK;
void http_server_stats(const struct http_server *s,
                       struct http_server_stats *ret); /* [any thread] */
/* Stops accepting, closes idle connections, answers what is in flight with Connection: close, waits
 * up to grace_ms, then cuts the rest; frees. Not from a fiber of a request. [off fibers] */
void http_server_stop(struct http_server *s, uint32_t grace_ms);

#endif
