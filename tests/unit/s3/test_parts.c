/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers and writers of the S3 floor, one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "s3/cond.h"
#include "s3/copy_source.h"
#include "s3/list_token.h"
#include "s3/query.h"
#include "s3/target.h"
#include "s3/xml_in.h"
#include "s3/xml_out.h"

static struct arena arena;

static int set_up(void **state)
{
    arena_init(&arena, (size_t)8 << 20);
    return 0;
}

static int tear_down(void **state)
{
    arena_fini(&arena);
    return 0;
}

static void assert_slice(struct slice got, const char *want)
{
    assert_int_equal(got.n, strlen(want));
    assert_memory_equal(got.n ? got.p : "", want, got.n);
}

static void assert_s3_error(enum rc rc, enum s3_error want)
{
    assert_int_not_equal(rc, RC_OK);
    assert_string_equal(s3_error_info(note_error(rc))->code, s3_error_info(want)->code);
}

/* ---- query ---------------------------------------------------------------------------------- */

static void query_decodes_names_and_values(void **state)
{
    struct s3_query q;

    assert_int_equal(
        s3_query_parse(&arena, SLICE("acl&prefix=a%2Fb+c&&x=&delimiter=%25&list-type=2"), &q),
        RC_OK);
    assert_int_equal(q.n, 5);
    assert_slice(s3_query_get(&q, SLICE("prefix")), "a/b c");
    assert_slice(s3_query_get(&q, SLICE("delimiter")), "%");
    assert_non_null(s3_query_get(&q, SLICE("acl")).p);
    assert_int_equal(s3_query_get(&q, SLICE("acl")).n, 0);
    assert_null(s3_query_get(&q, SLICE("policy")).p);
}

static void query_refuses_bad_bytes(void **state)
{
    struct s3_query q;

    assert_s3_error(s3_query_parse(&arena, SLICE("prefix=%zz"), &q), S3E_INVALID_URI);
    assert_s3_error(s3_query_parse(&arena, SLICE("prefix=%2"), &q), S3E_INVALID_URI);
    assert_s3_error(s3_query_parse(&arena, SLICE("prefix=%ff"), &q), S3E_INVALID_URI);
}

/* ---- targets -------------------------------------------------------------------------------- */

static void host_patterns_choose_the_bucket(void **state)
{
    static const struct {
        const char *host, *bucket;
    } cases[] = {
        { "b.s3.local", "b" },
        { "b.s3.local:9000", "b" },
        { "MyBucket.S3.Local:80", "mybucket" },
        { "a.b.c.s3.local", "a.b.c" },
        { "s3.local", "" },
        { "s3.local:9000", "" },
        { "127.0.0.1:9000", "" },
        { "[::1]:9000", "" },
        { "localhost", "" },
        { "bs3.local", "" },
        { ".s3.local", "" },
        { "x.y.example.com", "x" },
        { "b.example.com.", "b" },
        { "", "" },
    };
    struct s3_vhosts v;

    assert_int_equal(s3_vhosts_init(&v, "*.s3.local, *.example.com,y.example.com"), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct slice got;

        assert_int_equal(s3_vhost_bucket(&v, &arena, slice_str(cases[i].host), &got), RC_OK);
        assert_slice(got, cases[i].bucket);
    }
    s3_vhosts_fini(&v);
    assert_int_equal(s3_vhosts_init(&v, "-"), RC_OK);
    assert_int_equal(v.n, 0);
    s3_vhosts_fini(&v);
    assert_int_equal(s3_vhosts_init(&v, "*.a*b"), RC_INVALID);
}

