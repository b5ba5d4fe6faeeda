/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/canonical.h"

#include "base/encode.h"
#include "base/fail.h"

#define SIGNED_MAX 256

static const char hex_upper[] = "0123456789ABCDEF";

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* Decodes and encodes in one pass; at most 3 bytes out per byte in. NULL: a bad escape. */
static char *recode(char *d, struct slice in, bool is_path)
{
    for (size_t i = 0; i < in.n; i++) {
        unsigned char c = (unsigned char)in.p[i];

        if (c == '%') {
            if (in.n - i < 3 || !hex_decode(&c, slice_of(in.p + i + 1, 2)))
                return NULL;
            i += 2;
        } else if (c == '+' && !is_path) {
            c = ' ';
        }
        if (is_unreserved(c) || (c == '/' && is_path)) {
            *d++ = (char)c;
            continue;
        }
        *d++ = '%';
        *d++ = hex_upper[c >> 4];
        *d++ = hex_upper[c & 15];
    }
    return d;
}

static enum rc bad_escape(void)
{
    return fail_s3(S3E_INVALID_URI, NULL);
}

enum rc canonical_query_parse(struct arena *a, struct slice query, struct canonical_query *ret)
{
    size_t most = 1, n = 0;
    struct canonical_param *params;
    char *d;

    *ret = (struct canonical_query){ 0 };
    if (query.n == 0)
        return RC_OK;
    for (size_t i = 0; i < query.n; i++)
        most += query.p[i] == '&';
    params = arena_alloc(a, most * sizeof *params);
    d = arena_alloc(a, 3 * query.n);
    if (!params || !d)
        return RC_NO_MEM;
    while (query.n) {
        struct slice value, pair = slice_cut(query, '&', &query);
        struct slice name = slice_cut(pair, '=', &value);
        char *name_end, *value_end;

        if (pair.n == 0)
            continue;
        name_end = recode(d, name, false);
        value_end = name_end ? recode(name_end, value, false) : NULL;
        if (!value_end)
            return bad_escape();
        params[n++] = (struct canonical_param){
            .raw_value = value,
            .name = slice_of(d, (size_t)(name_end - d)),
            .value = slice_of(name_end, (size_t)(value_end - name_end)),
        };
        d = value_end;
    }
    *ret = (struct canonical_query){ params, n };
    return RC_OK;
}

static int compare_params(const void *va, const void *vb)
{
    const struct canonical_param *const *a = va, *const *b = vb;
    int c = slice_cmp((*a)->name, (*b)->name);

    return c ? c : slice_cmp((*a)->value, (*b)->value);
}

static char *put(char *d, struct slice s)
{
    if (s.n)
        memcpy(d, s.p, s.n);
    return d + s.n;
}

static char *put_lower(char *d, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        *d++ = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    return d;
}

/* Trimmed, and with inner runs of spaces made one. */
static char *put_value(char *d, struct slice s)
{
    bool gap = false;

    s = slice_trim(s);
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ' ') {
            if (!gap)
                *d++ = ' ';
            gap = true;
            continue;
        }
        gap = false;
        *d++ = s.p[i];
    }
    return d;
}

static enum rc put_query(struct arena *a, const struct canonical_query *q, char **at)
{
    const struct canonical_param **order = NULL;
    char *d = *at;
    size_t n = 0;

    if (q->n == 0)
        return RC_OK;
    order = arena_alloc(a, q->n * sizeof(void *));
    if (!order)
        return RC_NO_MEM;
    for (size_t i = 0; i < q->n; i++) {
        if (!slice_eq_nocase(q->params[i].name, SLICE("X-Amz-Signature")))
            order[n++] = &q->params[i];
    }
    if (n > 1)
        qsort(order, n, sizeof(void *), compare_params);
    for (size_t i = 0; i < n; i++) {
        if (i)
            *d++ = '&';
        d = put(d, order[i]->name);
        *d++ = '=';
        d = put(d, order[i]->value);
    }
    *at = d;
    return RC_OK;
}

/* Which headers have been signed, by index. */
struct signed_set {
    uint64_t bits[HTTP_HEADERS_MAX / 64];
    bool host;
};

static bool is_signed(const struct signed_set *set, unsigned i)
{
    return set->bits[i / 64] >> i % 64 & 1;
}

