/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies come from a fake of the HTTP layer that hands out `step` bytes at a time. */
#include "support.h"

#include "base/encode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct {
    struct slice left;
    size_t step;
} wire;

enum rc http_body_peek(struct http_req *req, size_t n, struct slice *ret)
{
    if (wire.left.n == 0)
        return RC_EOF;
    *ret = slice_first(wire.left, MIN(n, wire.step));
    return RC_OK;
}

void http_body_skip(struct http_req *req, size_t n)
{
    assert_true(n <= wire.left.n);
    wire.left = slice_from(wire.left, n);
}

enum rc http_body_read(struct http_req *req, void *p, size_t n, size_t *ret_n)
{
    struct slice s;
    enum rc rc = http_body_peek(req, n, &s);

    if (rc)
        return rc;
    memcpy(p, s.p, s.n);
    *ret_n = s.n;
    http_body_skip(req, s.n);
    return RC_OK;
}

static struct {
    char out[128 * 1024];
    size_t n;
    char name[64], value[128];
} got;

/* Reads the whole body. */
static enum rc pull(const struct auth_identity *id, const char *headers, struct slice body,
                    size_t step)
{
    struct auth_body b;
    struct fake_req f;
    struct slice name, value;
    enum rc rc;

    fake_req_init(&f, SLICE("PUT"), SLICE("/b/k"));
    fake_req_headers(&f, slice_str(headers));
    f.req.has_body = f.req.has_content_length = true;
    f.req.content_length = body.n;
    wire.left = body;
    wire.step = step;
    memset(&got, 0, sizeof got);
    note_clear();
    rc = auth_body_open(&b, &f.req, id);
    while (!rc) {
        size_t n = 0;

        assert_true(got.n < sizeof got.out);
        rc = auth_body_read(&b, got.out + got.n, MIN(sizeof got.out - got.n, 1000), &n);
        if (!rc)
            assert_true(n > 0);
        got.n += n;
    }
    if (rc == RC_EOF) {
        assert_int_equal(auth_body_read(&b, got.out, 1, &got.n), RC_EOF);
        if (auth_body_length(&b) != UINT64_MAX)
            assert_int_equal(auth_body_length(&b), got.n);
        auth_body_trailer(&b, &name, &value);
        snprintf(got.name, sizeof got.name, "%.*s", SLICE_ARG(name));
        snprintf(got.value, sizeof got.value, "%.*s", SLICE_ARG(value));
    }
    fake_req_fini(&f);
    return rc;
}

/* ---- AWS's example: 65 KiB of 'a' in chunks of 64 KiB, 1 KiB and none ------------------------ */

static void example_identity(struct auth_identity *id, enum auth_payload payload, const char *seed)
{
    static const char *const steps[] = { "20130524", "us-east-1", "s3", "aws4_request" };
    unsigned char mac[SHA256_SIZE];

    *id = (struct auth_identity){ .payload = payload, .check_chunks = true };
    hmac_key_init(&id->signing_key, SLICE("AWS4" TEST_SECRET_KEY));
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        hmac_sha256(&id->signing_key, steps[i], strlen(steps[i]), mac);
        hmac_key_init(&id->signing_key, slice_of(mac, sizeof mac));
    }
    assert_true(hex_decode(id->seed_signature, slice_str(seed)));
    snprintf(id->amz_date, sizeof id->amz_date, "20130524T000000Z");
    snprintf(id->scope, sizeof id->scope, "20130524/us-east-1/s3/aws4_request");
}

static char example[70000];

static struct slice build_example(const char *s1, const char *s2, const char *s3, const char *end)
{
    int n = snprintf(example, sizeof example, "10000;chunk-signature=%s\r\n", s1);

    memset(example + n, 'a', 65536);
    n += 65536;
    n += snprintf(example + n, sizeof example - (size_t)n, "\r\n400;chunk-signature=%s\r\n", s2);
    memset(example + n, 'a', 1024);
    n += 1024;
    n += snprintf(example + n, sizeof example - (size_t)n, "\r\n0;chunk-signature=%s\r\n%s", s3,
                  end);
    return slice_of(example, (size_t)n);
}

#define DECODED "x-amz-decoded-content-length: 66560\n"

static struct slice signed_example(struct auth_identity *id)
{
    example_identity(id, AUTH_PAYLOAD_STREAMING,
                     "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    return build_example("ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                         "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                         "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
                         "\r\n");
}

static struct slice trailer_example(struct auth_identity *id, const char *end)
{
    example_identity(id, AUTH_PAYLOAD_STREAMING_TRAILER,
                     "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
    return build_example("b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
                         "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
                         "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992", end);
}

#define TRAILER_SIGNATURE                                                                          \
    "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"

static void signed_chunks_of_the_example_verify(void **state)
{
    static const size_t steps[] = { 1, 7, 1000, 1 << 20 };
    struct auth_identity id;
    struct slice body = signed_example(&id);

    assert_int_equal(body.n, 66824); /* as AWS says */
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        assert_int_equal(pull(&id, DECODED, body, steps[i]), RC_EOF);
        assert_int_equal(got.n, 66560);
        for (size_t k = 0; k < got.n; k++)
            assert_int_equal(got.out[k], 'a');
        assert_string_equal(got.value, "");
    }
}

