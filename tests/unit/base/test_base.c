/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/fail.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void slices_cut_trim_and_compare(void **state)
{
    struct slice rest;

    assert_true(slice_eq(slice_cut(SLICE("a:b"), ':', &rest), SLICE("a")));
    assert_true(slice_eq(rest, SLICE("b")));
    slice_cut(SLICE("ab"), ':', &rest);
    assert_null(rest.p);
    assert_true(slice_eq(slice_trim(SLICE(" \t x y ")), SLICE("x y")));
    assert_true(slice_cmp(SLICE("a"), SLICE("ab")) < 0);
    assert_true(slice_eq_nocase(SLICE("Content-MD5"), SLICE("content-md5")));
}

static void numbers_reject_overflow_and_signs(void **state)
{
    uint64_t v = 7;

    assert_true(slice_to_u64(SLICE("18446744073709551615"), &v));
    assert_true(v == UINT64_MAX);
    assert_false(slice_to_u64(SLICE("18446744073709551616"), &v));
    assert_false(slice_to_u64(SLICE("+1"), &v));
    assert_false(slice_to_u64(SLICE(""), &v));
}

static void utf8_rejects_surrogates_and_overlong_forms(void **state)
{
    assert_true(slice_is_utf8(SLICE("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80")));
    assert_false(slice_is_utf8(SLICE("\xc0\x80")));
    assert_false(slice_is_utf8(SLICE("\xed\xa0\x80")));
    assert_false(slice_is_utf8(SLICE("\xf4\x90\x80\x80")));
    assert_false(slice_is_utf8(SLICE("\xe2\x82")));
}

static void base64_round_trips_and_is_strict(void **state)
{
    char text[64];
    unsigned char raw[64];
    size_t n;

    for (size_t len = 0; len < 20; len++) {
        size_t m = base64_encode(text, "0123456789abcdefghij", len);

        assert_int_equal(m, BASE64_SIZE(len));
        assert_true(base64_decode(raw, &n, slice_of(text, m)));
        assert_int_equal(n, len);
        assert_memory_equal(raw, "0123456789abcdefghij", len);
    }
    assert_false(base64_decode(raw, &n, SLICE("QQ=")));
    assert_false(base64_decode(raw, &n, SLICE("QR==")));
    assert_false(base64_decode(raw, &n, SLICE("Q Q=")));
    assert_false(base64_decode(raw, &n, SLICE("====")));
}

static void uri_encoding_follows_sigv4(void **state)
{
    AUTO(buf_fini) struct buf b = { .max = 100 };
    struct arena a;
    struct slice s;

    assert_int_equal(uri_encode(&b, SLICE("a b/~+\xc3\xa9"), true), RC_OK);
    assert_true(slice_eq(buf_slice(&b), SLICE("a%20b/~%2B%C3%A9")));
    arena_init(&a, 1000);
    assert_int_equal(uri_decode(&a, SLICE("a%2fb+c"), false, &s), RC_OK);
    assert_true(slice_eq(s, SLICE("a/b+c")));
    assert_int_equal(uri_decode(&a, SLICE("a+c"), true, &s), RC_OK);
    assert_true(slice_eq(s, SLICE("a c")));
    assert_int_equal(uri_decode(&a, SLICE("%2"), false, &s), RC_INVALID);
    arena_fini(&a);
}

static void dates_round_trip(void **state)
{
    char iso[CLOCK_ISO_SIZE], http[CLOCK_HTTP_SIZE], amz[CLOCK_AMZ_SIZE];
    int64_t t = 1136214245 * NS_PER_S + 6 * NS_PER_MS, got;

    clock_format_iso(iso, t);
    assert_memory_equal(iso, "2006-01-02T15:04:05.006Z", sizeof iso);
    clock_format_http(http, t);
    assert_memory_equal(http, "Mon, 02 Jan 2006 15:04:05 GMT", sizeof http);
    clock_format_amz(amz, t);
    assert_memory_equal(amz, "20060102T150405Z", sizeof amz);
    assert_true(clock_parse_iso(slice_of(iso, sizeof iso), &got));
    assert_true(got == t);
    assert_true(clock_parse_http(slice_of(http, sizeof http), &got));
    assert_true(got == t - 6 * NS_PER_MS);
    assert_true(clock_parse_iso(slice_of(amz, sizeof amz), &got));
    assert_true(clock_parse_http(SLICE("Monday, 02-Jan-06 15:04:05 GMT"), &got));
    assert_true(got == t - 6 * NS_PER_MS);
    assert_true(clock_parse_http(SLICE("Mon Jan  2 15:04:05 2006"), &got));
    assert_false(clock_parse_http(SLICE("Mon, 02 Foo 2006 15:04:05 GMT"), &got));
}

static void arena_and_buf_honour_their_limits(void **state)
{
    struct arena a;
    struct buf b;

    arena_init(&a, 100000);
    for (int i = 0; i < 50; i++)
        assert_non_null(arena_alloc(&a, 1000));
    assert_non_null(arena_alloc(&a, 40000));
    assert_null(arena_alloc(&a, 20000));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 90000));
    arena_fini(&a);
    buf_init(&b, 5);
    assert_int_equal(buf_add(&b, SLICE("12345")), RC_OK);
    assert_int_equal(buf_add_char(&b, '6'), RC_TOO_LARGE);
    buf_fini(&b);
}

static void fail_notes_the_error(void **state)
{
    assert_int_equal(fail_s3(S3E_NO_SUCH_BUCKET, "no %s", "x"), RC_NOT_FOUND);
    assert_int_equal(note_error(RC_NOT_FOUND), S3E_NO_SUCH_BUCKET);
    assert_int_equal(note_error(RC_NO_MEM), S3E_SLOW_DOWN);
    assert_string_equal(note_text(), "no x");
    note_clear();
    assert_int_equal(note_error(RC_NOT_FOUND), S3E_NO_SUCH_KEY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_cut_trim_and_compare),
        cmocka_unit_test(numbers_reject_overflow_and_signs),
        cmocka_unit_test(utf8_rejects_surrogates_and_overlong_forms),
        cmocka_unit_test(base64_round_trips_and_is_strict),
        cmocka_unit_test(uri_encoding_follows_sigv4),
        cmocka_unit_test(dates_round_trip),
        cmocka_unit_test(arena_and_buf_honour_their_limits),
        cmocka_unit_test(fail_notes_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
