/* SPDX-License-Identifier: Apache-2.0 */
#include "base/encode.h"
#include "meta/meta.h"

size_t meta_etag(const struct meta_head *h, char out[META_ETAG_MAX])
{
    char digits[10];
    size_t n = 32, digits_n = 0;

    hex_encode(out, h->md5, sizeof h->md5);
    if (!h->parts)
        return n;
    out[n++] = '-';
    for (uint32_t v = h->parts; v; v /= 10)
        digits[digits_n++] = (char)('0' + v % 10);
    while (digits_n)
        out[n++] = digits[--digits_n];
    return n;
}

/* The next element of a list whose quoted strings may hold commas; a weak mark is dropped. */
static struct slice next_etag(struct slice *rest)
{
    struct slice s = slice_trim(*rest), found;
    size_t end;

    if (slice_starts(s, SLICE("W/")))
        s = slice_from(s, 2);
    if (s.n && s.p[0] == '"') {
        s = slice_from(s, 1);
        end = slice_find_char(s, '"');
        found = slice_first(s, end);
        s = slice_from(s, end + 1);
        end = slice_find_char(s, ',');
    } else {
        end = slice_find_char(s, ',');
        found = slice_trim(slice_first(s, end));
    }
    *rest = slice_from(s, end + 1);
    return found;
}

bool meta_etag_matches(struct slice header_value, const struct meta_head *h)
{
    char buf[META_ETAG_MAX];
    struct slice etag = slice_of(buf, meta_etag(h, buf));
    struct slice rest = slice_trim(header_value);

    if (slice_eq(rest, SLICE("*")))
        return true;
    while (rest.n)
        if (slice_eq(next_etag(&rest), etag))
            return true;
    return false;
}
