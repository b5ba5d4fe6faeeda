/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   CHUNK_LINE --size > 0--> DATA --all--> DATA_END --CRLF, signature right--> CHUNK_LINE
 *       |
 *       +--size 0, signature right--> TRAILER --line--> TRAILER --empty line, trailer right--> END
 *
 * - chunk_left counts what is missing of the present chunk, total_left of the declared length; a
 * chunk larger than total_left is refused at its head.
 * - `previous` is the last signature that was verified: the seed at first.
 */
#include "auth/aws_chunked.h"

#include "base/encode.h"
#include "base/fail.h"

#include <stdio.h>

#define SIGN_TEXT_MAX 512
#define HEX_SIZE ((size_t)2 * SHA256_SIZE)

enum { CHUNK_LINE, DATA, DATA_END, TRAILER, END };

static const struct slice chunk_signature = SLICE_INIT("chunk-signature=");
static const struct slice trailer_signature = SLICE_INIT("x-amz-trailer-signature");

void aws_chunked_init(struct aws_chunked *c, const struct aws_chunked_config *cfg)
{
    c->cfg = *cfg;
    c->state = CHUNK_LINE;
    c->chunk_left = 0;
    c->total_left = cfg->decoded_length;
    c->last_chunk = c->trailer_seen = c->trailer_signed = false;
    c->line_n = c->value_n = 0;
    if (cfg->check)
        memcpy(c->previous, cfg->seed, sizeof c->previous);
    sha256_init(&c->hash);
}

static enum rc bad_framing(void)
{
    return fail_s3(S3E_INVALID_REQUEST, "The aws-chunked encoding of the body is not valid.");
}

static enum rc bad_trailer(void)
{
    return fail_s3(S3E_MALFORMED_TRAILER, NULL);
}

enum rc aws_chunked_cut_short(void)
{
    return fail_s3(S3E_INCOMPLETE_BODY, NULL);
}

/* Makes the signature of `text` and holds it against the claimed one. */
static enum rc check_signature(struct aws_chunked *c, const char *text, size_t n)
{
    unsigned char want[SHA256_SIZE];

    hmac_sha256(c->cfg.key, text, n, want);
    if (!digest_equal(want, c->claimed, sizeof want))
        return fail_s3(S3E_SIGNATURE_DOES_NOT_MATCH, NULL);
    memcpy(c->previous, want, sizeof want);
    return RC_OK;
}

static size_t sign_head(const struct aws_chunked *c, const char *algorithm,
                        char text[SIGN_TEXT_MAX])
{
    char previous[2 * SHA256_SIZE + 1];
    int n;

    hex_encode(previous, c->previous, sizeof c->previous);
    previous[HEX_SIZE] = 0;
    n = snprintf(text, SIGN_TEXT_MAX, "%s\n%s\n%s\n%s\n", algorithm, c->cfg.amz_date, c->cfg.scope,
                 previous);
    assert(n > 0 && (size_t)n + 2 * HEX_SIZE + 1 < SIGN_TEXT_MAX);
    return (size_t)n;
}

static enum rc check_chunk(struct aws_chunked *c)
{
    static const char of_nothing[] =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n";
    unsigned char hash[SHA256_SIZE];
    char text[SIGN_TEXT_MAX];
    size_t n;

    if (!c->cfg.check)
        return RC_OK;
    n = sign_head(c, "AWS4-HMAC-SHA256-PAYLOAD", text);
    memcpy(text + n, of_nothing, sizeof of_nothing - 1);
    n += sizeof of_nothing - 1;
    sha256_final(&c->hash, hash);
    hex_encode(text + n, hash, sizeof hash);
    return check_signature(c, text, n + HEX_SIZE);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

static bool parse_size(struct slice s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0 || s.n > 16)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        int digit = hex_digit(s.p[i]);

        if (digit < 0)
            return false;
        v = v << 4 | (unsigned)digit;
    }
    *ret = v;
    return true;
}

/* "size[;chunk-signature=hex]" */
static enum rc take_chunk_line(struct aws_chunked *c, struct slice line)
{
    struct slice extension, size = slice_trim(slice_cut(line, ';', &extension));

    if (!parse_size(size, &c->chunk_left))
        return bad_framing();
    if (c->cfg.chunk_signatures) {
        extension = slice_trim(extension);
        if (!slice_starts(extension, chunk_signature) ||
            extension.n != chunk_signature.n + HEX_SIZE ||
            !hex_decode(c->claimed, slice_from(extension, chunk_signature.n)))
            return bad_framing();
    }
    if (c->chunk_left > c->total_left)
        return fail_s3(S3E_INVALID_REQUEST,
                       "The body is longer than x-amz-decoded-content-length says.");
    c->last_chunk = c->chunk_left == 0;
    if (!c->last_chunk) {
        c->state = DATA;
        return RC_OK;
    }
    if (c->total_left)
        return aws_chunked_cut_short();
    c->state = TRAILER;
    return check_chunk(c);
}

