/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_priv — what the files of the object engine share.
 *
 * Threads: struct object_engine is immutable after object_engine_new.
 */
#ifndef STRATA_OBJECT_OBJECT_PRIV_H
#define STRATA_OBJECT_OBJECT_PRIV_H

#include "base/clock.h"
#include "meta/shield.h"
#include "object/object.h"
#include "rt/bufpool.h"
#include "rt/sync.h"

/* A multiple of the 64 KiB blocks that drivers keep sums of. */
#define OBJECT_PIECE_SIZE ((size_t)256 << 10)

struct object_engine {
    struct meta *meta;
    struct data *data;
    uint32_t inline_max;
    unsigned put_window, get_prefetch;
    struct bufpool *pieces; /* of OBJECT_PIECE_SIZE: parts of chunks read, and small bodies */
    struct bufpool *chunks; /* of DATA_CHUNK_MAX */
};

/* True when reads of parts of chunks are as safe as of whole ones. */
static inline bool object_reads_parts(const struct object_engine *e)
{
    return !e->data->verify || (e->data->ops->caps & DATA_CAP_PART_CRC);
}

/* data_get; a chunk that is missing is RC_CORRUPT: only objects may be not found. */
enum rc object_chunk_get(struct object_engine *e, const struct extent *x, uint32_t offset,
                         void *out, uint32_t n) MUST_CHECK;

/* ---- sums (sums.c) -------------------------------------------------------------------------- */

struct sums {
    unsigned want; /* bits 1u << enum meta_checksum */
    struct digest md5, sha1, sha256;
    uint32_t crc32, crc32c;
    uint64_t crc64nvme, size;
};
enum rc sums_init(struct sums *s, unsigned want) MUST_CHECK;
void sums_update(struct sums *s, const void *p, size_t n); /* any thread, one at a time */
void sums_final(struct sums *s, struct object_sums *ret);
void sums_fini(struct sums *s);
/* All of it in one piece. */
void sums_once(unsigned want, const void *p, size_t n, struct object_sums *ret);

#endif
