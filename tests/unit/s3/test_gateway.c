/* SPDX-License-Identifier: Apache-2.0 */
/* The main flows, by raw HTTP against a whole gateway on memory stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/encode.h"
#include "gateway_rig.h"

#include <stdio.h>

static struct rig rig;

static const struct answer *ask(const char *line, const char *headers, const char *body)
{
    return rig_ask(&rig, line, headers, body, body ? strlen(body) : 0);
}

static void expect(const char *line, const char *headers, const char *body, int status)
{
    const struct answer *a = ask(line, headers, body);

    if (a->status != status)
        print_error("%s: %d instead of %d\n%s%s\n", line, a->status, status, a->head ? a->head : "",
                    a->body ? a->body : "");
    assert_int_equal(a->status, status);
}

static void expect_code(const char *line, const char *headers, const char *body, int status,
                        const char *code)
{
    char element[128];
    const struct answer *a = ask(line, headers, body);

    snprintf(element, sizeof element, "<Code>%s</Code>", code);
    if (a->status != status || rig_count(a, element) != 1)
        print_error("%s: not %d %s\n%s%s\n", line, status, code, a->head ? a->head : "",
                    a->body ? a->body : "");
    assert_int_equal(a->status, status);
    assert_int_equal(rig_count(a, element), 1);
    assert_string_equal(rig_header(a, "content-type"), "application/xml");
    assert_int_equal(strlen(rig_header(a, "x-amz-request-id")), 16);
    assert_int_equal(rig_count(a, "<RequestId>"), 1);
    assert_int_equal(rig_count(a, "<HostId>"), 1);
}

/* ---- buckets -------------------------------------------------------------------------------- */

static void buckets_live_and_die(void **state)
{
    const struct answer *a;

    expect("PUT /bucket-1", "", "", 200);
    assert_string_equal(rig_header(ask("PUT /bucket-1", "", ""), "location"), "/bucket-1");
    expect("PUT /bucket-2", "",
           "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
           "<LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>",
           200);
    expect_code("PUT /bucket-3", "", "<CreateBucketConfiguration>", 400, "MalformedXML");
    expect_code("PUT /bucket-3", "",
                "<CreateBucketConfiguration><LocationConstraint>mars-1</LocationConstraint>"
                "</CreateBucketConfiguration>",
                400, "InvalidLocationConstraint");
    expect_code("PUT /Bad_Name", "", "", 400, "InvalidBucketName");
    a = ask("HEAD /bucket-1", "", NULL);
    assert_int_equal(a->status, 200);
    assert_string_equal(rig_header(a, "x-amz-bucket-region"), "us-east-1");
    expect("HEAD /nobody", "", NULL, 404);
    expect_code("GET /nobody", "", NULL, 404, "NoSuchBucket");
    a = ask("GET /", "", NULL);
    assert_int_equal(a->status, 200);
    assert_int_equal(rig_count(a, "<Name>bucket-1</Name>"), 1);
    assert_int_equal(rig_count(a, "<Name>bucket-2</Name>"), 1);
    a = ask("GET /?max-buckets=1&prefix=bucket-", "", NULL);
    assert_int_equal(rig_count(a, "<Bucket>"), 1);
    assert_int_equal(rig_count(a, "<ContinuationToken>"), 1);
    a = ask("GET /bucket-1?location", "", NULL);
    assert_int_equal(a->status, 200);
    assert_int_equal(rig_count(a, "<LocationConstraint"), 1);
    expect("PUT /bucket-1/k", "", "x", 200);
    expect_code("DELETE /bucket-1", "", NULL, 409, "BucketNotEmpty");
    expect("DELETE /bucket-1/k", "", NULL, 204);
    expect("DELETE /bucket-1", "", NULL, 204);
    expect_code("DELETE /bucket-1", "", NULL, 404, "NoSuchBucket");
    expect("DELETE /bucket-2", "", NULL, 204);
}

