/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/query.h"

#include "base/encode.h"

static enum rc decode(struct arena *a, struct slice raw, struct slice *ret)
{
    if (raw.n == 0) {
        *ret = SLICE("");
        return RC_OK;
    }
    if (uri_decode(a, raw, true, ret))
        return fail_s3(S3E_INVALID_URI, NULL);
    if (!slice_is_utf8(*ret))
        return fail_s3(S3E_INVALID_URI, "A query parameter is not valid UTF-8.");
    return RC_OK;
}

enum rc s3_query_parse(struct arena *a, struct slice raw, struct s3_query *ret)
{
    struct s3_query q = { 0 };
    size_t most = 1;

    if (raw.n == 0) {
        *ret = q;
        return RC_OK;
    }
    for (size_t i = 0; i < raw.n; i++)
        most += raw.p[i] == '&';
    q.params = arena_alloc(a, most * sizeof *q.params);
    if (!q.params)
        return RC_NO_MEM;
    while (raw.n) {
        struct slice pair = slice_cut(raw, '&', &raw), value;
        struct slice name = slice_cut(pair, '=', &value);
        enum rc rc;

        if (pair.n == 0)
            continue;
        rc = decode(a, name, &q.params[q.n].name);
        if (!rc)
            rc = decode(a, value, &q.params[q.n].value);
        if (rc)
            return rc;
        q.n++;
    }
    *ret = q;
    return RC_OK;
}

struct slice s3_query_get(const struct s3_query *q, struct slice name)
{
    for (size_t i = 0; i < q->n; i++)
        if (slice_eq(q->params[i].name, name))
            return q->params[i].value;
    return SLICE_NONE;
}
