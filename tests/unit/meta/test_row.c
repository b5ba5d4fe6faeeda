/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"
#include "meta/row.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct meta_object sample(struct meta_pair *pairs, struct extent *extents)
{
    struct meta_object o = { .content_type = SLICE("text/plain"),
                             .headers = pairs,
                             .headers_n = 1,
                             .user = pairs + 1,
                             .user_n = 2,
                             .extents = extents,
                             .extents_n = 3 };

    pairs[0] = (struct meta_pair){ SLICE("Cache-Control"), SLICE("no-store") };
    pairs[1] = (struct meta_pair){ SLICE("colour"), SLICE("bl\xc3\xa5") };
    pairs[2] = (struct meta_pair){ SLICE("empty"), SLICE("") };
    for (unsigned i = 0; i < 3; i++) {
        memset(extents[i].id, (int)i + 1, DATA_ID_SIZE);
        extents[i].length = 1000 + i;
        extents[i].crc32c = 0xfeed0000 + i;
        o.head.size += extents[i].length;
    }
    memset(o.head.md5, 0x5a, sizeof o.head.md5);
    o.head.sum_kind = META_SUM_SHA1;
    o.head.sum_composite = true;
    o.head.parts = 3;
    memset(o.sum, 0x77, 20);
    return o;
}

static void rows_round_trip(void **state)
{
    struct meta_pair pairs[3];
    struct extent extents[3];
    struct meta_object o = sample(pairs, extents), got;
    struct arena a;
    struct slice row;

    arena_init(&a, 1 << 20);
    assert_int_equal(row_encode(&a, &o, 42, &row), RC_OK);
    row_set_mtime(row, 1234567890123456789);
    assert_true(row_write_id(row) == 42);
    assert_int_equal(row_decode(&a, row, false, &got), RC_OK);
    assert_true(got.head.size == o.head.size && got.head.mtime_ns == 1234567890123456789);
    assert_true(got.head.sum_kind == META_SUM_SHA1 && got.head.sum_composite);
    assert_true(got.head.parts == 3 && !got.is_inline && got.head.storage_class.n == 0);
    assert_memory_equal(got.head.md5, o.head.md5, 16);
    assert_memory_equal(got.sum, o.sum, sizeof o.sum);
    assert_true(slice_eq(got.content_type, SLICE("text/plain")));
    assert_true(got.headers_n == 1 && slice_eq(got.headers[0].value, SLICE("no-store")));
    assert_true(got.user_n == 2 && slice_eq(got.user[0].value, SLICE("bl\xc3\xa5")));
    assert_true(slice_eq(got.user[1].name, SLICE("empty")) && got.user[1].value.n == 0);
    assert_int_equal(got.extents_n, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_memory_equal(got.extents[i].id, extents[i].id, DATA_ID_SIZE);
        assert_true(got.extents[i].length == extents[i].length);
        assert_true(got.extents[i].crc32c == extents[i].crc32c);
    }
    assert_int_equal(row_decode(&a, row, true, &got), RC_OK);
    assert_true(got.extents_n == 0 && got.user_n == 2);
    arena_fini(&a);
}

static void inline_bodies_and_classes_round_trip(void **state)
{
    static const char *classes[] = { "", "GLACIER", "SITE-LOCAL-NVME" };
    struct arena a;

    arena_init(&a, 1 << 20);
    for (unsigned i = 0; i < ARRAY_LEN(classes); i++) {
        struct meta_object o = { .is_inline = true, .body = SLICE("hello"), .head.size = 5 }, got;
        struct meta_head head;
        struct slice row;

        o.head.storage_class = slice_str(classes[i]);
        assert_int_equal(row_encode(&a, &o, 1, &row), RC_OK);
        assert_int_equal(row_decode(&a, row, false, &got), RC_OK);
        assert_true(got.is_inline && slice_eq(got.body, SLICE("hello")));
        assert_true(slice_eq(got.head.storage_class, o.head.storage_class));
        assert_int_equal(row_decode_head(slice_first(row, KV_HEAD_SIZE), &head), RC_OK);
        assert_true(slice_eq(head.storage_class, o.head.storage_class) && head.size == 5);
    }
    arena_fini(&a);
}

