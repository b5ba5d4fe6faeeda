/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIZE → (EXTENSION) → SIZE_LF → DATA → DATA_CR → DATA_LF → SIZE …
 * A size of zero leads to TRAILER instead of DATA, and an empty trailer line to END.
 */
#include "http/chunked.h"

#include "http/parse.h"

#define DIGITS_MAX 16u
#define EXTENSIONS_MAX 4096u /* of a whole body */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, END, BAD };

void http_chunked_init(struct http_chunked *c, char *trailer, uint32_t trailer_max)
{
    *c = (struct http_chunked){ .trailer = trailer, .trailer_max = trailer_max };
}

static bool bad(struct http_chunked *c, const char *why)
{
    c->state = BAD;
    c->why = why;
    return false;
}

static int hex_value(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

static bool on_size(struct http_chunked *c, char ch)
{
    int v = hex_value(ch);

    if (v >= 0) {
        if (c->digits == DIGITS_MAX)
            return bad(c, "chunk size too long");
        c->digits++;
        c->left = c->left << 4 | (unsigned)v;
        return true;
    }
    if (c->digits == 0 || (ch != ';' && ch != '\r'))
        return bad(c, "bad chunk size");
    if (c->left > INT64_MAX)
        return bad(c, "chunk size too large");
    c->state = ch == ';' ? EXTENSION : SIZE_LF;
    return true;
}

static bool on_extension(struct http_chunked *c, char ch)
{
    if (ch == '\r') {
        c->state = SIZE_LF;
        return true;
    }
    if (((unsigned char)ch < 0x20 && ch != '\t') || ch == 0x7f)
        return bad(c, "bad chunk extension");
    if (++c->extension_n > EXTENSIONS_MAX)
        return bad(c, "chunk extensions too long");
    return true;
}

static bool on_size_lf(struct http_chunked *c, char ch)
{
    if (ch != '\n')
        return bad(c, "bare carriage return in a chunk header");
    c->digits = 0;
    c->state = c->left ? DATA : TRAILER;
    return true;
}

/* RFC 9110 §6.5.1: fields that frame, route, authenticate or describe the content make no sense
 * here. */
static bool forbidden(struct slice name)
{
    static const struct slice names[] = {
        SLICE_INIT("transfer-encoding"),
        SLICE_INIT("content-length"),
        SLICE_INIT("host"),
        SLICE_INIT("trailer"),
        SLICE_INIT("content-encoding"),
        SLICE_INIT("content-type"),
        SLICE_INIT("content-range"),
        SLICE_INIT("connection"),
        SLICE_INIT("keep-alive"),
        SLICE_INIT("te"),
        SLICE_INIT("upgrade"),
        SLICE_INIT("authorization"),
        SLICE_INIT("cookie"),
        SLICE_INIT("expect"),
        SLICE_INIT("range"),
        SLICE_INIT("if-match"),
        SLICE_INIT("if-none-match"),
        SLICE_INIT("if-modified-since"),
        SLICE_INIT("if-range"),
        SLICE_INIT("if-unmodified-since"),
        SLICE_INIT("cache-control"),
        SLICE_INIT("max-forwards"),
        SLICE_INIT("pragma"),
        SLICE_INIT("proxy-authorization"),
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq_nocase(name, names[i]))
            return true;
    return false;
}

static bool on_trailer_line(struct http_chunked *c)
{
    struct slice line = slice_of(c->trailer + c->line, c->trailer_n - c->line);
    struct http_header h;
    const char *why;

    if (line.n < 2 || line.p[line.n - 2] != '\r')
        return bad(c, "bare line feed in a trailer");
    line.n -= 2;
    if (line.n == 0) {
        c->trailer_n = c->line;
        c->state = END;
        return true;
    }
    why = http_parse_field(line, &h);
    if (why)
        return bad(c, why);
    if (forbidden(h.name))
        return bad(c, "field not allowed in a trailer");
    c->line = c->trailer_n;
    return true;
}

static bool on_trailer(struct http_chunked *c, char ch)
{
    if (c->trailer_n == c->trailer_max)
        return bad(c, "trailers too long");
    c->trailer[c->trailer_n++] = ch;
    return ch != '\n' || on_trailer_line(c);
}

static bool step(struct http_chunked *c, char ch)
{
    switch (c->state) {
    case SIZE:
        return on_size(c, ch);
    case EXTENSION:
        return on_extension(c, ch);
    case SIZE_LF:
        return on_size_lf(c, ch);
    case DATA_CR:
        c->state = DATA_LF;
        return ch == '\r' || bad(c, "chunk data longer than its size");
    case DATA_LF:
        c->state = SIZE;
        return ch == '\n' || bad(c, "bare carriage return after chunk data");
    case TRAILER:
        return on_trailer(c, ch);
    default:
        return false;
    }
}

enum http_chunk http_chunked_next(struct http_chunked *c, struct slice in, size_t *ret_used)
{
    size_t i = 0;

    while (i < in.n && c->state != DATA && c->state != END && c->state != BAD)
        if (step(c, in.p[i]))
            i++;
    *ret_used = i;
    if (c->state == DATA)
        return HTTP_CHUNK_DATA;
    if (c->state == END)
        return HTTP_CHUNK_END;
    return c->state == BAD ? HTTP_CHUNK_BAD : HTTP_CHUNK_MORE;
}

void http_chunked_took(struct http_chunked *c, uint64_t n)
{
    assert(c->state == DATA && n <= c->left);
    c->left -= n;
    if (c->left == 0)
        c->state = DATA_CR;
}

unsigned http_chunked_trailers(const struct http_chunked *c, struct http_header *out, unsigned max)
{
    struct slice rest = slice_of(c->trailer, c->trailer_n);
    unsigned n = 0;

    while (rest.n && n < max) {
        size_t end = slice_find_char(rest, '\n');

        if (http_parse_field(slice_first(rest, end - 1), &out[n]) == NULL)
            n++;
        rest = slice_from(rest, end + 1);
    }
    return n;
}
