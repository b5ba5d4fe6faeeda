/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/list_token.h"

#include "base/checksum.h"

#define VERSION 1
#define SALT 0x53547261u /* so that a CRC of the plain key does not do */

size_t s3_list_token_encode(char out[S3_LIST_TOKEN_MAX], struct slice key)
{
    unsigned char raw[S3_LIST_TOKEN_KEY_MAX + 5];

    assert(key.n <= S3_LIST_TOKEN_KEY_MAX);
    raw[0] = VERSION;
    put_be32(raw + 1, crc32c(SALT, key.p, key.n));
    memcpy(raw + 5, key.p, key.n);
    return base64url_encode(out, raw, key.n + 5);
}

bool s3_list_token_decode(struct arena *a, struct slice token, struct slice *ret)
{
    unsigned char *raw;
    size_t n;

    if (token.n > S3_LIST_TOKEN_MAX)
        return false;
    raw = arena_alloc(a, token.n + 3);
    if (!raw || !base64url_decode(raw, &n, token) || n <= 5 || raw[0] != VERSION)
        return false;
    if (get_be32(raw + 1) != crc32c(SALT, raw + 5, n - 5))
        return false;
    *ret = slice_of(raw + 5, n - 5);
    return slice_is_utf8(*ret);
}