/* Copies of exact size, so that the sanitizers see every overrun. */
static void decode_copy(const void *p, size_t n)
{
    char *copy = malloc(n ? n : 1);
    struct meta_object o;
    struct row_bucket b;
    struct arena a;

    memcpy(copy, p, n);
    arena_init(&a, 1 << 20);
    if (row_decode(&a, slice_of(copy, n), false, &o) == RC_OK && o.body.n)
        assert_true(o.body.p >= copy && o.body.p + o.body.n <= copy + n);
    (void)!row_bucket_decode(&a, slice_of(copy, n), &b);
    arena_fini(&a);
    free(copy);
}

static void any_bytes_decode_safely(void **state)
{
    struct meta_pair pairs[3];
    struct extent extents[3];
    struct meta_object o = sample(pairs, extents);
    struct arena a;
    struct slice row;
    char changed[1024];

    arena_init(&a, 1 << 20);
    assert_int_equal(row_encode(&a, &o, 42, &row), RC_OK);
    assert_true(row.n <= sizeof changed);
    for (size_t n = 0; n <= row.n; n++)
        decode_copy(row.p, n);
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t r[3];

        random_bytes(r, sizeof r);
        memcpy(changed, row.p, row.n);
        changed[r[0] % row.n] = (char)r[1];
        changed[r[1] / 256 % row.n] ^= (char)(1 << r[2] % 8);
        decode_copy(changed, row.n);
    }
    arena_fini(&a);
}

static void etags_match_lists_and_stars(void **state)
{
    struct meta_head h = { .md5 = { 0xab, 0xcd } };
    char etag[META_ETAG_MAX];

    assert_int_equal(meta_etag(&h, etag), 32);
    assert_memory_equal(etag, "abcd0000000000000000000000000000", 32);
    assert_true(meta_etag_matches(SLICE("*"), &h));
    assert_true(meta_etag_matches(SLICE("abcd0000000000000000000000000000"), &h));
    assert_true(meta_etag_matches(SLICE("\"a,b\" , W/\"abcd0000000000000000000000000000\""), &h));
    assert_true(meta_etag_matches(SLICE("x, abcd0000000000000000000000000000 ,y"), &h));
    assert_false(meta_etag_matches(SLICE("\"abcd000000000000000000000000000\""), &h));
    assert_false(meta_etag_matches(SLICE(""), &h));
    h.parts = 10000;
    assert_int_equal(meta_etag(&h, etag), 38);
    assert_memory_equal(etag + 32, "-10000", 6);
    assert_true(meta_etag_matches(SLICE("\"abcd0000000000000000000000000000-10000\""), &h));
    assert_false(meta_etag_matches(SLICE("\"abcd0000000000000000000000000000\""), &h));
}

static void bucket_names_follow_the_rules(void **state)
{
    static const char *good[] = {
        "abc", "a.b-c.9", "192.168.5", "1.2.3.4.5", "1234", "1.2.3.4444"
    };
    static const char *bad[] = {
        "ab",          "Abc",     "a_b",        "-abc",           "abc-",
        ".abc",        "abc.",    "a..b",       "a.-b",           "a-.b",
        "192.168.5.4", "xn--abc", "sthree-abc", "amzn-s3-demo-x", "x-s3alias",
        "x--ol-s3",    "x.mrap",  "x--x-s3",    "x--table-s3",    "console",
        "admin",       "metrics", "healthz",    "readyz",         ".well-known",
        "a\xc3\xa9z",  ""
    };
    char name[65];

    for (unsigned i = 0; i < ARRAY_LEN(good); i++)
        assert_true(meta_bucket_name_valid(slice_str(good[i])));
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        if (meta_bucket_name_valid(slice_str(bad[i])))
            fail_msg("%s passes", bad[i]);
    memset(name, 'a', sizeof name);
    assert_true(meta_bucket_name_valid(slice_of(name, 63)));
    assert_false(meta_bucket_name_valid(slice_of(name, 64)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_round_trip),
        cmocka_unit_test(inline_bodies_and_classes_round_trip),
        cmocka_unit_test(any_bytes_decode_safely),
        cmocka_unit_test(etags_match_lists_and_stars),
        cmocka_unit_test(bucket_names_follow_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
