/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/sigv4.h"

#include "base/clock.h"
#include "base/encode.h"
#include "base/fail.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define EXPIRES_MAX_S 604800u
#define REGION_MAX 64
#define QUOTE_MAX 64 /* of the client's text in a message */

void sigv4_head_read(const struct http_req *req, struct sigv4_head *ret)
{
    static const struct {
        struct slice name;
        size_t offset;
    } wanted[] = {
        { SLICE_INIT("authorization"), offsetof(struct sigv4_head, authorization) },
        { SLICE_INIT("x-amz-date"), offsetof(struct sigv4_head, amz_date) },
        { SLICE_INIT("date"), offsetof(struct sigv4_head, date) },
        { SLICE_INIT("x-amz-content-sha256"), offsetof(struct sigv4_head, content_sha256) },
        { SLICE_INIT("x-amz-security-token"), offsetof(struct sigv4_head, security_token) },
    };

    *ret = (struct sigv4_head){ 0 };
    for (unsigned i = 0; i < req->headers_n; i++) {
        const struct http_header *h = &req->headers[i];

        for (size_t k = 0; k < ARRAY_LEN(wanted); k++) {
            struct slice *to = (struct slice *)(void *)((char *)ret + wanted[k].offset);

            if (h->name.n == wanted[k].name.n && !to->p && slice_eq_nocase(h->name, wanted[k].name))
                *to = h->value.p ? h->value : SLICE("");
        }
    }
}

/* ---- common --------------------------------------------------------------------------------- */

static enum s3_error code_of(const struct sigv4_claim *c)
{
    return c->presigned ? S3E_AUTHORIZATION_QUERY_PARAMETERS : S3E_AUTHORIZATION_HEADER_MALFORMED;
}

/* How AWS begins its sentences about the credential. */
static const char *lead(const struct sigv4_claim *c)
{
    return c->presigned ? "Error parsing the X-Amz-Credential parameter"
                        : "The authorization header is malformed";
}

static struct slice cut_last(struct slice *s, char sep)
{
    size_t i = s->n;
    struct slice last;

    while (i > 0 && s->p[i - 1] != sep)
        i--;
    last = slice_from(*s, i);
    *s = slice_first(*s, i ? i - 1 : 0);
    return last;
}

/* From the right, so that an access key may have slashes. */
static enum rc parse_credential(struct slice s, struct sigv4_claim *c)
{
    struct slice rest = s;

    c->terminator = cut_last(&rest, '/');
    c->service = cut_last(&rest, '/');
    c->region = cut_last(&rest, '/');
    c->day = cut_last(&rest, '/');
    c->access_key = rest;
    if (rest.n == 0 || c->day.n != 8 || c->region.n == 0 || c->region.n > REGION_MAX)
        return fail_s3(code_of(c),
                       "%s; the Credential is mal-formed; expecting "
                       "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
                       lead(c));
    return RC_OK;
}

static bool set_time(struct sigv4_claim *c, int64_t at_ns)
{
    c->at_ns = at_ns;
    clock_format_amz(c->amz_date, at_ns);
    return true;
}

static bool is_amz_date(struct slice s)
{
    if (s.n != CLOCK_AMZ_SIZE || s.p[8] != 'T' || s.p[15] != 'Z')
        return false;
    for (size_t i = 0; i < 15; i++) {
        if (i != 8 && (s.p[i] < '0' || s.p[i] > '9'))
            return false;
    }
    return true;
}

static bool parse_time(struct slice s, bool http_too, struct sigv4_claim *c)
{
    int64_t at_ns;

    if (is_amz_date(s) && clock_parse_iso(s, &at_ns))
        return set_time(c, at_ns);
    return http_too && clock_parse_http(s, &at_ns) && set_time(c, at_ns);
}

