/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/auth.h"
#include "auth/aws_chunked.h"
#include "base/fail.h"

#define PEEK_MAX ((size_t)1 << 20)

struct auth_body_state {
    bool framed; /* aws-chunked */
    bool ended;
    bool check_sha256;
    uint64_t length; /* decoded, of the whole; UINT64_MAX: unknown */
    struct slice trailer_name;
    struct sha256 hash;         /* for check_sha256 */
    struct aws_chunked chunked; /* only when framed */
};

static struct slice find_header(const struct http_req *req, struct slice name)
{
    for (unsigned i = 0; i < req->headers_n; i++) {
        if (slice_eq_nocase(req->headers[i].name, name))
            return req->headers[i].value.p ? req->headers[i].value : SLICE("");
    }
    return SLICE_NONE;
}

static bool is_checksum_value(struct slice name)
{
    static const struct slice settings[] = {
        SLICE_INIT("algorithm"),
        SLICE_INIT("type"),
        SLICE_INIT("mode"),
    };
    static const struct slice prefix = SLICE_INIT("x-amz-checksum-");

    if (name.n <= prefix.n || !slice_eq_nocase(slice_first(name, prefix.n), prefix))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        if (slice_eq_nocase(slice_from(name, prefix.n), settings[i]))
            return false;
    }
    return true;
}

/* The announced trailer, lower case; p == NULL when none is. */
static enum rc read_trailer_name(const struct http_req *req, struct slice *ret)
{
    struct slice s = find_header(req, SLICE("x-amz-trailer"));
    char *copy;

    *ret = SLICE_NONE;
    if (!s.p)
        return RC_OK;
    s = slice_trim(s);
    if (!is_checksum_value(s) || slice_find_char(s, ',') != s.n)
        return fail_s3(S3E_INVALID_REQUEST,
                       "The value specified in the x-amz-trailer header is not supported");
    for (unsigned i = 0; i < req->headers_n; i++) {
        if (is_checksum_value(req->headers[i].name))
            return fail_s3(S3E_INVALID_REQUEST, "Expecting a single x-amz-checksum- header. "
                                                "Multiple checksum Types are not allowed.");
    }
    copy = arena_alloc(req->arena, s.n);
    if (!copy)
        return RC_NO_MEM;
    for (size_t i = 0; i < s.n; i++)
        copy[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i];
    *ret = slice_of(copy, s.n);
    return RC_OK;
}

static enum rc open_framed(struct auth_body *b)
{
    const struct auth_identity *id = b->id;
    struct slice length = find_header(b->req, SLICE("x-amz-decoded-content-length"));
    struct aws_chunked_config cfg = {
        .chunk_signatures = id->payload != AUTH_PAYLOAD_UNSIGNED_TRAILER,
        .key = &id->signing_key,
        .amz_date = id->amz_date,
        .scope = id->scope,
        .seed = id->seed_signature,
    };
    enum rc rc = RC_OK;

    if (!length.p)
        return fail_s3(S3E_MISSING_CONTENT_LENGTH,
                       "You must provide the x-amz-decoded-content-length HTTP header.");
    if (!slice_to_u64(length, &cfg.decoded_length))
        return fail_s3(S3E_INVALID_ARGUMENT, "x-amz-decoded-content-length is not a number.");
    if (id->payload != AUTH_PAYLOAD_STREAMING)
        rc = read_trailer_name(b->req, &cfg.trailer);
    if (rc)
        return rc;
    cfg.check = cfg.chunk_signatures && id->check_chunks;
    aws_chunked_init(&b->state->chunked, &cfg);
    b->state->trailer_name = cfg.trailer;
    b->left = cfg.decoded_length;
    b->length_known = true;
    return RC_OK;
}

static enum rc open_plain(struct auth_body *b)
{
    const struct http_req *req = b->req;

    if (!req->has_content_length && !req->chunked && slice_eq(req->method, SLICE("PUT")))
        return fail_s3(S3E_MISSING_CONTENT_LENGTH, NULL);
    b->length_known = !req->chunked;
    b->left = req->chunked ? 0 : req->content_length;
    if (b->id->payload == AUTH_PAYLOAD_SIGNED) {
        b->state->check_sha256 = true;
        sha256_init(&b->state->hash);
    }
    return RC_OK;
}

