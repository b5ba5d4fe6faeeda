/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checksum — CRC-32, CRC-32C and CRC-64/NVME, as S3 and the stores use them.
 *
 * All take and return the plain CRC value (initial value 0 for an empty message), so that pieces
 * chain: crc(crc(0, a), b) == crc(0, ab).
 *
 * Source:  AWS "Checking object integrity"; CRC-64/NVME: NVM Express, polynomial
 * 0xad93d23594c93659. Threads: any.
 */
#ifndef STRATA_BASE_CHECKSUM_H
#define STRATA_BASE_CHECKSUM_H

#include "base/base.h"

/* ISA-L exports another function of this name. */
#define crc32_ieee strata_crc32_ieee

uint32_t crc32_ieee(uint32_t crc, const void *p, size_t n);
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
uint64_t crc64nvme(uint64_t crc, const void *p, size_t n);

/* The CRC of a followed by b, from crc(a), crc(b) and the length of b in bytes. */
uint32_t crc32_ieee_combine(uint32_t a, uint32_t b, uint64_t b_len);
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_len);
uint64_t crc64nvme_combine(uint64_t a, uint64_t b, uint64_t b_len);

/* A fast non-cryptographic 64-bit hash with a seed, for tables and spreading; not for the disk
 * format unless the caller fixes the seed. */
uint64_t hash64(uint64_t seed, const void *p, size_t n);

#endif