static enum rc check_trailer_signature(struct aws_chunked *c, struct slice value)
{
    unsigned char hash[SHA256_SIZE];
    char text[SIGN_TEXT_MAX];
    size_t n;

    if (!c->trailer_seen || c->trailer_signed || value.n != HEX_SIZE ||
        !hex_decode(c->claimed, value))
        return bad_trailer();
    c->trailer_signed = true;
    if (!c->cfg.check)
        return RC_OK;
    n = sign_head(c, "AWS4-HMAC-SHA256-TRAILER", text);
    sha256_final(&c->hash, hash);
    hex_encode(text + n, hash, sizeof hash);
    return check_signature(c, text, n + HEX_SIZE);
}

/* What is signed of a trailer: its name in lower case, ':', the value, LF. */
static void hash_trailer(struct aws_chunked *c, struct slice name, struct slice value)
{
    for (size_t i = 0; i < name.n; i++) {
        char ch = name.p[i];

        ch = ch >= 'A' && ch <= 'Z' ? (char)(ch + 32) : ch;
        sha256_update(&c->hash, &ch, 1);
    }
    sha256_update(&c->hash, ":", 1);
    sha256_update(&c->hash, value.p, value.n);
    sha256_update(&c->hash, "\n", 1);
}

static enum rc end_of_trailer(struct aws_chunked *c)
{
    if (c->cfg.trailer.p && !c->trailer_seen)
        return bad_trailer();
    if (c->trailer_seen && c->cfg.chunk_signatures && !c->trailer_signed)
        return bad_trailer();
    c->state = END;
    return RC_EOF;
}

static enum rc take_trailer_line(struct aws_chunked *c, struct slice line)
{
    struct slice name, value;

    /* AWS's own example ends the value with LF before the CRLF. */
    if (line.n && line.p[line.n - 1] == '\n')
        line.n--;
    if (line.n == 0)
        return end_of_trailer(c);
    name = slice_trim(slice_cut(line, ':', &value));
    value = slice_trim(value);
    if (name.n == 0 || value.n == 0)
        return bad_trailer();
    if (c->cfg.chunk_signatures && slice_eq_nocase(name, trailer_signature))
        return check_trailer_signature(c, value);
    if (!c->cfg.trailer.p || c->trailer_seen || c->trailer_signed ||
        !slice_eq_nocase(name, c->cfg.trailer))
        return bad_trailer();
    memcpy(c->value, value.p, value.n);
    c->value_n = value.n;
    c->trailer_seen = true;
    hash_trailer(c, name, value);
    return RC_OK;
}

static enum rc take_line(struct aws_chunked *c)
{
    struct slice line = { c->line, c->line_n - 2 };

    c->line_n = 0;
    if (c->state == CHUNK_LINE)
        return take_chunk_line(c, line);
    if (c->state == TRAILER)
        return take_trailer_line(c, line);
    if (line.n)
        return bad_framing(); /* a chunk longer than its size */
    c->state = CHUNK_LINE;
    return check_chunk(c);
}

/* Collects a line until its CRLF. */
static enum rc feed_line(struct aws_chunked *c, struct slice in, size_t *ret_used)
{
    size_t max = c->state == DATA_END ? 2 : sizeof c->line;

    *ret_used = 0;
    while (*ret_used < in.n) {
        c->line[c->line_n++] = in.p[(*ret_used)++];
        if (c->line_n >= 2 && c->line[c->line_n - 2] == '\r' && c->line[c->line_n - 1] == '\n')
            return take_line(c);
        if (c->line_n == max)
            return c->state == TRAILER ? bad_trailer() : bad_framing();
    }
    return RC_OK;
}

enum rc aws_chunked_step(struct aws_chunked *c, struct slice in, size_t data_max, size_t *ret_used,
                         struct slice *ret_data)
{
    size_t n;

    *ret_data = SLICE_NONE;
    *ret_used = 0;
    if (c->state == END)
        return RC_EOF;
    if (c->state != DATA)
        return feed_line(c, in, ret_used);
    n = MIN(in.n, data_max);
    n = c->chunk_left < n ? (size_t)c->chunk_left : n;
    if (c->cfg.check)
        sha256_update(&c->hash, in.p, n);
    c->chunk_left -= n;
    c->total_left -= n;
    if (c->chunk_left == 0)
        c->state = DATA_END;
    *ret_used = n;
    *ret_data = slice_first(in, n);
    return RC_OK;
}

struct slice aws_chunked_trailer(const struct aws_chunked *c)
{
    return c->trailer_seen ? slice_of(c->value, c->value_n) : SLICE_NONE;
}