static void keys_are_opaque(void **state)
{
    static const struct {
        const char *host, *path, *bucket, *key;
    } cases[] = {
        { "h", "/", "", "" },
        { "h", "/b", "b", "" },
        { "h", "/b/", "b", "" },
        { "h", "/b/k", "b", "k" },
        { "h", "/b//foo/bar", "b", "/foo/bar" },
        { "h", "/b/a//b", "b", "a//b" },
        { "h", "/b/a/", "b", "a/" },
        { "h", "/b/../x/./y", "b", "../x/./y" },
        { "h", "/b/a%2Fb+c%20d%25", "b", "a/b+c d%" },
        { "h", "/b/%01%0d", "b", "\x01\r" },
        { "b.s3.local", "/", "b", "" },
        { "b.s3.local", "//foo", "b", "/foo" },
        { "b.s3.local", "/b/k", "b", "b/k" },
    };
    struct s3_vhosts v;

    assert_int_equal(s3_vhosts_init(&v, "*.s3.local"), RC_OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct s3_target t;

        assert_int_equal(
            s3_target_parse(&v, &arena, slice_str(cases[i].host), slice_str(cases[i].path), &t),
            RC_OK);
        assert_slice(t.bucket, cases[i].bucket);
        assert_slice(t.key, cases[i].key);
    }
    s3_vhosts_fini(&v);
}

static void bad_keys_are_refused(void **state)
{
    struct s3_vhosts v = { 0 };
    struct s3_target t;
    char path[1100] = "/b/";

    assert_s3_error(s3_target_parse(&v, &arena, SLICE("h"), SLICE("/b/%g1"), &t), S3E_INVALID_URI);
    assert_s3_error(s3_target_parse(&v, &arena, SLICE("h"), SLICE("/b/%c3"), &t), S3E_INVALID_URI);
    assert_s3_error(s3_target_parse(&v, &arena, SLICE("h"), SLICE("/b/%00"), &t), S3E_INVALID_URI);
    memset(path + 3, 'k', 1025);
    assert_s3_error(s3_target_parse(&v, &arena, SLICE("h"), slice_of(path, 3 + 1025), &t),
                    S3E_KEY_TOO_LONG);
    assert_int_equal(s3_target_parse(&v, &arena, SLICE("h"), slice_of(path, 3 + 1024), &t), RC_OK);
}

static void copy_sources_raw_and_encoded(void **state)
{
    static const struct {
        const char *header, *bucket, *key, *version;
    } cases[] = {
        { "b/k", "b", "k", NULL },
        { "/b/k", "b", "k", NULL },
        { "%2Fb%2Fk", "b", "k", NULL },
        { "b/foo?bar", "b", "foo?bar", NULL },
        { "b/foo%3Fbar?versionId=null", "b", "foo?bar", "null" },
        { "b/c++", "b", "c++", NULL },
        { "b/{uuid}", "b", "{uuid}", NULL },
        { "b/100%", "b", "100%", NULL },
        { "b//lead", "b", "/lead", NULL },
        { "b/a&b$c", "b", "a&b$c", NULL },
        { "b/k?versionId=abc", "b", "k", "abc" },
    };
    struct s3_copy_source s;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(s3_copy_source_parse(&arena, slice_str(cases[i].header), &s), RC_OK);
        assert_slice(s.bucket, cases[i].bucket);
        assert_slice(s.key, cases[i].key);
        if (cases[i].version)
            assert_slice(s.version, cases[i].version);
        else
            assert_null(s.version.p);
    }
    assert_s3_error(s3_copy_source_parse(&arena, SLICE("b"), &s), S3E_INVALID_ARGUMENT);
    assert_s3_error(s3_copy_source_parse(&arena, SLICE("/b/"), &s), S3E_INVALID_ARGUMENT);
    assert_s3_error(s3_copy_source_parse(&arena, SLICE(""), &s), S3E_INVALID_ARGUMENT);
}

static void tokens_are_checked(void **state)
{
    char token[S3_LIST_TOKEN_MAX];
    size_t n = s3_list_token_encode(token, SLICE("dir/key \xf0\x9f\x98\x80"));
    struct slice key;

    assert_true(s3_list_token_decode(&arena, slice_of(token, n), &key));
    assert_slice(key, "dir/key \xf0\x9f\x98\x80");
    token[n / 2] ^= 1;
    assert_false(s3_list_token_decode(&arena, slice_of(token, n), &key));
    assert_false(s3_list_token_decode(&arena, SLICE("dir/key"), &key));
    assert_false(s3_list_token_decode(&arena, SLICE("YWJj"), &key));
}

/* ---- XML ------------------------------------------------------------------------------------ */