static void sub_resources_never_fall_through(void **state)
{
    expect("PUT /subs", "", "", 200);
    expect("GET /subs?versioning", "", NULL, 200);
    assert_int_equal(rig_count(ask("GET /subs?versioning", "", NULL), "<VersioningConfiguration"),
                     1);
    assert_int_equal(rig_count(ask("GET /subs?acl", "", NULL), "FULL_CONTROL"), 1);
    expect_code("GET /subs?cors", "", NULL, 404, "NoSuchCORSConfiguration");
    expect_code("GET /subs?policy", "", NULL, 404, "NoSuchBucketPolicy");
    expect_code("GET /subs?lifecycle", "", NULL, 404, "NoSuchLifecycleConfiguration");
    expect_code("GET /subs?tagging", "", NULL, 404, "NoSuchTagSet");
    expect_code("GET /subs?uploads", "", NULL, 501, "NotImplemented");
    expect_code("GET /subs?frobnicate", "", NULL, 501, "NotImplemented");
    expect_code("PUT /subs?versioning", "", "<x/>", 501, "NotImplemented");
    expect_code("POST /subs/k?uploads", "", "", 501, "NotImplemented");
    expect_code("DELETE /subs?acl", "", NULL, 405, "MethodNotAllowed");
    expect_code("OPTIONS /subs/k", "Origin: http://x\r\nAccess-Control-Request-Method: PUT\r\n",
                NULL, 403, "AccessForbidden");
    expect_code("PATCH /subs/k", "", NULL, 405, "MethodNotAllowed");
    expect("DELETE /subs", "", NULL, 204);
}

/* ---- objects -------------------------------------------------------------------------------- */

static void objects_keep_what_they_were_given(void **state)
{
    const struct answer *a;

    expect("PUT /objs", "", "", 200);
    a = ask("PUT /objs/dir//k%20%C3%A9",
            "Content-Type: text/x\r\nCache-Control: max-age=5\r\n"
            "Content-Encoding: gzip,aws-chunked\r\nContent-Disposition: attachment\r\n"
            "Content-Language: de\r\nExpires: Thu, 01 Dec 2033 16:00:00 GMT\r\n"
            "X-Amz-Meta-Foo: Bar\r\nx-amz-meta-u: \xc3\xa9\r\nx-amz-meta-empty:\r\n",
            "hello world");
    assert_int_equal(a->status, 200);
    assert_string_equal(rig_header(a, "etag"), "\"5eb63bbbe01eeed093cb22bb8f5acdc3\"");
    a = ask("GET /objs/dir//k%20%C3%A9", "", NULL);
    assert_int_equal(a->status, 200);
    assert_string_equal(a->body, "hello world");
    assert_string_equal(rig_header(a, "content-type"), "text/x");
    assert_string_equal(rig_header(a, "cache-control"), "max-age=5");
    assert_string_equal(rig_header(a, "content-encoding"), "gzip");
    assert_string_equal(rig_header(a, "content-disposition"), "attachment");
    assert_string_equal(rig_header(a, "content-language"), "de");
    assert_string_equal(rig_header(a, "expires"), "Thu, 01 Dec 2033 16:00:00 GMT");
    assert_string_equal(rig_header(a, "x-amz-meta-foo"), "Bar");
    assert_string_equal(rig_header(a, "x-amz-meta-u"), "\xc3\xa9");
    assert_string_equal(rig_header(a, "accept-ranges"), "bytes");
    assert_string_equal(rig_header(a, "etag"), "\"5eb63bbbe01eeed093cb22bb8f5acdc3\"");
    a = ask("HEAD /objs/dir//k%20%C3%A9", "", NULL);
    assert_int_equal(a->status, 200);
    assert_string_equal(rig_header(a, "content-length"), "11");
    assert_int_equal(a->body_n, 0);
    a = ask("GET /objs/dir//k%20%C3%A9?response-content-type=a/b&response-cache-control=no", "",
            NULL);
    assert_string_equal(rig_header(a, "content-type"), "a/b");
    assert_string_equal(rig_header(a, "cache-control"), "no");
    expect("PUT /objs/plain", "Content-Encoding: aws-chunked\r\n", "", 200);
    a = ask("GET /objs/plain", "", NULL);
    assert_string_equal(rig_header(a, "content-encoding"), "");
    assert_string_equal(rig_header(a, "content-type"), "binary/octet-stream");
    assert_int_equal(a->body_n, 0);
    expect_code("GET /objs/missing", "", NULL, 404, "NoSuchKey");
    expect("HEAD /objs/missing", "", NULL, 404);
    expect("DELETE /objs/missing", "", NULL, 204);
    expect("DELETE /objs/plain", "", NULL, 204);
    expect("DELETE /objs/dir//k%20%C3%A9", "", NULL, 204);
    expect("DELETE /objs", "", NULL, 204);
}

