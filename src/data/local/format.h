/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format — what stands in a segment file, and what an extent's id says.
 *
 *   page 0            segment head: identity; at SEAL_AT the seal, once nothing is appended any
 * more page p            record head: fixed part, one CRC32C per data block, back-reference (1 or 2
 * pages) page p + 1 or 2   the chunk's bytes, padded to a page
 *
 * Records need not touch: what a failed write leaves between them is skipped page by page. A head
 * names its own segment and page, and its CRC is seeded with the segment's secret salt, so that a
 * chunk's bytes are never taken for a head, even when the chunk is a copy of a segment.
 *
 * An id is: segment (be64), page of the head (be32), nonce (be32) whose top bit says that the head
 * has two pages. Numbers are never used again, and the nonce must match the head's.
 *
 * Integers on disk are little-endian.
 *
 * Owns:    nothing. Errors: bool. Threads: any.
 */
#ifndef STRATA_DATA_LOCAL_FORMAT_H
#define STRATA_DATA_LOCAL_FORMAT_H

#include "data/data.h"

#define PAGE 4096u
#define BLOCK 65536u
#define BLOCKS_MAX (DATA_CHUNK_MAX / BLOCK)
#define HEAD_PAGES_MAX 2u
#define SEAL_AT 512u
#define NONCE_TWO_PAGES 0x80000000u

#define RECORD_LIVE 0x4556494cu /* "LIVE" */
#define RECORD_DEAD 0x44414544u /* "DEAD" */

struct segment_head {
    char magic[8];
    uint32_t version;
    uint32_t salt;
    uint64_t number;
    int64_t made_ns;
    uint32_t crc; /* of all before */
    uint32_t zero;
};

struct segment_seal {
    char magic[8];
    uint64_t tail; /* bytes */
    uint64_t number;
    uint32_t crc; /* of all before, seeded with the salt */
    uint32_t zero;
};

struct record_head {
    uint32_t magic;
    uint32_t state; /* the one field that changes; not in the CRC */
    uint32_t crc;   /* of what follows up to the end of the back-reference, seeded with the salt */
    uint16_t version;
    uint16_t backref_n;
    uint64_t segment;
    uint32_t page;
    uint32_t nonce;
    uint32_t length;
    uint32_t crc32c;
    int64_t written_ns;
    uint64_t stream;
    uint32_t index;
    uint32_t zero;
    uint32_t
        block_crc[BLOCKS_MAX]; /* as many as there are blocks, then at once the back-reference */
};
#define RECORD_FIXED offsetof(struct record_head, block_crc)

/* A head as it stands on disk. */
union record_pages {
    struct record_head head;
    char bytes[HEAD_PAGES_MAX * PAGE];
};

/* An id, decoded. */
struct locus {
    uint64_t segment;
    uint32_t page, nonce;
};

static inline uint32_t blocks_of(uint32_t length)
{
    return (length + BLOCK - 1) / BLOCK;
}

static inline uint64_t page_up(uint64_t n)
{
    return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static inline uint32_t head_pages(uint32_t nonce)
{
    return nonce & NONCE_TWO_PAGES ? 2 : 1;
}

static inline uint64_t locus_data(const struct locus *at)
{
    return ((uint64_t)at->page + head_pages(at->nonce)) * PAGE;
}

void locus_encode(unsigned char id[DATA_ID_SIZE], const struct locus *at);
struct locus locus_decode(const unsigned char id[DATA_ID_SIZE]);

/* Pages that a head takes. */
uint32_t head_pages_needed(uint32_t length, size_t backref_n);
/* Bytes of the head in use. */
size_t head_size(const struct record_head *h);
/* Computes and sets the CRC. */
void head_seal(union record_pages *r, uint32_t salt);
/* Whether the first `loaded` bytes of r hold a whole head that belongs at this place. */
bool head_valid(const union record_pages *r, uint32_t salt, uint64_t segment, uint32_t page,
                size_t loaded);
/* Whether two pages must be loaded to tell. */
bool head_wants_more(const union record_pages *r);

void segment_head_make(struct segment_head *h, uint64_t number, uint32_t salt);
bool segment_head_valid(const struct segment_head *h, uint64_t number);
void segment_seal_make(struct segment_seal *s, uint64_t number, uint32_t salt, uint64_t tail);
bool segment_seal_valid(const struct segment_seal *s, uint64_t number, uint32_t salt);

#endif
