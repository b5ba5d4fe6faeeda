/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode — hex, base64, percent-encoding and big-endian integers.
 *
 * Owns:    output goes to the caller's buffers.
 * Errors:  bool false (or RC_INVALID) for malformed input; output is then unspecified.
 * Threads: any.
 */
#ifndef STRATA_BASE_ENCODE_H
#define STRATA_BASE_ENCODE_H

#include "base/arena.h"
#include "base/buf.h"

/* Writes 2n lower-case digits, no NUL. */
void hex_encode(char *out, const void *in, size_t n);
/* Exactly in.n / 2 bytes; either case. */
bool hex_decode(void *out, struct slice in) MUST_CHECK;

/* RFC 4648 §4, padded. Room for BASE64_SIZE(n) characters is needed; returns how many; no NUL. */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)
size_t base64_encode(char *out, const void *in, size_t n);
/* RFC 4648 §5 (URL and file name safe), without padding; at most BASE64_SIZE(n). */
size_t base64url_encode(char *out, const void *in, size_t n);
/* Strict: right padding, no white space, zero bits at the end. out needs in.n / 4 * 3 + 3 bytes. */
bool base64_decode(void *out, size_t *ret_n, struct slice in) MUST_CHECK;
bool base64url_decode(void *out, size_t *ret_n, struct slice in) MUST_CHECK;

/* Percent-encodes all but the unreserved characters of RFC 3986 §2.3, with upper-case digits; a
 * slash stays when keep_slash. This is the UriEncode of the SigV4 specification. */
enum rc uri_encode(struct buf *out, struct slice in, bool keep_slash) MUST_CHECK;
/* Decodes %XX; plus_is_space for query strings sent by forms. A bad escape is RC_INVALID.
 * The result lives in the arena (or is `in` itself when nothing was escaped). */
enum rc uri_decode(struct arena *a, struct slice in, bool plus_is_space,
                   struct slice *ret) MUST_CHECK;

static inline void put_be16(void *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}
static inline void put_be32(void *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}
static inline void put_be64(void *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}
static inline uint16_t get_be16(const void *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}
static inline uint32_t get_be32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}
static inline uint64_t get_be64(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

#endif
