/* SPDX-License-Identifier: Apache-2.0 */
#include <isa-l/crc.h> /* before checksum.h, which renames crc32_ieee */

#include "base/checksum.h"
#include "base/crc64_priv.h"

#include <pthread.h>

#define CRC32_POLY UINT64_C(0xedb88320)  /* bits reflected */
#define CRC32C_POLY UINT64_C(0x82f63b78) /* bits reflected */
#define CRC32C_PIECE ((size_t)1 << 30)   /* ISA-L takes an int */

uint32_t crc32_ieee(uint32_t crc, const void *p, size_t n)
{
    return n ? crc32_gzip_refl(crc, p, n) : crc;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
    /* ISA-L's parameter lacks a const; it leaves the inversions to the caller. */
    unsigned char *at = (unsigned char *)(uintptr_t)p;

    while (n) {
        size_t piece = MIN(n, CRC32C_PIECE);

        crc = ~crc32_iscsi(at, (int)piece, ~crc);
        at += piece;
        n -= piece;
    }
    return crc;
}

/* ---- combining ------------------------------------------------------------------------------ */

/* crc(ab) = crc(a) * x^(8 * length of b) + crc(b) modulo the polynomial; the inversions before and
 * after cancel out. Polynomials are reflected: the top bit is x^0. */
struct field {
    uint64_t poly;
    unsigned bits;
    uint64_t squares[67]; /* x^(2^i) */
};

static struct field field_ieee = { .poly = CRC32_POLY, .bits = 32 };
static struct field field_c = { .poly = CRC32C_POLY, .bits = 32 };
static struct field field_nvme = { .poly = CRC64NVME_POLY, .bits = 64 };
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t multiply(const struct field *f, uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    for (uint64_t bit = UINT64_C(1) << (f->bits - 1); bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? b >> 1 ^ f->poly : b >> 1;
    }
    return product;
}

static void build_squares(struct field *f)
{
    f->squares[0] = UINT64_C(1) << (f->bits - 2);
    for (size_t i = 1; i < ARRAY_LEN(f->squares); i++)
        f->squares[i] = multiply(f, f->squares[i - 1], f->squares[i - 1]);
}

static void build(void)
{
    build_squares(&field_ieee);
    build_squares(&field_c);
    build_squares(&field_nvme);
}

static uint64_t combine(const struct field *f, uint64_t a, uint64_t b, uint64_t b_len)
{
    pthread_once(&once, build);
    for (size_t i = 3; b_len; i++, b_len >>= 1) {
        if (b_len & 1)
            a = multiply(f, f->squares[i], a);
    }
    return a ^ b;
}

uint32_t crc32_ieee_combine(uint32_t a, uint32_t b, uint64_t b_len)
{
    return (uint32_t)combine(&field_ieee, a, b, b_len);
}

uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_len)
{
    return (uint32_t)combine(&field_c, a, b, b_len);
}

uint64_t crc64nvme_combine(uint64_t a, uint64_t b, uint64_t b_len)
{
    return combine(&field_nvme, a, b, b_len);
}

/* ---- hash64 --------------------------------------------------------------------------------- */

/* 64 × 64 → 128-bit products folded by xor mix well and cost one instruction; the odd constants are
 * digits of pi, so that neither factor is likely to be zero. */
#define K0 UINT64_C(0x243f6a8885a308d3)
#define K1 UINT64_C(0x13198a2e03707345)
#define K2 UINT64_C(0xa4093822299f31d1)
#define K3 UINT64_C(0x082efa98ec4e6c89)

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

uint64_t hash64(uint64_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ mix(seed ^ K0, K1), a, b;
    size_t left = n;

    for (; left > 16; left -= 16, p += 16)
        h = mix(load64(p) ^ K1, load64(p + 8) ^ h);
    if (left >= 8) {
        a = load64(p);
        b = load64(p + left - 8);
    } else if (left >= 4) {
        a = load32(p);
        b = load32(p + left - 4);
    } else if (left) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
        b = 0;
    } else {
        a = b = 0;
    }
    return mix(K2 ^ n, mix(a ^ K3, b ^ h));
}
