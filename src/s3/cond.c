/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/cond.h"

#include "base/clock.h"

static bool later(int64_t a_ns, int64_t b_ns)
{
    return a_ns / NS_PER_S > b_ns / NS_PER_S; /* headers tell whole seconds */
}

static enum rc failed(const char *name, const char **ret_condition)
{
    *ret_condition = name;
    return fail_s3(S3E_PRECONDITION_FAILED, NULL);
}

enum rc s3_cond_check(const struct s3_read_cond *cond, const struct meta_head *h,
                      const char **ret_condition)
{
    int64_t t;

    if (cond->if_match.p) {
        if (!meta_etag_matches(cond->if_match, h))
            return failed("If-Match", ret_condition);
    } else if (cond->if_unmodified_since.p && clock_parse_http(cond->if_unmodified_since, &t) &&
               later(h->mtime_ns, t)) {
        return failed("If-Unmodified-Since", ret_condition);
    }
    if (cond->if_none_match.p) {
        if (meta_etag_matches(cond->if_none_match, h)) {
            *ret_condition = "If-None-Match";
            return fail_s3(S3E_NOT_MODIFIED, NULL);
        }
    } else if (cond->if_modified_since.p && clock_parse_http(cond->if_modified_since, &t) &&
               !later(h->mtime_ns, t)) {
        *ret_condition = "If-Modified-Since";
        return fail_s3(S3E_NOT_MODIFIED, NULL);
    }
    return RC_OK;
}

/* Digits only; what does not fit is as good as the largest number. */
static bool position(struct slice s, uint64_t *ret)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    if (!s.n)
        return false;
    if (!slice_to_u64(s, ret))
        *ret = UINT64_MAX;
    return true;
}

enum rc s3_range_parse(struct slice header, uint64_t size, struct s3_range *ret)
{
    struct s3_range whole = { .length = size };
    struct slice first, last;
    uint64_t from, to = UINT64_MAX;

    *ret = whole;
    if (!slice_eq_nocase(slice_first(header, 6), SLICE("bytes=")))
        return RC_OK;
    first = slice_cut(slice_trim(slice_from(header, 6)), '-', &last);
    if (!last.p)
        return RC_OK;
    if (!first.n) {
        if (!position(last, &to))
            return RC_OK;
        if (size == 0 && to) /* nothing to cut from: the empty whole */
            return RC_OK;
        if (!to)
            return fail_s3(S3E_INVALID_RANGE, NULL);
        to = MIN(to, size);
        *ret = (struct s3_range){ true, size - to, to };
        return RC_OK;
    }
    if (!position(first, &from) || (last.n && !position(last, &to)) || from > to)
        return RC_OK;
    if (from >= size)
        return fail_s3(S3E_INVALID_RANGE, NULL);
    to = MIN(to, size - 1);
    *ret = (struct s3_range){ true, from, to - from + 1 };
    return RC_OK;
}

bool s3_if_range_holds(struct slice header, const struct meta_head *h)
{
    int64_t t;

    if (header.n && (header.p[0] == '"' || slice_starts(header, SLICE("W/"))))
        return header.p[0] == '"' && meta_etag_matches(header, h);
    if (clock_parse_http(header, &t))
        return h->mtime_ns / NS_PER_S == t / NS_PER_S;
    return meta_etag_matches(header, h);
}
