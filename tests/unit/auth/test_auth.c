/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "base/encode.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SCOPE "20130524/us-east-1/s3/aws4_request"
#define CREDENTIAL TEST_ACCESS_KEY "/" SCOPE
#define HOST "Host: examplebucket.s3.amazonaws.com\n"

static int64_t now_offset_s;

static int64_t now(void)
{
    return TEST_NOW_NS + now_offset_s * 1000000000;
}

static struct auth *new_auth(enum auth_mode mode)
{
    struct auth *a = NULL;

    now_offset_s = 0;
    assert_int_equal(auth_new(&(struct auth_config){ .mode = mode,
                                                     .region = SLICE("us-east-1"),
                                                     .check_region = true,
                                                     .skew_s = 900,
                                                     .now_ns = now },
                              &a),
                     RC_OK);
    assert_int_equal(auth_add_static(a, SLICE(TEST_ACCESS_KEY ":" TEST_SECRET_KEY ":alice:Alice")),
                     RC_OK);
    return a;
}

static enum rc ask(enum auth_mode mode, const char *method, const char *target, const char *headers,
                   struct auth_identity *id)
{
    struct auth *a = new_auth(mode);
    struct fake_req f;
    enum rc rc;

    fake_req_init(&f, slice_str(method), slice_str(target));
    fake_req_headers(&f, slice_str(headers));
    note_clear();
    rc = auth_request(a, &f.req, id);
    fake_req_fini(&f);
    auth_free(a);
    return rc;
}

static enum s3_error answer(enum auth_mode mode, const char *target, const char *headers)
{
    struct auth_identity id;
    enum rc rc = ask(mode, "GET", target, headers, &id);

    return rc ? note_error(rc) : S3E_NONE;
}

/* ---- AWS's published examples --------------------------------------------------------------- */

#define EXAMPLE_AUTH(signed_headers, signature)                                                    \
    "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL ",SignedHeaders=" signed_headers      \
    ",Signature=" signature "\n"

