/* SPDX-License-Identifier: Apache-2.0 */
/* CopyObject. */
#include "base/encode.h"
#include "s3/cond.h"
#include "s3/copy_source.h"
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/sums.h"
#include "s3/xml_out.h"

#include <stdio.h>

#define CONFLICT_TRIES 4

struct copy {
    struct s3_call *c;
    struct s3_copy_source from;
    struct meta_bucket bucket; /* the source's */
    struct meta_object src, dst;
    bool replace; /* metadata comes from the request */
    bool self;    /* onto itself */
    struct meta_cond cond;
};

static enum rc read_directive(struct s3_call *c, const char *name, bool *ret_replace)
{
    struct slice v = s3_header(c, slice_str(name));

    *ret_replace = slice_eq(v, SLICE("REPLACE"));
    if (!v.p || *ret_replace || slice_eq(v, SLICE("COPY")))
        return RC_OK;
    return s3_invalid_argument(c, name, v, "Unknown metadata directive.");
}

static enum rc read_request(struct copy *k)
{
    struct s3_call *c = k->c;
    bool replace_tags;
    enum rc rc = s3_copy_source_parse(c->arena, s3_header(c, SLICE("x-amz-copy-source")), &k->from);

    if (rc)
        s3_extra(c, "ArgumentName", SLICE("x-amz-copy-source"));
    if (!rc)
        rc = read_directive(c, "x-amz-metadata-directive", &k->replace);
    if (!rc)
        rc = read_directive(c, "x-amz-tagging-directive", &replace_tags);
    if (!rc)
        rc = s3_refuse_unsupported(c);
    if (!rc && s3_header(c, SLICE("x-amz-copy-source-server-side-encryption-customer-algorithm")).p)
        rc = fail_s3(S3E_INVALID_REQUEST,
                     "The encryption parameters are not applicable to this object.");
    k->cond.if_match = s3_header(c, SLICE("if-match"));
    k->cond.if_none_match = s3_header(c, SLICE("if-none-match"));
    return rc;
}

static enum rc check_source_conditions(struct copy *k)
{
    struct s3_call *c = k->c;
    struct s3_read_cond cond = {
        .if_match = s3_header(c, SLICE("x-amz-copy-source-if-match")),
        .if_none_match = s3_header(c, SLICE("x-amz-copy-source-if-none-match")),
        .if_modified_since = s3_header(c, SLICE("x-amz-copy-source-if-modified-since")),
        .if_unmodified_since = s3_header(c, SLICE("x-amz-copy-source-if-unmodified-since")),
    };
    const char *name = "";
    char *full;

    if (s3_cond_check(&cond, &k->src.head, &name) == RC_OK)
        return RC_OK;
    full = arena_printf(c->arena, "x-amz-copy-source-%s", name);
    if (full)
        s3_extra(c, "Condition", slice_str(full));
    return fail_s3(S3E_PRECONDITION_FAILED, NULL);
}

static enum rc load_source(struct copy *k)
{
    struct s3_call *c = k->c;
    enum rc rc = RC_OK;

    if (k->from.version.p && !slice_eq(k->from.version, SLICE("null")))
        rc = fail_s3(S3E_NO_SUCH_VERSION, NULL);
    if (!rc)
        rc = s3_bucket_get(c, k->from.bucket, &k->bucket);
    if (!rc)
        rc = s3_authorize(c, "s3:GetObject", &k->bucket, k->from.key);
    if (!rc && s3_header(c, SLICE("x-amz-source-expected-bucket-owner")).p &&
        !slice_eq(s3_header(c, SLICE("x-amz-source-expected-bucket-owner")), k->bucket.owner))
        rc = fail_s3(S3E_ACCESS_DENIED, NULL);
    if (!rc)
        rc = meta_object_get(s3_meta(c), c->arena, &k->bucket, k->from.key, false, &k->src);
    if (rc) { /* the error names what was not found */
        c->target.bucket = k->from.bucket;
        c->target.key = k->from.key;
        return rc;
    }
    if (k->src.head.size > OBJECT_PUT_MAX)
        return fail_s3(S3E_INVALID_REQUEST,
                       "The specified copy source is larger than the maximum allowable size for a "
                       "copy source: 5368709120");
    return check_source_conditions(k);
}

/* What the new row says: from the source, or from the request. */
static enum rc describe(struct copy *k)
{
    struct s3_call *c = k->c;
    struct meta_object asked = { 0 };
    bool class_changes;
    enum rc rc = s3_fields_read(c, &asked);

    if (rc)
        return rc;
    k->self = slice_eq(k->from.key, c->target.key) &&
              !memcmp(k->bucket.id, c->bucket.id, META_BUCKET_ID_SIZE);
    class_changes = s3_header(c, SLICE("x-amz-storage-class")).p &&
                    !slice_eq(asked.head.storage_class, k->src.head.storage_class);
    if (k->self && !k->replace && !class_changes &&
        !s3_header(c, SLICE("x-amz-website-redirect-location")).p &&
        !s3_header(c, SLICE("x-amz-checksum-algorithm")).p)
        return fail_s3(S3E_INVALID_REQUEST,
                       "This copy request is illegal because it is trying to copy an object to "
                       "itself without changing the object's metadata, storage class, website "
                       "redirect location or encryption attributes.");
    k->dst = (struct meta_object){ .head = { .storage_class = asked.head.storage_class } };
    if (!k->replace) {
        k->dst.content_type = k->src.content_type;
        k->dst.headers = k->src.headers;
        k->dst.headers_n = k->src.headers_n;
        k->dst.user = k->src.user;
        k->dst.user_n = k->src.user_n;
        return RC_OK;
    }
    k->dst.content_type = asked.content_type;
    k->dst.headers = asked.headers;
    k->dst.headers_n = asked.headers_n;
    k->dst.user = asked.user;
    k->dst.user_n = asked.user_n;
    return RC_OK;
}