enum rc sigv4_check_scope(const struct sigv4_claim *c, struct slice want_region)
{
    if (memcmp(c->amz_date, c->day.p, 8) != 0)
        return fail_s3(code_of(c),
                       "%s; Invalid credential date \"%.*s\". This date is not the same as "
                       "X-Amz-Date: \"%.8s\".",
                       lead(c), SLICE_ARG(c->day), c->amz_date);
    if (want_region.p && !slice_eq(c->region, want_region))
        return fail_s3(code_of(c), "%s; the region '%.*s' is wrong; expecting '%.*s'", lead(c),
                       SLICE_ARG(c->region), SLICE_ARG(want_region));
    if (!slice_eq(c->service, SLICE("s3")))
        return fail_s3(code_of(c),
                       "%s; incorrect service \"%.*s\". This endpoint belongs to \"s3\".", lead(c),
                       SLICE_ARG(slice_first(c->service, QUOTE_MAX)));
    if (!slice_eq(c->terminator, SLICE("aws4_request")))
        return fail_s3(code_of(c),
                       "%s; incorrect terminal \"%.*s\". This endpoint uses \"aws4_request\".",
                       lead(c), SLICE_ARG(slice_first(c->terminator, QUOTE_MAX)));
    return RC_OK;
}

static enum rc not_sigv4(void)
{
    return fail_s3(S3E_INVALID_REQUEST, "The authorization mechanism you have provided is not "
                                        "supported. Please use AWS4-HMAC-SHA256.");
}

/* ---- the header ----------------------------------------------------------------------------- */

static enum rc refuse_scheme(struct slice s)
{
    if (slice_starts(s, SLICE("AWS ")) && slice_find_char(s, ':') == s.n)
        return fail_s3(S3E_INVALID_ARGUMENT, "AWS authorization header is invalid.  Expected "
                                             "AwsAccessKeyId:signature");
    if (slice_starts(s, SLICE("AWS ")) || slice_starts(s, SLICE("AWS4-")))
        return not_sigv4();
    return fail_s3(S3E_INVALID_ARGUMENT, "Unsupported Authorization Type");
}

static enum rc three_components(void)
{
    return fail_s3(S3E_AUTHORIZATION_HEADER_MALFORMED,
                   "The authorization header is malformed; the authorization header requires three "
                   "components: Credential, SignedHeaders, and Signature.");
}

static enum rc parse_components(struct slice rest, struct sigv4_claim *c)
{
    struct slice credential = SLICE_NONE;

    while (rest.n) {
        struct slice value, part = slice_trim(slice_cut(rest, ',', &rest));
        struct slice name = slice_cut(part, '=', &value), *to;

        if (slice_eq(name, SLICE("Credential")))
            to = &credential;
        else if (slice_eq(name, SLICE("SignedHeaders")))
            to = &c->signed_headers;
        else if (slice_eq(name, SLICE("Signature")))
            to = &c->signature;
        else
            return three_components();
        if (to->p || value.n == 0)
            return three_components();
        *to = value;
    }
    if (!credential.p || !c->signed_headers.p || !c->signature.p)
        return three_components();
    return parse_credential(credential, c);
}

enum rc sigv4_parse_header(const struct sigv4_head *h, struct sigv4_claim *ret)
{
    static const struct slice algorithm = SLICE_INIT(ALGORITHM);
    struct slice s = h->authorization;
    enum rc rc;

    *ret = (struct sigv4_claim){ .content_sha256 = h->content_sha256,
                                 .has_token = h->security_token.p };
    if (!slice_starts(s, algorithm) ||
        (s.n > algorithm.n && s.p[algorithm.n] != ' ' && s.p[algorithm.n] != '\t'))
        return refuse_scheme(s);
    rc = parse_components(slice_from(s, algorithm.n), ret);
    if (rc)
        return rc;
    if (!parse_time(h->amz_date.p ? h->amz_date : h->date, true, ret))
        return fail_s3(S3E_ACCESS_DENIED,
                       "AWS authentication requires a valid Date or x-amz-date header");
    if (!h->content_sha256.p)
        return fail_s3(S3E_INVALID_REQUEST,
                       "Missing required header for this request: x-amz-content-sha256");
    return RC_OK;
}

/* ---- the query ------------------------------------------------------------------------------ */

static const struct canonical_param *find(const struct canonical_query *q, struct slice name)
{
    for (size_t i = 0; i < q->n; i++) {
        if (slice_eq_nocase(q->params[i].name, name))
            return &q->params[i];
    }
    return NULL;
}

