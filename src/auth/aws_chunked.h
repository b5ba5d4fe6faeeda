/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aws_chunked — the incremental decoder of aws-chunked bodies, signed or not, with or without a
 * trailer.
 *
 * Data is handed on as it arrives, before the signature of its chunk is known: use it only
 * provisionally until RC_EOF, which comes after all signatures, lengths and the trailer were found
 * right.
 *
 * Owns:    nothing outside of the struct, whatever sizes the client claims.
 * Errors:  S3E_INVALID_REQUEST for bad framing, S3E_SIGNATURE_DOES_NOT_MATCH, S3E_INCOMPLETE_BODY
 * when the length is not as declared, S3E_MALFORMED_TRAILER. After an error the decoder must not be
 * used. Threads: one at a time. Source:  AWS sigv4-streaming, sigv4-streaming-trailers.
 */
#ifndef STRATA_AUTH_AWS_CHUNKED_H
#define STRATA_AUTH_AWS_CHUNKED_H

#include "base/digest.h"

#define AWS_CHUNKED_LINE_MAX 1024

struct aws_chunked_config {
    bool chunk_signatures;        /* chunks (and a trailer) carry signatures */
    bool check;                   /* they are verified */
    struct slice trailer;         /* announced name; p == NULL: none */
    uint64_t decoded_length;      /* as declared */
    const struct hmac_key *key;   /* for check: all borrowed while decoding */
    const char *amz_date, *scope; /* NUL-terminated */
    const unsigned char *seed;    /* SHA256_SIZE bytes */
};

struct aws_chunked {
    struct aws_chunked_config cfg;
    int state;
    uint64_t chunk_left, total_left;
    bool last_chunk, trailer_seen, trailer_signed;
    unsigned char previous[SHA256_SIZE], claimed[SHA256_SIZE]; /* signatures */
    struct sha256 hash;                                        /* of the chunk */
    size_t line_n, value_n;
    char line[AWS_CHUNKED_LINE_MAX];
    char value[AWS_CHUNKED_LINE_MAX]; /* of the trailer */
};

void aws_chunked_init(struct aws_chunked *c, const struct aws_chunked_config *cfg);
/* Consumes *ret_used bytes of `in`; *ret_data is the data among them (inside `in`, at most data_max
 * bytes, often empty). RC_OK: go on with more input. RC_EOF: the verified end; bytes behind
 * *ret_used do not belong to the body. */
enum rc aws_chunked_step(struct aws_chunked *c, struct slice in, size_t data_max, size_t *ret_used,
                         struct slice *ret_data) MUST_CHECK;
/* The input ended without RC_EOF: notes S3E_INCOMPLETE_BODY. */
enum rc aws_chunked_cut_short(void) MUST_CHECK;
/* After the end: the trailer's value; p == NULL when none. */
struct slice aws_chunked_trailer(const struct aws_chunked *c);

#endif
