/* SPDX-License-Identifier: Apache-2.0 */
/* PutObject. */
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/sums.h"

struct put {
    struct s3_call *c;
    struct auth_body body;
    struct s3_sums sums;
};

static enum rc read_body(void *arg, void *p, size_t n, size_t *ret_n)
{
    struct put *put = arg;

    return auth_body_read(&put->body, p, n, ret_n);
}

static enum rc finish(void *arg, const struct object_sums *got, struct meta_object *o)
{
    struct put *put = arg;
    enum rc rc = s3_sums_check(put->c, &put->sums, &put->body, got);

    if (rc || !put->sums.kind)
        return rc;
    o->head.sum_kind = (uint8_t)put->sums.kind;
    memcpy(o->sum, got->sum[put->sums.kind], s3_sum_size(put->sums.kind));
    return RC_OK;
}

static enum rc open_body(struct s3_call *c, struct put *put, struct object_source *source)
{
    enum rc rc = s3_sums_read(c, &put->sums);

    if (rc)
        return rc;
    if (!c->req->has_content_length && !c->req->chunked)
        return fail_s3(S3E_MISSING_CONTENT_LENGTH, NULL);
    rc = auth_body_open(&put->body, c->req, &c->id);
    if (rc)
        return rc;
    auth_body_leave_sha256(&put->body); /* the engine computes it beside storing */
    *source = (struct object_source){
        .read = read_body,
        .finish = finish,
        .arg = put,
        .size = auth_body_length(&put->body),
        .want = s3_sums_want(c, &put->sums),
    };
    if (source->size != UINT64_MAX && source->size > OBJECT_PUT_MAX) {
        s3_extra(c, "MaxSizeAllowed", SLICE("5368709120"));
        return fail_s3(S3E_ENTITY_TOO_LARGE, NULL);
    }
    return RC_OK;
}

enum rc s3_put_object(struct s3_call *c)
{
    struct meta_cond cond = {
        .if_match = s3_header(c, SLICE("if-match")),
        .if_none_match = s3_header(c, SLICE("if-none-match")),
    };
    struct put put = { .c = c };
    struct object_source source;
    struct meta_object o = { 0 };
    enum rc rc = s3_refuse_unsupported(c);

    if (!rc)
        rc = s3_fields_read(c, &o);
    if (!rc)
        rc = open_body(c, &put, &source);
    if (!rc)
        rc = object_put(s3_engine(c), c->arena, &c->bucket, c->target.key, &o, &cond, &source);
    if (rc)
        return rc;
    s3_begin(c, 200);
    s3_etag_answer(c, &o.head);
    s3_sums_answer(c, &o);
    return http_res_send(c->req, SLICE_NONE);
}