static void bad_puts_leave_nothing(void **state)
{
    char big[2200];

    expect("PUT /bad", "", "", 200);
    expect_code("PUT /bad/k", "Content-MD5: \r\n", "x", 400, "InvalidDigest");
    expect_code("PUT /bad/k", "Content-MD5: YWJj\r\n", "x", 400, "InvalidDigest");
    expect_code("PUT /bad/k", "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n", "x", 400, "BadDigest");
    expect_code("PUT /bad/k", "x-amz-checksum-crc32: AAAAAA==\r\n", "x", 400, "BadDigest");
    expect_code("PUT /bad/k", "x-amz-checksum-crc32: AAAA\r\n", "x", 400, "InvalidRequest");
    expect_code("PUT /bad/k",
                "x-amz-checksum-crc32: AAAAAA==\r\nx-amz-checksum-crc32c: AAAAAA==\r\n", "x", 400,
                "InvalidRequest");
    expect_code("PUT /bad/k", "x-amz-sdk-checksum-algorithm: CRC32\r\n", "x", 400,
                "InvalidRequest");
    expect_code("PUT /bad/k", "x-amz-storage-class: CHEAP\r\n", "x", 400, "InvalidStorageClass");
    expect_code("PUT /bad/k", "x-amz-server-side-encryption: AES256\r\n", "x", 501,
                "NotImplemented");
    expect_code("PUT /bad/k", "x-amz-tagging: a=b\r\n", "x", 501, "NotImplemented");
    expect_code("PUT /bad/k", "x-amz-acl: public-read\r\n", "x", 501, "NotImplemented");
    expect_code("PUT /bad/k", "x-amz-acl: nonsense\r\n", "x", 400, "InvalidArgument");
    expect_code("PUT /bad/%ff", "", "x", 400, "InvalidURI");
    expect_code("PUT /bad/k", "", NULL, 411, "MissingContentLength");
    memset(big, 'v', sizeof big);
    memcpy(big, "x-amz-meta-a: ", 14);
    memcpy(big + sizeof big - 3, "\r\n", 3);
    expect_code("PUT /bad/k", big, "x", 400, "MetadataTooLarge");
    expect("PUT /bad/k", "x-amz-acl: private\r\nx-amz-storage-class: STANDARD_IA\r\n", "x", 200);
    assert_string_equal(rig_header(ask("HEAD /bad/k", "", NULL), "x-amz-storage-class"),
                        "STANDARD_IA");
    expect("DELETE /bad/k", "", NULL, 204);
    expect("DELETE /bad", "", NULL, 204);
}

static void short_bodies_are_refused(void **state)
{
    static const char cut[] = "PUT /short/k HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc";
    const struct answer *a;

    expect("PUT /short", "", "", 200);
    a = rig_raw(&rig, cut, sizeof cut - 1); /* stays open: the client stalls */
    assert_int_equal(a->status, 400);
    assert_int_equal(rig_count(a, "<Code>RequestTimeout</Code>"), 1);
    expect("HEAD /short/k", "", NULL, 404);
    expect("DELETE /short", "", NULL, 204);
}

static void heads_that_cannot_be_parsed(void **state)
{
    static const char bad[] = "GET / HTTP/1.1\r\nHost: h\r\nBad Header : x\r\n\r\n";
    const struct answer *a = rig_raw(&rig, bad, sizeof bad - 1);

    assert_int_equal(a->status, 400);
    assert_int_equal(rig_count(a, "<Code>BadRequest</Code>"), 1);
}

