/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local — a chunk store of append-only segment files in one directory of a local file system.
 *
 * Owns:    the directory, which a lock file keeps from other processes.
 * Errors:  RC_NO_SPACE (also short of min_free_bytes), RC_UNAVAILABLE for failing disks.
 * Threads: as data.h.
 */
#ifndef STRATA_DATA_LOCAL_H
#define STRATA_DATA_LOCAL_H

#include "data/data.h"

struct data_local_config {
    const char *directory;   /* made when absent (its parent must be there) */
    uint64_t segment_bytes;  /* a segment takes no record past this size; 0: 1 GiB */
    uint64_t min_free_bytes; /* puts are refused below this free space; 0: 64 MiB */
    unsigned heads;          /* segments written at once, 1 … 16; 0: 3 */
    bool no_sync;            /* tests only: acknowledged then means written, not on disk */
};

/* RC_EXISTS when another process has the directory open; RC_CORRUPT, RC_UNAVAILABLE, RC_NO_MEM. */
enum rc data_local_open(const struct data_local_config *cfg, struct data **ret) MUST_CHECK;

#endif