static void any_changed_byte_of_a_signed_body_is_refused(void **state)
{
    struct auth_identity id;
    struct slice body = signed_example(&id);

    for (size_t at = 0; at < body.n; at = at < 90 || at > 65600 ? at + 1 : at + 4999) {
        enum rc rc;

        example[at] ^= 1;
        rc = pull(&id, DECODED, body, 1 << 20);
        example[at] ^= 1;
        assert_true(rc != RC_OK && rc != RC_EOF);
    }
    id.check_chunks = false;
    example[100] ^= 1;
    assert_int_equal(pull(&id, DECODED, body, 1 << 20), RC_EOF);
}

static void every_cut_of_a_signed_body_is_incomplete(void **state)
{
    struct auth_identity id;
    struct slice body = signed_example(&id);

    for (size_t n = 0; n < body.n; n = n < 90 || n > 66500 ? n + 1 : n + 4999) {
        enum rc rc = pull(&id, DECODED, slice_first(body, n), 1 << 20);

        assert_int_equal(rc, RC_INVALID);
        assert_int_equal(note_error(rc), S3E_INCOMPLETE_BODY);
    }
}

static void the_signed_trailer_of_the_example_verifies(void **state)
{
    static const char headers[] = DECODED "x-amz-trailer: x-amz-checksum-crc32c\n";
    struct auth_identity id;
    struct slice body =
        trailer_example(&id, "x-amz-checksum-crc32c:sOO8/Q==\n\r\n" TRAILER_SIGNATURE "\r\n");

    assert_int_equal(pull(&id, headers, body, 1 << 20), RC_EOF);
    assert_string_equal(got.name, "x-amz-checksum-crc32c");
    assert_string_equal(got.value, "sOO8/Q==");
    assert_int_equal(pull(&id, headers, body, 1), RC_EOF);
    body = trailer_example(&id, "x-amz-checksum-crc32c:sOO8/Q==\r\n" TRAILER_SIGNATURE "\r\n");
    assert_int_equal(pull(&id, headers, body, 1 << 20), RC_EOF);
    body = trailer_example(&id, "x-amz-checksum-crc32c:tOO8/Q==\r\n" TRAILER_SIGNATURE "\r\n");
    assert_int_equal(pull(&id, headers, body, 1 << 20), RC_DENIED);
    assert_int_equal(note_error(RC_DENIED), S3E_SIGNATURE_DOES_NOT_MATCH);
    body = trailer_example(&id, "x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n");
    assert_int_equal(pull(&id, headers, body, 1 << 20), RC_INVALID);
    assert_int_equal(note_error(RC_INVALID), S3E_MALFORMED_TRAILER);
}

/* ---- unsigned, with a trailer ---------------------------------------------------------------- */

