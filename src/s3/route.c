/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "s3/ops.h"

static const char *const methods[S3_METHODS] = {
    [S3_GET] = "GET",   [S3_HEAD] = "HEAD",     [S3_PUT] = "PUT",
    [S3_POST] = "POST", [S3_DELETE] = "DELETE", [S3_OPTIONS] = "OPTIONS",
};

const char *s3_method_name(enum s3_method m)
{
    return (unsigned)m < S3_METHODS ? methods[m] : "OTHER";
}

const char *s3_scope_name(enum s3_scope s)
{
    return s == S3_SERVICE ? "service" : s == S3_BUCKET ? "bucket" : "object";
}

enum s3_method s3_method_parse(struct slice method)
{
    for (unsigned m = 0; m < S3_METHODS; m++)
        if (slice_eq(method, slice_str(methods[m])))
            return (enum s3_method)m;
    return S3_METHODS;
}

/* How many selectors of "a&b=c" the query satisfies: all of them, or 0. */
static unsigned sub_score(const char *sub, const struct s3_query *q)
{
    struct slice rest = slice_str(sub);
    unsigned n = 0;

    while (rest.n) {
        struct slice one = slice_cut(rest, '&', &rest), want;
        struct slice name = slice_cut(one, '=', &want);
        struct slice value = s3_query_get(q, name);

        if (!value.p || (want.p && !slice_eq(value, want)))
            return 0;
        n++;
    }
    return n;
}

/* Is name the (first) selector of some operation of this scope? */
static bool known_sub(enum s3_scope scope, struct slice name)
{
    for (size_t i = 0; i < s3_ops_n; i++) {
        struct slice rest, first;

        if (!s3_ops[i].sub || s3_ops[i].scope != scope)
            continue;
        first = slice_cut(slice_str(s3_ops[i].sub), '&', &rest);
        if (slice_find_char(first, '=') == first.n && slice_eq(first, name))
            return true;
    }
    return false;
}

/* Ordinary parameters: none of them selects an operation, even when it stands without a value. */
static bool known_param(struct slice name)
{
    static const char *const names[] = {
        "AWSAccessKeyId",
        "Action",
        "Expires",
        "Signature",
        "allow-unordered",
        "bucket-region",
        "continuation-token",
        "delimiter",
        "encoding-type",
        "fetch-owner",
        "id",
        "key-marker",
        "list-type",
        "marker",
        "max-buckets",
        "max-keys",
        "max-parts",
        "max-uploads",
        "optional-object-attributes",
        "part-number-marker",
        "partNumber",
        "prefix",
        "start-after",
        "upload-id-marker",
        "versionId",
        "version-id-marker",
        "x-id",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq(name, slice_str(names[i])))
            return true;
    return slice_starts(name, SLICE("response-")) ||
           (name.n > 6 && slice_eq_nocase(slice_first(name, 6), SLICE("x-amz-")));
}

/* Refuses what the chosen operation would silently ignore, though it was meant to select another.
 */
static enum rc check_leftovers(const struct s3_op *op, enum s3_scope scope,
                               const struct s3_query *q)
{
    for (size_t i = 0; i < q->n; i++) {
        struct slice name = q->params[i].name;

        if (!op->sub && known_sub(scope, name))
            return fail_s3(S3E_METHOD_NOT_ALLOWED, NULL);
        if (!op->sub && q->params[i].value.n == 0 && !known_param(name))
            return fail_s3(S3E_NOT_IMPLEMENTED, "The sub-resource \"%.*s\" is not implemented.",
                           (int)MIN(name.n, 64), name.p);
    }
    return RC_OK;
}

enum rc s3_route(enum s3_method method, enum s3_scope scope, const struct s3_query *query,
                 bool (*has_header)(void *arg, struct slice name), void *arg,
                 const struct s3_op **ret)
{
    const struct s3_op *best = NULL;
    unsigned best_score = 0;
    enum rc rc;

    for (size_t i = 0; i < s3_ops_n; i++) {
        const struct s3_op *op = &s3_ops[i];
        unsigned score = 1;

        if (op->method != method || op->scope != scope)
            continue;
        if (op->sub) {
            unsigned s = query->n ? sub_score(op->sub, query) : 0;

            if (!s)
                continue;
            score += 2 * s;
        }
        if (op->header) {
            if (!has_header(arg, slice_str(op->header)))
                continue;
            score++;
        }
        if (score > best_score) {
            best = op;
            best_score = score;
        }
    }
    if (!best)
        return fail_s3(S3E_METHOD_NOT_ALLOWED, NULL);
    /* OPTIONS is about the request that follows: any sub-resource is fine. */
    rc = method == S3_OPTIONS ? RC_OK : check_leftovers(best, scope, query);
    if (!rc)
        *ret = best;
    return rc;
}
