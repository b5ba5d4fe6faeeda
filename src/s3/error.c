/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/error.h"

#include "s3/gateway.h"
#include "s3/xml_out.h"

void s3_extra(struct s3_call *c, const char *name, struct slice value)
{
    if (c->extras_n < S3_EXTRAS_MAX)
        c->extras[c->extras_n++] = (struct s3_extra){ name, value };
}

void s3_error_header(struct s3_call *c, const char *name, struct slice value)
{
    if (c->error_headers_n < S3_EXTRAS_MAX)
        c->error_headers[c->error_headers_n++] = (struct s3_extra){ name, value };
}

enum rc s3_invalid_argument(struct s3_call *c, const char *name, struct slice value,
                            const char *message)
{
    s3_extra(c, "ArgumentName", slice_str(name));
    s3_extra(c, "ArgumentValue", value);
    return fail_s3(S3E_INVALID_ARGUMENT, "%s", message);
}

/* What the server computed, so that the client's side can be compared with it. */
static void signature_extras(struct s3_call *c)
{
    if (c->id.access_key.n)
        s3_extra(c, "AWSAccessKeyId", c->id.access_key);
    if (c->id.string_to_sign.n)
        s3_extra(c, "StringToSign", c->id.string_to_sign);
    if (c->id.signature_provided.n)
        s3_extra(c, "SignatureProvided", c->id.signature_provided);
    if (c->id.canonical_request.n)
        s3_extra(c, "CanonicalRequest", c->id.canonical_request);
}

/* Elements that belong to a code whoever noted it. */
static void usual_extras(struct s3_call *c, enum s3_error e)
{
    struct slice region = s3_region(c);

    switch (e) {
    case S3E_NO_SUCH_BUCKET:
    case S3E_INVALID_BUCKET_NAME:
    case S3E_BUCKET_ALREADY_EXISTS:
    case S3E_BUCKET_ALREADY_OWNED_BY_YOU:
    case S3E_BUCKET_NOT_EMPTY:
        s3_extra(c, "BucketName", c->target.bucket);
        break;
    case S3E_NO_SUCH_KEY:
        s3_extra(c, "Key", c->target.key);
        break;
    case S3E_PRECONDITION_FAILED:
        for (unsigned i = 0; i < c->extras_n; i++)
            if (!strcmp(c->extras[i].name, "Condition"))
                return;
        s3_extra(c, "Condition",
                 s3_header(c, SLICE("if-match")).p ? SLICE("If-Match") : SLICE("If-None-Match"));
        break;
    case S3E_METHOD_NOT_ALLOWED:
        s3_extra(c, "Method", c->req->method);
        s3_extra(c, "ResourceType",
                 c->target.key.n      ? SLICE("OBJECT")
                 : c->target.bucket.n ? SLICE("BUCKET")
                                      : SLICE("SERVICE"));
        break;
    case S3E_SIGNATURE_DOES_NOT_MATCH:
        signature_extras(c);
        break;
    case S3E_INVALID_ACCESS_KEY_ID:
        s3_extra(c, "AWSAccessKeyId", c->id.access_key);
        break;
    case S3E_ACCESS_DENIED:
        if (c->id.headers_not_signed.n)
            s3_extra(c, "HeadersNotSigned", c->id.headers_not_signed);
        break;
    case S3E_AUTHORIZATION_HEADER_MALFORMED:
        s3_extra(c, "Region", region);
        break;
    default:
        break;
    }
}

static void add_safe(struct xml *x, const char *tag, struct slice value)
{
    if (slice_is_utf8(value))
        xml_text(x, tag, value);
    else
        xml_url(x, tag, value);
}

static void render(struct s3_call *c, struct xml *x, const struct s3_error_info *info,
                   const char *text)
{
    xml_init(x);
    xml_open(x, "Error");
    xml_text(x, "Code", slice_str(info->code));
    add_safe(x, "Message", slice_str(*text ? text : info->message));
    for (unsigned i = 0; i < c->extras_n; i++)
        add_safe(x, c->extras[i].name, c->extras[i].value);
    add_safe(x, "Resource", c->req->path);
    xml_text(x, "RequestId", slice_str(c->req->id));
    xml_text(x, "HostId", slice_str(c->g->host_id));
    xml_close(x, "Error");
}

void s3_error_answer(struct s3_call *c, enum rc rc)
{
    enum s3_error e = note_error(rc);
    const struct s3_error_info *info = s3_error_info(e);
    /* Texts of our own store or system are for the log, not for clients. */
    const char *text = info->status < 500 || info->status == 501 ? note_text() : "";
    struct http_req *req = c->req;
    struct xml x;

    if (http_res_begun(req)) {
        http_res_abort(req);
        return;
    }
    c->error = info->code;
    usual_extras(c, e);
    s3_begin(c, c->status ? c->status : info->status);
    for (unsigned i = 0; i < c->error_headers_n; i++)
        http_res_header(req, slice_str(c->error_headers[i].name), c->error_headers[i].value);
    if (info->status == 503)
        http_res_header(req, SLICE("Retry-After"), SLICE("1"));
    if (info->status == 304) {
        rc = http_res_send(req, SLICE_NONE);
    } else {
        render(c, &x, info, text);
        http_res_header(req, SLICE("Content-Type"), SLICE("application/xml"));
        rc = x.rc ? http_res_send(req, SLICE_NONE) : http_res_send(req, buf_slice(&x.b));
        xml_fini(&x);
    }
    if (rc)
        http_res_abort(req);
}
