/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocks — the embedded key-value store: RocksDB in a local directory, with group commit.
 *
 * Commits of all loops go through one thread, which checks each against the store and those before
 * it, and writes what passed with one sync of the log. Reads run on the caller's loop when memory
 * has the answer, else on the pool.
 *
 * Owns:    the directory, locked against other processes, until kv_close.
 * Errors:  RC_UNAVAILABLE (locked, or I/O errors; the note has the text), RC_CORRUPT, RC_NO_SPACE,
 *          RC_NO_MEM.
 * Threads: open and close on any thread; they block. Calls may also be made off fibers; they then
 * block the thread.
 */
#ifndef STRATA_KV_ROCKS_H
#define STRATA_KV_ROCKS_H

#include "kv/kv.h"

struct kv_rocks_config {
    const char *directory;     /* made when absent; its parent must exist */
    size_t block_cache_bytes;  /* 0: 256 MiB */
    size_t write_buffer_bytes; /* of each of two column families; 0: 64 MiB */
    bool no_sync;              /* commits do not survive a power cut: for tests and benches only */
    unsigned commit_delay_us;  /* waits so long for company before each batch; 0: not at all */
};

enum rc kv_rocks_open(const struct kv_rocks_config *cfg, struct kv **ret) MUST_CHECK;

#endif
