/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/fields.h"

/* Headers that are kept with an object, by canonical name. */
static const struct {
    struct slice name, param; /* param: the override in the query of a GET */
} kept[] = {
    { SLICE_INIT("Cache-Control"), SLICE_INIT("response-cache-control") },
    { SLICE_INIT("Content-Disposition"), SLICE_INIT("response-content-disposition") },
    { SLICE_INIT("Content-Encoding"), SLICE_INIT("response-content-encoding") },
    { SLICE_INIT("Content-Language"), SLICE_INIT("response-content-language") },
    { SLICE_INIT("Expires"), SLICE_INIT("response-expires") },
    { SLICE_INIT("x-amz-website-redirect-location"), SLICE_INIT("") },
};
#define CONTENT_ENCODING 2
#define META_PREFIX "x-amz-meta-"

enum rc s3_without_aws_chunked(struct arena *a, struct slice value, struct slice *ret)
{
    struct slice rest = value;
    char *out;
    size_t n = 0;

    if (slice_find(value, SLICE("aws-chunked")) == SIZE_MAX) {
        *ret = value;
        return RC_OK;
    }
    out = arena_alloc(a, value.n + 1);
    if (!out)
        return RC_NO_MEM;
    while (rest.n) {
        struct slice token = slice_trim(slice_cut(rest, ',', &rest));

        if (!token.n || slice_eq_nocase(token, SLICE("aws-chunked")))
            continue;
        if (n)
            out[n++] = ',';
        memcpy(out + n, token.p, token.n);
        n += token.n;
    }
    *ret = slice_of(out, n);
    return RC_OK;
}

static int kept_index(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (slice_eq_nocase(name, kept[i].name))
            return (int)i;
    return -1;
}

static enum rc add_kept(struct s3_call *c, struct meta_object *o, int i, struct slice value)
{
    if (i == CONTENT_ENCODING) {
        enum rc rc = s3_without_aws_chunked(c->arena, value, &value);

        if (rc)
            return rc;
    }
    if (value.n)
        o->headers[o->headers_n++] = (struct meta_pair){ kept[i].name, value };
    return RC_OK;
}

/* Repeated names are joined with a comma, as AWS does. */
static enum rc join_user(struct s3_call *c, struct meta_pair *u, struct slice value)
{
    char *p = arena_alloc(c->arena, u->value.n + 1 + value.n);

    if (!p)
        return RC_NO_MEM;
    memcpy(p, u->value.p, u->value.n);
    p[u->value.n] = ',';
    if (value.n)
        memcpy(p + u->value.n + 1, value.p, value.n);
    u->value = slice_of(p, u->value.n + 1 + value.n);
    return RC_OK;
}

static enum rc add_user(struct s3_call *c, struct meta_object *o, struct slice name,
                        struct slice value)
{
    char *lower = arena_alloc(c->arena, name.n);

    if (!lower)
        return RC_NO_MEM;
    for (size_t i = 0; i < name.n; i++)
        lower[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 32 : name.p[i]);
    name = slice_of(lower, name.n);
    for (size_t i = 0; i < o->user_n; i++)
        if (slice_eq(o->user[i].name, name))
            return join_user(c, &o->user[i], value);
    if (!value.p)
        value = SLICE("");
    o->user[o->user_n++] = (struct meta_pair){ name, value };
    return RC_OK;
}

static enum rc check_user_size(struct s3_call *c, const struct meta_object *o)
{
    size_t n = 0;

    for (size_t i = 0; i < o->user_n; i++)
        n += o->user[i].name.n + o->user[i].value.n;
    if (n <= S3_USER_METADATA_MAX)
        return RC_OK;
    s3_extra(c, "MaxSizeAllowed", SLICE("2048"));
    return fail_s3(S3E_METADATA_TOO_LARGE, NULL);
}

static const char *const classes[] = {
    "STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA",  "ONEZONE_IA",
    "GLACIER",  "GLACIER_IR",         "DEEP_ARCHIVE", "INTELLIGENT_TIERING",
};

