/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv/memory — the KV driver in memory: the reference for tests and benches. Nothing survives close.
 *
 * Owns:    everything put into it, until close.
 * Errors:  RC_NO_SPACE when a commit would take keys, values and bookkeeping past max_bytes.
 * Threads: any, on fibers and off; no call parks.
 */
#ifndef STRATA_KV_MEMORY_H
#define STRATA_KV_MEMORY_H

#include "kv/kv.h"

enum rc kv_memory_open(size_t max_bytes, struct kv **ret) MUST_CHECK; /* RC_NO_MEM */

#endif