static void trailers_and_lengths_are_checked(void **state)
{
    static const char five[] =
        "x-amz-decoded-content-length: 5\nx-amz-trailer: x-amz-checksum-crc32\n";
    static const char bare[] = "x-amz-decoded-content-length: 5\n";
    static const struct {
        const char *headers, *body;
        enum s3_error want; /* S3E_NONE: "hello" */
    } cases[] = {
        { five, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", S3E_NONE },
        { five, "2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Amz-Checksum-Crc32: NhCmhg== \r\n\r\n", S3E_NONE },
        { five, "0005;ext=1\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n", S3E_NONE },
        { bare, "5\r\nhello\r\n0\r\n\r\n", S3E_NONE },
        { five, "5\r\nhello\r\n0\r\n\r\n", S3E_MALFORMED_TRAILER },
        { five, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:NhCmhg==\r\n\r\n",
          S3E_MALFORMED_TRAILER },
        { five, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32\r\n\r\n", S3E_MALFORMED_TRAILER },
        { five, "5\r\nhello\r\n0\r\n:NhCmhg==\r\n\r\n", S3E_MALFORMED_TRAILER },
        { five, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:\r\n\r\n", S3E_MALFORMED_TRAILER },
        { five,
          "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\nx-amz-checksum-crc32:NhCmhg=="
          "\r\n\r\n",
          S3E_MALFORMED_TRAILER },
        { bare, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", S3E_MALFORMED_TRAILER },
        { five, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n", S3E_INCOMPLETE_BODY },
        { five, "5\r\nhello\r\n0\r\n", S3E_INCOMPLETE_BODY },
        { five, "5\r\nhello\r\n", S3E_INCOMPLETE_BODY },
        { five, "", S3E_INCOMPLETE_BODY },
        { five, "4\r\nhell\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", S3E_INCOMPLETE_BODY },
        { five, "6\r\nhello!\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", S3E_INVALID_REQUEST },
        { five, "ffffffffffffffff\r\nhello", S3E_INVALID_REQUEST },
        { five, "10000000000000005\r\nhello", S3E_INVALID_REQUEST },
        { five, "x\r\nhello\r\n", S3E_INVALID_REQUEST },
        { five, "\r\nhello\r\n", S3E_INVALID_REQUEST },
        { five, "5\r\nhello0\r\n\r\n", S3E_INVALID_REQUEST },
        { bare, "5\r\nhello\r\n0\r\n\r\nmore", S3E_INVALID_REQUEST },
    };
    const struct auth_identity id = { .payload = AUTH_PAYLOAD_UNSIGNED_TRAILER };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step < 100; step += 33) {
            enum rc rc = pull(&id, cases[i].headers, slice_str(cases[i].body), step);
            enum s3_error e = rc == RC_EOF ? S3E_NONE : note_error(rc);

            if (e != cases[i].want)
                print_message("case %zu: %s\n", i, s3_error_info(e)->code);
            assert_int_equal(e, cases[i].want);
            if (rc == RC_EOF)
                assert_memory_equal(got.out, "hello", 5);
        }
    }
}

static void endless_lines_are_refused(void **state)
{
    const struct auth_identity id = { .payload = AUTH_PAYLOAD_UNSIGNED_TRAILER };
    static char long_line[5000];

    memset(long_line, '0', sizeof long_line);
    assert_int_equal(
        pull(&id, "x-amz-decoded-content-length: 5\n", slice_of(long_line, sizeof long_line), 100),
        RC_INVALID);
    assert_int_equal(note_error(RC_INVALID), S3E_INVALID_REQUEST);
}

static void bad_heads_are_refused_at_the_opening(void **state)
{
    static const struct {
        const char *headers;
        enum s3_error want;
    } cases[] = {
        { "", S3E_MISSING_CONTENT_LENGTH },
        { "x-amz-decoded-content-length: x\n", S3E_INVALID_ARGUMENT },
        { "x-amz-decoded-content-length: 5\nx-amz-trailer: x-amz-meta-a\n", S3E_INVALID_REQUEST },
        { "x-amz-decoded-content-length: 5\nx-amz-trailer: x-amz-checksum-crc32\n"
          "x-amz-checksum-sha1: x\n",
          S3E_INVALID_REQUEST },
    };
    const struct auth_identity id = { .payload = AUTH_PAYLOAD_UNSIGNED_TRAILER };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum rc rc = pull(&id, cases[i].headers, SLICE("5\r\n"), 100);

        assert_true(rc && rc != RC_EOF);
        assert_int_equal(note_error(rc), cases[i].want);
    }
}

/* ---- plain bodies ---------------------------------------------------------------------------- */

static void the_hash_of_a_plain_body_is_checked(void **state)
{
    struct auth_identity id = { .payload = AUTH_PAYLOAD_SIGNED };

    digest_once(DIGEST_SHA256, "hello", 5, id.body_sha256);
    assert_int_equal(pull(&id, "", SLICE("hello"), 2), RC_EOF);
    assert_memory_equal(got.out, "hello", 5);
    assert_int_equal(pull(&id, "", SLICE("hellO"), 2), RC_INVALID);
    assert_int_equal(note_error(RC_INVALID), S3E_X_AMZ_CONTENT_SHA256_MISMATCH);
    id.payload = AUTH_PAYLOAD_UNSIGNED;
    assert_int_equal(pull(&id, "", SLICE("hellO"), 2), RC_EOF);
}

static void a_put_needs_a_length(void **state)
{
    const struct auth_identity id = { .payload = AUTH_PAYLOAD_UNSIGNED };
    struct auth_body b;
    struct fake_req f;
    enum rc rc;

    fake_req_init(&f, SLICE("PUT"), SLICE("/b/k"));
    rc = auth_body_open(&b, &f.req, &id);
    assert_int_equal(rc, RC_INVALID);
    assert_int_equal(note_error(rc), S3E_MISSING_CONTENT_LENGTH);
    f.req.chunked = true;
    assert_int_equal(auth_body_open(&b, &f.req, &id), RC_OK);
    assert_true(auth_body_length(&b) == UINT64_MAX);
    fake_req_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signed_chunks_of_the_example_verify),
        cmocka_unit_test(any_changed_byte_of_a_signed_body_is_refused),
        cmocka_unit_test(every_cut_of_a_signed_body_is_incomplete),
        cmocka_unit_test(the_signed_trailer_of_the_example_verifies),
        cmocka_unit_test(trailers_and_lengths_are_checked),
        cmocka_unit_test(endless_lines_are_refused),
        cmocka_unit_test(bad_heads_are_refused_at_the_opening),
        cmocka_unit_test(the_hash_of_a_plain_body_is_checked),
        cmocka_unit_test(a_put_needs_a_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