enum rc s3_storage_class_read(struct s3_call *c, struct meta_object *o)
{
    struct slice class = s3_header(c, SLICE("x-amz-storage-class"));

    if (!class.p)
        return RC_OK;
    for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
        if (!slice_eq(class, slice_str(classes[i])))
            continue;
        o->head.storage_class = i ? slice_str(classes[i]) : SLICE("");
        return RC_OK;
    }
    s3_extra(c, "StorageClassRequested", class);
    return fail_s3(S3E_INVALID_STORAGE_CLASS, NULL);
}

enum rc s3_fields_read(struct s3_call *c, struct meta_object *o)
{
    struct http_req *req = c->req;
    size_t meta_n = 0;
    enum rc rc = RC_OK;

    for (unsigned i = 0; i < req->headers_n; i++)
        meta_n += req->headers[i].name.n > sizeof META_PREFIX - 1;
    o->headers = arena_alloc(c->arena, (ARRAY_LEN(kept) + meta_n) * sizeof *o->headers);
    if (!o->headers)
        return RC_NO_MEM;
    o->user = o->headers + ARRAY_LEN(kept);
    o->headers_n = o->user_n = 0;
    o->content_type = SLICE("");
    for (unsigned i = 0; i < req->headers_n && !rc; i++) {
        struct slice name = req->headers[i].name, value = req->headers[i].value;
        int k;

        if (slice_eq_nocase(slice_first(name, sizeof META_PREFIX - 1), SLICE(META_PREFIX))) {
            if (name.n > sizeof META_PREFIX - 1)
                rc = add_user(c, o, slice_from(name, sizeof META_PREFIX - 1), value);
            continue;
        }
        if (name.n < 7)
            continue;
        if (slice_eq_nocase(name, SLICE("content-type")))
            o->content_type = value;
        k = kept_index(name);
        if (k >= 0 && o->headers_n < ARRAY_LEN(kept))
            rc = add_kept(c, o, k, value);
    }
    if (!rc)
        rc = check_user_size(c, o);
    return rc ? rc : s3_storage_class_read(c, o);
}

enum rc s3_check_canned_acl(struct s3_call *c)
{
    static const char *const other[] = { "public-read", "public-read-write", "authenticated-read",
                                         "aws-exec-read", "log-delivery-write" };
    struct slice acl = s3_header(c, SLICE("x-amz-acl"));

    if (!acl.p || !acl.n || slice_eq(acl, SLICE("private")) ||
        slice_eq(acl, SLICE("bucket-owner-full-control")) ||
        slice_eq(acl, SLICE("bucket-owner-read")))
        return RC_OK; /* what the owner has anyway */
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        if (slice_eq(acl, slice_str(other[i])))
            return fail_s3(S3E_NOT_IMPLEMENTED, "The canned ACL %s is not implemented.", other[i]);
    return s3_invalid_argument(c, "x-amz-acl", acl, "");
}

enum rc s3_refuse_unsupported(struct s3_call *c)
{
    static const struct {
        struct slice prefix;
        enum s3_error error;
        const char *text;
    } refused[] = {
        { SLICE_INIT("x-amz-server-side-encryption"), S3E_NOT_IMPLEMENTED,
          "Server-side encryption is not implemented." },
        { SLICE_INIT("x-amz-tagging"), S3E_NOT_IMPLEMENTED, "Object tags are not implemented." },
        { SLICE_INIT("x-amz-object-lock"), S3E_INVALID_REQUEST,
          "Bucket is missing Object Lock Configuration" },
        { SLICE_INIT("x-amz-grant-"), S3E_NOT_IMPLEMENTED, "ACL grants are not implemented." },
        { SLICE_INIT("x-amz-write-offset-bytes"), S3E_NOT_IMPLEMENTED,
          "Appending to objects is not implemented." },
    };

