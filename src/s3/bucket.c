/* SPDX-License-Identifier: Apache-2.0 */
/* ListBuckets and the life of a bucket. */
#include "base/encode.h"
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/xml_in.h"
#include "s3/xml_out.h"

#define BUCKETS_MAX 10000u /* of one page, and of a list without max-buckets */

/* ---- ListBuckets ---------------------------------------------------------------------------- */

static enum rc list_params(struct s3_call *c, struct slice *ret_after, size_t *ret_max)
{
    struct slice max = s3_param(c, SLICE("max-buckets"));
    struct slice token = s3_param(c, SLICE("continuation-token"));
    uint64_t n = BUCKETS_MAX;

    if (max.p && (!slice_to_u64(max, &n) || n < 1 || n > BUCKETS_MAX))
        return s3_invalid_argument(c, "max-buckets", max,
                                   "Argument max-buckets must be an integer between 1 and 10000");
    *ret_max = n;
    *ret_after = SLICE("");
    if (token.n) {
        char *out = arena_alloc(c->arena, token.n + 3);
        size_t out_n;

        if (!out)
            return RC_NO_MEM;
        if (!base64url_decode(out, &out_n, token) || !meta_bucket_name_valid(slice_of(out, out_n)))
            return s3_invalid_argument(c, "continuation-token", token,
                                       "The continuation token provided is incorrect");
        *ret_after = slice_of(out, out_n);
    }
    return RC_OK;
}

static struct slice region_of(struct s3_call *c, const struct meta_bucket *b)
{
    return b->region.n ? b->region : s3_region(c);
}

static void write_buckets(struct s3_call *c, struct xml *x, const struct meta_bucket_page *page)
{
    struct slice want = s3_param(c, SLICE("bucket-region"));
    bool paged = s3_param(c, SLICE("max-buckets")).p || s3_param(c, SLICE("prefix")).p || want.p;

    xml_open(x, "Buckets");
    for (size_t i = 0; i < page->n; i++) {
        const struct meta_bucket *b = &page->buckets[i];

        if (want.n && !slice_eq(want, region_of(c, b)))
            continue;
        xml_open(x, "Bucket");
        xml_text(x, "Name", b->name);
        xml_time(x, "CreationDate", b->created_ns);
        if (paged)
            xml_text(x, "BucketRegion", region_of(c, b));
        xml_close(x, "Bucket");
    }
    xml_close(x, "Buckets");
    if (page->truncated && page->n) {
        struct slice last = page->buckets[page->n - 1].name;
        char token[BASE64_SIZE(256)];

        xml_text(x, "ContinuationToken",
                 slice_of(token, base64url_encode(token, last.p, MIN(last.n, 255))));
    }
}

static void write_owner(struct xml *x, const struct auth_account *a)
{
    xml_open(x, "Owner");
    xml_text(x, "ID", a->id);
    xml_text(x, "DisplayName", a->display.n ? a->display : a->id);
    xml_close(x, "Owner");
}

enum rc s3_list_buckets(struct s3_call *c)
{
    struct slice prefix = s3_param(c, SLICE("prefix")), after;
    AUTO(xml_fini) struct xml x = { 0 };
    struct meta_bucket_page page;
    size_t max = BUCKETS_MAX;
    enum rc rc = list_params(c, &after, &max);

    if (!c->body_arena.max) /* 10,000 rows are more than a request's own arena holds */
        arena_init(&c->body_arena, (size_t)32 << 20);
    if (!rc)
        rc = meta_bucket_list(s3_meta(c), &c->body_arena, c->id.account.id, prefix, after, max,
                              &page);
    if (rc)
        return rc;
    xml_init(&x);
    xml_open(&x, "ListAllMyBucketsResult" XML_NS);
    write_owner(&x, &c->id.account);
    write_buckets(c, &x, &page);
    if (prefix.p)
        xml_text(&x, "Prefix", prefix);
    xml_close(&x, "ListAllMyBucketsResult");
    return x.rc ? x.rc : s3_answer_xml(c, 200, buf_slice(&x.b));
}

/* ---- create, head, delete ------------------------------------------------------------------- */

static enum rc read_location(struct s3_call *c, struct slice *ret)
{
    struct slice doc;
    struct xml_node *root;
    enum rc rc = s3_body_all(c, S3_XML_MAX, &doc);

