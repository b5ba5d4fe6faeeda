/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request head: the parser must stay inside its input, come to the same result
 * however the bytes are split, and never accept what frames a body in two ways.
 */
#include "http/parse.h"

#define HEADERS_MAX 64u
#define HEAD_MAX 4096u
#define TARGET_MAX 1024u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(struct slice s, const char *p, size_t n)
{
    return s.n == 0 || (s.p >= p && s.p + s.n <= p + n);
}

static void check_done(const struct http_parser *p, const char *in, size_t n)
{
    const struct http_head *h = &p->head;

    assert(h->bytes <= n && h->bytes <= HEAD_MAX);
    assert(inside(h->method, in, n) && h->method.n > 0);
    assert(inside(h->target, in, n) && h->target.n > 0 && h->target.n <= TARGET_MAX);
    assert(inside(h->query, in, n) && inside(h->host, in, n));
    assert(h->path.n > 0 && (h->path.p[0] == '/' || h->path.p[0] == '*'));
    assert(h->headers_n <= HEADERS_MAX);
    assert(!(h->chunked && h->has_content_length));
    for (unsigned i = 0; i < h->headers_n; i++) {
        assert(inside(p->headers[i].name, in, n) && http_is_token(p->headers[i].name));
        assert(inside(p->headers[i].value, in, n));
        for (size_t k = 0; k < p->headers[i].value.n; k++)
            assert(p->headers[i].value.p[k] != '\r' && p->headers[i].value.p[k] != '\n' &&
                   p->headers[i].value.p[k] != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_header headers[HEADERS_MAX];
    struct http_parser whole, split;
    /* An exact copy, so that AddressSanitizer sees reads past the end. */
    char *in = malloc(size ? size : 1);
    enum http_parse a, b = HTTP_PARSE_MORE;

    if (!in)
        return 0;
    if (size)
        memcpy(in, data, size);
    http_parser_init(&split, headers, HEADERS_MAX, HEAD_MAX, TARGET_MAX);
    for (size_t n = 0; n < size && b == HTTP_PARSE_MORE;) {
        n += 1 + (n * 7 + size) % 13;
        n = MIN(n, size);
        b = http_parser_feed(&split, slice_of(in, n));
    }
    http_parser_init(&whole, headers, HEADERS_MAX, HEAD_MAX, TARGET_MAX);
    a = http_parser_feed(&whole, slice_of(in, size));
    if (size) {
        assert(a == b);
        assert(a != HTTP_PARSE_BAD || (whole.why && whole.status >= 400));
    }
    if (a == HTTP_PARSE_DONE) {
        assert(whole.head.bytes == split.head.bytes);
        check_done(&whole, in, size);
    }
    free(in);
    return 0;
}
