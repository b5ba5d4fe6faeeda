/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/sums.h"

#include "base/encode.h"

#define PREFIX "x-amz-checksum-"

static const struct {
    const char *name;
    struct slice header;
    size_t size;
} kinds[] = {
    [META_SUM_NONE] = { "", SLICE_INIT(""), 0 },
    [META_SUM_CRC32] = { "CRC32", SLICE_INIT(PREFIX "crc32"), 4 },
    [META_SUM_CRC32C] = { "CRC32C", SLICE_INIT(PREFIX "crc32c"), 4 },
    [META_SUM_CRC64NVME] = { "CRC64NVME", SLICE_INIT(PREFIX "crc64nvme"), 8 },
    [META_SUM_SHA1] = { "SHA1", SLICE_INIT(PREFIX "sha1"), SHA1_SIZE },
    [META_SUM_SHA256] = { "SHA256", SLICE_INIT(PREFIX "sha256"), SHA256_SIZE },
};

size_t s3_sum_size(enum meta_checksum kind)
{
    return kinds[kind].size;
}

const char *s3_sum_name(enum meta_checksum kind)
{
    return kinds[kind].name;
}

struct slice s3_sum_header(enum meta_checksum kind)
{
    return kinds[kind].header;
}

enum meta_checksum s3_sum_parse(struct slice algorithm)
{
    for (unsigned k = META_SUM_CRC32; k < ARRAY_LEN(kinds); k++)
        if (slice_eq_nocase(algorithm, slice_str(kinds[k].name)))
            return (enum meta_checksum)k;
    return META_SUM_NONE;
}

/* META_SUM_NONE for x-amz-checksum-mode and what else begins so. */
static enum meta_checksum kind_of_header(struct slice name)
{
    for (unsigned k = META_SUM_CRC32; k < ARRAY_LEN(kinds); k++)
        if (slice_eq_nocase(name, kinds[k].header))
            return (enum meta_checksum)k;
    return META_SUM_NONE;
}

/* Base64 of exactly size bytes. */
static bool decode_value(struct slice text, size_t size, unsigned char *out)
{
    unsigned char raw[64];
    size_t n = 0;

    if (text.n > BASE64_SIZE(META_SUM_SIZE_MAX) || !base64_decode(raw, &n, text) || n != size)
        return false;
    memcpy(out, raw, size);
    return true;
}

static enum rc set_value(struct s3_sums *s, enum meta_checksum kind, struct slice text)
{
    if (!decode_value(slice_trim(text), kinds[kind].size, s->value))
        return fail_s3(S3E_INVALID_REQUEST, "Value for %s header is invalid.",
                       kinds[kind].header.p);
    s->kind = kind;
    s->has_value = true;
    return RC_OK;
}

static enum rc more_than_one(void)
{
    return fail_s3(S3E_INVALID_REQUEST,
                   "Expecting a single x-amz-checksum- header. Multiple checksum Types are not "
                   "allowed.");
}

static enum rc read_checksum_headers(struct s3_call *c, struct s3_sums *s)
{
    for (unsigned i = 0; i < c->req->headers_n; i++) {
        const struct http_header *h = &c->req->headers[i];
        enum meta_checksum kind;
        enum rc rc;

        if (h->name.n <= sizeof PREFIX - 1 || (h->name.p[6] | 32) != 'c')
            continue;
        kind = kind_of_header(h->name);
        if (!kind)
            continue;
        if (s->kind)
            return more_than_one();
        rc = set_value(s, kind, h->value);
        if (rc)
            return rc;
    }
    return RC_OK;
}

static enum rc read_trailer_header(struct s3_call *c, struct s3_sums *s)
{
    struct slice rest = s3_header(c, SLICE("x-amz-trailer"));

    while (rest.n) {
        struct slice name = slice_trim(slice_cut(rest, ',', &rest));
        enum meta_checksum kind = kind_of_header(name);

        if (!kind)
            return fail_s3(S3E_INVALID_REQUEST,
                           "The value specified in the x-amz-trailer header is not supported");
        if (s->kind)
            return more_than_one();
        s->kind = kind;
        s->in_trailer = true;
    }
    return RC_OK;
}

static enum rc read_algorithm(struct s3_call *c, struct s3_sums *s)
{
    struct slice name = s3_header(c, SLICE("x-amz-sdk-checksum-algorithm"));
    enum meta_checksum kind;

