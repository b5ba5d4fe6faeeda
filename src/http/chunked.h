/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunked — the strict, incremental decoder of the chunked transfer coding. No I/O, no heap.
 *
 * It walks the framing and tells where data lies; the caller moves the data and reports how much
 * with http_chunked_took. So data can go from the socket straight to where it is wanted.
 *
 * Owns:    nothing; trailer lines are kept in the caller's buffer.
 * Errors:  HTTP_CHUNK_BAD with a reason.
 * Threads: one at a time.
 * Source:  RFC 9112 §7.1.
 */
#ifndef STRATA_HTTP_CHUNKED_H
#define STRATA_HTTP_CHUNKED_H

#include "http/http.h"

enum http_chunk {
    HTTP_CHUNK_MORE, /* all input was framing, and more is needed */
    HTTP_CHUNK_DATA, /* the next `left` bytes are data */
    HTTP_CHUNK_END,
    HTTP_CHUNK_BAD
};

struct http_chunked {
    uint64_t left;                         /* data bytes left of the current chunk */
    const char *why;                       /* after HTTP_CHUNK_BAD; static */
    char *trailer;                         /* private from here on: trailer lines with their CRLF */
    uint32_t trailer_n, trailer_max, line; /* line: where the current one starts */
    uint32_t extension_n;                  /* bytes of extensions so far */
    uint8_t state, digits;
};

void http_chunked_init(struct http_chunked *c, char *trailer, uint32_t trailer_max);
/* Walks over framing in `in` until data, the end, or the end of in; *ret_used is how far. */
enum http_chunk http_chunked_next(struct http_chunked *c, struct slice in, size_t *ret_used);
/* n bytes of data were consumed by the caller; n <= left. */
void http_chunked_took(struct http_chunked *c, uint64_t n);
/* The trailer fields, after HTTP_CHUNK_END; at most max. They point into the trailer buffer. */
unsigned http_chunked_trailers(const struct http_chunked *c, struct http_header *out, unsigned max);

#endif