bool sigv4_query_has(const struct canonical_query *q)
{
    return q->n && (find(q, SLICE("X-Amz-Algorithm")) || find(q, SLICE("X-Amz-Signature")) ||
                    find(q, SLICE("X-Amz-Credential")) || find(q, SLICE("AWSAccessKeyId")));
}

static enum rc bad_query(const char *text)
{
    return fail_s3(S3E_AUTHORIZATION_QUERY_PARAMETERS, "%s", text);
}

/* Decoded; p stays NULL when the parameter is absent. */
static enum rc take(struct arena *a, const struct canonical_query *q, struct slice name,
                    struct slice *ret)
{
    const struct canonical_param *p = find(q, name);
    enum rc rc;

    *ret = SLICE_NONE;
    if (!p)
        return RC_OK;
    rc = uri_decode(a, p->raw_value, true, ret);
    if (!rc && !ret->p)
        *ret = SLICE("");
    return rc == RC_INVALID ? fail_s3(S3E_INVALID_URI, NULL) : rc;
}

static enum rc parse_expires(struct slice s, struct sigv4_claim *c)
{
    if (!slice_to_u64(s, &c->expires_s)) {
        if (s.n > 1 && s.p[0] == '-' && slice_to_u64(slice_from(s, 1), &c->expires_s))
            return bad_query("X-Amz-Expires must be non-negative");
        return bad_query("X-Amz-Expires should be a number");
    }
    if (c->expires_s > EXPIRES_MAX_S)
        return bad_query("X-Amz-Expires must be less than a week (in seconds); that is, the given "
                         "X-Amz-Expires must be less than 604800 seconds");
    return RC_OK;
}

enum query_field { ALGO, CREDENTIAL, DATE, EXPIRES, HEADERS, SIGNATURE, TOKEN, SHA256, FIELDS };

static enum rc take_all(struct arena *a, const struct canonical_query *q, struct slice *f)
{
    static const struct slice names[FIELDS] = {
        [ALGO] = SLICE_INIT("X-Amz-Algorithm"),
        [CREDENTIAL] = SLICE_INIT("X-Amz-Credential"),
        [DATE] = SLICE_INIT("X-Amz-Date"),
        [EXPIRES] = SLICE_INIT("X-Amz-Expires"),
        [HEADERS] = SLICE_INIT("X-Amz-SignedHeaders"),
        [SIGNATURE] = SLICE_INIT("X-Amz-Signature"),
        [TOKEN] = SLICE_INIT("X-Amz-Security-Token"),
        [SHA256] = SLICE_INIT("X-Amz-Content-Sha256"),
    };

    for (size_t i = 0; i < FIELDS; i++) {
        enum rc rc = take(a, q, names[i], &f[i]);

        if (rc)
            return rc;
        if (i < TOKEN && f[i].n == 0)
            return bad_query("Query-string authentication version 4 requires the X-Amz-Algorithm, "
                             "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, "
                             "and X-Amz-Expires parameters.");
    }
    return RC_OK;
}

enum rc sigv4_parse_query(struct arena *a, const struct sigv4_head *h,
                          const struct canonical_query *q, struct sigv4_claim *ret)
{
    struct slice f[FIELDS];
    enum rc rc;

    *ret = (struct sigv4_claim){ .presigned = true };
    if (find(q, SLICE("AWSAccessKeyId")))
        return not_sigv4();
    rc = take_all(a, q, f);
    if (rc)
        return rc;
    if (!slice_eq(f[ALGO], SLICE(ALGORITHM)))
        return bad_query("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    rc = parse_credential(f[CREDENTIAL], ret);
    if (rc)
        return rc;
    if (!parse_time(f[DATE], false, ret))
        return bad_query("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"");
    ret->signed_headers = f[HEADERS];
    ret->signature = f[SIGNATURE];
    ret->content_sha256 = f[SHA256].p ? f[SHA256] : h->content_sha256;
    ret->has_token = f[TOKEN].p || h->security_token.p;
    return parse_expires(f[EXPIRES], ret);
}
