/* SPDX-License-Identifier: Apache-2.0 */
#include "http/chunked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define TRAILER_MAX 128u

struct decoded {
    struct http_chunked c;
    char trailer[TRAILER_MAX];
    char data[256];
    size_t data_n, used;
};

/* Decodes `in` given in pieces of `step` bytes. */
static enum http_chunk decode(struct decoded *d, struct slice in, size_t step)
{
    enum http_chunk r = HTTP_CHUNK_MORE;

    memset(d, 0, sizeof *d);
    http_chunked_init(&d->c, d->trailer, sizeof d->trailer);
    while (d->used < in.n) {
        struct slice piece = slice_first(slice_from(in, d->used), step);
        size_t used;

        r = http_chunked_next(&d->c, piece, &used);
        assert_true(used <= piece.n);
        d->used += used;
        if (r == HTTP_CHUNK_END || r == HTTP_CHUNK_BAD)
            return r;
        if (r == HTTP_CHUNK_DATA) {
            size_t n = (size_t)MIN(piece.n - used, d->c.left);

            assert_true(n <= sizeof d->data - d->data_n);
            memcpy(d->data + d->data_n, piece.p + used, n);
            d->data_n += n;
            d->used += n;
            http_chunked_took(&d->c, n);
        } else {
            assert_int_equal(used, piece.n);
        }
    }
    return r;
}

static void chunks_extensions_and_trailers_are_decoded_at_any_split(void **state)
{
    static const struct slice in =
        SLICE_INIT("5;a=\"b c\"\r\nhello\r\n00A\r\n, world!!!\r\n0;last\r\n"
                   "x-amz-checksum-crc32: AAAAAA==\r\nX-Two: 2\r\n\r\nGET /next");

    for (size_t step = 1; step <= in.n; step++) {
        struct decoded d;
        struct http_header t[4];

        assert_int_equal(decode(&d, in, step), HTTP_CHUNK_END);
        assert_int_equal(d.data_n, 15);
        assert_memory_equal(d.data, "hello, world!!!", 15);
        assert_int_equal(d.used, in.n - 9);
        assert_int_equal(http_chunked_trailers(&d.c, t, 4), 2);
        assert_true(slice_eq(t[0].name, SLICE("x-amz-checksum-crc32")));
        assert_true(slice_eq(t[0].value, SLICE("AAAAAA==")));
        assert_true(slice_eq(t[1].value, SLICE("2")));
        assert_int_equal(http_chunked_trailers(&d.c, t, 1), 1);
    }
}

static void bad_framing_is_refused(void **state)
{
    static const struct slice cases[] = {
        SLICE_INIT("\r\n"),
        SLICE_INIT("g\r\n"),
        SLICE_INIT("-1\r\n"),
        SLICE_INIT("+1\r\n"),
        SLICE_INIT("0x1\r\n"),
        SLICE_INIT(" 1\r\n"),
        SLICE_INIT("1 \r\n"),
        SLICE_INIT(";a\r\n"),
        SLICE_INIT("1\n"),
        SLICE_INIT("1\r\r"),
        SLICE_INIT("1;a\n"),
        SLICE_INIT("1;a\x01\r\n"),
        SLICE_INIT("10000000000000000\r\n"),
        SLICE_INIT("00000000000000001\r\n"),
        SLICE_INIT("ffffffffffffffff\r\n"),
        SLICE_INIT("1\r\nab\r\n"),
        SLICE_INIT("1\r\na\n"),
        SLICE_INIT("1\r\na\rx"),
        SLICE_INIT("0\r\nX: 1\n\r\n"),
        SLICE_INIT("0\r\nX: 1\r\n\n"),
        SLICE_INIT("0\r\n\n"),
        SLICE_INIT("0\r\nX : 1\r\n\r\n"),
        SLICE_INIT("0\r\n X: 1\r\n\r\n"),
        SLICE_INIT("0\r\nX: a\rb\r\n\r\n"),
        SLICE_INIT("0\r\nContent-Length: 1\r\n\r\n"),
        SLICE_INIT("0\r\ntransfer-encoding: chunked\r\n\r\n"),
        SLICE_INIT("0\r\nHost: a\r\n\r\n"),
        SLICE_INIT("0\r\nAuthorization: a\r\n\r\n"),
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t step = 1; step <= cases[i].n; step++) {
            struct decoded d;
            enum http_chunk r = decode(&d, cases[i], step);

            if (r != HTTP_CHUNK_BAD)
                print_message("case %zu: %d\n", i, r);
            assert_int_equal(r, HTTP_CHUNK_BAD);
            assert_non_null(d.c.why);
        }
}

static void trailers_and_extensions_are_bounded(void **state)
{
    struct decoded d;
    char text[8192];
    int n = snprintf(text, sizeof text, "0\r\nX: %0*d\r\n\r\n", (int)TRAILER_MAX, 0);

    assert_int_equal(decode(&d, slice_of(text, (size_t)n), 7), HTTP_CHUNK_BAD);
    n = snprintf(text, sizeof text, "1;%0*d\r\na\r\n", 5000, 0);
    assert_int_equal(decode(&d, slice_of(text, (size_t)n), 100), HTTP_CHUNK_BAD);
    for (n = 0; n < 8000;)
        n += snprintf(text + n, sizeof text - (size_t)n, "1;%0*d\r\na\r\n", 100, 0);
    assert_int_equal(decode(&d, slice_of(text, (size_t)n), 1000), HTTP_CHUNK_BAD);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_extensions_and_trailers_are_decoded_at_any_split),
        cmocka_unit_test(bad_framing_is_refused),
        cmocka_unit_test(trailers_and_extensions_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