    *ret = SLICE("");
    if (rc || !doc.n)
        return rc;
    rc = xml_parse(&c->body_arena, doc, &root);
    if (rc)
        return rc;
    if (!slice_eq(root->name, SLICE("CreateBucketConfiguration")))
        return fail_s3(S3E_MALFORMED_XML, NULL);
    if (xml_child(root, SLICE("LocationConstraint")))
        *ret = xml_child_text(root, SLICE("LocationConstraint"));
    return RC_OK;
}

/* One region is served; the old names of the default one mean it too. */
static enum rc check_location(struct s3_call *c, struct slice location)
{
    if (!location.n || slice_eq(location, s3_region(c)) || slice_eq(location, SLICE("default")) ||
        slice_eq(location, SLICE("us-east-1")))
        return RC_OK;
    s3_extra(c, "LocationConstraint", location);
    return fail_s3(S3E_INVALID_LOCATION_CONSTRAINT, NULL);
}

static enum rc check_create_headers(struct s3_call *c)
{
    struct slice lock = s3_header(c, SLICE("x-amz-bucket-object-lock-enabled"));
    struct slice ownership = s3_header(c, SLICE("x-amz-object-ownership"));

    if (lock.p && slice_eq_nocase(lock, SLICE("true")))
        return fail_s3(S3E_NOT_IMPLEMENTED, "Object Lock is not implemented.");
    if (ownership.p && !slice_eq(ownership, SLICE("BucketOwnerEnforced")) &&
        !slice_eq(ownership, SLICE("BucketOwnerPreferred")) &&
        !slice_eq(ownership, SLICE("ObjectWriter")))
        return s3_invalid_argument(c, "x-amz-object-ownership", ownership,
                                   "Invalid x-amz-object-ownership header");
    return s3_refuse_unsupported(c);
}

enum rc s3_create_bucket(struct s3_call *c)
{
    struct meta_bucket b = { .name = c->target.bucket, .owner = c->id.account.id };
    char *location;
    enum rc rc = RC_OK;

    if (!meta_bucket_name_valid(b.name))
        return fail_s3(S3E_INVALID_BUCKET_NAME, NULL);
    rc = check_create_headers(c);
    if (!rc)
        rc = read_location(c, &b.region);
    if (!rc)
        rc = check_location(c, b.region);
    if (!rc)
        rc = meta_bucket_create(s3_meta(c), c->arena, &b);
    /* AWS's us-east-1 answers the owner's repeat with success, and scripts count on it. */
    if (rc == RC_EXISTS && note_error(rc) == S3E_BUCKET_ALREADY_OWNED_BY_YOU &&
        (!s3_region(c).n || slice_eq(s3_region(c), SLICE("us-east-1"))))
        rc = RC_OK;
    if (rc)
        return rc;
    location = arena_printf(c->arena, "/%.*s", SLICE_ARG(c->target.bucket));
    if (!location)
        return RC_NO_MEM;
    s3_begin(c, 200);
    http_res_header(c->req, SLICE("Location"), slice_str(location));
    return http_res_send(c->req, SLICE_NONE);
}

enum rc s3_head_bucket(struct s3_call *c)
{
    s3_begin(c, 200);
    http_res_header(c->req, SLICE("x-amz-bucket-region"), region_of(c, &c->bucket));
    http_res_header(c->req, SLICE("Content-Type"), SLICE("application/xml"));
    return http_res_send(c->req, SLICE_NONE);
}

enum rc s3_delete_bucket(struct s3_call *c)
{
    enum rc rc = meta_bucket_delete(s3_meta(c), &c->bucket);

    return rc ? rc : s3_answer_empty(c, 204);
}

enum rc s3_get_bucket_location(struct s3_call *c)
{
    struct slice region = region_of(c, &c->bucket);
    AUTO(xml_fini) struct xml x = { 0 };

    xml_init(&x);
    if (slice_eq(region, SLICE("us-east-1"))) /* AWS's oldest region has no name here */
        xml_raw(&x, SLICE("<LocationConstraint" XML_NS "/>"));
    else {
        xml_raw(&x, SLICE("<LocationConstraint" XML_NS ">"));
        if (!x.rc)
            x.rc = buf_reserve(&x.b, region.n * XML_ESCAPED_MAX);
        if (!x.rc)
            x.b.n = (size_t)(xml_escape(x.b.p + x.b.n, region) - x.b.p);
        xml_close(&x, "LocationConstraint");
    }
    return x.rc ? x.rc : s3_answer_xml(c, 200, buf_slice(&x.b));
}