static void xml_out_escapes(void **state)
{
    struct xml x;

    xml_init(&x);
    xml_text(&x, "K", SLICE("a<b>&\"c\"\r\n\x01\x1f'\xc3\xa9"));
    xml_url(&x, "U", SLICE("a b/%+\x01"));
    xml_u64(&x, "N", UINT64_MAX);
    assert_int_equal(x.rc, RC_OK);
    assert_slice(slice_from(buf_slice(&x.b), sizeof XML_DECLARATION - 1),
                 "<K>a&lt;b&gt;&amp;&quot;c&quot;&#xD;\n&#x1;&#x1F;'\xc3\xa9</K>"
                 "<U>a%20b/%25%2B%01</U><N>18446744073709551615</N>");
    xml_fini(&x);
}

static void xml_in_builds_a_tree(void **state)
{
    struct xml_node *root;
    const struct xml_node *object;

    assert_int_equal(
        xml_parse(&arena,
                  SLICE("<?xml version=\"1.0\"?><s:Delete xmlns:s=\"u\"><s:Quiet>true</s:Quiet>"
                        "<s:Object><s:Key> a&amp;b\r\n&#65;</s:Key></s:Object></s:Delete>"),
                  &root),
        RC_OK);
    assert_slice(root->name, "Delete");
    assert_slice(xml_child_text(root, SLICE("Quiet")), "true");
    object = xml_child(root, SLICE("Object"));
    assert_non_null(object);
    assert_slice(xml_child_text(object, SLICE("Key")), " a&b\nA");
    assert_null(xml_child_text(object, SLICE("VersionId")).p);
    assert_null(xml_child(root, SLICE("Key")));
}

static void xml_in_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        "plain",
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        "<a>&undefined;</a>",
        "<a>\xff</a>",
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>",
        "<a>\x01</a>",
    };
    struct xml_node *root;
    struct buf deep;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_s3_error(xml_parse(&arena, slice_str(bad[i]), &root), S3E_MALFORMED_XML);
    buf_init(&deep, 1u << 20);
    for (int i = 0; i < 200; i++)
        assert_int_equal(buf_add(&deep, SLICE("<a>")), RC_OK);
    for (int i = 0; i < 200; i++)
        assert_int_equal(buf_add(&deep, SLICE("</a>")), RC_OK);
    assert_s3_error(xml_parse(&arena, buf_slice(&deep), &root), S3E_MALFORMED_XML);
    buf_fini(&deep);
}

/* ---- ranges and conditions ------------------------------------------------------------------ */