/* ---- checksum of the copy ------------------------------------------------------------------- */

struct summer {
    enum meta_checksum kind;
    uint64_t crc;
    struct digest digest;
};

static enum rc sum_bytes(void *arg, const void *p, size_t n)
{
    struct summer *s = arg;

    if (s->kind == META_SUM_CRC32)
        s->crc = crc32_ieee((uint32_t)s->crc, p, n);
    else if (s->kind == META_SUM_CRC32C)
        s->crc = crc32c((uint32_t)s->crc, p, n);
    else if (s->kind == META_SUM_CRC64NVME)
        s->crc = crc64nvme(s->crc, p, n);
    else
        digest_update(&s->digest, p, n);
    return RC_OK;
}

/* Reads the source once for a sum that is not known. */
static enum rc compute_sum(struct copy *k, enum meta_checksum kind)
{
    struct summer s = { .kind = kind };
    bool crc = kind != META_SUM_SHA1 && kind != META_SUM_SHA256;
    enum rc rc =
        crc ? RC_OK : digest_init(&s.digest, kind == META_SUM_SHA1 ? DIGEST_SHA1 : DIGEST_SHA256);

    if (rc)
        return rc;
    if (k->src.head.size)
        rc = object_read(s3_engine(k->c), &k->src, 0, k->src.head.size, sum_bytes, &s);
    if (!crc)
        digest_final(&s.digest, k->dst.sum);
    else if (kind == META_SUM_CRC64NVME)
        put_be64(k->dst.sum, s.crc);
    else
        put_be32(k->dst.sum, (uint32_t)s.crc);
    digest_fini(&s.digest);
    return rc;
}

static enum rc choose_sum(struct copy *k)
{
    struct slice asked = s3_header(k->c, SLICE("x-amz-checksum-algorithm"));
    enum meta_checksum kind = (enum meta_checksum)k->src.head.sum_kind;

    if (asked.p) {
        kind = s3_sum_parse(asked);
        if (!kind)
            return fail_s3(S3E_INVALID_REQUEST, "Checksum algorithm provided is unsupported.");
    }
    if (!kind)
        return RC_OK;
    k->dst.head.sum_kind = (uint8_t)kind;
    if (kind != (enum meta_checksum)k->src.head.sum_kind || k->src.head.sum_composite)
        return compute_sum(k, kind);
    memcpy(k->dst.sum, k->src.sum, sizeof k->dst.sum);
    return RC_OK;
}

/* ---- the copy ------------------------------------------------------------------------------- */

static enum rc copy_once(struct copy *k)
{
    struct s3_call *c = k->c;
    enum rc rc = load_source(k);

    if (!rc)
        rc = describe(k);
    if (!rc)
        rc = choose_sum(k);
    if (rc)
        return rc;
    if (k->self)
        return object_replace_metadata(s3_engine(c), &k->src, &c->bucket, c->target.key, &k->dst,
                                       &k->cond);
    return object_copy(s3_engine(c), c->arena, &k->src, &c->bucket, c->target.key, &k->dst,
                       &k->cond);
}

static enum rc answer(struct copy *k)
{
    char etag[S3_ETAG_MAX], sum[BASE64_SIZE(META_SUM_SIZE_MAX)], tag[32];
    enum meta_checksum kind = (enum meta_checksum)k->dst.head.sum_kind;
    AUTO(xml_fini) struct xml x = { 0 };

    xml_init(&x);
    xml_open(&x, "CopyObjectResult" XML_NS);
    xml_time(&x, "LastModified", k->dst.head.mtime_ns);
    xml_text(&x, "ETag", s3_etag_text(&k->dst.head, etag));
    if (kind) {
        snprintf(tag, sizeof tag, "Checksum%s", s3_sum_name(kind));
        xml_text(&x, tag, slice_of(sum, base64_encode(sum, k->dst.sum, s3_sum_size(kind))));
        xml_text(&x, "ChecksumType", SLICE("FULL_OBJECT"));
    }
    xml_close(&x, "CopyObjectResult");
    return x.rc ? x.rc : s3_answer_xml(k->c, 200, buf_slice(&x.b));
}

enum rc s3_copy_object(struct s3_call *c)
{
    struct copy k = { .c = c };
    enum rc rc = read_request(&k);

    if (rc)
        return rc;
    rc = RC_CONFLICT; /* the row changed between reading and writing: read again */
    for (int i = 0; i < CONFLICT_TRIES && rc == RC_CONFLICT; i++)
        rc = copy_once(&k);
    return rc ? rc : answer(&k);
}
