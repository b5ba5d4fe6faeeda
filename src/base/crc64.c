/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-64/NVME: tables of eight bytes at a time, and folding by carry-less multiplication.
 *
 * Folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel
 * 2009) keeps a 128-bit remainder congruent to all bytes so far. Bits are reflected: bit 0 of a
 * block is its highest power. A product of two reflected 64-bit values comes out one power too high
 * when read as a reflected 128-bit block, hence the "- 1" in the exponents of the constants.
 */
#include "base/crc64_priv.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t table[8][256];
static struct {
    uint64_t low, high; /* multipliers of the low and the high half of a block */
} by_64, by_16;         /* to move a block on by so many bytes */
static bool can_fold;

/* x^n mod P, reflected. */
static uint64_t power_of_x(unsigned n)
{
    uint64_t v = UINT64_C(1) << 63;

    while (n--)
        v = v & 1 ? v >> 1 ^ CRC64NVME_POLY : v >> 1;
    return v;
}

static void build(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint64_t v = i;

        for (int bit = 0; bit < 8; bit++)
            v = v & 1 ? v >> 1 ^ CRC64NVME_POLY : v >> 1;
        table[0][i] = v;
    }
    for (unsigned k = 1; k < 8; k++) {
        for (unsigned i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
    }
    by_64.low = power_of_x(512 + 64 - 1);
    by_64.high = power_of_x(512 - 1);
    by_16.low = power_of_x(128 + 64 - 1);
    by_16.high = power_of_x(128 - 1);
#if defined(__x86_64__)
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

uint64_t crc64_tables(uint64_t reg, const unsigned char *p, size_t n)
{
    pthread_once(&once, build);
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, sizeof v);
        v ^= reg;
        reg = table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^
              table[4][v >> 24 & 255] ^ table[3][v >> 32 & 255] ^ table[2][v >> 40 & 255] ^
              table[1][v >> 48 & 255] ^ table[0][v >> 56];
    }
    for (; n; n--, p++)
        reg = reg >> 8 ^ table[0][(reg ^ *p) & 255];
    return reg;
}

bool crc64_can_fold(void)
{
    pthread_once(&once, build);
    return can_fold;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul,sse4.1")))

FOLDING static inline __m128i load(const unsigned char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* block moved on by the multiplier's distance, plus next. */
FOLDING static inline __m128i fold(__m128i block, __m128i k, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(block, k, 0x00);
    __m128i high = _mm_clmulepi64_si128(block, k, 0x11);

    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FOLDING uint64_t crc64_fold(uint64_t reg, const unsigned char *p, size_t n)
{
    unsigned char rest[16];
    __m128i a, b, c, d, k;

    if (n < 128 || !crc64_can_fold())
        return crc64_tables(reg, p, n);
    a = _mm_xor_si128(load(p), _mm_set_epi64x(0, (long long)reg));
    b = load(p + 16);
    c = load(p + 32);
    d = load(p + 48);
    k = _mm_set_epi64x((long long)by_64.high, (long long)by_64.low);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = fold(a, k, load(p));
        b = fold(b, k, load(p + 16));
        c = fold(c, k, load(p + 32));
        d = fold(d, k, load(p + 48));
    }
    k = _mm_set_epi64x((long long)by_16.high, (long long)by_16.low);
    a = fold(fold(fold(a, k, b), k, c), k, d);
    for (; n >= 16; p += 16, n -= 16)
        a = fold(a, k, load(p));
    _mm_storeu_si128((__m128i *)(void *)rest, a);
    return crc64_tables(crc64_tables(0, rest, sizeof rest), p, n);
}
#else
uint64_t crc64_fold(uint64_t reg, const unsigned char *p, size_t n)
{
    return crc64_tables(reg, p, n);
}
#endif

uint64_t crc64nvme(uint64_t crc, const void *p, size_t n)
{
    return ~crc64_fold(~crc, p, n);
}
