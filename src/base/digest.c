/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetching an algorithm from a provider costs more than hashing a short message, so each is fetched
 * once per process. SHA-256 of short messages (canonical requests, HMAC) uses the low-level
 * functions: the same code without the provider's dispatch, which costs 100 to 200 ns a message.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <sys/random.h>

#define KINDS 3
#define HMAC_BLOCK 64

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static EVP_MD *methods[KINDS];
static _Thread_local EVP_MD_CTX *contexts[KINDS]; /* of one-shots */

static void free_contexts(void *arg)
{
    EVP_MD_CTX **own = arg;

    for (int i = 0; i < KINDS; i++) {
        EVP_MD_CTX_free(own[i]);
        own[i] = NULL;
    }
}

static void fetch_methods(void)
{
    static const char *const names[KINDS] = {
        [DIGEST_MD5] = "MD5",
        [DIGEST_SHA1] = "SHA1",
        [DIGEST_SHA256] = "SHA256",
    };

    for (int i = 0; i < KINDS; i++) {
        methods[i] = EVP_MD_fetch(NULL, names[i], NULL);
        if (!methods[i])
            abort(); /* libcrypto without its default provider: nothing could be served */
    }
    if (pthread_key_create(&thread_end, free_contexts))
        abort();
}

size_t digest_size(enum digest_kind kind)
{
    static const size_t sizes[KINDS] = {
        [DIGEST_MD5] = MD5_SIZE,
        [DIGEST_SHA1] = SHA1_SIZE,
        [DIGEST_SHA256] = SHA256_SIZE,
    };

    assert((unsigned)kind < KINDS);
    return sizes[kind];
}

enum rc digest_init(struct digest *d, enum digest_kind kind)
{
    EVP_MD_CTX *ctx;

    assert((unsigned)kind < KINDS);
    pthread_once(&once, fetch_methods);
    ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex2(ctx, methods[kind], NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return RC_NO_MEM;
    }
    *d = (struct digest){ .ctx = ctx, .kind = kind };
    return RC_OK;
}

void digest_update(struct digest *d, const void *p, size_t n)
{
    int ok = n == 0 || EVP_DigestUpdate(d->ctx, p, n) == 1;

    assert(ok);
}

void digest_final(struct digest *d, unsigned char *out)
{
    int ok = EVP_DigestFinal_ex(d->ctx, out, NULL) == 1 &&
             EVP_DigestInit_ex2(d->ctx, methods[d->kind], NULL) == 1;

    assert(ok);
}

void digest_fini(struct digest *d)
{
    EVP_MD_CTX_free(d->ctx);
    d->ctx = NULL;
}

static EVP_MD_CTX *thread_context(enum digest_kind kind)
{
    pthread_once(&once, fetch_methods);
    if (!contexts[kind]) {
        contexts[kind] = EVP_MD_CTX_new();
        if (!contexts[kind] || pthread_setspecific(thread_end, contexts))
            abort(); /* a few hundred bytes once per thread */
    }
    return contexts[kind];
}

void digest_once(enum digest_kind kind, const void *p, size_t n, unsigned char *out)
{
    EVP_MD_CTX *ctx;
    int ok;

    assert((unsigned)kind < KINDS);
    if (kind == DIGEST_SHA256) {
        SHA256_CTX sha;

        SHA256_Init(&sha);
        if (n)
            SHA256_Update(&sha, p, n);
        SHA256_Final(out, &sha);
        return;
    }
    ctx = thread_context(kind);
    ok = EVP_DigestInit_ex2(ctx, methods[kind], NULL) == 1 &&
         (n == 0 || EVP_DigestUpdate(ctx, p, n) == 1) && EVP_DigestFinal_ex(ctx, out, NULL) == 1;
    assert(ok);
}

static_assert(sizeof(SHA256_CTX) <= sizeof(struct sha256), "room for OpenSSL's state");
static_assert(_Alignof(SHA256_CTX) <= _Alignof(struct sha256), "aligned for OpenSSL's state");

void sha256_init(struct sha256 *s)
{
    SHA256_Init((SHA256_CTX *)(void *)s);
}

void sha256_update(struct sha256 *s, const void *p, size_t n)
{
    if (n)
        SHA256_Update((SHA256_CTX *)(void *)s, p, n);
}

void sha256_final(struct sha256 *s, unsigned char out[SHA256_SIZE])
{
    SHA256_Final(out, (SHA256_CTX *)(void *)s);
    sha256_init(s);
}

static void hmac_state(uint32_t state[8], const unsigned char key[HMAC_BLOCK], unsigned char pad)
{
    unsigned char block[HMAC_BLOCK];
    SHA256_CTX sha;

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ pad;
    SHA256_Init(&sha);
    SHA256_Update(&sha, block, sizeof block);
    memcpy(state, sha.h, sizeof sha.h);
    OPENSSL_cleanse(block, sizeof block);
    OPENSSL_cleanse(&sha, sizeof sha);
}

void hmac_key_init(struct hmac_key *k, struct slice key)
{
    unsigned char block[HMAC_BLOCK] = { 0 };

    if (key.n > sizeof block)
        digest_once(DIGEST_SHA256, key.p, key.n, block);
    else if (key.n)
        memcpy(block, key.p, key.n);
    hmac_state(k->inner, block, 0x36);
    hmac_state(k->outer, block, 0x5c);
    OPENSSL_cleanse(block, sizeof block);
}

/* Goes on after the one block that made the state. */
static void hmac_resume(SHA256_CTX *sha, const uint32_t state[8])
{
    *sha = (SHA256_CTX){ .Nl = HMAC_BLOCK * 8, .md_len = SHA256_SIZE };
    memcpy(sha->h, state, sizeof sha->h);
}

void hmac_sha256(const struct hmac_key *k, const void *p, size_t n, unsigned char out[SHA256_SIZE])
{
    SHA256_CTX sha;

    hmac_resume(&sha, k->inner);
    if (n)
        SHA256_Update(&sha, p, n);
    SHA256_Final(out, &sha);
    hmac_resume(&sha, k->outer);
    SHA256_Update(&sha, out, SHA256_SIZE);
    SHA256_Final(out, &sha);
}

bool digest_equal(const void *a, const void *b, size_t n)
{
    return CRYPTO_memcmp(a, b, n) == 0;
}

static void system_random(void *out, size_t n)
{
    for (char *p = out; n;) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        p += got;
        n -= (size_t)got;
    }
}

/* Small requests (ids, nonces) are served from a pool of the thread; used bytes are wiped. The
 * program does not fork after start, so no two processes share a pool. */
void random_bytes(void *out, size_t n)
{
    static _Thread_local struct {
        size_t left;
        unsigned char bytes[512];
    } pool;

    if (n > sizeof pool.bytes / 4) {
        system_random(out, n);
        return;
    }
    if (pool.left < n) {
        system_random(pool.bytes, sizeof pool.bytes);
        pool.left = sizeof pool.bytes;
    }
    pool.left -= n;
    memcpy(out, pool.bytes + pool.left, n);
    memset(pool.bytes + pool.left, 0, n);
}