enum rc auth_body_open(struct auth_body *b, struct http_req *req, const struct auth_identity *id)
{
    bool framed = id->payload == AUTH_PAYLOAD_STREAMING ||
                  id->payload == AUTH_PAYLOAD_STREAMING_TRAILER ||
                  id->payload == AUTH_PAYLOAD_UNSIGNED_TRAILER;
    struct auth_body_state *state =
        arena_alloc(req->arena, framed ? sizeof *state : offsetof(struct auth_body_state, chunked));
    enum rc rc;

    if (!state)
        return RC_NO_MEM;
    memset(state, 0, offsetof(struct auth_body_state, chunked));
    state->framed = framed;
    *b = (struct auth_body){ .req = req, .id = id, .state = state };
    rc = framed ? open_framed(b) : open_plain(b);
    state->length = b->length_known ? b->left : UINT64_MAX;
    return rc;
}

uint64_t auth_body_length(const struct auth_body *b)
{
    return b->state->length;
}

void auth_body_leave_sha256(struct auth_body *b)
{
    b->state->check_sha256 = false;
}

static enum rc read_plain(struct auth_body *b, void *p, size_t n, size_t *ret_n)
{
    struct auth_body_state *s = b->state;
    unsigned char hash[SHA256_SIZE];
    size_t got = 0;
    enum rc rc = http_body_read(b->req, p, n, &got);

    if (rc == RC_OK) {
        if (s->check_sha256)
            sha256_update(&s->hash, p, got);
        if (b->length_known)
            b->left -= MIN(b->left, got);
        *ret_n = got;
        return RC_OK;
    }
    if (rc != RC_EOF)
        return rc;
    if (s->check_sha256) {
        sha256_final(&s->hash, hash);
        if (!digest_equal(hash, b->id->body_sha256, sizeof hash))
            return fail_s3(S3E_X_AMZ_CONTENT_SHA256_MISMATCH, NULL);
    }
    s->ended = true;
    return RC_EOF;
}

/* Nothing may follow the last line of the framing. */
static enum rc expect_end(struct auth_body *b)
{
    struct slice more;
    enum rc rc = http_body_peek(b->req, 1, &more);

    if (rc == RC_OK)
        return fail_s3(S3E_INVALID_REQUEST, "There is more behind the end of the body.");
    if (rc == RC_EOF)
        b->state->ended = true;
    return rc;
}

static enum rc read_framed(struct auth_body *b, void *p, size_t n, size_t *ret_n)
{
    char *out = p;

    for (;;) {
        struct slice in, data;
        size_t used;
        enum rc rc = http_body_peek(b->req, PEEK_MAX, &in);

        if (rc)
            return rc == RC_EOF ? aws_chunked_cut_short() : rc;
        rc = aws_chunked_step(&b->state->chunked, in, n, &used, &data);
        if (data.n)
            memcpy(out, data.p, data.n);
        http_body_skip(b->req, used);
        if (rc == RC_EOF)
            return expect_end(b);
        if (rc)
            return rc;
        if (data.n) {
            b->left -= data.n;
            *ret_n = data.n;
            return RC_OK;
        }
    }
}

enum rc auth_body_read(struct auth_body *b, void *p, size_t n, size_t *ret_n)
{
    if (b->state->ended)
        return RC_EOF;
    if (n == 0)
        return fail_rc(RC_INVALID, "no room to read into");
    return b->state->framed ? read_framed(b, p, n, ret_n) : read_plain(b, p, n, ret_n);
}

void auth_body_trailer(const struct auth_body *b, struct slice *ret_name, struct slice *ret_value)
{
    *ret_name = *ret_value = SLICE_NONE;
    if (!b->state || !b->state->framed)
        return;
    *ret_value = aws_chunked_trailer(&b->state->chunked);
    if (ret_value->p)
        *ret_name = b->state->trailer_name;
}
