/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a chunked body: the decoder must stay inside its input, and data and end must not
 * depend on how the bytes are split. The first byte chooses the split.
 */
#include "http/chunked.h"

#define TRAILER_MAX 256u
#define HEADERS_MAX 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum http_chunk r;
    size_t used, data_n;
    uint64_t sum; /* of the data, by position */
    unsigned trailers_n;
};

static struct outcome decode(const char *in, size_t n, size_t step)
{
    struct outcome o = { .r = HTTP_CHUNK_MORE };
    struct http_header t[HEADERS_MAX];
    struct http_chunked c;
    char trailer[TRAILER_MAX];

    http_chunked_init(&c, trailer, sizeof trailer);
    while (o.used < n) {
        size_t piece = MIN(step, n - o.used), used, take;

        o.r = http_chunked_next(&c, slice_of(in + o.used, piece), &used);
        assert(used <= piece);
        o.used += used;
        if (o.r == HTTP_CHUNK_END || o.r == HTTP_CHUNK_BAD)
            break;
        assert(o.r == HTTP_CHUNK_DATA || used == piece);
        if (o.r != HTTP_CHUNK_DATA)
            continue;
        take = (size_t)MIN(piece - used, c.left);
        for (size_t i = 0; i < take; i++)
            o.sum += (uint64_t)(unsigned char)in[o.used + i] * (o.data_n + i + 1);
        o.used += take;
        o.data_n += take;
        http_chunked_took(&c, take);
    }
    if (o.r == HTTP_CHUNK_END)
        o.trailers_n = http_chunked_trailers(&c, t, HEADERS_MAX);
    for (unsigned i = 0; i < o.trailers_n; i++)
        assert(t[i].name.n && t[i].value.p + t[i].value.n <= trailer + sizeof trailer);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome a, b;
    size_t step;
    char *in;

    if (size < 2)
        return 0;
    step = 1 + data[0] % 17;
    in = malloc(size - 1);
    if (!in)
        return 0;
    memcpy(in, data + 1, size - 1);
    a = decode(in, size - 1, size);
    b = decode(in, size - 1, step);
    assert(a.used == b.used && a.data_n == b.data_n && a.sum == b.sum);
    assert((a.r == HTTP_CHUNK_END) == (b.r == HTTP_CHUNK_END));
    assert((a.r == HTTP_CHUNK_BAD) == (b.r == HTTP_CHUNK_BAD));
    assert(a.trailers_n == b.trailers_n);
    free(in);
    return 0;
}