static void checksums_are_kept_and_told(void **state)
{
    const struct answer *a;

    expect("PUT /sums", "", "", 200);
    a = ask("PUT /sums/k",
            "x-amz-checksum-sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=\r\n"
            "x-amz-sdk-checksum-algorithm: SHA256\r\n",
            "hello");
    assert_int_equal(a->status, 200);
    assert_string_equal(rig_header(a, "x-amz-checksum-sha256"),
                        "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=");
    assert_string_equal(rig_header(a, "x-amz-checksum-type"), "FULL_OBJECT");
    a = ask("GET /sums/k", "x-amz-checksum-mode: ENABLED\r\n", NULL);
    assert_string_equal(rig_header(a, "x-amz-checksum-sha256"),
                        "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=");
    a = ask("GET /sums/k", "", NULL);
    assert_string_equal(rig_header(a, "x-amz-checksum-sha256"), "");
    a = ask("GET /sums/k", "x-amz-checksum-mode: ENABLED\r\nRange: bytes=0-1\r\n", NULL);
    assert_int_equal(a->status, 206);
    assert_string_equal(rig_header(a, "x-amz-checksum-sha256"), "");
    a = ask("PUT /sums/c", "x-amz-copy-source: sums/k\r\nx-amz-checksum-algorithm: CRC32\r\n", "");
    assert_int_equal(a->status, 200);
    assert_int_equal(rig_count(a, "<ChecksumCRC32>NhCmhg==</ChecksumCRC32>"), 1);
    expect("DELETE /sums/k", "", NULL, 204);
    expect("DELETE /sums/c", "", NULL, 204);
    expect("DELETE /sums", "", NULL, 204);
}

static void ranges_and_conditions(void **state)
{
    const struct answer *a;

    expect("PUT /rng", "", "", 200);
    expect("PUT /rng/k", "", "0123456789", 200);
    expect("PUT /rng/empty", "", "", 200);
    a = ask("GET /rng/k", "Range: bytes=2-4\r\n", NULL);
    assert_int_equal(a->status, 206);
    assert_string_equal(a->body, "234");
    assert_string_equal(rig_header(a, "content-range"), "bytes 2-4/10");
    a = ask("GET /rng/k", "Range: bytes=-3\r\n", NULL);
    assert_string_equal(a->body, "789");
    a = ask("GET /rng/k", "Range: bytes=5-1\r\n", NULL);
    assert_int_equal(a->status, 200);
    expect_code("GET /rng/k", "Range: bytes=10-\r\n", NULL, 416, "InvalidRange");
    a = ask("GET /rng/k", "Range: bytes=10-\r\n", NULL);
    assert_string_equal(rig_header(a, "content-range"), "bytes */10");
    assert_int_equal(rig_count(a, "<ActualObjectSize>10</ActualObjectSize>"), 1);
    expect_code("GET /rng/empty", "Range: bytes=0-\r\n", NULL, 416, "InvalidRange");
    expect("GET /rng/k?partNumber=1", "", NULL, 200);
    expect_code("GET /rng/k?partNumber=2", "", NULL, 400, "InvalidPart");
    a = ask("GET /rng/k", "If-None-Match: \"781e5e245d69b566979b86e28d23f2c7\"\r\n", NULL);
    assert_int_equal(a->status, 304);
    assert_string_equal(rig_header(a, "etag"), "\"781e5e245d69b566979b86e28d23f2c7\"");
    assert_int_equal(a->body_n, 0);
    expect_code("GET /rng/k", "If-Match: \"x\"\r\n", NULL, 412, "PreconditionFailed");
    assert_int_equal(rig_count(ask("GET /rng/k", "If-Match: \"x\"\r\n", NULL),
                               "<Condition>If-Match</Condition>"),
                     1);
    expect_code("PUT /rng/k", "If-None-Match: *\r\n", "y", 412, "PreconditionFailed");
    expect("PUT /rng/k", "If-Match: 781e5e245d69b566979b86e28d23f2c7\r\n", "y", 200);
    expect_code("PUT /rng/none", "If-Match: *\r\n", "y", 404, "NoSuchKey");
    expect_code("DELETE /rng/k", "If-Match: \"x\"\r\n", NULL, 412, "PreconditionFailed");
    expect_code("DELETE /rng/k", "x-amz-if-match-size: 7\r\n", NULL, 412, "PreconditionFailed");
    expect("DELETE /rng/k", "If-Match: *\r\nx-amz-if-match-size: 1\r\n", NULL, 204);
    expect_code("GET /rng/empty?versionId=x", "", NULL, 400, "InvalidArgument");
    expect("DELETE /rng/empty?versionId=null", "", NULL, 204);
    expect("DELETE /rng", "", NULL, 204);
}