    if (!name.p)
        return RC_OK;
    kind = s3_sum_parse(name);
    if (!kind)
        return fail_s3(S3E_INVALID_REQUEST,
                       "Checksum algorithm provided is unsupported. Please try again with any of "
                       "the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]");
    if (!s->kind && !s->has_md5)
        return fail_s3(S3E_INVALID_REQUEST,
                       "x-amz-sdk-checksum-algorithm specified, but no corresponding "
                       "x-amz-checksum-* or x-amz-trailer headers were found.");
    if (s->kind && s->kind != kind)
        return fail_s3(S3E_INVALID_REQUEST,
                       "Value for x-amz-sdk-checksum-algorithm header is invalid.");
    return RC_OK;
}

enum rc s3_sums_read(struct s3_call *c, struct s3_sums *ret)
{
    struct slice md5 = s3_header(c, SLICE("content-md5"));
    enum rc rc;

    *ret = (struct s3_sums){ 0 };
    if (md5.p) {
        if (!decode_value(md5, MD5_SIZE, ret->md5))
            return fail_s3(S3E_INVALID_DIGEST, "The Content-MD5 you specified was invalid.");
        ret->has_md5 = true;
    }
    rc = read_checksum_headers(c, ret);
    if (!rc)
        rc = read_trailer_header(c, ret);
    return rc ? rc : read_algorithm(c, ret);
}

unsigned s3_sums_want(const struct s3_call *c, const struct s3_sums *s)
{
    unsigned want = s->kind ? 1u << s->kind : 0;

    if (c->id.payload == AUTH_PAYLOAD_SIGNED)
        want |= 1u << META_SUM_SHA256;
    return want;
}

static enum rc take_trailer(struct s3_sums *s, const struct auth_body *body)
{
    struct slice name = SLICE_NONE, value = SLICE_NONE;

    if (body)
        auth_body_trailer(body, &name, &value);
    if (!value.p || kind_of_header(name) != s->kind)
        return fail_s3(S3E_MALFORMED_TRAILER, NULL);
    return set_value(s, s->kind, value);
}

static enum rc check_payload_hash(struct s3_call *c, const struct object_sums *got)
{
    char *hex;

    if (c->id.payload != AUTH_PAYLOAD_SIGNED ||
        !memcmp(c->id.body_sha256, got->sum[META_SUM_SHA256], SHA256_SIZE))
        return RC_OK;
    hex = arena_alloc(c->arena, (size_t)4 * SHA256_SIZE);
    if (hex) {
        hex_encode(hex, c->id.body_sha256, SHA256_SIZE);
        hex_encode(hex + 2 * SHA256_SIZE, got->sum[META_SUM_SHA256], SHA256_SIZE);
        s3_extra(c, "ClientComputedContentSHA256", slice_of(hex, 64));
        s3_extra(c, "S3ComputedContentSHA256", slice_of(hex + 64, 64));
    }
    return fail_s3(S3E_X_AMZ_CONTENT_SHA256_MISMATCH, NULL);
}

enum rc s3_sums_check(struct s3_call *c, struct s3_sums *s, const struct auth_body *body,
                      const struct object_sums *got)
{
    enum rc rc;

    if (s->has_md5 && memcmp(s->md5, got->md5, MD5_SIZE) != 0)
        return fail_s3(S3E_BAD_DIGEST,
                       "The Content-MD5 you specified did not match what we received.");
    rc = check_payload_hash(c, got);
    if (!rc && s->in_trailer)
        rc = take_trailer(s, body);
    if (!rc && s->has_value && memcmp(s->value, got->sum[s->kind], kinds[s->kind].size) != 0)
        rc = fail_s3(S3E_BAD_DIGEST, "The %s you specified did not match the calculated checksum.",
                     kinds[s->kind].name);
    return rc;
}

void s3_sums_answer(struct s3_call *c, const struct meta_object *o)
{
    char text[BASE64_SIZE(META_SUM_SIZE_MAX) + 16];
    enum meta_checksum kind = (enum meta_checksum)o->head.sum_kind;
    size_t n;

    if (!kind || kind >= ARRAY_LEN(kinds))
        return;
    n = base64_encode(text, o->sum, kinds[kind].size);
    if (o->head.sum_composite) {
        char digits[12];
        size_t d = 0;

        text[n++] = '-';
        for (uint32_t v = o->head.parts; v; v /= 10)
            digits[d++] = (char)('0' + v % 10);
        while (d)
            text[n++] = digits[--d];
    }
    http_res_header(c->req, kinds[kind].header, slice_of(text, n));
    http_res_header(c->req, SLICE("x-amz-checksum-type"),
                    o->head.sum_composite ? SLICE("COMPOSITE") : SLICE("FULL_OBJECT"));
}
