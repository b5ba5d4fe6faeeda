/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks/rocks_priv.h"

#include <stdio.h>

enum { ENTRY_EXPIRES = 1, ENTRY_TAIL = 2, ENTRY_FLAGS = 3 };

/* ---- keys ----------------------------------------------------------------------------------- */

void rocks_key_init(struct rocks_key *k, struct slice partition)
{
    k->bytes[0] = (char)partition.n;
    memcpy(k->bytes + 1, partition.p, partition.n);
    k->n = 1 + partition.n;
}

void rocks_key_add(struct rocks_key *k, struct slice key)
{
    assert(key.n <= sizeof k->bytes - k->n);
    if (key.n)
        memcpy(k->bytes + k->n, key.p, key.n);
    k->n += key.n;
}

bool rocks_key_successor(struct rocks_key *k)
{
    while (k->n && (unsigned char)k->bytes[k->n - 1] == 0xff)
        k->n--;
    if (k->n == 0)
        return false;
    k->bytes[k->n - 1]++;
    return true;
}

/* ---- entries -------------------------------------------------------------------------------- */

bool rocks_entry_decode(struct slice raw, struct rocks_entry *ret)
{
    unsigned flags = raw.n ? (unsigned char)raw.p[0] : ~0u;
    size_t n = 9 + (flags & ENTRY_EXPIRES ? 8 : 0) + (flags & ENTRY_TAIL ? 4 : 0);
    const char *p = raw.p + 9;

    if (UNLIKELY(flags > ENTRY_FLAGS || raw.n < n))
        return false;
    ret->version = get_be64(raw.p + 1);
    ret->expires_at_ns = 0;
    ret->has_tail = flags & ENTRY_TAIL;
    if (flags & ENTRY_EXPIRES) {
        ret->expires_at_ns = (int64_t)get_be64(p);
        p += 8;
    }
    ret->head = slice_from(raw, n);
    ret->total = ret->has_tail ? get_be32(p) : ret->head.n;
    return ret->total >= ret->head.n && ret->total <= KV_VALUE_MAX;
}

bool rocks_entry_expired(const struct rocks_entry *e)
{
    return e->expires_at_ns && e->expires_at_ns <= clock_wall_ns();
}

struct rocks_layout rocks_layout_of(size_t value_n, bool expires)
{
    /* Values that expire stay whole, so that dropping them needs no look at tails. */
    if (expires)
        return (struct rocks_layout){ .header_n = 17, .head_n = value_n };
    if (value_n <= ROCKS_SPLIT_SIZE)
        return (struct rocks_layout){ .header_n = 9, .head_n = value_n };
    return (struct rocks_layout){ .header_n = 13,
                                  .head_n = KV_HEAD_SIZE,
                                  .tail_n = ROCKS_TAIL_HEADER + value_n - KV_HEAD_SIZE };
}

void rocks_entry_encode(char *entry, char *tail, struct slice value, int64_t expires_at_ns)
{
    struct rocks_layout l = rocks_layout_of(value.n, expires_at_ns != 0);

    entry[0] = (char)((expires_at_ns ? ENTRY_EXPIRES : 0) | (l.tail_n ? ENTRY_TAIL : 0));
    rocks_entry_set_version(entry, 0);
    if (expires_at_ns)
        put_be64(entry + 9, (uint64_t)expires_at_ns);
    if (l.tail_n) {
        put_be32(entry + 9, (uint32_t)value.n);
        memcpy(tail + ROCKS_TAIL_HEADER, value.p + l.head_n, value.n - l.head_n);
    }
    if (l.head_n)
        memcpy(entry + l.header_n, value.p, l.head_n);
}

void rocks_entry_set_version(char *entry, uint64_t version)
{
    put_be64(entry + 1, version);
}

/* ---- hash ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t m = (__uint128_t)a * b;

    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t rocks_hash(uint64_t seed, struct slice s)
{
    uint64_t h = seed ^ s.n, w[2];
    const char *p = s.p;
    size_t n = s.n;

    for (; n >= 16; n -= 16, p += 16) {
        memcpy(w, p, 16);
        h = mix(w[0] ^ UINT64_C(0x9e3779b97f4a7c15), w[1] ^ h);
    }
    w[0] = w[1] = 0;
    if (n)
        memcpy(w, p, n);
    h = mix(w[0] ^ UINT64_C(0xd6e8feb86659fd93), w[1] ^ h);
    return mix(h ^ UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db));
}

/* ---- errors --------------------------------------------------------------------------------- */

bool rocks_error_is_incomplete(const char *text)
{
    return strncmp(text, "Result incomplete", 17) == 0;
}

/* RocksDB's C API tells errors apart by their text alone. */
static enum rc error_rc(const char *text)
{
    if (strstr(text, "No space left") || strstr(text, "Max allowed space") ||
        strstr(text, "Disk quota exceeded") || strstr(text, "NoSpace"))
        return RC_NO_SPACE;
    if (strncmp(text, "Corruption", 10) == 0)
        return RC_CORRUPT;
    return RC_UNAVAILABLE;
}

enum rc rocks_error(char *text, char why[ROCKS_WHY_SIZE])
{
    enum rc rc = error_rc(text);

    if (why)
        snprintf(why, ROCKS_WHY_SIZE, "%s", text);
    rocksdb_free(text);
    return rc;
}