static void big_objects_stream(void **state)
{
    size_t n = ((size_t)9 << 20) + 12345;
    char *data = malloc(n), range[64];
    unsigned char md5[MD5_SIZE];
    char hex[2 * MD5_SIZE + 3] = "\"";
    const struct answer *a;

    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    digest_once(DIGEST_MD5, data, n, md5);
    hex_encode(hex + 1, md5, MD5_SIZE);
    hex[33] = '"';
    hex[34] = 0;
    expect("PUT /large", "", "", 200);
    a = rig_ask(&rig, "PUT /large/k", "", data, n);
    assert_int_equal(a->status, 200);
    assert_string_equal(rig_header(a, "etag"), hex);
    expect("PUT /large/copy", "x-amz-copy-source: /large/k\r\n", "", 200);
    a = ask("GET /large/copy", "", NULL);
    assert_int_equal(a->status, 200);
    assert_int_equal(a->body_n, n);
    assert_memory_equal(a->body, data, n);
    snprintf(range, sizeof range, "Range: bytes=%u-%u\r\n", (4u << 20) - 5, (4u << 20) + 5);
    a = ask("GET /large/k", range, NULL);
    assert_int_equal(a->status, 206);
    assert_int_equal(a->body_n, 11);
    assert_memory_equal(a->body, data + (4u << 20) - 5, 11);
    a = ask("HEAD /large/k", "", NULL);
    assert_int_equal(strtoull(rig_header(a, "content-length"), NULL, 10), n);
    expect("DELETE /large/k", "", NULL, 204);
    expect("DELETE /large/copy", "", NULL, 204);
    expect("DELETE /large", "", NULL, 204);
    free(data);
}

static void copies(void **state)
{
    const struct answer *a;

    expect("PUT /cpy", "", "", 200);
    expect("PUT /cpy/a%3Fb", "x-amz-meta-m: one\r\nContent-Type: a/b\r\n", "data", 200);
    a = ask("PUT /cpy/k", "x-amz-copy-source: cpy/a?b\r\nx-amz-meta-m: ignored\r\n", "");
    assert_int_equal(a->status, 200);
    assert_int_equal(rig_count(a, "<ETag>&quot;8d777f385d3dfec8815d20f7496026dc&quot;</ETag>"), 1);
    a = ask("GET /cpy/k", "", NULL);
    assert_string_equal(a->body, "data");
    assert_string_equal(rig_header(a, "x-amz-meta-m"), "one");
    expect_code("PUT /cpy/k", "x-amz-copy-source: /cpy/k\r\n", "", 400, "InvalidRequest");
    expect(
        "PUT /cpy/k",
        "x-amz-copy-source: /cpy/k\r\nx-amz-metadata-directive: REPLACE\r\nx-amz-meta-m: two\r\n",
        "", 200);
    a = ask("GET /cpy/k", "", NULL);
    assert_string_equal(a->body, "data");
    assert_string_equal(rig_header(a, "x-amz-meta-m"), "two");
    assert_string_equal(rig_header(a, "content-type"), "binary/octet-stream");
    expect_code("PUT /cpy/k", "x-amz-copy-source: cpy/k\r\nx-amz-metadata-directive: MERGE\r\n", "",
                400, "InvalidArgument");
    expect_code("PUT /cpy/z", "x-amz-copy-source: cpy/none\r\n", "", 404, "NoSuchKey");
    expect_code("PUT /cpy/z", "x-amz-copy-source: nowhere/k\r\n", "", 404, "NoSuchBucket");
    expect_code("PUT /cpy/z", "x-amz-copy-source: cpy/k\r\nx-amz-copy-source-if-match: \"x\"\r\n",
                "", 412, "PreconditionFailed");
    expect_code("PUT /cpy/z", "x-amz-copy-source: cpy/k\r\nx-amz-copy-source-if-none-match: *\r\n",
                "", 412, "PreconditionFailed");
    expect_code("PUT /cpy/z", "x-amz-copy-source: cpy\r\n", "", 400, "InvalidArgument");
    expect("DELETE /cpy/k", "", NULL, 204);
    expect("DELETE /cpy/a%3Fb", "", NULL, 204);
    expect("DELETE /cpy", "", NULL, 204);
}

