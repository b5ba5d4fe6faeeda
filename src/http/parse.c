/* SPDX-License-Identifier: Apache-2.0 */
#include "http/parse.h"

#define METHOD_MAX 32u

/* Character classes: token, allowed in a field value, allowed in a target, allowed in a Host. */
enum { TOKEN = 1, VALUE = 2, TARGET = 4, HOST = 8 };
#define ALNUM (TOKEN | VALUE | TARGET | HOST)

static const unsigned char class_of[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = TOKEN | VALUE | TARGET | HOST,
    ['"'] = VALUE | TARGET,
    ['#'] = TOKEN | VALUE, /* a fragment is never sent */
    ['$' ... '\''] = TOKEN | VALUE | TARGET | HOST,
    ['('] = VALUE | TARGET | HOST,
    [')'] = VALUE | TARGET | HOST,
    ['*'] = TOKEN | VALUE | TARGET | HOST,
    ['+'] = TOKEN | VALUE | TARGET | HOST,
    [','] = VALUE | TARGET,
    ['-'] = TOKEN | VALUE | TARGET | HOST,
    ['.'] = TOKEN | VALUE | TARGET | HOST,
    ['/'] = VALUE | TARGET,
    ['0' ... '9'] = ALNUM,
    [':'] = VALUE | TARGET | HOST,
    [';'] = VALUE | TARGET | HOST,
    ['<'] = VALUE | TARGET,
    ['='] = VALUE | TARGET | HOST,
    ['>'] = VALUE | TARGET,
    ['?'] = VALUE | TARGET,
    ['@'] = VALUE | TARGET,
    ['A' ... 'Z'] = ALNUM,
    ['['] = VALUE | TARGET | HOST,
    ['\\'] = VALUE | TARGET,
    [']'] = VALUE | TARGET | HOST,
    ['^'] = TOKEN | VALUE | TARGET,
    ['_'] = TOKEN | VALUE | TARGET | HOST,
    ['`'] = TOKEN | VALUE | TARGET,
    ['a' ... 'z'] = ALNUM,
    ['{'] = VALUE | TARGET,
    ['|'] = TOKEN | VALUE | TARGET,
    ['}'] = VALUE | TARGET,
    ['~'] = TOKEN | VALUE | TARGET | HOST,
    [0x80 ... 0xff] = VALUE | TARGET, /* metadata and keys in raw UTF-8 */
};

/* How many leading bytes of s are of the class. */
static size_t span(struct slice s, unsigned char class)
{
    size_t i = 0;

    while (i < s.n && (class_of[(unsigned char)s.p[i]] & class))
        i++;
    return i;
}

bool http_is_token(struct slice s)
{
    return s.n > 0 && span(s, TOKEN) == s.n;
}

struct slice http_headers_find(const struct http_header *headers, unsigned n, struct slice name)
{
    for (unsigned i = 0; i < n; i++)
        if (headers[i].name.n == name.n && ((headers[i].name.p[0] ^ name.p[0]) & ~0x20) == 0 &&
            slice_eq_nocase(headers[i].name, name))
            return headers[i].value;
    return SLICE_NONE;
}

const char *http_parse_field(struct slice line, struct http_header *ret)
{
    size_t n = span(line, TOKEN);
    struct slice value;

    if (n == 0)
        return line.n && (line.p[0] == ' ' || line.p[0] == '\t') ? "folded header line"
                                                                 : "bad header name";
    if (n == line.n)
        return "header line without a colon";
    if (line.p[n] != ':')
        return line.p[n] == ' ' || line.p[n] == '\t' ? "space before a header's colon"
                                                     : "bad header name";
    value = slice_trim(slice_from(line, n + 1));
    if (span(value, VALUE) != value.n)
        return "control character in a header value";
    *ret = (struct http_header){ .name = slice_first(line, n), .value = value };
    return NULL;
}

void http_parser_init(struct http_parser *p, struct http_header *headers, unsigned headers_max,
                      size_t head_max, size_t target_max)
{
    *p = (struct http_parser){ .headers = headers,
                               .headers_max = headers_max,
                               .head_max = head_max,
                               .target_max = target_max };
}

static enum http_parse bad(struct http_parser *p, int status, const char *why)
{
    p->status = status;
    p->why = why;
    return HTTP_PARSE_BAD;
}

/* MORE stands for "fine so far" in the functions below. */

