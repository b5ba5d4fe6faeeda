/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"

void bench_response_reset(struct bench_response *r)
{
    r->head_n = r->line_n = 0;
    r->status = 0;
    r->have_head = r->chunked = r->close = r->until_close = r->chunk_ended = false;
    r->left = r->body_n = 0;
}

static bool parse_header(struct bench_response *r, struct slice line, bool *has_length)
{
    struct slice value, name = slice_cut(line, ':', &value);

    value = slice_trim(value);
    if (slice_eq_nocase(name, SLICE("content-length"))) {
        *has_length = true;
        return slice_to_u64(value, &r->left);
    }
    if (slice_eq_nocase(name, SLICE("transfer-encoding")))
        r->chunked = slice_eq_nocase(value, SLICE("chunked"));
    if (slice_eq_nocase(name, SLICE("connection")) && slice_eq_nocase(value, SLICE("close")))
        r->close = true;
    return true;
}

/* False when it is no HTTP/1 response. */
static bool parse_head(struct bench_response *r, bool is_head)
{
    struct slice rest = slice_of(r->head, r->head_n), line;
    bool has_length = false;
    uint64_t status;

    line = slice_cut(rest, '\n', &rest);
    if (line.n < 12 || !slice_starts(line, SLICE("HTTP/1.")) ||
        !slice_to_u64(slice_of(line.p + 9, 3), &status))
        return false;
    r->status = (int)status;
    while (rest.n) {
        line = slice_cut(rest, '\n', &rest);
        if (line.n && line.p[line.n - 1] == '\r')
            line.n--;
        if (line.n && !parse_header(r, line, &has_length))
            return false;
    }
    if (is_head || status == 204 || status == 304) {
        r->left = 0;
        r->chunked = false;
    } else if (!has_length && !r->chunked) {
        r->until_close = r->close = true;
    }
    return true;
}

/* Takes the head's bytes in; returns how many were used, SIZE_MAX for a bad head. */
static size_t feed_head(struct bench_response *r, const char *p, size_t n, bool is_head)
{
    size_t take = MIN(n, sizeof r->head - r->head_n), at = r->head_n > 3 ? r->head_n - 3 : 0;
    const char *end;
    size_t used;

    memcpy(r->head + r->head_n, p, take);
    end = memmem(r->head + at, r->head_n + take - at, "\r\n\r\n", 4);
    if (!end) {
        r->head_n += take;
        return r->head_n == sizeof r->head ? SIZE_MAX : take;
    }
    used = (size_t)(end + 4 - r->head) - r->head_n;
    r->head_n += used;
    if (!parse_head(r, is_head))
        return SIZE_MAX;
    if (r->status / 100 == 1) {
        bench_response_reset(r);
        return used;
    }
    r->have_head = true;
    return used;
}

/* A byte of the framing between chunks. */
static enum bench_read feed_chunk_byte(struct bench_response *r, char c)
{
    if (c == '\r')
        return BENCH_MORE;
    if (c != '\n') {
        if (r->line_n == sizeof r->line - 1)
            return BENCH_BAD;
        r->line[r->line_n++] = c;
        return BENCH_MORE;
    }
    r->line[r->line_n] = 0;
    if (r->chunk_ended) /* the trailer ends with an empty line */
        return r->line_n ? (r->line_n = 0, BENCH_MORE) : BENCH_DONE;
    if (r->line_n == 0) /* the line end behind a chunk */
        return BENCH_MORE;
    r->left = strtoull(r->line, NULL, 16);
    r->chunk_ended = r->left == 0;
    r->line_n = 0;
    return BENCH_MORE;
}

enum bench_read bench_response_feed(struct bench_response *r, const char *p, size_t n, bool is_head,
                                    void (*sink)(void *arg, const char *p, size_t n), void *arg)
{
    while (n && !r->have_head) {
        size_t used = feed_head(r, p, n, is_head);

        if (used == SIZE_MAX)
            return BENCH_BAD;
        p += used;
        n -= used;
    }
    if (!r->have_head)
        return BENCH_MORE;
    for (;;) {
        size_t take = r->until_close ? n : (size_t)MIN((uint64_t)n, r->left);

        if (take) {
            sink(arg, p, take);
            r->body_n += take;
            r->left -= r->until_close ? 0 : take;
            p += take;
            n -= take;
        }
        if (!r->chunked)
            return !r->until_close && r->left == 0 ? BENCH_DONE : BENCH_MORE;
        if (r->left || !n)
            return BENCH_MORE;
        switch (feed_chunk_byte(r, *p)) {
        case BENCH_DONE:
            return BENCH_DONE;
        case BENCH_BAD:
            return BENCH_BAD;
        case BENCH_MORE:
            p++;
            n--;
        }
    }
}
