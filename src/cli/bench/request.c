/* SPDX-License-Identifier: Apache-2.0 */
/* Signature V4 by header, source: AWS "Authenticating Requests: Using the Authorization Header". */
#include "cli/bench/bench.h"

#include "base/encode.h"

#define UNSIGNED "UNSIGNED-PAYLOAD"

static char *pattern;

bool bench_pattern_init(uint64_t size)
{
    uint64_t x = 0x9e3779b97f4a7c15u, n = size + BENCH_SHIFTS;

    pattern = malloc(n + 8);
    for (uint64_t i = 0; pattern && i < n; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(pattern + i, &x, 8);
    }
    return pattern != NULL;
}

const char *bench_pattern(uint64_t object)
{
    return pattern + object * 7919 % BENCH_SHIFTS;
}

void bench_signer_init(struct bench_signer *s, const struct bench_options *o)
{
    *s = (struct bench_signer){ .o = o, .second = -1 };
}

/* The signing key holds for a day, the time stamp for a second. */
static void set_clock(struct bench_signer *s)
{
    int64_t now = clock_wall_ns();
    const struct bench_options *o = s->o;
    unsigned char k[SHA256_SIZE];
    char secret[300];
    int n;

    if (now / NS_PER_S == s->second)
        return;
    s->second = now / NS_PER_S;
    clock_format_amz(s->stamp, now);
    s->stamp[16] = 0;
    if (!strncmp(s->day, s->stamp, 8))
        return;
    memcpy(s->day, s->stamp, 8);
    s->day[8] = 0;
    snprintf(s->scope, sizeof s->scope, "%s/%.64s/s3/aws4_request", s->day, o->region);
    n = snprintf(secret, sizeof secret, "AWS4%.250s", o->secret);
    hmac_key_init(&s->key, slice_of(secret, (size_t)n));
    hmac_sha256(&s->key, s->day, 8, k);
    hmac_key_init(&s->key, slice_of(k, sizeof k));
    hmac_sha256(&s->key, o->region, strlen(o->region), k);
    hmac_key_init(&s->key, slice_of(k, sizeof k));
    hmac_sha256(&s->key, "s3", 2, k);
    hmac_key_init(&s->key, slice_of(k, sizeof k));
    hmac_sha256(&s->key, "aws4_request", 12, k);
    hmac_key_init(&s->key, slice_of(k, sizeof k));
}

static const char *method_of(enum bench_op op)
{
    switch (op) {
    case BENCH_PUT:
    case BENCH_MKBUCKET:
        return "PUT";
    case BENCH_DELETE:
    case BENCH_RMBUCKET:
        return "DELETE";
    case BENCH_HEAD:
        return "HEAD";
    default:
        return "GET";
    }
}

/* Parameters in the order of the canonical query. */
static enum rc list_query(const struct bench_options *o, const char *token, struct buf *q)
{
    enum rc rc = RC_OK;

    if (*token) {
        rc = buf_add(q, SLICE("continuation-token="));
        rc = rc ? rc : uri_encode(q, slice_str(token), false);
        rc = rc ? rc : buf_add_char(q, '&');
    }
    if (o->delimiter)
        rc = rc ? rc : buf_add(q, SLICE("delimiter=%2F&"));
    rc = rc ? rc : buf_addf(q, "list-type=2&max-keys=%llu", (unsigned long long)o->max_keys);
    if (*o->list_prefix) {
        rc = rc ? rc : buf_add(q, SLICE("&prefix="));
        rc = rc ? rc : uri_encode(q, slice_str(o->list_prefix), false);
    }
    return rc;
}

static void sign(struct bench_signer *s, struct slice canonical, char out[65])
{
    unsigned char md[SHA256_SIZE];
    char sts[512];
    int n;

    digest_once(DIGEST_SHA256, canonical.p, canonical.n, md);
    n = snprintf(sts, sizeof sts, "AWS4-HMAC-SHA256\n%s\n%s\n", s->stamp, s->scope);
    hex_encode(sts + n, md, sizeof md);
    hmac_sha256(&s->key, sts, (size_t)n + 64, md);
    hex_encode(out, md, sizeof md);
    out[64] = 0;
}

static void payload_hash(const struct bench_request *r, bool sign_body, char out[65])
{
    unsigned char md[SHA256_SIZE];

    if (!sign_body) {
        memcpy(out, UNSIGNED, sizeof UNSIGNED);
        return;
    }
    digest_once(DIGEST_SHA256, r->body.p, r->body.n, md);
    hex_encode(out, md, sizeof md);
    out[64] = 0;
}

size_t bench_request_head(struct bench_signer *s, const struct bench_request *r, char *out,
                          size_t size)
{
    const struct bench_options *o = s->o;
    bool on_bucket = r->op == BENCH_LIST || r->op == BENCH_MKBUCKET || r->op == BENCH_RMBUCKET;
    AUTO(buf_fini) struct buf query = { .max = 8192 };
    char path[1024], canonical[12288], hash[65], signature[65], extra[128] = "";
    const char *method = method_of(r->op);
    int n;

    set_clock(s);
    if (on_bucket)
        snprintf(path, sizeof path, "/%s", o->bucket);
    else
        snprintf(path, sizeof path, "/%s/%s%010llu", o->bucket, o->prefix,
                 (unsigned long long)r->object);
    if ((r->op == BENCH_LIST && list_query(o, r->token, &query)) || buf_add_char(&query, 0))
        return 0;
    payload_hash(r, o->sign_body, hash);
    n = snprintf(canonical, sizeof canonical,
                 "%s\n%s\n%s\nhost:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n\n"
                 "host;x-amz-content-sha256;x-amz-date\n%s",
                 method, path, query.p, o->host, hash, s->stamp, hash);
    if (n < 0 || (size_t)n >= sizeof canonical)
        return 0;
    sign(s, slice_of(canonical, (size_t)n), signature);
    if (r->op == BENCH_PUT)
        snprintf(extra, sizeof extra, "Content-Length: %zu\r\n", r->body.n);
    else if (r->op == BENCH_RANGE)
        snprintf(extra, sizeof extra, "Range: bytes=%llu-%llu\r\n", (unsigned long long)r->range_at,
                 (unsigned long long)(r->range_at + o->range - 1));
    else if (r->op == BENCH_MKBUCKET)
        snprintf(extra, sizeof extra, "Content-Length: 0\r\n");
    n = snprintf(out, size,
                 "%s %s%s%s HTTP/1.1\r\nHost: %s\r\nx-amz-content-sha256: %s\r\nx-amz-date: %s\r\n"
                 "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, "
                 "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=%s\r\n%s\r\n",
                 method, path, query.p[0] ? "?" : "", query.p, o->host, hash, s->stamp, o->access,
                 s->scope, signature, extra);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}