/* ---- listings ------------------------------------------------------------------------------- */

static void listings_page_and_fold(void **state)
{
    char line[512], token[1024];
    const char *at;
    const struct answer *a;

    expect("PUT /lst", "", "", 200);
    for (int i = 0; i < 25; i++) {
        snprintf(line, sizeof line, "PUT /lst/d%d/k%02d", i % 5, i);
        expect(line, "", "x", 200);
    }
    expect("PUT /lst/a%26b%01", "", "x", 200);
    a = ask("GET /lst?delimiter=/", "", NULL);
    assert_int_equal(rig_count(a, "<CommonPrefixes>"), 5);
    assert_int_equal(rig_count(a, "<Contents>"), 1);
    assert_int_equal(rig_count(a, "<Key>a&amp;b&#x1;</Key>"), 1);
    assert_int_equal(rig_count(a, "<Owner>"), 1);
    assert_int_equal(rig_count(a, "<IsTruncated>false</IsTruncated>"), 1);
    a = ask("GET /lst?encoding-type=url&max-keys=1", "", NULL);
    assert_int_equal(rig_count(a, "<Key>a%26b%01</Key>"), 1);
    assert_int_equal(rig_count(a, "<EncodingType>url</EncodingType>"), 1);
    assert_int_equal(rig_count(a, "<NextMarker>"), 0);
    a = ask("GET /lst?delimiter=/&max-keys=2", "", NULL);
    assert_int_equal(rig_count(a, "<NextMarker>d0/</NextMarker>"), 1);
    a = ask("GET /lst?delimiter=/&marker=d0/", "", NULL);
    assert_int_equal(rig_count(a, "<CommonPrefixes>"), 4);
    a = ask("GET /lst?list-type=2&max-keys=10", "", NULL);
    assert_int_equal(rig_count(a, "<Contents>"), 10);
    assert_int_equal(rig_count(a, "<KeyCount>10</KeyCount>"), 1);
    assert_int_equal(rig_count(a, "<Owner>"), 0);
    assert_int_equal(rig_count(a, "<IsTruncated>true</IsTruncated>"), 1);
    at = strstr(a->body, "<NextContinuationToken>");
    assert_non_null(at);
    at += strlen("<NextContinuationToken>");
    snprintf(token, sizeof token, "GET /lst?list-type=2&fetch-owner=true&continuation-token=%.*s",
             (int)strcspn(at, "<"), at);
    a = ask(token, "", NULL);
    assert_int_equal(rig_count(a, "<Contents>"), 16);
    assert_int_equal(rig_count(a, "<Owner>"), 16);
    a = ask("GET /lst?list-type=2&prefix=d1/&start-after=d1/k06", "", NULL);
    assert_int_equal(rig_count(a, "<Contents>"), 3);
    assert_int_equal(rig_count(a, "<StartAfter>d1/k06</StartAfter>"), 1);
    a = ask("GET /lst?max-keys=0", "", NULL);
    assert_int_equal(rig_count(a, "<Contents>"), 0);
    assert_int_equal(rig_count(a, "<IsTruncated>false</IsTruncated>"), 1);
    expect("GET /lst?list-type=2&continuation-token=", "", NULL, 200);
    expect_code("GET /lst?list-type=2&continuation-token=garbage", "", NULL, 400,
                "InvalidArgument");
    expect_code("GET /lst?max-keys=-1", "", NULL, 400, "InvalidArgument");
    expect_code("GET /lst?max-keys=x", "", NULL, 400, "InvalidArgument");
    expect_code("GET /lst?encoding-type=base64", "", NULL, 400, "InvalidArgument");
    expect_code("GET /lst?allow-unordered=true&delimiter=/", "", NULL, 400, "InvalidArgument");
}

