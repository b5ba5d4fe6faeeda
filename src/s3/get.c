/* SPDX-License-Identifier: Apache-2.0 */
/* GetObject and HeadObject. */
#include "s3/cond.h"
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/sums.h"

#include "base/clock.h"

#include <stdio.h>

/* The headers of a 304: those that a cache needs. */
static enum rc not_modified(struct s3_call *c, const struct meta_object *o)
{
    char *etag = arena_alloc(c->arena, S3_ETAG_MAX);
    char *mtime = arena_alloc(c->arena, CLOCK_HTTP_SIZE);

    if (!etag || !mtime)
        return RC_NO_MEM;
    clock_format_http(mtime, o->head.mtime_ns);
    s3_error_header(c, "ETag", s3_etag_text(&o->head, etag));
    s3_error_header(c, "Last-Modified", slice_of(mtime, CLOCK_HTTP_SIZE));
    for (size_t i = 0; i < o->headers_n; i++)
        if (slice_eq(o->headers[i].name, SLICE("Cache-Control")))
            s3_error_header(c, "Cache-Control", o->headers[i].value);
        else if (slice_eq(o->headers[i].name, SLICE("Expires")))
            s3_error_header(c, "Expires", o->headers[i].value);
    return fail_s3(S3E_NOT_MODIFIED, NULL);
}

static enum rc check_conditions(struct s3_call *c, const struct meta_object *o)
{
    struct s3_read_cond cond = {
        .if_match = s3_header(c, SLICE("if-match")),
        .if_none_match = s3_header(c, SLICE("if-none-match")),
        .if_modified_since = s3_header(c, SLICE("if-modified-since")),
        .if_unmodified_since = s3_header(c, SLICE("if-unmodified-since")),
    };
    const char *condition = NULL;
    enum rc rc = s3_cond_check(&cond, &o->head, &condition);

    if (!rc)
        return RC_OK;
    if (note_error(rc) != S3E_NOT_MODIFIED) {
        s3_extra(c, "Condition", slice_str(condition));
        return rc;
    }
    return not_modified(c, o);
}

static enum rc check_overrides(struct s3_call *c)
{
    if (!c->id.anonymous)
        return RC_OK;
    for (size_t i = 0; i < c->query.n; i++)
        if (slice_starts(c->query.params[i].name, SLICE("response-")))
            return fail_s3(S3E_INVALID_REQUEST, "Request specific response headers cannot be used "
                                                "for anonymous GET requests.");
    return RC_OK;
}

static enum rc pick_part(struct s3_call *c, struct slice part, struct slice range,
                         const struct meta_object *o)
{
    uint64_t n;

    if (range.p)
        return fail_s3(S3E_INVALID_REQUEST,
                       "Cannot specify both Range header and partNumber query parameter");
    if (!slice_to_u64(part, &n) || n < 1 || n > 10000)
        return s3_invalid_argument(c, "partNumber", part,
                                   "Part number must be an integer between 1 and 10000, inclusive");
    /* Objects of one PUT have one part: the whole. */
    return n == 1 ? RC_OK : fail_s3(S3E_INVALID_PART, NULL);
}

static enum rc pick_range(struct s3_call *c, const struct meta_object *o, struct s3_range *r)
{
    struct slice range = s3_header(c, SLICE("range"));
    struct slice if_range = s3_header(c, SLICE("if-range"));
    struct slice part = s3_param(c, SLICE("partNumber"));
    enum rc rc;

    *r = (struct s3_range){ .length = o->head.size };
    if (part.p)
        return pick_part(c, part, range, o);
    if (!range.p || (if_range.p && !s3_if_range_holds(if_range, &o->head)))
        return RC_OK;
    rc = s3_range_parse(range, o->head.size, r);
    if (rc) {
        char *text = arena_printf(c->arena, "bytes */%llu", (unsigned long long)o->head.size);

        if (!text)
            return RC_NO_MEM;
        s3_error_header(c, "Content-Range", slice_str(text));
        s3_extra(c, "RangeRequested", range);
        s3_extra(c, "ActualObjectSize", slice_from(slice_str(text), 8));
    }
    return rc;
}

static void answer_range(struct s3_call *c, const struct s3_range *r, uint64_t size)
{
    char text[80];

    if (!r->partial)
        return;
    snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)r->offset,
             (unsigned long long)(r->offset + r->length - 1), (unsigned long long)size);
    http_res_header(c->req, SLICE("Content-Range"), slice_str(text));
}

static enum rc answer_head(struct s3_call *c, const struct meta_object *o, const struct s3_range *r)
{
    char mtime[CLOCK_HTTP_SIZE];
    enum rc rc;

    s3_begin(c, r->partial ? 206 : 200);
    rc = s3_fields_answer(c, o);
    if (rc)
        return rc;
    s3_etag_answer(c, &o->head);
    clock_format_http(mtime, o->head.mtime_ns);
    http_res_header(c->req, SLICE("Last-Modified"), slice_of(mtime, sizeof mtime));
    http_res_header(c->req, SLICE("Accept-Ranges"), SLICE("bytes"));
    answer_range(c, r, o->head.size);
    /* A sum of the whole beside a part of it would only fail the client's check. */
    if (!r->partial && o->head.sum_kind &&
        slice_eq_nocase(s3_header(c, SLICE("x-amz-checksum-mode")), SLICE("ENABLED")))
        s3_sums_answer(c, o);
    return RC_OK;
}

struct body {
    struct http_req *req;
    uint64_t length;
    bool begun;
};

/* The head leaves with the first verified bytes: a chunk that cannot be read is then still an error
 * answer. */
static enum rc write_body(void *arg, const void *p, size_t n)
{
    struct body *b = arg;
    enum rc rc = b->begun ? RC_OK : http_res_begin(b->req, b->length);

    b->begun = true;
    return rc ? rc : http_res_write(b->req, p, n);
}

static enum rc send_body(struct s3_call *c, const struct meta_object *o, const struct s3_range *r)
{
    struct body b = { c->req, r->length, false };
    enum rc rc = RC_OK;

    if (!c->head && o->is_inline && o->body.n >= r->offset + r->length)
        return http_res_send(c->req, slice_of(o->body.p + r->offset, r->length));
    if (!c->head && r->length)
        rc = object_read(s3_engine(c), o, r->offset, r->length, write_body, &b);
    if (!rc && !b.begun)
        rc = http_res_begin(c->req, r->length);
    return rc ? rc : http_res_end(c->req);
}

enum rc s3_get_object(struct s3_call *c)
{
    struct meta_object o = { 0 };
    struct s3_range r;
    enum rc rc = s3_check_version(c);

    if (!rc)
        rc = s3_refuse_sse_c(c);
    if (!rc)
        rc = check_overrides(c);
    if (!rc)
        rc = meta_object_get(s3_meta(c), c->arena, &c->bucket, c->target.key, c->head, &o);
    if (!rc)
        rc = check_conditions(c, &o);
    if (!rc)
        rc = pick_range(c, &o, &r);
    if (!rc)
        rc = answer_head(c, &o, &r);
    return rc ? rc : send_body(c, &o, &r);
}
