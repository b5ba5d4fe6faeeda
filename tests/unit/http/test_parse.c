/* SPDX-License-Identifier: Apache-2.0 */
#include "http/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define HEAD_MAX 2048u
#define TARGET_MAX 256u
#define HEADERS_MAX 16u

struct fixture {
    struct http_header headers[HEADERS_MAX];
    struct http_parser p;
};

/* All at once, or byte by byte: both must come to the same end. */
static enum http_parse feed(struct fixture *f, struct slice in, bool bytewise)
{
    enum http_parse r = HTTP_PARSE_MORE;

    http_parser_init(&f->p, f->headers, HEADERS_MAX, HEAD_MAX, TARGET_MAX);
    if (!bytewise)
        return http_parser_feed(&f->p, in);
    for (size_t n = 1; n <= in.n && r == HTTP_PARSE_MORE; n++)
        r = http_parser_feed(&f->p, slice_first(in, n));
    return r;
}

static const struct {
    const char *what;
    int status;
    struct slice in;
} refused[] = {
    { "bare LF after the request line", 400, SLICE_INIT("GET / HTTP/1.1\nHost: a\r\n\r\n") },
    { "bare LF after a header", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\n\r\n") },
    { "bare LF as the last line", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\n\n") },
    { "bare CR in a header", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n") },
    { "bare CR in the request line", 400, SLICE_INIT("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "obs-fold", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n") },
    { "tab fold", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n") },
    { "fold of the first header", 400, SLICE_INIT("GET / HTTP/1.1\r\n Host: a\r\n\r\n") },
    { "space before colon", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost : a\r\n\r\n") },
    { "tab before colon", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n") },
    { "empty name", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n") },
    { "no colon", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nXyz\r\n\r\n") },
    { "bad name character", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX(y: 1\r\n\r\n") },
    { "high byte in a name", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX\xc3\xa9: 1\r\n\r\n") },
    { "NUL in a value", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n") },
    { "NUL in a name", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n") },
    { "control in a value", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n") },
    { "DEL in a value", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n") },
    { "both lengths", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n") },
    { "both lengths, other order", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                 "Content-Length: 3\r\n\r\n") },
    { "differing lengths", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n") },
    { "same length twice", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n") },
    { "length list", 400, SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n") },
    { "signed length", 400, SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n") },
    { "negative length", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\n") },
    { "hex length", 400, SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n") },
    { "empty length", 400, SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n") },
    { "overflowing length", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\n") },
    { "length past 63 bits", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n") },
    { "unknown coding", 501,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n") },
    { "coding before chunked", 501,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n") },
    { "obfuscated chunked", 501,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n") },
    { "chunked not last", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n") },
    { "chunked twice", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n") },
    { "two encodings", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n") },
    { "empty encoding", 400,
      SLICE_INIT("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n") },
    { "encoding in 1.0", 400,
      SLICE_INIT("PUT / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n") },
    { "no host", 400, SLICE_INIT("GET / HTTP/1.1\r\nX: a\r\n\r\n") },
    { "two hosts", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n") },
    { "host with a path", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n") },
    { "host with a user", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n") },
    { "host list", 400, SLICE_INIT("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n") },
    { "0.9", 400, SLICE_INIT("GET /\r\n\r\n") },
    { "1.2", 505, SLICE_INIT("GET / HTTP/1.2\r\nHost: a\r\n\r\n") },
    { "2.0 preface", 505, SLICE_INIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") },
    { "lower-case version", 400, SLICE_INIT("GET / http/1.1\r\nHost: a\r\n\r\n") },
    { "long version", 400, SLICE_INIT("GET / HTTP/1.10\r\nHost: a\r\n\r\n") },
    { "two spaces", 400, SLICE_INIT("GET  / HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "space behind the version", 400, SLICE_INIT("GET / HTTP/1.1 \r\nHost: a\r\n\r\n") },
    { "space in the target", 400, SLICE_INIT("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "tab for space", 400, SLICE_INIT("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "control in the target", 400, SLICE_INIT("GET /\x02 HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "fragment", 400, SLICE_INIT("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "relative target", 400, SLICE_INIT("GET a HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "authority form", 400, SLICE_INIT("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "asterisk with GET", 400, SLICE_INIT("GET * HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "user in an absolute target", 400,
      SLICE_INIT("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "empty authority", 400, SLICE_INIT("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "bad method", 400, SLICE_INIT("G\"T / HTTP/1.1\r\nHost: a\r\n\r\n") },
    { "endless method", 400, SLICE_INIT("GETGETGETGETGETGETGETGETGETGETGET") },
    { "TLS on the plain port", 400, SLICE_INIT("\x16\x03\x01\x02") },
    { "two empty lines first", 400, SLICE_INIT("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n") },
};

static void whatever_could_be_read_in_two_ways_is_refused(void **state)
{
    struct fixture f;

    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            enum http_parse r = feed(&f, refused[i].in, bytewise);

            if (r != HTTP_PARSE_BAD || f.p.status != refused[i].status)
                print_message("%s: result %d status %d\n", refused[i].what, r, f.p.status);
            assert_int_equal(r, HTTP_PARSE_BAD);
            assert_int_equal(f.p.status, refused[i].status);
            assert_non_null(f.p.why);
        }
}

static void a_plain_request_is_taken_apart(void **state)
{
    static const struct slice in = SLICE_INIT(
        "\r\nPUT /b/k%20y?acl&x=1?2 HTTP/1.1\r\nhOST: s3.example:9000\r\n"
        "Content-length: 12\r\nX-Amz-Meta-A:  \t sp \t\r\nx-amz-meta-u: gr\xc3\xbc\xc3\x9f\r\n"
        "Empty:\r\nExpect: 100-Continue\r\n\r\nrest");

    for (int bytewise = 0; bytewise < 2; bytewise++) {
        struct fixture f;
        struct http_head *h = &f.p.head;

        assert_int_equal(feed(&f, in, bytewise), HTTP_PARSE_DONE);
        assert_true(slice_eq(h->method, SLICE("PUT")));
        assert_true(slice_eq(h->target, SLICE("/b/k%20y?acl&x=1?2")));
        assert_true(slice_eq(h->path, SLICE("/b/k%20y")));
        assert_true(slice_eq(h->query, SLICE("acl&x=1?2")));
        assert_true(slice_eq(h->host, SLICE("s3.example:9000")));
        assert_true(h->has_content_length && h->content_length == 12 && !h->chunked);
        assert_true(h->keep_alive && h->expects_continue && h->minor == 1);
        assert_int_equal(h->headers_n, 6);
        assert_int_equal(h->bytes, in.n - 4);
        assert_true(slice_eq(http_headers_find(f.headers, h->headers_n, SLICE("x-amz-meta-a")),
                             SLICE("sp")));
        assert_true(slice_eq(http_headers_find(f.headers, h->headers_n, SLICE("X-AMZ-META-U")),
                             SLICE("gr\xc3\xbc\xc3\x9f")));
        assert_int_equal(http_headers_find(f.headers, h->headers_n, SLICE("empty")).n, 0);
        assert_non_null(http_headers_find(f.headers, h->headers_n, SLICE("empty")).p);
        assert_null(http_headers_find(f.headers, h->headers_n, SLICE("absent")).p);
    }
}

static void target_forms(void **state)
{
    static const struct {
        struct slice in, path, query, host;
    } cases[] = {
        { SLICE_INIT("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), SLICE_INIT("*"), SLICE_INIT(""),
          SLICE_INIT("h") },
        { SLICE_INIT("GET http://other:1/a?b HTTP/1.1\r\nHost: h\r\n\r\n"), SLICE_INIT("/a"),
          SLICE_INIT("b"), SLICE_INIT("other:1") },
        { SLICE_INIT("GET HTTPS://other HTTP/1.1\r\nHost: h\r\n\r\n"), SLICE_INIT("/"),
          SLICE_INIT(""), SLICE_INIT("other") },
        { SLICE_INIT("GET http://o?q HTTP/1.1\r\nHost: h\r\n\r\n"), SLICE_INIT("/"),
          SLICE_INIT("q"), SLICE_INIT("o") },
        { SLICE_INIT("GET //a//b/../c HTTP/1.1\r\nHost:\r\n\r\n"), SLICE_INIT("//a//b/../c"),
          SLICE_INIT(""), SLICE_INIT("") },
        { SLICE_INIT("GET /\xc3\xa4{}|\"<> HTTP/1.0\r\n\r\n"), SLICE_INIT("/\xc3\xa4{}|\"<>"),
          SLICE_INIT(""), SLICE_INIT("") },
        { SLICE_INIT("GET / HTTP/1.1\r\nHost: [::1]:90\r\n\r\n"), SLICE_INIT("/"), SLICE_INIT(""),
          SLICE_INIT("[::1]:90") },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;

        assert_int_equal(feed(&f, cases[i].in, i & 1), HTTP_PARSE_DONE);
        assert_true(slice_eq(f.p.head.path, cases[i].path));
        assert_true(slice_eq(f.p.head.query, cases[i].query));
        assert_true(slice_eq(f.p.head.host, cases[i].host));
    }
}

static void keep_alive_follows_version_and_connection(void **state)
{
    static const struct {
        struct slice in;
        bool keep_alive;
    } cases[] = {
        { SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true },
        { SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), false },
        { SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n"), false },
        { SLICE_INIT("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n"), false },
        { SLICE_INIT("GET / HTTP/1.0\r\n\r\n"), false },
        { SLICE_INIT("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), true },
        { SLICE_INIT("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"), false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;

        assert_int_equal(feed(&f, cases[i].in, false), HTTP_PARSE_DONE);
        assert_true(f.p.head.keep_alive == cases[i].keep_alive);
    }
}

static void limits_of_target_head_and_count(void **state)
{
    struct fixture f;
    char text[HEAD_MAX * 2];
    int n;

    for (int bytewise = 0; bytewise < 2; bytewise++) {
        n = snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", TARGET_MAX - 1, 0);
        assert_int_equal(feed(&f, slice_of(text, (size_t)n), bytewise), HTTP_PARSE_DONE);
        n = snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", TARGET_MAX, 0);
        assert_int_equal(feed(&f, slice_of(text, (size_t)n), bytewise), HTTP_PARSE_BAD);
        assert_int_equal(f.p.status, 414);
        n = snprintf(text, sizeof text, "GET /%0*d", TARGET_MAX * 2, 0); /* the end never comes */
        assert_int_equal(feed(&f, slice_of(text, (size_t)n), bytewise), HTTP_PARSE_BAD);
        assert_int_equal(f.p.status, 414);

        n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", 2016, 0);
        assert_int_equal(n, HEAD_MAX);
        assert_int_equal(feed(&f, slice_of(text, (size_t)n), bytewise), HTTP_PARSE_DONE);
        n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n", 2017, 0);
        assert_int_equal(feed(&f, slice_of(text, (size_t)n), bytewise), HTTP_PARSE_BAD);
        assert_int_equal(f.p.status, 431);

        n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (unsigned i = 1; i <= HEADERS_MAX; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "X: %u\r\n", i);
        n += snprintf(text + n, sizeof text - (size_t)n, "\r\n");
        assert_int_equal(feed(&f, slice_of(text, (size_t)n), bytewise), HTTP_PARSE_BAD);
        assert_int_equal(f.p.status, 431);
    }
}

static void every_prefix_of_a_good_head_asks_for_more(void **state)
{
    static const struct slice in =
        SLICE_INIT("DELETE /bucket/key HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n");
    struct fixture f;

    for (size_t n = 0; n < in.n; n++)
        assert_int_equal(feed(&f, slice_first(in, n), false), HTTP_PARSE_MORE);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(a_plain_request_is_taken_apart),
        cmocka_unit_test(target_forms),
        cmocka_unit_test(keep_alive_follows_version_and_connection),
        cmocka_unit_test(limits_of_target_head_and_count),
        cmocka_unit_test(every_prefix_of_a_good_head_asks_for_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
