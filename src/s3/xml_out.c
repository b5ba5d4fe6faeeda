/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/xml_out.h"

#include "base/clock.h"
#include "base/encode.h"

void xml_init(struct xml *x)
{
    *x = (struct xml){ .rc = RC_OK };
    buf_init(&x->b, 64u << 20);
    xml_raw(x, SLICE(XML_DECLARATION));
}

void xml_fini(struct xml *x)
{
    buf_fini(&x->b);
}

void xml_raw(struct xml *x, struct slice s)
{
    if (!x->rc)
        x->rc = buf_add(&x->b, s);
}

static void mark(struct xml *x, const char *before, const char *tag)
{
    xml_raw(x, slice_str(before));
    xml_raw(x, slice_str(tag));
    xml_raw(x, SLICE(">"));
}

void xml_open(struct xml *x, const char *tag)
{
    mark(x, "<", tag);
}

void xml_close(struct xml *x, const char *tag)
{
    mark(x, "</", tag);
}

/* Non-zero for bytes that cannot stand for themselves. */
static const unsigned char special[256] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1,         1,         1,         1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ['&'] = 1, ['<'] = 1, ['>'] = 1, ['"'] = 1,
};

static char *escape_one(char *p, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";

    switch (c) {
    case '&':
        memcpy(p, "&amp;", 5);
        return p + 5;
    case '<':
        memcpy(p, "&lt;", 4);
        return p + 4;
    case '>':
        memcpy(p, "&gt;", 4);
        return p + 4;
    case '"':
        memcpy(p, "&quot;", 6);
        return p + 6;
    default:
        memcpy(p, "&#x", 3);
        p += 3;
        if (c >= 16)
            *p++ = digits[c >> 4];
        *p++ = digits[c & 15];
        *p++ = ';';
        return p;
    }
}

char *xml_escape(char *p, struct slice s)
{
    size_t from = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (LIKELY(!special[(unsigned char)s.p[i]]))
            continue;
        memcpy(p, s.p + from, i - from);
        p = escape_one(p + (i - from), (unsigned char)s.p[i]);
        from = i + 1;
    }
    if (from < s.n) {
        memcpy(p, s.p + from, s.n - from);
        p += s.n - from;
    }
    return p;
}

void xml_text(struct xml *x, const char *tag, struct slice value)
{
    xml_open(x, tag);
    if (!x->rc)
        x->rc = buf_reserve(&x->b, value.n * XML_ESCAPED_MAX);
    if (!x->rc)
        x->b.n = (size_t)(xml_escape(x->b.p + x->b.n, value) - x->b.p);
    xml_close(x, tag);
}

void xml_url(struct xml *x, const char *tag, struct slice value)
{
    xml_open(x, tag);
    if (!x->rc)
        x->rc = uri_encode(&x->b, value, true);
    xml_close(x, tag);
}

void xml_u64(struct xml *x, const char *tag, uint64_t value)
{
    xml_open(x, tag);
    if (!x->rc)
        x->rc = buf_add_u64(&x->b, value);
    xml_close(x, tag);
}

void xml_bool(struct xml *x, const char *tag, bool value)
{
    xml_text(x, tag, value ? SLICE("true") : SLICE("false"));
}

void xml_time(struct xml *x, const char *tag, int64_t wall_ns)
{
    char iso[CLOCK_ISO_SIZE];

    clock_format_iso(iso, wall_ns / NS_PER_S * NS_PER_S);
    xml_text(x, tag, slice_of(iso, sizeof iso));
}
