/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/copy_source.h"

#include "base/encode.h"
#include "s3/target.h"

#define VERSION "?versionId="

static enum rc bad_source(void)
{
    return fail_s3(S3E_INVALID_ARGUMENT, "Copy Source must mention the source bucket and key: "
                                         "sourcebucket/sourcekey");
}

enum rc s3_copy_source_parse(struct arena *a, struct slice header, struct s3_copy_source *ret)
{
    struct s3_copy_source s = { 0 };
    size_t at = slice_find(header, SLICE(VERSION));
    struct slice path = slice_first(header, at), decoded;

    if (at != SIZE_MAX)
        s.version = slice_from(header, at + sizeof VERSION - 1);
    if (path.n && path.p[0] == '/')
        path = slice_from(path, 1);
    if (!path.n)
        return bad_source();
    /* A key sent raw may hold a '%' that begins no escape: then it is meant as it stands. */
    if (uri_decode(a, path, false, &decoded))
        decoded = path;
    if (decoded.n && decoded.p[0] == '/') /* the slash itself was encoded */
        decoded = slice_from(decoded, 1);
    s.bucket = slice_cut(decoded, '/', &s.key);
    if (!s.bucket.n || !s.key.n)
        return bad_source();
    *ret = s;
    return s3_key_check(s.key);
}
