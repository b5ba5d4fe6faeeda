/* SPDX-License-Identifier: Apache-2.0 */
#include "data/local/format.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/encode.h"

#define RECORD_MAGIC 0x52545353u /* "SSTR" */
#define VERSION 1u

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the disk format is little-endian");
static_assert(RECORD_FIXED == 64, "the disk format is fixed");
static_assert(sizeof(struct record_head) + 4096 <= HEAD_PAGES_MAX * PAGE, "a head fits its pages");
static_assert(sizeof(struct segment_head) == 40 && sizeof(struct segment_seal) == 32, "fixed");

static const char head_magic[8] = "STRASEG1", seal_magic[8] = "STRASEAL";

void locus_encode(unsigned char id[DATA_ID_SIZE], const struct locus *at)
{
    put_be64(id, at->segment);
    put_be32(id + 8, at->page);
    put_be32(id + 12, at->nonce);
}

struct locus locus_decode(const unsigned char id[DATA_ID_SIZE])
{
    return (struct locus){ .segment = get_be64(id),
                           .page = get_be32(id + 8),
                           .nonce = get_be32(id + 12) };
}

uint32_t head_pages_needed(uint32_t length, size_t backref_n)
{
    return RECORD_FIXED + 4 * blocks_of(length) + backref_n > PAGE ? 2 : 1;
}

size_t head_size(const struct record_head *h)
{
    return RECORD_FIXED + 4 * (size_t)blocks_of(h->length) + h->backref_n;
}

static uint32_t head_crc(const union record_pages *r, uint32_t salt)
{
    size_t from = offsetof(struct record_head, version);

    return crc32c(salt, r->bytes + from, head_size(&r->head) - from);
}

void head_seal(union record_pages *r, uint32_t salt)
{
    r->head.magic = RECORD_MAGIC;
    r->head.version = VERSION;
    r->head.crc = head_crc(r, salt);
}

static bool head_plausible(const struct record_head *h)
{
    return h->magic == RECORD_MAGIC && h->version == VERSION && h->length >= 1 &&
           h->length <= DATA_CHUNK_MAX && h->backref_n <= PAGE;
}

bool head_wants_more(const union record_pages *r)
{
    return head_plausible(&r->head) && head_size(&r->head) > PAGE;
}

bool head_valid(const union record_pages *r, uint32_t salt, uint64_t segment, uint32_t page,
                size_t loaded)
{
    const struct record_head *h = &r->head;

    return loaded >= PAGE && head_plausible(h) && head_size(h) <= loaded && h->segment == segment &&
           h->page == page && head_pages(h->nonce) == (head_size(h) > PAGE ? 2 : 1) &&
           (h->state == RECORD_LIVE || h->state == RECORD_DEAD) && h->crc == head_crc(r, salt);
}

void segment_head_make(struct segment_head *h, uint64_t number, uint32_t salt)
{
    *h = (struct segment_head){
        .version = VERSION, .salt = salt, .number = number, .made_ns = clock_wall_ns()
    };
    memcpy(h->magic, head_magic, sizeof h->magic);
    h->crc = crc32c(0, h, offsetof(struct segment_head, crc));
}

bool segment_head_valid(const struct segment_head *h, uint64_t number)
{
    return memcmp(h->magic, head_magic, sizeof h->magic) == 0 && h->version == VERSION &&
           h->number == number && h->crc == crc32c(0, h, offsetof(struct segment_head, crc));
}

void segment_seal_make(struct segment_seal *s, uint64_t number, uint32_t salt, uint64_t tail)
{
    *s = (struct segment_seal){ .tail = tail, .number = number };
    memcpy(s->magic, seal_magic, sizeof s->magic);
    s->crc = crc32c(salt, s, offsetof(struct segment_seal, crc));
}

bool segment_seal_valid(const struct segment_seal *s, uint64_t number, uint32_t salt)
{
    return memcmp(s->magic, seal_magic, sizeof s->magic) == 0 && s->number == number &&
           s->crc == crc32c(salt, s, offsetof(struct segment_seal, crc));
}
