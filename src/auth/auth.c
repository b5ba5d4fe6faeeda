/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/auth.h"

#include "auth/credentials.h"
#include "auth/sigv4.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/fail.h"

#include <stdio.h>

struct auth {
    struct auth_config cfg; /* region points to region_text */
    char *region_text;
    struct credentials credentials;
};

static const struct auth_account root_account = {
    .id = SLICE_INIT("root"),
    .display = SLICE_INIT("root"),
    .email = SLICE_INIT(""),
};

enum rc auth_new(const struct auth_config *cfg, struct auth **ret)
{
    struct auth *a = calloc(1, sizeof *a);

    if (!a || !(a->region_text = malloc(cfg->region.n + 1))) {
        free(a);
        return RC_NO_MEM;
    }
    a->cfg = *cfg;
    if (cfg->region.n)
        memcpy(a->region_text, cfg->region.p, cfg->region.n);
    a->region_text[cfg->region.n] = 0;
    a->cfg.region.p = a->region_text;
    if (!a->cfg.now_ns)
        a->cfg.now_ns = clock_wall_ns;
    credentials_init(&a->credentials);
    *ret = a;
    return RC_OK;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    credentials_fini(&a->credentials);
    free(a->region_text);
    free(a);
}

enum rc auth_add_credential(struct auth *a, struct slice access_key, struct slice secret_key,
                            const struct auth_account *account)
{
    if (access_key.n == 0 || secret_key.n == 0 || account->id.n == 0)
        return fail_rc(RC_INVALID, "access key, secret key and owner must not be empty");
    return credentials_add(&a->credentials, access_key, secret_key, account);
}

