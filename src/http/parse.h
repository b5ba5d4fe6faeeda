/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse — the strict, incremental parser of a request head. No I/O, no allocation.
 *
 * What two parsers could read in two ways is refused: bare CR or LF, obs-fold, space before a
 * colon, both or several length headers, codings other than chunked, no Host or two.
 *
 * Owns:    nothing; results point into the input and into the caller's header array.
 * Errors:  HTTP_PARSE_BAD with the status to answer and the reason; the connection must be closed
 * then. Threads: one at a time. Source:  RFC 9112 §2–§6, RFC 9110 §5, §7.2.
 */
#ifndef STRATA_HTTP_PARSE_H
#define STRATA_HTTP_PARSE_H

#include "http/http.h"

enum http_parse { HTTP_PARSE_MORE, HTTP_PARSE_DONE, HTTP_PARSE_BAD };

struct http_head {
    struct slice method, target, path, query, host;
    unsigned headers_n;
    unsigned minor;  /* of HTTP/1.x: 0 or 1 */
    bool keep_alive; /* what the version and Connection ask for */
    bool chunked, has_content_length, expects_continue;
    uint64_t content_length; /* at most INT64_MAX */
    size_t bytes;            /* the head's length in the input, with its last CRLF */
};

struct http_parser {
    struct http_header *headers; /* the caller's */
    unsigned headers_max;
    size_t head_max, target_max;
    struct http_head head; /* complete after HTTP_PARSE_DONE */
    int status;            /* after HTTP_PARSE_BAD: 400, 414, 431, 501 or 505 */
    const char *why;       /* static */
    size_t line, scan; /* private from here on: start of the current line; searched up to here */
    bool have_request_line, skipped_crlf, has_host, has_encoding, absolute, close, wants_keep_alive;
};

void http_parser_init(struct http_parser *p, struct http_header *headers, unsigned headers_max,
                      size_t head_max, size_t target_max);
/* in: all bytes from the start of the head on; between calls it may only grow, at the same address.
 */
enum http_parse http_parser_feed(struct http_parser *p, struct slice in);

/* One field line without its CRLF; NULL when fine, else the reason. Also for trailers. */
const char *http_parse_field(struct slice line, struct http_header *ret);
/* The first header of that name; p == NULL when absent. */
struct slice http_headers_find(const struct http_header *headers, unsigned n, struct slice name);
/* A token of RFC 9110 §5.6.2, not empty. */
bool http_is_token(struct slice s);

#endif
