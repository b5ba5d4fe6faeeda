/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc64_priv — the parts of CRC-64/NVME, apart so that tests can hold them against each other.
 *
 * Here `reg` is the bare register, without the inversions before and after.
 *
 * Owns:    tables, built at the first use.
 * Threads: any.
 */
#ifndef STRATA_BASE_CRC64_PRIV_H
#define STRATA_BASE_CRC64_PRIV_H

#include "base/checksum.h"

#define CRC64NVME_POLY UINT64_C(0x9a6c9329ac4bc9b5) /* bits reflected */

uint64_t crc64_tables(uint64_t reg, const unsigned char *p, size_t n);
/* Needs the CPU's carry-less multiplication. */
bool crc64_can_fold(void);
uint64_t crc64_fold(uint64_t reg, const unsigned char *p, size_t n);

#endif