/* The bucket of the test before, with all its keys. */
static void many_deletes_at_once(void **state)
{
    AUTO(buf_fini) struct buf doc = { .max = 65536 };
    char header[64] = "Content-MD5: ";
    unsigned char md5[MD5_SIZE];
    const struct answer *a;
    size_t n;

    assert_int_equal(buf_addf(&doc, "<Delete><Object><Key>missing</Key></Object>"
                                    "<Object><Key>d0/k00</Key><ETag>\"x\"</ETag></Object>"),
                     RC_OK);
    for (int i = 1; i < 25; i++)
        assert_int_equal(buf_addf(&doc, "<Object><Key>d%d/k%02d</Key></Object>", i % 5, i), RC_OK);
    assert_int_equal(buf_add(&doc, SLICE("</Delete>")), RC_OK);
    assert_int_equal(buf_reserve(&doc, 1), RC_OK);
    doc.p[doc.n] = 0;
    expect_code("POST /lst?delete", "", "<Delete/>", 400, "InvalidRequest");
    digest_once(DIGEST_MD5, doc.p, doc.n, md5);
    n = strlen(header);
    n += base64_encode(header + n, md5, sizeof md5);
    memcpy(header + n, "\r\n", 3);
    a = rig_ask(&rig, "POST /lst?delete", header, doc.p, doc.n);
    assert_int_equal(a->status, 200);
    assert_int_equal(rig_count(a, "<Deleted>"), 25);
    assert_int_equal(rig_count(a, "<Error>"), 1);
    assert_int_equal(rig_count(a, "<Code>PreconditionFailed</Code>"), 1);
    doc.p[doc.n - 1] = ' ';
    expect_code("POST /lst?delete", header, doc.p, 400, "BadDigest");
    a = ask("GET /lst?list-type=2", "", NULL);
    assert_int_equal(rig_count(a, "<Contents>"), 2);
    expect("DELETE /lst/d0/k00", "", NULL, 204);
    expect("DELETE /lst/a%26b%01", "", NULL, 204);
    expect("DELETE /lst", "", NULL, 204);
}

static void both_styles_reach_a_bucket(void **state)
{
    expect("PUT /", "Host: Styles.S3.local:9000\r\n", "", 200);
    expect("PUT //lead", "Host: styles.s3.local\r\n", "x", 200);
    expect("GET /styles//lead", "", NULL, 200);
    assert_int_equal(rig_count(ask("GET /", "Host: styles.s3.local\r\n", NULL), "<Key>/lead</Key>"),
                     1);
    assert_int_equal(rig_count(ask("GET /", "Host: 127.0.0.1\r\n", NULL), "<ListAllMyBuckets"), 1);
    expect("DELETE /styles//lead", "", NULL, 204);
    expect("DELETE /styles", "", NULL, 204);
}

static void requests_are_counted_by_operation(void **state)
{
    AUTO(buf_fini) struct buf text = { .max = 1 << 20 };

    assert_int_equal(metrics_render(rig.metrics, &text), RC_OK);
    assert_int_equal(buf_add_char(&text, 0), RC_OK);
    assert_non_null(strstr(text.p, "operation=\"ListObjectsV2\""));
    assert_non_null(strstr(text.p, "operation=\"PutObject\",code=\"200\""));
    assert_null(strstr(text.p, "styles"));
}

static int set_up(void **state)
{
    return rig_open(&rig);
}

static int tear_down(void **state)
{
    rig_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_live_and_die),
        cmocka_unit_test(sub_resources_never_fall_through),
        cmocka_unit_test(objects_keep_what_they_were_given),
        cmocka_unit_test(bad_puts_leave_nothing),
        cmocka_unit_test(short_bodies_are_refused),
        cmocka_unit_test(heads_that_cannot_be_parsed),
        cmocka_unit_test(checksums_are_kept_and_told),
        cmocka_unit_test(ranges_and_conditions),
        cmocka_unit_test(big_objects_stream),
        cmocka_unit_test(copies),
        cmocka_unit_test(listings_page_and_fold),
        cmocka_unit_test(many_deletes_at_once),
        cmocka_unit_test(both_styles_reach_a_bucket),
        cmocka_unit_test(requests_are_counted_by_operation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
