/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys — every partition and key that the domain model keeps in the KV. Nothing else builds keys.
 *
 * Partition "b" + bucket name: one bucket.
 *     "r"                        the bucket row (message Bucket of row.proto)
 *     later: one key per document of the bucket (policy, CORS, lifecycle, …)
 * Partition "w" + account id: the buckets of an owner.
 *     bucket name                a copy of the bucket row
 * Partition "o" + bucket id (16) + shard (2): one shard of a bucket's index; shard = hash(key) mod
 * shards. "g"                        the guard: state 1, token 8, closed at (wall ms) 8. In the
 * read set of every write; closing it stops them. See bucket_delete.c. "k" + key the current live
 * version of a key (see row.h) "s" + slot (1)             counters { objects, bytes }; slot by hash
 * of the key later: "u" + key 0 upload id and its parts (multipart uploads), "v" + key 0 inverted
 * version id (noncurrent versions and delete markers, newest first). Neither prefix lies between
 * the "k" rows. Partition "G" + shard (2): one of META_GC_SHARDS GC queues. not before (wall ms) 8
 * + random 8    chunks to remove: format 1, then packed extents (row.h)
 *
 * Integers are big-endian. The hash of keys has a fixed seed: it is part of the format.
 *
 * Owns:    builders write to the caller's buffers; slices returned point there.
 * Threads: any.
 */
#ifndef STRATA_META_KEYS_H
#define STRATA_META_KEYS_H

#include "base/checksum.h"
#include "base/encode.h"
#include "meta/meta.h"

#define KEYS_STAT_SLOTS 8u
#define KEYS_HASH_SEED UINT64_C(0x5374726174614b31)
#define KEYS_INDEX_PARTITION_SIZE (1 + META_BUCKET_ID_SIZE + 2)
#define KEYS_GC_PARTITION_SIZE 3
#define KEYS_GC_KEY_SIZE 16
#define KEYS_OBJECT_SIZE_MAX (1 + META_KEY_MAX)

#define KEYS_BUCKET_ROW SLICE("r")
#define KEYS_GUARD SLICE("g")
/* The ranges of object rows and of counters in an index partition. */
#define KEYS_OBJECTS_FROM SLICE("k")
#define KEYS_OBJECTS_TO SLICE("l")
#define KEYS_SLOTS_FROM SLICE("s")
#define KEYS_SLOTS_TO SLICE("t")

/* name.n and owner.n are below KV_PARTITION_MAX. */
static inline struct slice keys_named_partition(char out[KV_PARTITION_MAX], char kind,
                                                struct slice name)
{
    assert(name.n < KV_PARTITION_MAX);
    out[0] = kind;
    if (name.n)
        memcpy(out + 1, name.p, name.n);
    return slice_of(out, name.n + 1);
}

static inline struct slice keys_bucket_partition(char out[KV_PARTITION_MAX], struct slice name)
{
    return keys_named_partition(out, 'b', name);
}

static inline struct slice keys_owner_partition(char out[KV_PARTITION_MAX], struct slice owner)
{
    return keys_named_partition(out, 'w', owner);
}

static inline struct slice keys_index_partition(char out[KEYS_INDEX_PARTITION_SIZE],
                                                const struct meta_bucket *b, unsigned shard)
{
    out[0] = 'o';
    memcpy(out + 1, b->id, META_BUCKET_ID_SIZE);
    put_be16(out + 1 + META_BUCKET_ID_SIZE, (uint16_t)shard);
    return slice_of(out, KEYS_INDEX_PARTITION_SIZE);
}

static inline struct slice keys_gc_partition(char out[KEYS_GC_PARTITION_SIZE], unsigned shard)
{
    out[0] = 'G';
    put_be16(out + 1, (uint16_t)shard);
    return slice_of(out, KEYS_GC_PARTITION_SIZE);
}

static inline struct slice keys_gc(char out[KEYS_GC_KEY_SIZE], uint64_t not_before_ms, uint64_t rnd)
{
    put_be64(out, not_before_ms);
    put_be64(out + 8, rnd);
    return slice_of(out, KEYS_GC_KEY_SIZE);
}

/* key.n is at most META_KEY_MAX. */
static inline struct slice keys_object(char out[KEYS_OBJECT_SIZE_MAX], struct slice key)
{
    assert(key.n <= META_KEY_MAX);
    out[0] = 'k';
    if (key.n)
        memcpy(out + 1, key.p, key.n);
    return slice_of(out, key.n + 1);
}

static inline struct slice keys_slot(char out[2], uint64_t key_hash)
{
    out[0] = 's';
    out[1] = (char)(key_hash >> 32 & (KEYS_STAT_SLOTS - 1));
    return slice_of(out, 2);
}

static inline uint64_t keys_hash(struct slice key)
{
    return hash64(KEYS_HASH_SEED, key.p, key.n);
}

/* The least byte string behind all that start with s, written over out (room for s.n); empty when
 * there is none. */
static inline struct slice keys_successor(char *out, struct slice s)
{
    while (s.n && (unsigned char)s.p[s.n - 1] == 0xff)
        s.n--;
    if (!s.n)
        return SLICE_NONE;
    memmove(out, s.p, s.n);
    out[s.n - 1]++;
    return slice_of(out, s.n);
}

#endif
