/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth — who sent a request: AWS Signature Version 4 in headers, presigned URLs and streaming
 * bodies.
 *
 * Owns:    results live in the request's arena; credentials are copied.
 * Errors:  noted by fail_s3() with the S3 code: AccessDenied, InvalidAccessKeyId,
 * SignatureDoesNotMatch, RequestTimeTooSkewed, AuthorizationHeaderMalformed,
 * AuthorizationQueryParametersError, XAmzContentSHA256Mismatch, InvalidRequest, … Threads: struct
 * auth is shared by all loops. Source:  AWS "Authenticating Requests (AWS Signature Version 4)":
 * sigv4-auth-using-authorization-header, sigv4-query-string-auth, sigv4-streaming,
 * sigv4-streaming-trailers.
 */
#ifndef STRATA_AUTH_AUTH_H
#define STRATA_AUTH_AUTH_H

#include "base/digest.h"
#include "http/http.h"

struct auth;

enum auth_mode { AUTH_REQUIRED, AUTH_OPTIONAL, AUTH_OFF };

struct auth_account {
    struct slice id;      /* owner id: what buckets belong to */
    struct slice display; /* name in XML */
    struct slice email;
};

struct auth_config {
    enum auth_mode mode;
    struct slice region;     /* of the credential scope */
    bool check_region;       /* false: any region in the scope is accepted */
    uint32_t skew_s;         /* 900 */
    int64_t (*now_ns)(void); /* NULL: clock_wall_ns; tests set the time */
};
enum rc auth_new(const struct auth_config *cfg, struct auth **ret) MUST_CHECK;
void auth_free(struct auth *a);
/* RC_EXISTS for a known access key; RC_INVALID for an empty part. Any thread, also while serving.
 */
enum rc auth_add_credential(struct auth *a, struct slice access_key, struct slice secret_key,
                            const struct auth_account *account) MUST_CHECK;
/* Parses "ak:sk[:owner id[:display name[:email]]],…" and adds each. The note says which entry is
 * wrong, never the secret. */
enum rc auth_add_static(struct auth *a, struct slice list) MUST_CHECK;

enum auth_payload {
    AUTH_PAYLOAD_UNSIGNED,          /* UNSIGNED-PAYLOAD, presigned, or none */
    AUTH_PAYLOAD_SIGNED,            /* a SHA-256 of the whole body in x-amz-content-sha256 */
    AUTH_PAYLOAD_STREAMING,         /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD */
    AUTH_PAYLOAD_STREAMING_TRAILER, /* …-TRAILER */
    AUTH_PAYLOAD_UNSIGNED_TRAILER   /* STREAMING-UNSIGNED-PAYLOAD-TRAILER */
};

struct auth_identity {
    bool anonymous;
    struct slice access_key;
    struct auth_account account; /* empty when anonymous */
    bool presigned;
    enum auth_payload payload;
    unsigned char body_sha256[SHA256_SIZE]; /* AUTH_PAYLOAD_SIGNED */
    /* For signed chunks: the seed and what chunk signatures are made with. */
    unsigned char seed_signature[SHA256_SIZE];
    struct hmac_key signing_key;
    char amz_date[17], scope[128]; /* NUL-terminated */
    bool check_chunks; /* false with AUTH_OFF: signatures of chunks and trailers are skipped over */

    /* For the answer to SignatureDoesNotMatch: what the server computed; in the request's arena. */
    struct slice canonical_request, string_to_sign, signature_provided;
    /* For AccessDenied because of unsigned headers: their names, joined by ", ". */
    struct slice headers_not_signed;
};

/* Authenticates by the head alone; no body byte is read. On failure *ret holds only the last two
 * groups above and access_key, as far as they were found. With AUTH_OFF every request is from the
 * account "root", whatever its signature. */
enum rc auth_request(struct auth *a, const struct http_req *req,
                     struct auth_identity *ret) MUST_CHECK;

/* ---- bodies --------------------------------------------------------------------------------- */

/* A pull of the decoded body: removes aws-chunked framing, verifies chunk signatures, trailer
 * signature and trailer syntax, counts against x-amz-decoded-content-length. */
struct auth_body {
    struct http_req *req;
    const struct auth_identity *id;
    uint64_t left; /* decoded bytes still to come, when known */
    bool length_known;
    struct auth_body_state *state; /* private; in the arena */
};
/* S3E_MISSING_CONTENT_LENGTH (also for a PUT without a body: do not open where a body is optional
 * and !req->has_body), S3E_INVALID_ARGUMENT, S3E_INVALID_REQUEST. */
enum rc auth_body_open(struct auth_body *b, struct http_req *req,
                       const struct auth_identity *id) MUST_CHECK;
uint64_t auth_body_length(const struct auth_body *b); /* decoded; UINT64_MAX when unknown */
/* The caller compares id->body_sha256 itself (it hashes elsewhere); else auth_body_read does and
 * ends with S3E_X_AMZ_CONTENT_SHA256_MISMATCH. Before the first read. */
void auth_body_leave_sha256(struct auth_body *b);
/* As http_body_read; RC_EOF at the verified end. S3E_SIGNATURE_DOES_NOT_MATCH, S3E_INCOMPLETE_BODY,
 * S3E_MALFORMED_TRAILER, S3E_INVALID_REQUEST. Memory stays bounded whatever the chunk size. */
enum rc auth_body_read(struct auth_body *b, void *p, size_t n, size_t *ret_n) MUST_CHECK;
/* After the end: the value of an x-amz-checksum-* trailer that was announced by x-amz-trailer; p
 * NULL when there is none. name is set to e.g. "x-amz-checksum-crc32". */
void auth_body_trailer(const struct auth_body *b, struct slice *ret_name, struct slice *ret_value);

#endif
