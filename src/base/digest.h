/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest — cryptographic hashes (OpenSSL), streaming and one-shot.
 *
 * Owns:    a struct digest holds a context from init to fini.
 * Errors:  RC_NO_MEM from init; the rest cannot fail once initialised.
 * Threads: one at a time per object; a digest may move between threads.
 */
#ifndef STRATA_BASE_DIGEST_H
#define STRATA_BASE_DIGEST_H

#include "base/rc.h"
#include "base/slice.h"

enum digest_kind { DIGEST_MD5, DIGEST_SHA1, DIGEST_SHA256 };
#define MD5_SIZE 16
#define SHA1_SIZE 20
#define SHA256_SIZE 32
#define DIGEST_SIZE_MAX 32

struct digest {
    void *ctx; /* EVP_MD_CTX */
    enum digest_kind kind;
};

size_t digest_size(enum digest_kind kind);
enum rc digest_init(struct digest *d, enum digest_kind kind) MUST_CHECK;
void digest_update(struct digest *d, const void *p, size_t n);
/* Writes digest_size(kind) bytes. The object is then ready for a new message. */
void digest_final(struct digest *d, unsigned char *out);
void digest_fini(struct digest *d); /* zeroed or finished already is fine */

/* One-shot forms; they use a context kept per thread, so cannot fail after the first use. */
void digest_once(enum digest_kind kind, const void *p, size_t n, unsigned char *out);

/* SHA-256 streaming in the caller's storage: nothing is allocated, nothing to free. */
struct sha256 {
    uint32_t state[28];
};
void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *p, size_t n);
void sha256_final(struct sha256 *s,
                  unsigned char out[SHA256_SIZE]); /* then ready for a new message */

/* HMAC-SHA256 (RFC 2104) with a key prepared once: secret, so not for logs. */
struct hmac_key {
    uint32_t inner[8], outer[8]; /* SHA-256 after the block of key xor ipad, and xor opad */
};
void hmac_key_init(struct hmac_key *k, struct slice key);
void hmac_sha256(const struct hmac_key *k, const void *p, size_t n, unsigned char out[SHA256_SIZE]);

/* True when equal; time does not depend on where they differ. */
bool digest_equal(const void *a, const void *b, size_t n);

/* Fills with bytes of the system's CSPRNG; aborts if it has none. */
void random_bytes(void *out, size_t n);

#endif
