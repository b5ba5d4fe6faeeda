/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data — a store of immutable chunks of at most 4 MiB behind a vtable. It knows nothing of objects.
 *
 * Owns:    byte arguments are borrowed for the call; extents are values.
 * Errors:  RC_NOT_FOUND (no such chunk), RC_CORRUPT (bytes are not what was put), RC_NO_SPACE,
 * RC_NO_MEM, RC_UNAVAILABLE, RC_TIMEOUT, RC_CANCELLED. A failing store is never RC_NOT_FOUND.
 * Threads: a store serves all loops at once. Calls may park. Many puts in flight at once are
 * expected.
 */
#ifndef STRATA_DATA_DATA_H
#define STRATA_DATA_DATA_H

#include "base/arena.h"
#include "base/fail.h"

#include <sys/uio.h>

#define DATA_CHUNK_MAX (4u << 20) /* bytes */
#define DATA_ID_SIZE 16u

/* Where a chunk is: all that reads and deletes need, kept in the manifest. */
struct extent {
    unsigned char id[DATA_ID_SIZE]; /* the driver's own: a UUID, or segment and offset */
    uint32_t length;                /* bytes, 1 … DATA_CHUNK_MAX */
    uint32_t crc32c;                /* of the bytes */
};

/* What the bytes belong to: for back-references and for placing chunks of a stream together. */
struct data_hint {
    uint64_t stream;      /* equal for the chunks of one object */
    uint32_t index;       /* of the chunk in it */
    struct slice backref; /* kept with the chunk where the driver can; up to 4 KiB */
};

struct data_stats {
    uint64_t puts, gets, deletes, put_bytes, get_bytes, syncs, errors, crc_errors;
    uint64_t live_bytes, free_bytes, files; /* as far as the driver knows; free 0 = unknown */
};

enum data_caps {
    DATA_CAP_LIST = 1,      /* scan() works */
    DATA_CAP_PART_CRC = 2,  /* reads of parts are verified by the driver (sums per 64 KiB block) */
    DATA_CAP_READ_COPY = 4, /* reads are memory speed: no prefetch needed */
    DATA_CAP_PUT_CRC = 8,   /* put computes crc32c itself, off the loop, and fills it in */
};

struct data;

/* Called for each chunk of a scan; false ends it. */
typedef bool (*data_scan_fn)(void *arg, const struct extent *e, int64_t written_at_ns);

struct data_ops {
    const char *name;
    unsigned caps;
    /* Stores the bytes durably and fills *ret: acknowledged means that a crash does not lose it. */
    enum rc (*put)(struct data *, const struct data_hint *hint, const struct iovec *iov, int iov_n,
                   struct extent *ret);
    /* Bytes [offset, offset + n) of the chunk into out. Does not verify: see data_get. */
    enum rc (*get)(struct data *, const struct extent *e, uint32_t offset, void *out, uint32_t n);
    /* Frees the space. A chunk that is not there counts as deleted. On error some may be. */
    enum rc (*remove)(struct data *, const struct extent *e, size_t n);
    /* RC_OK when it exists. */
    enum rc (*stat)(struct data *, const struct extent *e);
    enum rc (*scan)(struct data *, data_scan_fn fn, void *arg); /* DATA_CAP_LIST */
    enum rc (*probe)(struct data *); /* RC_OK when a put would work now; within 1 s */
    void (*stats)(struct data *, struct data_stats *ret);
    void (*close)(struct data *); /* no calls in flight */
};

/* Kept by the functions below, for data_stats. */
struct data_counters {
    _Atomic uint64_t puts, gets, deletes, put_bytes, get_bytes, errors, crc_errors;
};

/* Every driver embeds this as `base`. Callers use the functions below, never ops. */
struct data {
    const struct data_ops *ops;
    bool verify; /* check each whole-chunk read's CRC; default true */
    struct data_counters counters;
};

/* For drivers: sets up base. */
void data_init(struct data *, const struct data_ops *ops);

/* 1 … DATA_CHUNK_MAX bytes in all. The extent's length and crc32c are filled here, once for all
 * drivers, and passed to the driver in *ret before its put (crc32c only without DATA_CAP_PUT_CRC).
 * hint may be NULL. */
enum rc data_put(struct data *, const struct data_hint *hint, const struct iovec *iov, int iov_n,
                 struct extent *ret) MUST_CHECK;
/* Whole chunks are verified against e->crc32c here. Parts are verified by drivers with
 * DATA_CAP_PART_CRC; with others a caller that needs the check reads the whole. RC_INVALID past the
 * chunk's end. */
enum rc data_get(struct data *, const struct extent *e, uint32_t offset, void *out,
                 uint32_t n) MUST_CHECK;
enum rc data_remove(struct data *, const struct extent *e, size_t n) MUST_CHECK;
enum rc data_stat(struct data *, const struct extent *e) MUST_CHECK;
enum rc data_scan(struct data *, data_scan_fn fn, void *arg) MUST_CHECK; /* RC_UNSUPPORTED */
enum rc data_probe(struct data *) MUST_CHECK;
void data_stats(struct data *, struct data_stats *ret);
const char *data_name(const struct data *);
void data_close(struct data *); /* NULL is allowed */

#endif
