/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/call.h"

#include "base/encode.h"
#include "s3/sums.h"

static enum rc pull_all(struct s3_call *c, struct auth_body *body, size_t max, struct buf *out)
{
    enum rc rc;

    if (!c->req->has_body) /* none was sent: an empty document */
        return RC_OK;
    rc = auth_body_open(body, c->req, &c->id);
    if (!rc)
        auth_body_leave_sha256(body); /* computed below, with the other digests */
    if (!rc && auth_body_length(body) != UINT64_MAX && auth_body_length(body) > max)
        return fail_s3(S3E_MALFORMED_XML, "The document is too large.");
    while (!rc) {
        size_t n;

        rc = buf_reserve(out, out->cap - out->n > 512 ? 1 : 4096);
        if (rc)
            return rc == RC_TOO_LARGE ? fail_s3(S3E_MALFORMED_XML, "The document is too large.")
                                      : rc;
        rc = auth_body_read(body, out->p + out->n, out->cap - out->n, &n);
        if (!rc)
            out->n += n;
    }
    return rc == RC_EOF ? RC_OK : rc;
}

static void compute(struct object_sums *got, unsigned want, struct slice doc)
{
    got->size = doc.n;
    digest_once(DIGEST_MD5, doc.p, doc.n, got->md5);
    if (want & 1u << META_SUM_CRC32)
        put_be32(got->sum[META_SUM_CRC32], crc32_ieee(0, doc.p, doc.n));
    if (want & 1u << META_SUM_CRC32C)
        put_be32(got->sum[META_SUM_CRC32C], crc32c(0, doc.p, doc.n));
    if (want & 1u << META_SUM_CRC64NVME)
        put_be64(got->sum[META_SUM_CRC64NVME], crc64nvme(0, doc.p, doc.n));
    if (want & 1u << META_SUM_SHA1)
        digest_once(DIGEST_SHA1, doc.p, doc.n, got->sum[META_SUM_SHA1]);
    if (want & 1u << META_SUM_SHA256)
        digest_once(DIGEST_SHA256, doc.p, doc.n, got->sum[META_SUM_SHA256]);
}

enum rc s3_body_all(struct s3_call *c, size_t max, struct slice *ret)
{
    AUTO(buf_fini) struct buf out = { .max = max + 4096 };
    struct auth_body body = { 0 };
    struct object_sums *got;
    struct s3_sums sums;
    enum rc rc = s3_sums_read(c, &sums);

    if (rc)
        return rc;
    if ((c->op->flags & S3_OP_DIGEST) && !sums.has_md5 && !sums.kind)
        return fail_s3(S3E_MISSING_CONTENT_MD5, NULL);
    if (!c->body_arena.max)
        arena_init(&c->body_arena, (size_t)32 << 20);
    rc = pull_all(c, &body, max, &out);
    if (rc)
        return rc;
    got = ARENA_NEW(&c->body_arena, struct object_sums);
    if (!got)
        return RC_NO_MEM;
    compute(got, s3_sums_want(c, &sums), buf_slice(&out));
    rc = s3_sums_check(c, &sums, body.req ? &body : NULL, got);
    if (rc)
        return rc;
    *ret = arena_copy(&c->body_arena, buf_slice(&out));
    return ret->p ? RC_OK : RC_NO_MEM;
}