static void aws_examples_verify(void **state)
{
    static const struct {
        const char *method, *target, *headers;
        enum auth_payload payload;
    } cases[] = {
        { "GET", "/test.txt",
          HOST "Range: bytes=0-9\nx-amz-content-sha256:" EMPTY_SHA256 "\n"
               "x-amz-date: 20130524T000000Z\n" EXAMPLE_AUTH(
                   "host;range;x-amz-content-sha256;x-amz-date",
                   "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
          AUTH_PAYLOAD_SIGNED },
        { "PUT", "/test$file.text",
          HOST "Date: Fri, 24 May 2013 00:00:00 GMT\nx-amz-date: 20130524T000000Z\n"
               "x-amz-storage-class: REDUCED_REDUNDANCY\nx-amz-content-sha256: "
               "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072\n" EXAMPLE_AUTH(
                   "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                   "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
          AUTH_PAYLOAD_SIGNED },
        { "GET", "/?lifecycle",
          HOST
          "x-amz-date: 20130524T000000Z\nx-amz-content-sha256: " EMPTY_SHA256
          "\n" EXAMPLE_AUTH("host;x-amz-content-sha256;x-amz-date",
                            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
          AUTH_PAYLOAD_SIGNED },
        { "GET", "/?max-keys=2&prefix=J",
          HOST
          "x-amz-date: 20130524T000000Z\nx-amz-content-sha256: " EMPTY_SHA256
          "\n" EXAMPLE_AUTH("host;x-amz-content-sha256;x-amz-date",
                            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
          AUTH_PAYLOAD_SIGNED },
        { "GET",
          "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%"
          "2F20130524"
          "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
          "X-Amz-SignedHeaders=host&X-Amz-Signature="
          "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
          HOST, AUTH_PAYLOAD_UNSIGNED },
        { "PUT", "/examplebucket/chunkObject.txt",
          "Host: s3.amazonaws.com\nx-amz-date: 20130524T000000Z\n"
          "x-amz-storage-class: REDUCED_REDUNDANCY\nContent-Encoding: aws-chunked\n"
          "x-amz-decoded-content-length: 66560\nContent-Length: 66824\n"
          "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\n" EXAMPLE_AUTH(
              "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;"
              "x-amz-decoded-content-length;x-amz-storage-class",
              "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"),
          AUTH_PAYLOAD_STREAMING },
        { "PUT", "/examplebucket/chunkObject.txt",
          "Host: s3.amazonaws.com\nx-amz-date: 20130524T000000Z\n"
          "x-amz-storage-class: REDUCED_REDUNDANCY\nContent-Encoding: aws-chunked\n"
          "x-amz-decoded-content-length: 66560\nx-amz-trailer: x-amz-checksum-crc32c\n"
          "Content-Length: 66824\n"
          "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER\n" EXAMPLE_AUTH(
              "content-encoding;host;x-amz-content-sha256;x-amz-date;"
              "x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
              "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"),
          AUTH_PAYLOAD_STREAMING_TRAILER },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct auth_identity id;
        enum rc rc = ask(AUTH_REQUIRED, cases[i].method, cases[i].target, cases[i].headers, &id);

        if (rc)
            print_message("example %zu: %s: %s\n", i, s3_error_info(note_error(rc))->code,
                          note_text());
        assert_int_equal(rc, RC_OK);
        assert_int_equal(id.payload, cases[i].payload);
        assert_false(id.anonymous);
        assert_true(id.check_chunks);
        assert_string_equal(id.scope, SCOPE);
        assert_string_equal(id.amz_date, "20130524T000000Z");
    }
}

/* ---- requests signed by botocore ------------------------------------------------------------ */

static char *read_vectors(void)
{
    FILE *f = fopen(AUTH_VECTORS, "rb");
    char *text = calloc(1, (size_t)1 << 20);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, ((size_t)1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

static void check_vector(struct auth *a, struct slice text, unsigned nth)
{
    struct slice lines, target, method = slice_cut(slice_cut(text, '\n', &lines), ' ', &target);
    struct auth_identity id;
    struct fake_req f;
    enum rc rc;

    fake_req_init(&f, method, target);
    fake_req_headers(&f, lines);
    rc = auth_request(a, &f.req, &id);
    if (rc)
        print_message("vector %u: %s\n%.*s\n-- canonical:\n%.*s\n", nth, note_text(),
                      SLICE_ARG(text), SLICE_ARG(id.canonical_request));
    assert_int_equal(rc, RC_OK);
    assert_true(slice_eq(id.account.id, SLICE("alice")));
    f.req.method = slice_eq(method, SLICE("GET")) ? SLICE("PUT") : SLICE("GET");
    assert_int_equal(auth_request(a, &f.req, &id), RC_DENIED);
    assert_int_equal(note_error(RC_DENIED), S3E_SIGNATURE_DOES_NOT_MATCH);
    fake_req_fini(&f);
}

static void requests_of_botocore_verify(void **state)
{
    struct auth *a = new_auth(AUTH_REQUIRED);
    char *text = read_vectors();
    struct slice rest = slice_str(text);
    unsigned n = 0;

    while (rest.n) {
        size_t end = slice_find(rest, SLICE("\n\n"));

        assert_true(end != SIZE_MAX);
        check_vector(a, slice_first(rest, end), n++);
        rest = slice_from(rest, end + 2);
    }
    assert_int_equal(n, 200);
    free(text);
    auth_free(a);
}

/* ---- signing by ourselves, to vary what is signed ------------------------------------------- */

/* Asks once to learn the right signature from the details of the mismatch, then with it. */
static enum rc ask_signed(const char *target, const char *headers, const char *signed_headers,
                          struct auth_identity *id, char canonical[2048])
{
    char lines[4096], hex[65] = { 0 };
    struct auth *a = new_auth(AUTH_REQUIRED);
    unsigned char mac[SHA256_SIZE];
    struct fake_req f;
    struct hmac_key k;
    enum rc rc;

    for (int round = 0; round < 2; round++) {
        snprintf(lines, sizeof lines,
                 "%sAuthorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL
                 ", SignedHeaders=%s,Signature=%s",
                 headers, signed_headers, hex[0] ? hex : EMPTY_SHA256);
        fake_req_init(&f, SLICE("GET"), slice_str(target));
        fake_req_headers(&f, slice_str(lines));
        rc = auth_request(a, &f.req, id);
        if (!round && rc == RC_DENIED && id->string_to_sign.p) {
            static const char *const steps[] = { "20130524", "us-east-1", "s3", "aws4_request" };

            hmac_key_init(&k, SLICE("AWS4" TEST_SECRET_KEY));
            for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                hmac_sha256(&k, steps[i], strlen(steps[i]), mac);
                hmac_key_init(&k, slice_of(mac, sizeof mac));
            }
            hmac_sha256(&k, id->string_to_sign.p, id->string_to_sign.n, mac);
            hex_encode(hex, mac, sizeof mac);
            if (canonical)
                snprintf(canonical, 2048, "%.*s", SLICE_ARG(id->canonical_request));
        }
        fake_req_fini(&f);
    }
    auth_free(a);
    return rc;
}

#define BASE_HEADERS                                                                               \
    "Host: h\nx-amz-date: 20130524T000000Z\nx-amz-content-sha256: UNSIGNED-PAYLOAD\n"
#define BASE_SIGNED "host;x-amz-content-sha256;x-amz-date"

static void paths_and_queries_become_canonical(void **state)
{
    static const struct {
        const char *target, *want;
    } cases[] = {
        { "/b/+@=:&$,;~'()!*", "/b/%2B%40%3D%3A%26%24%2C%3B~%27%28%29%21%2A\n\n" },
        { "/b/%2B%40%3d%3A%26%24%2c%3B%7E%27%28%29%21%2A",
          "/b/%2B%40%3D%3A%26%24%2C%3B~%27%28%29%21%2A\n\n" },
        { "/b/a%20b", "/b/a%20b\n\n" },
        { "/b/a%252Fb", "/b/a%252Fb\n\n" },
        { "/b/a%2Fb", "/b/a/b\n\n" },
        { "/b//a/../b/./", "/b//a/../b/./\n\n" },
        { "/b/\xc3\xa9", "/b/%C3%A9\n\n" },
        { "/b/%C3%A9", "/b/%C3%A9\n\n" },
        { "/b?uploads", "/b\nuploads=\n" },
        { "/b?b=2&a=1&a=0&a-b=3&a", "/b\na=&a=0&a=1&a-b=3&b=2\n" },
        { "/b?prefix=a%2fb+c=d&&", "/b\nprefix=a%2Fb%20c%3Dd\n" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char canonical[2048], want[2048];
        struct auth_identity id;

        assert_int_equal(ask_signed(cases[i].target, BASE_HEADERS, BASE_SIGNED, &id, canonical),
                         RC_OK);
        snprintf(want, sizeof want,
                 "GET\n%shost:h\nx-amz-content-sha256:UNSIGNED-PAYLOAD\n"
                 "x-amz-date:20130524T000000Z\n\n" BASE_SIGNED "\nUNSIGNED-PAYLOAD",
                 cases[i].want);
        assert_string_equal(canonical, want);
    }
}

static void header_values_become_canonical(void **state)
{
    char canonical[2048];
    struct auth_identity id;

    assert_int_equal(
        ask_signed("/", BASE_HEADERS "X-Amz-Meta-A:  two   words \nx-amz-meta-a:b\nx-amz-meta-a:\n",
                   BASE_SIGNED ";x-amz-meta-a;x-gone", &id, canonical),
        RC_OK);
    assert_non_null(strstr(canonical, "\nx-amz-meta-a:two words,b,\nx-gone:\n\n"));
}

static void unsigned_amz_headers_are_refused_and_named(void **state)
{
    struct auth_identity id;

    assert_int_equal(
        ask_signed("/", BASE_HEADERS "X-Amz-Acl: public-read\n", BASE_SIGNED, &id, NULL),
        RC_DENIED);
    assert_int_equal(note_error(RC_DENIED), S3E_ACCESS_DENIED);
    assert_string_equal(note_text(),
                        "There were headers present in the request which were not signed");
    assert_int_equal(ask_signed("/", BASE_HEADERS, "x-amz-content-sha256;x-amz-date", &id, NULL),
                     RC_DENIED);
    assert_int_equal(note_error(RC_DENIED), S3E_ACCESS_DENIED);
    assert_int_equal(ask_signed("/", BASE_HEADERS "Content-Type: a\n", BASE_SIGNED, &id, NULL),
                     RC_OK);
}

static void the_date_header_serves_when_there_is_no_amz_date(void **state)
{
    struct auth_identity id;

    assert_int_equal(ask_signed("/",
                                "Host: h\nDate: Fri, 24 May 2013 00:01:00 GMT\n"
                                "x-amz-content-sha256: UNSIGNED-PAYLOAD\n",
                                "host;x-amz-content-sha256", &id, NULL),
                     RC_OK);
    assert_string_equal(id.amz_date, "20130524T000100Z");
}

/* ---- refusals ------------------------------------------------------------------------------- */

#define HEADER(credential, signed_headers)                                                         \
    BASE_HEADERS "Authorization: AWS4-HMAC-SHA256 Credential=" credential                          \
                 ", SignedHeaders=" signed_headers ", Signature=" EMPTY_SHA256

static void bad_headers_get_their_errors(void **state)
{
    static const struct {
        const char *headers;
        enum s3_error want;
    } cases[] = {
        { "Host: h\n", S3E_ACCESS_DENIED },
        { "Host: h\nAuthorization:\n", S3E_ACCESS_DENIED },
        { "Host: h\nAuthorization: AWS AKIA:c2ln\n", S3E_INVALID_REQUEST },
        { "Host: h\nAuthorization: AWS HAHAHA\n", S3E_INVALID_ARGUMENT },
        { "Host: h\nAuthorization: Bearer x\n", S3E_INVALID_ARGUMENT },
        { BASE_HEADERS "Authorization: AWS4-HMAC-SHA256", S3E_AUTHORIZATION_HEADER_MALFORMED },
        { BASE_HEADERS "Authorization: AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host",
          S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER("nonsense", BASE_SIGNED), S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER("A/20130524/eu-west-1/s3/aws4_request", BASE_SIGNED),
          S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER("A/20130524/us-east-1/ec2/aws4_request", BASE_SIGNED),
          S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER("A/20130524/us-east-1/s3/aws5_request", BASE_SIGNED),
          S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER("A/20130525/us-east-1/s3/aws4_request", BASE_SIGNED),
          S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER(CREDENTIAL, "host;;x"), S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER(CREDENTIAL, BASE_SIGNED ";host"), S3E_AUTHORIZATION_HEADER_MALFORMED },
        { HEADER("UNKNOWN/" SCOPE, BASE_SIGNED), S3E_INVALID_ACCESS_KEY_ID },
        { HEADER(CREDENTIAL, BASE_SIGNED), S3E_SIGNATURE_DOES_NOT_MATCH },
        { HEADER(CREDENTIAL, BASE_SIGNED) "\nx-amz-security-token: t\n", S3E_INVALID_TOKEN },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum s3_error got = answer(AUTH_REQUIRED, "/b/k", cases[i].headers);

        if (got != cases[i].want)
            print_message("case %zu: %s\n", i, s3_error_info(got)->code);
        assert_int_equal(got, cases[i].want);
    }
}

#define AUTHORIZATION                                                                              \
    "Authorization: AWS4-HMAC-SHA256 Credential=" CREDENTIAL ", SignedHeaders=" BASE_SIGNED        \
    ", Signature=" EMPTY_SHA256

static void dates_and_payload_headers_are_checked(void **state)
{
    static const struct {
        const char *headers;
        enum s3_error want;
    } cases[] = {
        { "x-amz-content-sha256: UNSIGNED-PAYLOAD\n" AUTHORIZATION, S3E_ACCESS_DENIED },
        { "x-amz-date: yesterday\nx-amz-content-sha256: UNSIGNED-PAYLOAD\n" AUTHORIZATION,
          S3E_ACCESS_DENIED },
        { "x-amz-date: 20130524T000000Z\n" AUTHORIZATION, S3E_INVALID_REQUEST },
        { "x-amz-date: 20130524T000000Z\nx-amz-content-sha256: abc\n" AUTHORIZATION,
          S3E_INVALID_ARGUMENT },
        { "x-amz-date: 20130524T000000Z\nx-amz-content-sha256: "
          "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD\n" AUTHORIZATION,
          S3E_NOT_IMPLEMENTED },
        { "x-amz-date: 20130524T001501Z\nx-amz-content-sha256: UNSIGNED-PAYLOAD\n" AUTHORIZATION,
          S3E_REQUEST_TIME_TOO_SKEWED },
        { "x-amz-date: 20130523T234459Z\nx-amz-content-sha256: UNSIGNED-PAYLOAD\n" AUTHORIZATION,
          S3E_REQUEST_TIME_TOO_SKEWED },
        { "x-amz-date: 20130524T001500Z\nx-amz-content-sha256: UNSIGNED-PAYLOAD\n"
          "Host: h\n" AUTHORIZATION,
          S3E_SIGNATURE_DOES_NOT_MATCH },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(answer(AUTH_REQUIRED, "/b/k", cases[i].headers), cases[i].want);
}

static void the_wrong_region_is_told(void **state)
{
    answer(AUTH_REQUIRED, "/", HEADER("A/20130524/eu-west-1/s3/aws4_request", BASE_SIGNED));
    assert_string_equal(note_text(), "The authorization header is malformed; the region "
                                     "'eu-west-1' is wrong; expecting 'us-east-1'");
}

#define PRESIGNED(algorithm, credential, date, expires)                                            \
    "/test.txt?X-Amz-Algorithm=" algorithm "&X-Amz-Credential=" credential "&X-Amz-Date=" date     \
    "&X-Amz-Expires=" expires "&X-Amz-SignedHeaders=host&X-Amz-Signature="                         \
    "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
#define GOOD_CREDENTIAL "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
#define GOOD_URL PRESIGNED("AWS4-HMAC-SHA256", GOOD_CREDENTIAL, "20130524T000000Z", "86400")

static void bad_presigned_urls_get_their_errors(void **state)
{
    static const struct {
        const char *target, *headers;
        enum s3_error want;
    } cases[] = {
        { GOOD_URL, HOST, S3E_NONE },
        { GOOD_URL, HOST "Content-Type: text/plain\n", S3E_NONE },
        { GOOD_URL, HOST "x-amz-acl: public-read\n", S3E_ACCESS_DENIED },
        { GOOD_URL, HOST "Authorization: AWS4-HMAC-SHA256 x\n", S3E_INVALID_ARGUMENT },
        { GOOD_URL "&X-Amz-Security-Token=t", HOST, S3E_INVALID_TOKEN },
        { GOOD_URL "&versionId=1", HOST, S3E_SIGNATURE_DOES_NOT_MATCH },
        { GOOD_URL "&a=%zz", HOST, S3E_INVALID_URI },
        { PRESIGNED("AWS4-X", GOOD_CREDENTIAL, "20130524T000000Z", "86400"), HOST,
          S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { PRESIGNED("AWS4-HMAC-SHA256", "AKIA", "20130524T000000Z", "86400"), HOST,
          S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { PRESIGNED("AWS4-HMAC-SHA256", GOOD_CREDENTIAL, "2013-05-24", "86400"), HOST,
          S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { PRESIGNED("AWS4-HMAC-SHA256", GOOD_CREDENTIAL, "20130524T000000Z", "604801"), HOST,
          S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { PRESIGNED("AWS4-HMAC-SHA256", GOOD_CREDENTIAL, "20130524T000000Z", "-1"), HOST,
          S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { PRESIGNED("AWS4-HMAC-SHA256", GOOD_CREDENTIAL, "20130524T000000Z", "x"), HOST,
          S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { PRESIGNED("AWS4-HMAC-SHA256", GOOD_CREDENTIAL, "20130524T000000Z", "0"), HOST,
          S3E_ACCESS_DENIED },
        { "/?X-Amz-Algorithm=AWS4-HMAC-SHA256", HOST, S3E_AUTHORIZATION_QUERY_PARAMETERS },
        { "/?AWSAccessKeyId=a&Signature=b&Expires=1", HOST, S3E_INVALID_REQUEST },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum s3_error got = answer(AUTH_REQUIRED, cases[i].target, cases[i].headers);

        if (got != cases[i].want)
            print_message("case %zu: %s\n", i, s3_error_info(got)->code);
        assert_int_equal(got, cases[i].want);
    }
}

static enum s3_error presigned_at(int64_t offset_s)
{
    struct auth *a = new_auth(AUTH_REQUIRED);
    struct auth_identity id;
    struct fake_req f;
    enum rc rc;

    now_offset_s = offset_s;
    fake_req_init(&f, SLICE("GET"), SLICE(GOOD_URL));
    fake_req_headers(&f, SLICE(HOST));
    rc = auth_request(a, &f.req, &id);
    fake_req_fini(&f);
    auth_free(a);
    return rc ? note_error(rc) : S3E_NONE;
}

static void presigned_urls_have_a_time(void **state)
{
    assert_int_equal(presigned_at(86399), S3E_NONE);
    assert_int_equal(presigned_at(86400), S3E_ACCESS_DENIED);
    assert_string_equal(note_text(), "Request has expired");
    assert_int_equal(presigned_at(-900), S3E_NONE);
    assert_int_equal(presigned_at(-901), S3E_ACCESS_DENIED);
    assert_string_equal(note_text(), "Request is not valid yet");
}

static void modes_decide_on_anonymous_and_wrong_requests(void **state)
{
    struct auth_identity id;

    assert_int_equal(ask(AUTH_OPTIONAL, "GET", "/", "Host: h\n", &id), RC_OK);
    assert_true(id.anonymous);
    assert_int_equal(id.account.id.n, 0);
    assert_int_equal(answer(AUTH_OPTIONAL, "/", HEADER(CREDENTIAL, BASE_SIGNED)),
                     S3E_SIGNATURE_DOES_NOT_MATCH);
    assert_int_equal(ask(AUTH_OFF, "GET", "/", HEADER(CREDENTIAL, BASE_SIGNED), &id), RC_OK);
    assert_false(id.anonymous);
    assert_false(id.check_chunks);
    assert_true(slice_eq(id.account.id, SLICE("root")));
    assert_int_equal(ask(AUTH_OFF, "GET", "/", "Host: h\n", &id), RC_OK);
    assert_true(slice_eq(id.account.id, SLICE("root")));
}

/* ---- credentials ---------------------------------------------------------------------------- */

static void static_credentials_are_parsed(void **state)
{
    static const struct auth_account account = { SLICE_INIT("o"), SLICE_INIT("d"), SLICE_INIT("") };
    struct auth *a = new_auth(AUTH_REQUIRED);

    assert_int_equal(auth_add_static(a, SLICE("k1:s1, k2:s2:owner:Name:a@b.c,")), RC_OK);
    assert_int_equal(auth_add_static(a, SLICE("k3:s3,k1:other")), RC_EXISTS);
    assert_null(strstr(note_text(), "other"));
    assert_int_equal(auth_add_static(a, SLICE("k4")), RC_INVALID);
    assert_int_equal(auth_add_static(a, SLICE(":secret")), RC_INVALID);
    assert_null(strstr(note_text(), "secret\""));
    assert_int_equal(auth_add_credential(a, SLICE("k5"), SLICE(""), &account), RC_INVALID);
    auth_free(a);
}

static void *add_many(void *arg)
{
    static const struct auth_account account = { SLICE_INIT("o"), SLICE_INIT("d"), SLICE_INIT("") };

    for (int i = 0; i < 3000; i++) {
        char key[32];

        snprintf(key, sizeof key, "key%d", i);
        if (auth_add_credential(arg, slice_str(key), SLICE("s"), &account))
            return arg;
    }
    return NULL;
}

static void credentials_are_found_while_others_are_added(void **state)
{
    struct auth *a = new_auth(AUTH_REQUIRED);
    void *failed = NULL;
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, add_many, a), 0);
    for (int i = 0; i < 500; i++) {
        struct auth_identity id;
        struct fake_req f;

        fake_req_init(&f, SLICE("GET"), SLICE(GOOD_URL));
        fake_req_headers(&f, SLICE(HOST));
        assert_int_equal(auth_request(a, &f.req, &id), RC_OK);
        assert_true(slice_eq(id.account.display, SLICE("Alice")));
        fake_req_fini(&f);
    }
    pthread_join(t, &failed);
    assert_null(failed);
    auth_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aws_examples_verify),
        cmocka_unit_test(requests_of_botocore_verify),
        cmocka_unit_test(paths_and_queries_become_canonical),
        cmocka_unit_test(header_values_become_canonical),
        cmocka_unit_test(unsigned_amz_headers_are_refused_and_named),
        cmocka_unit_test(the_date_header_serves_when_there_is_no_amz_date),
        cmocka_unit_test(bad_headers_get_their_errors),
        cmocka_unit_test(dates_and_payload_headers_are_checked),
        cmocka_unit_test(the_wrong_region_is_told),
        cmocka_unit_test(bad_presigned_urls_get_their_errors),
        cmocka_unit_test(presigned_urls_have_a_time),
        cmocka_unit_test(modes_decide_on_anonymous_and_wrong_requests),
        cmocka_unit_test(static_credentials_are_parsed),
        cmocka_unit_test(credentials_are_found_while_others_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