static enum http_parse parse_version(struct http_parser *p, struct slice v)
{
    if (slice_eq(v, SLICE("HTTP/1.1"))) {
        p->head.minor = 1;
        return HTTP_PARSE_MORE;
    }
    if (slice_eq(v, SLICE("HTTP/1.0")))
        return HTTP_PARSE_MORE;
    if (v.n == 8 && slice_starts(v, SLICE("HTTP/")) && v.p[5] >= '0' && v.p[5] <= '9' &&
        v.p[6] == '.' && v.p[7] >= '0' && v.p[7] <= '9')
        return bad(p, 505, "HTTP version not supported");
    return bad(p, 400, "bad request line");
}

static enum http_parse parse_absolute(struct http_parser *p, struct slice t)
{
    struct slice rest;
    size_t n = 0;

    if (t.n > 7 && slice_eq_nocase(slice_first(t, 7), SLICE("http://")))
        rest = slice_from(t, 7);
    else if (t.n > 8 && slice_eq_nocase(slice_first(t, 8), SLICE("https://")))
        rest = slice_from(t, 8);
    else
        return bad(p, 400, "bad request target");
    n = span(rest, HOST);
    if (n == 0 || (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?'))
        return bad(p, 400, "bad authority in the request target");
    p->absolute = true;
    p->head.host = slice_first(rest, n);
    p->head.path = slice_from(rest, n);
    return HTTP_PARSE_MORE;
}

static enum http_parse parse_target(struct http_parser *p, struct slice t)
{
    struct http_head *h = &p->head;
    size_t question;

    if (t.n > p->target_max)
        return bad(p, 414, "request target too long");
    if (t.n == 0 || span(t, TARGET) != t.n)
        return bad(p, 400, "bad character in the request target");
    h->target = h->path = t;
    if (t.p[0] == '*') {
        if (t.n != 1 || !slice_eq(h->method, SLICE("OPTIONS")))
            return bad(p, 400, "bad request target");
        return HTTP_PARSE_MORE;
    }
    if (t.p[0] != '/' && parse_absolute(p, t) == HTTP_PARSE_BAD)
        return HTTP_PARSE_BAD;
    question = slice_find_char(h->path, '?');
    if (question < h->path.n)
        h->query = slice_from(h->path, question + 1);
    h->path = slice_first(h->path, question);
    if (h->path.n == 0)
        h->path = SLICE("/");
    return HTTP_PARSE_MORE;
}

static enum http_parse parse_request_line(struct http_parser *p, struct slice line)
{
    size_t n = span(line, TOKEN);
    struct slice rest = slice_from(line, n + 1);
    size_t end = slice_find_char(rest, ' ');

    if (n == 0 || n > METHOD_MAX || n == line.n || line.p[n] != ' ')
        return bad(p, 400, "bad method");
    p->head.method = slice_first(line, n);
    if (end == rest.n)
        return bad(p, 400, "bad request line");
    if (parse_version(p, slice_from(rest, end + 1)) == HTTP_PARSE_BAD)
        return HTTP_PARSE_BAD;
    p->have_request_line = true;
    return parse_target(p, slice_first(rest, end));
}

static enum http_parse on_host(struct http_parser *p, struct slice v)
{
    if (p->has_host)
        return bad(p, 400, "two Host headers");
    if (span(v, HOST) != v.n)
        return bad(p, 400, "bad Host header");
    p->has_host = true;
    if (!p->absolute)
        p->head.host = v;
    return HTTP_PARSE_MORE;
}

static enum http_parse on_content_length(struct http_parser *p, struct slice v)
{
    if (p->head.has_content_length)
        return bad(p, 400, "two Content-Length headers");
    if (!slice_to_u64(v, &p->head.content_length) || p->head.content_length > INT64_MAX)
        return bad(p, 400, "bad Content-Length");
    p->head.has_content_length = true;
    return HTTP_PARSE_MORE;
}

static enum http_parse on_transfer_encoding(struct http_parser *p, struct slice v)
{
    bool chunked = false;

    if (p->has_encoding)
        return bad(p, 400, "two Transfer-Encoding headers");
    p->has_encoding = true;
    if (slice_eq_nocase(v, SLICE("chunked"))) {
        p->head.chunked = true;
        return HTTP_PARSE_MORE;
    }
    do {
        struct slice coding = slice_trim(slice_cut(v, ',', &v));

        if (coding.n == 0 || chunked)
            return bad(p, 400, "bad Transfer-Encoding");
        chunked = slice_eq_nocase(coding, SLICE("chunked"));
    } while (v.p);
    return bad(p, 501, "transfer coding not supported");
}

static enum http_parse on_connection(struct http_parser *p, struct slice v)
{
    do {
        struct slice option = slice_trim(slice_cut(v, ',', &v));

        if (slice_eq_nocase(option, SLICE("close")))
            p->close = true;
        else if (slice_eq_nocase(option, SLICE("keep-alive")))
            p->wants_keep_alive = true;
    } while (v.p);
    return HTTP_PARSE_MORE;
}

/* Headers that frame the message. Most are told apart by their length alone. */
static enum http_parse on_header(struct http_parser *p, const struct http_header *h)
{
    switch (h->name.n) {
    case 4:
        if (slice_eq_nocase(h->name, SLICE("Host")))
            return on_host(p, h->value);
        break;
    case 6:
        if (slice_eq_nocase(h->name, SLICE("Expect")) &&
            slice_eq_nocase(h->value, SLICE("100-continue")))
            p->head.expects_continue = true;
        break;
    case 10:
        if (slice_eq_nocase(h->name, SLICE("Connection")))
            return on_connection(p, h->value);
        break;
    case 14:
        if (slice_eq_nocase(h->name, SLICE("Content-Length")))
            return on_content_length(p, h->value);
        break;
    case 17:
        if (slice_eq_nocase(h->name, SLICE("Transfer-Encoding")))
            return on_transfer_encoding(p, h->value);
        break;
    default:
        break;
    }
    return HTTP_PARSE_MORE;
}

static enum http_parse parse_header(struct http_parser *p, struct slice line)
{
    struct http_header h;
    const char *why = http_parse_field(line, &h);

    if (why)
        return bad(p, 400, why);
    if (p->head.headers_n == p->headers_max)
        return bad(p, 431, "too many headers");
    p->headers[p->head.headers_n++] = h;
    return on_header(p, &h);
}

static enum http_parse finish(struct http_parser *p)
{
    struct http_head *h = &p->head;

    if (h->minor == 1 && !p->has_host)
        return bad(p, 400, "Host header missing");
    if (p->has_encoding && h->has_content_length)
        return bad(p, 400, "both Content-Length and Transfer-Encoding");
    /* RFC 9112 §6.1: an HTTP/1.0 message with a transfer coding is framed by a broken intermediary.
     */
    if (p->has_encoding && h->minor == 0)
        return bad(p, 400, "Transfer-Encoding in HTTP/1.0");
    if (h->minor == 0)
        h->expects_continue = false;
    h->keep_alive = !p->close && (h->minor == 1 || p->wants_keep_alive);
    h->bytes = p->line;
    return HTTP_PARSE_DONE;
}

static enum http_parse parse_line(struct http_parser *p, struct slice line)
{
    if (!p->have_request_line) {
        if (line.n)
            return parse_request_line(p, line);
        if (p->skipped_crlf)
            return bad(p, 400, "empty lines before the request");
        p->skipped_crlf = true; /* RFC 9112 §2.2: left by a client after an earlier body */
        return HTTP_PARSE_MORE;
    }
    return line.n ? parse_header(p, line) : finish(p);
}

static enum http_parse too_large(struct http_parser *p)
{
    if (!p->have_request_line)
        return bad(p, 414, "request line too long");
    return bad(p, 431, "request head too large");
}

/* Of a line whose end has not come yet: refuses early what no continuation can mend. */
static enum http_parse check_partial(struct http_parser *p, struct slice in)
{
    struct slice line = slice_from(in, p->line);
    size_t n;

    if (in.n >= p->head_max)
        return too_large(p);
    if (p->have_request_line || line.n == 0 || (line.n == 1 && line.p[0] == '\r'))
        return HTTP_PARSE_MORE;
    n = span(line, TOKEN);
    if (n > METHOD_MAX || (n < line.n && (n == 0 || line.p[n] != ' ')))
        return bad(p, 400, "bad method");
    if (line.n > n + 1 + p->target_max + sizeof " HTTP/1.1\r")
        return bad(p, 414, "request target too long");
    return HTTP_PARSE_MORE;
}

enum http_parse http_parser_feed(struct http_parser *p, struct slice in)
{
    while (p->scan < in.n) {
        const char *nl = memchr(in.p + p->scan, '\n', in.n - p->scan);
        size_t end;
        struct slice line;
        enum http_parse r;

        if (!nl) {
            p->scan = in.n;
            break;
        }
        end = (size_t)(nl - in.p);
        if (end >= p->head_max)
            return too_large(p);
        if (end == p->line || in.p[end - 1] != '\r')
            return bad(p, 400, "bare line feed");
        line = slice_of(in.p + p->line, end - 1 - p->line);
        p->line = p->scan = end + 1;
        r = parse_line(p, line);
        if (r != HTTP_PARSE_MORE)
            return r;
    }
    return check_partial(p, in);
}