/* One line "name:value,value\n". */
static enum rc put_header(const struct http_req *req, struct slice name, struct signed_set *set,
                          char **at)
{
    char *d = put_lower(*at, name);
    bool found = false;

    *d++ = ':';
    for (unsigned i = 0; i < req->headers_n; i++) {
        if (!slice_eq_nocase(req->headers[i].name, name))
            continue;
        if (is_signed(set, i))
            return fail_s3(
                S3E_AUTHORIZATION_HEADER_MALFORMED,
                "The authorization header is malformed; SignedHeaders has a name twice.");
        set->bits[i / 64] |= UINT64_C(1) << i % 64;
        if (found)
            *d++ = ',';
        d = put_value(d, req->headers[i].value);
        found = true;
    }
    if (slice_eq_nocase(name, SLICE("host"))) {
        if (!found && !set->host)
            d = put_value(d, req->host);
        set->host = true;
    }
    *d++ = '\n';
    *at = d;
    return RC_OK;
}

static enum rc put_headers(const struct canonical_input *in, struct signed_set *set, char **at)
{
    struct slice rest = in->signed_headers;
    unsigned n = 0;

    while (rest.n) {
        struct slice name = slice_cut(rest, ';', &rest);
        enum rc rc;

        if (name.n == 0 || ++n > SIGNED_MAX)
            return fail_s3(S3E_AUTHORIZATION_HEADER_MALFORMED,
                           "The authorization header is malformed; SignedHeaders is not valid.");
        rc = put_header(in->req, name, set, at);
        if (rc)
            return rc;
    }
    return RC_OK;
}

static bool must_be_signed(struct slice name)
{
    return name.n > 6 && slice_eq_nocase(slice_first(name, 6), SLICE("x-amz-"));
}

static enum rc list_unsigned(const struct http_req *req, const struct signed_set *set,
                             struct slice *ret)
{
    size_t n = 6;
    char *d, *text;

    *ret = SLICE_NONE;
    for (unsigned i = 0; i < req->headers_n; i++) {
        if (must_be_signed(req->headers[i].name) && !is_signed(set, i))
            n += req->headers[i].name.n + 2;
    }
    if (n == 6 && set->host)
        return RC_OK;
    text = d = arena_alloc(req->arena, n);
    if (!d)
        return RC_NO_MEM;
    if (!set->host)
        d = put(d, SLICE("host, "));
    for (unsigned i = 0; i < req->headers_n; i++) {
        if (must_be_signed(req->headers[i].name) && !is_signed(set, i)) {
            d = put_lower(d, req->headers[i].name);
            d = put(d, SLICE(", "));
        }
    }
    *ret = slice_of(text, (size_t)(d - text) - 2);
    return RC_OK;
}

/* An upper bound: no listed header is written twice. */
static size_t size_bound(const struct canonical_input *in)
{
    const struct http_req *req = in->req;
    size_t n = req->method.n + 3 * req->path.n + req->host.n + 4 * in->signed_headers.n +
               in->payload_hash.n + 16;

    for (size_t i = 0; i < in->query->n; i++)
        n += in->query->params[i].name.n + in->query->params[i].value.n + 2;
    for (unsigned i = 0; i < req->headers_n; i++)
        n += req->headers[i].name.n + req->headers[i].value.n + 2;
    return n;
}

enum rc canonical_request(const struct canonical_input *in, struct slice *ret,
                          struct slice *ret_unsigned)
{
    struct signed_set set = { 0 };
    size_t room = size_bound(in);
    char *text = arena_alloc(in->req->arena, room), *d;
    enum rc rc;

    if (!text)
        return RC_NO_MEM;
    assert(in->req->headers_n <= HTTP_HEADERS_MAX);
    d = put(text, in->req->method);
    *d++ = '\n';
    d = recode(d, in->req->path, true);
    if (!d)
        return bad_escape();
    *d++ = '\n';
    rc = put_query(in->req->arena, in->query, &d);
    if (rc)
        return rc;
    *d++ = '\n';
    rc = put_headers(in, &set, &d);
    if (rc)
        return rc;
    *d++ = '\n';
    d = put_lower(d, in->signed_headers);
    *d++ = '\n';
    d = put(d, in->payload_hash);
    assert((size_t)(d - text) <= room);
    rc = list_unsigned(in->req, &set, ret_unsigned);
    if (!rc)
        *ret = slice_of(text, (size_t)(d - text));
    return rc;
}