    for (unsigned i = 0; i < c->req->headers_n; i++) {
        struct slice name = c->req->headers[i].name;

        if (name.n < 13 || (name.p[0] | 32) != 'x')
            continue;
        for (size_t k = 0; k < ARRAY_LEN(refused); k++) {
            if (slice_eq_nocase(name, SLICE("x-amz-tagging-directive")))
                continue;
            if (slice_eq_nocase(slice_first(name, refused[k].prefix.n), refused[k].prefix))
                return fail_s3(refused[k].error, "%s", refused[k].text);
        }
    }
    return s3_check_canned_acl(c);
}

enum rc s3_refuse_sse_c(struct s3_call *c)
{
    if (s3_header(c, SLICE("x-amz-server-side-encryption-customer-algorithm")).p ||
        s3_header(c, SLICE("x-amz-server-side-encryption-customer-key")).p)
        return fail_s3(S3E_INVALID_REQUEST,
                       "The encryption parameters are not applicable to this object.");
    return RC_OK;
}

static struct slice override_of(struct s3_call *c, struct slice param, struct slice stored)
{
    struct slice v = param.n ? s3_param(c, param) : SLICE_NONE;

    return v.n ? v : stored;
}

static enum rc answer_kept(struct s3_call *c, const struct meta_object *o)
{
    struct slice values[ARRAY_LEN(kept)] = { 0 };

    for (size_t i = 0; i < o->headers_n; i++) {
        int k = kept_index(o->headers[i].name);

        if (k >= 0)
            values[k] = o->headers[i].value;
    }
    /* Rows written by other gateways may still hold the token. */
    if (values[CONTENT_ENCODING].n) {
        enum rc rc =
            s3_without_aws_chunked(c->arena, values[CONTENT_ENCODING], &values[CONTENT_ENCODING]);
        if (rc)
            return rc;
    }
    for (size_t k = 0; k < ARRAY_LEN(kept); k++) {
        struct slice v = override_of(c, kept[k].param, values[k]);

        if (v.n)
            http_res_header(c->req, kept[k].name, v);
    }
    return RC_OK;
}

enum rc s3_fields_answer(struct s3_call *c, const struct meta_object *o)
{
    struct slice type = o->content_type.n ? o->content_type : SLICE("binary/octet-stream");
    enum rc rc = RC_OK;

    http_res_header(c->req, SLICE("Content-Type"),
                    override_of(c, SLICE("response-content-type"), type));
    if (o->headers_n || c->query.n)
        rc = answer_kept(c, o);
    for (size_t i = 0; i < o->user_n; i++) {
        char *name = arena_alloc(c->arena, sizeof META_PREFIX + o->user[i].name.n);

        if (!name)
            return RC_NO_MEM;
        memcpy(name, META_PREFIX, sizeof META_PREFIX - 1);
        memcpy(name + sizeof META_PREFIX - 1, o->user[i].name.p, o->user[i].name.n);
        http_res_header(c->req, slice_of(name, sizeof META_PREFIX - 1 + o->user[i].name.n),
                        o->user[i].value);
    }
    if (o->head.storage_class.n)
        http_res_header(c->req, SLICE("x-amz-storage-class"), o->head.storage_class);
    return rc;
}

struct slice s3_etag_text(const struct meta_head *h, char out[S3_ETAG_MAX])
{
    size_t n = meta_etag(h, out + 1);

    out[0] = out[n + 1] = '"';
    return slice_of(out, n + 2);
}

void s3_etag_answer(struct s3_call *c, const struct meta_head *h)
{
    char etag[S3_ETAG_MAX];

    http_res_header(c->req, SLICE("ETag"), s3_etag_text(h, etag));
}

enum rc s3_check_version(struct s3_call *c)
{
    struct slice id = s3_param(c, SLICE("versionId"));

    if (!id.p || slice_eq(id, SLICE("null")))
        return RC_OK;
    if (!id.n)
        return s3_invalid_argument(c, "versionId", id, "Version id cannot be the empty string");
    if (id.n != 32)
        return s3_invalid_argument(c, "versionId", id, "Invalid version id specified");
    s3_extra(c, "Key", c->target.key);
    s3_extra(c, "VersionId", id);
    return fail_s3(S3E_NO_SUCH_VERSION, NULL);
}
