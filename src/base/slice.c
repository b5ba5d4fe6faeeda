/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

size_t slice_find(struct slice s, struct slice needle)
{
    const char *q;

    if (needle.n == 0)
        return 0;
    if (s.n < needle.n)
        return SIZE_MAX;
    q = memmem(s.p, s.n, needle.p, needle.n);
    return q ? (size_t)(q - s.p) : SIZE_MAX;
}

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

bool slice_eq_nocase(struct slice a, struct slice b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower((unsigned char)a.p[i]) != lower((unsigned char)b.p[i]))
            return false;
    return true;
}

struct slice slice_trim(struct slice s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

struct slice slice_cut(struct slice s, char sep, struct slice *rest)
{
    size_t at = slice_find_char(s, sep);

    *rest = at < s.n ? slice_from(s, at + 1) : SLICE_NONE;
    return slice_first(s, at);
}

bool slice_to_u64(struct slice s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned d = (unsigned char)s.p[i] - '0';

        if (d > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *ret = v;
    return true;
}

/* Length of the sequence that starts with lead byte c, and the least code point it may encode. */
static size_t utf8_length(unsigned char c, uint32_t *ret_least, uint32_t *ret_bits)
{
    if (c < 0x80) {
        *ret_least = 0;
        *ret_bits = c;
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        *ret_least = 0x80;
        *ret_bits = c & 0x1f;
        return 2;
    }
    if (c >= 0xe0 && c <= 0xef) {
        *ret_least = 0x800;
        *ret_bits = c & 0x0f;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        *ret_least = 0x10000;
        *ret_bits = c & 0x07;
        return 4;
    }
    return 0;
}

bool slice_is_utf8(struct slice s)
{
    for (size_t i = 0; i < s.n;) {
        uint32_t least, code;
        size_t n = utf8_length((unsigned char)s.p[i], &least, &code);

        if (n == 0 || n > s.n - i)
            return false;
        for (size_t k = 1; k < n; k++) {
            unsigned char c = (unsigned char)s.p[i + k];

            if ((c & 0xc0) != 0x80)
                return false;
            code = code << 6 | (c & 0x3f);
        }
        if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
            return false;
        i += n;
    }
    return true;
}