static void ranges(void **state)
{
    static const struct {
        const char *header;
        uint64_t size, offset, length;
        int partial; /* -1: InvalidRange */
    } cases[] = {
        { "bytes=0-9", 100, 0, 10, 1 },
        { "bytes=0-0", 1, 0, 1, 1 },
        { "bytes=90-200", 100, 90, 10, 1 },
        { "bytes=5-", 100, 5, 95, 1 },
        { "bytes=-7", 100, 93, 7, 1 },
        { "bytes=-200", 100, 0, 100, 1 },
        { "Bytes=1-2", 100, 1, 2, 1 },
        { "bytes=0-99999999999999999999999", 100, 0, 100, 1 },
        { "bytes=100-", 100, 0, 0, -1 },
        { "bytes=100-100", 100, 0, 0, -1 },
        { "bytes=99999999999999999999999-", 100, 0, 0, -1 },
        { "bytes=-0", 100, 0, 0, -1 },
        { "bytes=0-", 0, 0, 0, -1 },
        { "bytes=40-50", 0, 0, 0, -1 },
        { "bytes=-5", 0, 0, 0, 0 },
        { "bytes=33-10", 100, 0, 100, 0 },
        { "bytes=0-1,3-4", 100, 0, 100, 0 },
        { "bytes=a-b", 100, 0, 100, 0 },
        { "bytes=", 100, 0, 100, 0 },
        { "bytes=-", 100, 0, 100, 0 },
        { "bytes=+1-2", 100, 0, 100, 0 },
        { "items=0-1", 100, 0, 100, 0 },
        { "", 100, 0, 100, 0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct s3_range r;
        enum rc rc = s3_range_parse(slice_str(cases[i].header), cases[i].size, &r);

        if (cases[i].partial < 0) {
            assert_s3_error(rc, S3E_INVALID_RANGE);
            continue;
        }
        assert_int_equal(rc, RC_OK);
        assert_int_equal(r.partial, cases[i].partial);
        assert_int_equal(r.offset, cases[i].offset);
        assert_int_equal(r.length, cases[i].length);
    }
}

#define EARLIER "Fri, 01 Jan 2021 00:00:00 GMT"
#define SAME "Sat, 01 Jan 2022 00:00:00 GMT"
#define ETAG "\"0102030405060708090a0b0c0d0e0f10\""

static void conditions_in_order(void **state)
{
    static const struct {
        const char *match, *none, *since, *unmodified;
        enum s3_error want;
        const char *condition;
    } cases[] = {
        { ETAG, NULL, NULL, NULL, S3E_NONE, NULL },
        { "*", NULL, NULL, NULL, S3E_NONE, NULL },
        { "\"x\", " ETAG, NULL, NULL, NULL, S3E_NONE, NULL },
        { "\"x\"", NULL, NULL, NULL, S3E_PRECONDITION_FAILED, "If-Match" },
        { ETAG, NULL, NULL, EARLIER, S3E_NONE, NULL }, /* If-Match outranks */
        { NULL, NULL, NULL, EARLIER, S3E_PRECONDITION_FAILED, "If-Unmodified-Since" },
        { NULL, NULL, NULL, SAME, S3E_NONE, NULL },
        { NULL, ETAG, NULL, NULL, S3E_NOT_MODIFIED, "If-None-Match" },
        { NULL, "*", NULL, NULL, S3E_NOT_MODIFIED, "If-None-Match" },
        { NULL, ETAG, EARLIER, NULL, S3E_NOT_MODIFIED, "If-None-Match" },
        { NULL, "\"x\"", SAME, NULL, S3E_NONE, NULL }, /* If-None-Match outranks */
        { NULL, NULL, SAME, NULL, S3E_NOT_MODIFIED, "If-Modified-Since" },
        { NULL, NULL, EARLIER, NULL, S3E_NONE, NULL },
        { NULL, NULL, "nonsense", "nonsense", S3E_NONE, NULL },
        { "\"x\"", ETAG, NULL, NULL, S3E_PRECONDITION_FAILED, "If-Match" },
    };
    struct meta_head h = { .md5 = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } };

    assert_true(clock_parse_http(SLICE(SAME), &h.mtime_ns));
    h.mtime_ns += 999 * NS_PER_MS; /* headers do not tell */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct s3_read_cond cond = {
            .if_match = slice_str(cases[i].match),
            .if_none_match = slice_str(cases[i].none),
            .if_modified_since = slice_str(cases[i].since),
            .if_unmodified_since = slice_str(cases[i].unmodified),
        };
        const char *condition = NULL;
        enum rc rc = s3_cond_check(&cond, &h, &condition);

        if (cases[i].want == S3E_NONE) {
            assert_int_equal(rc, RC_OK);
            continue;
        }
        assert_s3_error(rc, cases[i].want);
        assert_string_equal(condition, cases[i].condition);
    }
    assert_true(s3_if_range_holds(SLICE(ETAG), &h));
    assert_true(s3_if_range_holds(SLICE(SAME), &h));
    assert_false(s3_if_range_holds(SLICE("\"x\""), &h));
    assert_false(s3_if_range_holds(SLICE("W/" ETAG), &h));
    assert_false(s3_if_range_holds(SLICE(EARLIER), &h));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(query_decodes_names_and_values),
        T(query_refuses_bad_bytes),
        T(host_patterns_choose_the_bucket),
        T(keys_are_opaque),
        T(bad_keys_are_refused),
        T(copy_sources_raw_and_encoded),
        T(tokens_are_checked),
        T(xml_out_escapes),
        T(xml_in_builds_a_tree),
        T(xml_in_refuses),
        T(ranges),
        T(conditions_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
