/* SPDX-License-Identifier: Apache-2.0 */
#include "base/encode.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "put_be* and get_be* assume a little-endian machine"
#endif

static const char hex_lower[] = "0123456789abcdef";
static const char hex_upper[] = "0123456789ABCDEF";
static const char b64_plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char b64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void hex_encode(char *out, const void *in, size_t n)
{
    const unsigned char *s = in;

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = hex_lower[s[i] >> 4];
        out[2 * i + 1] = hex_lower[s[i] & 15];
    }
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hex_decode(void *out, struct slice in)
{
    unsigned char *d = out;

    if (in.n % 2)
        return false;
    for (size_t i = 0; i < in.n; i += 2) {
        int hi = hex_value(in.p[i]), lo = hex_value(in.p[i + 1]);

        if (hi < 0 || lo < 0)
            return false;
        d[i / 2] = (unsigned char)(hi << 4 | lo);
    }
    return true;
}

static size_t b64_encode(const char *digits, bool pad, char *out, const void *in, size_t n)
{
    const unsigned char *s = in;
    char *d = out;

    for (; n >= 3; n -= 3, s += 3) {
        *d++ = digits[s[0] >> 2];
        *d++ = digits[(s[0] & 3) << 4 | s[1] >> 4];
        *d++ = digits[(s[1] & 15) << 2 | s[2] >> 6];
        *d++ = digits[s[2] & 63];
    }
    if (n) {
        *d++ = digits[s[0] >> 2];
        *d++ = digits[(s[0] & 3) << 4 | (n > 1 ? s[1] >> 4 : 0)];
        if (n > 1)
            *d++ = digits[(s[1] & 15) << 2];
        for (; pad && n < 3; n++)
            *d++ = '=';
    }
    return (size_t)(d - out);
}

size_t base64_encode(char *out, const void *in, size_t n)
{
    return b64_encode(b64_plain, true, out, in, n);
}

size_t base64url_encode(char *out, const void *in, size_t n)
{
    return b64_encode(b64_url, false, out, in, n);
}

static int b64_value(const char *digits, char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == digits[62] ? 62 : c == digits[63] ? 63 : -1;
}

static bool b64_decode(const char *digits, void *out, size_t *ret_n, struct slice in)
{
    unsigned char *d = out;
    uint32_t acc = 0;
    unsigned bits = 0;

    if (in.n % 4 == 1)
        return false;
    for (size_t i = 0; i < in.n; i++) {
        int v = b64_value(digits, in.p[i]);

        if (v < 0)
            return false;
        acc = acc << 6 | (unsigned)v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *d++ = (unsigned char)(acc >> bits);
        }
    }
    if (acc & ((1u << bits) - 1))
        return false;
    *ret_n = (size_t)(d - (unsigned char *)out);
    return true;
}

bool base64_decode(void *out, size_t *ret_n, struct slice in)
{
    if (in.n % 4)
        return false;
    if (in.n && in.p[in.n - 1] == '=')
        in.n -= in.p[in.n - 2] == '=' ? 2 : 1;
    return b64_decode(b64_plain, out, ret_n, in);
}

bool base64url_decode(void *out, size_t *ret_n, struct slice in)
{
    return b64_decode(b64_url, out, ret_n, in);
}

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

enum rc uri_encode(struct buf *out, struct slice in, bool keep_slash)
{
    enum rc rc = buf_reserve(out, in.n);
    char *d;

    if (rc)
        return rc;
    d = out->p + out->n;
    for (size_t i = 0; i < in.n; i++) {
        unsigned char c = (unsigned char)in.p[i];

        if (is_unreserved(c) || (keep_slash && c == '/')) {
            *d++ = (char)c;
            continue;
        }
        out->n = (size_t)(d - out->p);
        rc = buf_reserve(out, 3 * (in.n - i));
        if (rc)
            return rc;
        d = out->p + out->n;
        *d++ = '%';
        *d++ = hex_upper[c >> 4];
        *d++ = hex_upper[c & 15];
    }
    if (out->p)
        out->n = (size_t)(d - out->p);
    return RC_OK;
}

enum rc uri_decode(struct arena *a, struct slice in, bool plus_is_space, struct slice *ret)
{
    bool plain =
        slice_find_char(in, '%') == in.n && (!plus_is_space || slice_find_char(in, '+') == in.n);
    char *out, *d;

    if (plain) {
        *ret = in;
        return RC_OK;
    }
    out = d = arena_alloc(a, in.n);
    if (!out)
        return RC_NO_MEM;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];

        if (c == '%') {
            if (in.n - i < 3 || !hex_decode(d, slice_of(in.p + i + 1, 2)))
                return RC_INVALID;
            d++;
            i += 2;
            continue;
        }
        *d++ = plus_is_space && c == '+' ? ' ' : c;
    }
    *ret = slice_of(out, (size_t)(d - out));
    return RC_OK;
}
