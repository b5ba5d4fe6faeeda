/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory — a chunk store in the process's memory, for tests and for gateways without a disk.
 *
 * Owns:    all chunks, until close. Nothing survives it.
 * Errors:  RC_NO_SPACE past max_bytes, RC_NO_MEM.
 * Threads: as data.h.
 */
#ifndef STRATA_DATA_MEMORY_H
#define STRATA_DATA_MEMORY_H

#include "data/data.h"

/* max_bytes bounds the bytes of all chunks together, with a fixed charge for each. */
enum rc data_memory_open(size_t max_bytes, struct data **ret) MUST_CHECK;

#endif
