/* SPDX-License-Identifier: Apache-2.0 */
/* The operation table, and what it makes of requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "s3/ops.h"

static struct arena arena;

static bool has_header(void *arg, struct slice name)
{
    return arg && slice_eq(slice_str(arg), name);
}

static enum rc route(enum s3_method m, enum s3_scope scope, const char *query, const char *header,
                     const struct s3_op **ret)
{
    struct s3_query q;

    assert_int_equal(s3_query_parse(&arena, slice_str(query), &q), RC_OK);
    return s3_route(m, scope, &q, has_header, (void *)header, ret);
}

static void requests_find_their_operation(void **state)
{
    static const struct {
        enum s3_method method;
        enum s3_scope scope;
        const char *query, *header, *want;
    } cases[] = {
        { S3_GET, S3_SERVICE, "", NULL, "ListBuckets" },
        { S3_GET, S3_SERVICE, "x-id=ListBuckets&max-buckets=2", NULL, "ListBuckets" },
        { S3_GET, S3_BUCKET, "", NULL, "ListObjects" },
        { S3_GET, S3_BUCKET, "prefix&delimiter=/&marker", NULL, "ListObjects" },
        { S3_GET, S3_BUCKET, "list-type=2&prefix=x", NULL, "ListObjectsV2" },
        { S3_GET, S3_BUCKET, "versions&prefix=x", NULL, "ListObjectVersions" },
        { S3_GET, S3_BUCKET, "versioning", NULL, "GetBucketVersioning" },
        { S3_GET, S3_BUCKET, "inventory", NULL, "ListBucketInventoryConfigurations" },
        { S3_GET, S3_BUCKET, "inventory&id=1", NULL, "GetBucketInventoryConfiguration" },
        { S3_PUT, S3_BUCKET, "", NULL, "CreateBucket" },
        { S3_PUT, S3_BUCKET, "cors", NULL, "PutBucketCors" },
        { S3_POST, S3_BUCKET, "delete", NULL, "DeleteObjects" },
        { S3_POST, S3_BUCKET, "", NULL, "PostObject" },
        { S3_DELETE, S3_BUCKET, "", NULL, "DeleteBucket" },
        { S3_HEAD, S3_BUCKET, "", NULL, "HeadBucket" },
        { S3_PUT, S3_OBJECT, "x-id=PutObject", NULL, "PutObject" },
        { S3_PUT, S3_OBJECT, "", "x-amz-copy-source", "CopyObject" },
        { S3_PUT, S3_OBJECT, "partNumber=1&uploadId=u", NULL, "UploadPart" },
        { S3_PUT, S3_OBJECT, "partNumber=1&uploadId=u", "x-amz-copy-source", "UploadPartCopy" },
        { S3_POST, S3_OBJECT, "uploads", NULL, "CreateMultipartUpload" },
        { S3_GET, S3_OBJECT, "versionId=null&response-content-type=a/b", NULL, "GetObject" },
        { S3_GET, S3_OBJECT, "X-Amz-Signature=1&X-Amz-Date", NULL, "GetObject" },
        { S3_GET, S3_OBJECT, "utm_source=x", NULL, "GetObject" },
        { S3_GET, S3_OBJECT, "acl", NULL, "GetObjectAcl" },
        { S3_OPTIONS, S3_OBJECT, "uploads", NULL, "PreflightObject" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct s3_op *op = NULL;

        assert_int_equal(
            route(cases[i].method, cases[i].scope, cases[i].query, cases[i].header, &op), RC_OK);
        assert_string_equal(op->name, cases[i].want);
    }
}

static void nothing_falls_through(void **state)
{
    static const struct {
        enum s3_method method;
        enum s3_scope scope;
        const char *query, *want;
    } cases[] = {
        { S3_GET, S3_BUCKET, "frobnicate", "NotImplemented" },
        { S3_GET, S3_OBJECT, "frobnicate", "NotImplemented" },
        { S3_PUT, S3_BUCKET, "frobnicate", "NotImplemented" },
        { S3_DELETE, S3_BUCKET, "frobnicate=", "NotImplemented" },
        { S3_GET, S3_SERVICE, "usage", "NotImplemented" },
        { S3_DELETE, S3_BUCKET, "acl", "MethodNotAllowed" },
        { S3_DELETE, S3_BUCKET, "versioning", "MethodNotAllowed" },
        { S3_DELETE, S3_OBJECT, "acl", "MethodNotAllowed" },
        { S3_HEAD, S3_OBJECT, "tagging", "MethodNotAllowed" },
        { S3_POST, S3_OBJECT, "", "MethodNotAllowed" },
        { S3_PUT, S3_OBJECT, "uploadId=u", "MethodNotAllowed" },
        { S3_POST, S3_SERVICE, "", "MethodNotAllowed" },
        { S3_METHODS, S3_OBJECT, "", "MethodNotAllowed" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct s3_op *op = NULL;
        enum rc rc = route(cases[i].method, cases[i].scope, cases[i].query, NULL, &op);

        assert_int_not_equal(rc, RC_OK);
        assert_string_equal(s3_error_info(note_error(rc))->code, cases[i].want);
    }
}

/* Each row is found by exactly the request that it describes. */
static void every_row_is_reachable(void **state)
{
    for (size_t i = 0; i < s3_ops_n; i++) {
        const struct s3_op *row = &s3_ops[i], *op = NULL;

        assert_int_equal(route(row->method, row->scope, row->sub ? row->sub : "", row->header, &op),
                         RC_OK);
        assert_ptr_equal(op, row);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(s3_ops[k].name, row->name);
    }
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_find_their_operation),
        cmocka_unit_test(nothing_falls_through),
        cmocka_unit_test(every_row_is_reachable),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