enum rc auth_add_static(struct auth *a, struct slice list)
{
    for (unsigned n = 1; list.n; n++) {
        struct slice rest, entry = slice_trim(slice_cut(list, ',', &list));
        struct slice access_key = slice_cut(entry, ':', &rest);
        struct slice secret_key = slice_cut(rest, ':', &rest);
        struct auth_account account;
        enum rc rc;

        if (entry.n == 0)
            continue;
        account.id = slice_cut(rest, ':', &rest);
        account.display = slice_cut(rest, ':', &rest);
        account.email = rest;
        if (account.id.n == 0)
            account.id = access_key;
        if (account.display.n == 0)
            account.display = account.id;
        if (access_key.n == 0 || secret_key.n == 0)
            return fail_rc(RC_INVALID,
                           "entry %u of the static credentials is not \"access key:secret key"
                           "[:owner[:name[:email]]]\"",
                           n);
        rc = auth_add_credential(a, access_key, secret_key, &account);
        if (rc == RC_EXISTS)
            return fail_rc(rc, "entry %u of the static credentials repeats the access key %.*s", n,
                           SLICE_ARG(access_key));
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* ---- the payload ---------------------------------------------------------------------------- */

static enum rc read_payload(struct slice value, struct auth_identity *id)
{
    static const struct {
        struct slice value;
        enum auth_payload payload;
    } known[] = {
        { SLICE_INIT("UNSIGNED-PAYLOAD"), AUTH_PAYLOAD_UNSIGNED },
        { SLICE_INIT("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), AUTH_PAYLOAD_STREAMING },
        { SLICE_INIT("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
          AUTH_PAYLOAD_STREAMING_TRAILER },
        { SLICE_INIT("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), AUTH_PAYLOAD_UNSIGNED_TRAILER },
    };

    id->payload = AUTH_PAYLOAD_UNSIGNED;
    if (!value.p)
        return RC_OK;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (slice_eq(value, known[i].value)) {
            id->payload = known[i].payload;
            return RC_OK;
        }
    }
    if (value.n == (size_t)2 * SHA256_SIZE && hex_decode(id->body_sha256, value)) {
        id->payload = AUTH_PAYLOAD_SIGNED;
        return RC_OK;
    }
    if (slice_starts(value, SLICE("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")))
        return fail_s3(S3E_NOT_IMPLEMENTED, "Signature Version 4A is not implemented.");
    return fail_s3(S3E_INVALID_ARGUMENT,
                   "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-"
                   "TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-"
                   "PAYLOAD-TRAILER or a valid sha256 value.");
}

static bool chunks_are_signed(enum auth_payload p)
{
    return p == AUTH_PAYLOAD_STREAMING || p == AUTH_PAYLOAD_STREAMING_TRAILER;
}

/* ---- who ------------------------------------------------------------------------------------ */

static enum rc anonymous(const struct auth *a, const struct sigv4_head *head,
                         struct auth_identity *id)
{
    enum rc rc;

    if (a->cfg.mode == AUTH_REQUIRED)
        return fail_s3(S3E_ACCESS_DENIED, NULL);
    rc = read_payload(head->content_sha256, id);
    if (rc)
        return rc;
    if (chunks_are_signed(id->payload))
        return fail_s3(S3E_ACCESS_DENIED, "Signed chunks need a signed request.");
    id->anonymous = true;
    return RC_OK;
}

/* No check at all, but a body still has to be read as it was sent. */
static enum rc trust(struct arena *arena, const struct sigv4_head *head,
                     const struct canonical_query *query, struct auth_identity *id)
{
    struct sigv4_claim claim;
    bool presigned = sigv4_query_has(query);
    bool parsed = presigned ? sigv4_parse_query(arena, head, query, &claim) == RC_OK
                            : sigv4_parse_header(head, &claim) == RC_OK;
    enum rc rc;

    note_clear();
    rc = read_payload(parsed ? claim.content_sha256 : head->content_sha256, id);
    if (rc)
        return rc;
    if (parsed)
        id->access_key = claim.access_key;
    id->presigned = presigned;
    id->account = root_account;
    return RC_OK;
}

static enum rc check_time(const struct auth *a, const struct sigv4_claim *c)
{
    int64_t now = a->cfg.now_ns(), skew = a->cfg.skew_s * NS_PER_S;

    if (!c->presigned) {
        if (c->at_ns > now + skew || c->at_ns < now - skew)
            return fail_s3(S3E_REQUEST_TIME_TOO_SKEWED, NULL);
        return RC_OK;
    }
    if (c->at_ns > now + skew)
        return fail_s3(S3E_ACCESS_DENIED, "Request is not valid yet");
    if (now >= c->at_ns + (int64_t)c->expires_s * NS_PER_S)
        return fail_s3(S3E_ACCESS_DENIED, "Request has expired");
    return RC_OK;
}

static enum rc find_credential(const struct auth *a, const struct sigv4_claim *claim,
                               struct auth_identity *id, const struct credential **ret)
{
    const struct credential *c = credentials_find(&a->credentials, claim->access_key);

    id->access_key = claim->access_key;
    if (!c)
        return fail_s3(S3E_INVALID_ACCESS_KEY_ID, NULL);
    if (claim->has_token)
        return fail_s3(S3E_INVALID_TOKEN, NULL);
    *ret = c;
    return RC_OK;
}

#define STRING_TO_SIGN_MAX 320 /* 17 + 17 + 129 + 64 */

static struct slice string_to_sign(char text[STRING_TO_SIGN_MAX], const struct auth_identity *id,
                                   struct slice request)
{
    unsigned char hash[SHA256_SIZE];
    int n =
        snprintf(text, STRING_TO_SIGN_MAX, "AWS4-HMAC-SHA256\n%s\n%s\n", id->amz_date, id->scope);

    digest_once(DIGEST_SHA256, request.p, request.n, hash);
    hex_encode(text + n, hash, sizeof hash);
    return slice_of(text, (size_t)n + 2 * sizeof hash);
}

static enum rc check_signature(const struct http_req *req, const struct canonical_query *query,
                               const struct sigv4_claim *claim, struct auth_identity *id)
{
    const struct canonical_input in = {
        .req = req,
        .query = query,
        .signed_headers = claim->signed_headers,
        .payload_hash = claim->content_sha256.p ? claim->content_sha256 : SLICE("UNSIGNED-PAYLOAD"),
    };
    unsigned char sent[SHA256_SIZE];
    struct slice request;
    char text[STRING_TO_SIGN_MAX];
    struct slice to_sign;
    enum rc rc = canonical_request(&in, &request, &id->headers_not_signed);

    if (rc)
        return rc;
    if (id->headers_not_signed.n)
        return fail_s3(S3E_ACCESS_DENIED,
                       "There were headers present in the request which were not signed");
    to_sign = string_to_sign(text, id, request);
    hmac_sha256(&id->signing_key, to_sign.p, to_sign.n, id->seed_signature);
    if (claim->signature.n == 2 * sizeof sent && hex_decode(sent, claim->signature) &&
        digest_equal(sent, id->seed_signature, sizeof sent))
        return RC_OK;
    memset(id->seed_signature, 0, sizeof id->seed_signature);
    id->canonical_request = request;
    id->string_to_sign = arena_copy(req->arena, to_sign);
    id->signature_provided = claim->signature;
    return fail_s3(S3E_SIGNATURE_DOES_NOT_MATCH, NULL);
}

static enum rc verify(const struct auth *a, const struct http_req *req,
                      const struct canonical_query *query, const struct sigv4_claim *claim,
                      struct auth_identity *id)
{
    const struct credential *credential = NULL;
    enum rc rc = check_time(a, claim);

    if (!rc)
        rc = sigv4_check_scope(claim, a->cfg.check_region ? a->cfg.region : SLICE_NONE);
    if (!rc)
        rc = read_payload(claim->content_sha256, id);
    if (!rc)
        rc = find_credential(a, claim, id, &credential);
    if (rc)
        return rc;
    memcpy(id->amz_date, claim->amz_date, sizeof id->amz_date);
    snprintf(id->scope, sizeof id->scope, "%.*s/%.*s/s3/aws4_request", SLICE_ARG(claim->day),
             SLICE_ARG(claim->region));
    credential_signing_key(credential, claim->day, claim->region, &id->signing_key);
    rc = check_signature(req, query, claim, id);
    if (rc)
        return rc;
    id->account = credential->account;
    id->presigned = claim->presigned;
    id->check_chunks = true;
    return RC_OK;
}

/* On failure only what the answer may show is left. */
static void strip(struct auth_identity *id)
{
    *id = (struct auth_identity){
        .access_key = id->access_key,
        .canonical_request = id->canonical_request,
        .string_to_sign = id->string_to_sign,
        .signature_provided = id->signature_provided,
        .headers_not_signed = id->headers_not_signed,
    };
}

static enum rc decide(struct auth *a, const struct http_req *req, struct auth_identity *id)
{
    struct canonical_query query;
    struct sigv4_claim claim;
    struct sigv4_head head;
    bool in_query;
    enum rc rc = canonical_query_parse(req->arena, req->query, &query);

    if (rc)
        return rc;
    sigv4_head_read(req, &head);
    if (a->cfg.mode == AUTH_OFF)
        return trust(req->arena, &head, &query, id);
    in_query = sigv4_query_has(&query);
    if (head.authorization.n == 0 && !in_query)
        return anonymous(a, &head, id);
    if (head.authorization.n && in_query)
        return fail_s3(S3E_INVALID_ARGUMENT,
                       "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
                       "Signature query string parameter or the Authorization header should be "
                       "specified");
    rc = in_query ? sigv4_parse_query(req->arena, &head, &query, &claim)
                  : sigv4_parse_header(&head, &claim);
    return rc ? rc : verify(a, req, &query, &claim, id);
}

enum rc auth_request(struct auth *a, const struct http_req *req, struct auth_identity *ret)
{
    enum rc rc;

    *ret = (struct auth_identity){ 0 };
    rc = decide(a, req, ret);
    if (rc)
        strip(ret);
    return rc;
}
