/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta — the domain model over the KV: buckets, objects, listings, the GC queue. One implementation
 * for all KV drivers; knows no HTTP and no chunk bytes.
 *
 * Owns:    results live in the arena that the caller passed.
 * Errors:  S3 meanings are noted by fail_s3() where they are found (NoSuchBucket, NoSuchKey,
 *          PreconditionFailed, BucketNotEmpty, …); failures of the store pass through.
 * Threads: one struct meta serves all loops. Calls park; on fibers only.
 */
#ifndef STRATA_META_META_H
#define STRATA_META_META_H

#include "data/data.h"
#include "kv/kv.h"

#define META_KEY_MAX 1024u /* bytes of an object key */
#define META_BUCKET_ID_SIZE 16u

struct meta;

struct meta_config {
    struct kv *kv;                  /* borrowed */
    unsigned index_shards;          /* partitions of a new bucket's index; 1 on ordered drivers */
    uint32_t gc_grace_ms;           /* before queued chunks may be deleted */
    uint32_t bucket_cache_ms;       /* longest staleness of cached bucket rows; 0: no cache */
    unsigned buckets_per_owner_max; /* 0: 1000 */
};
enum rc meta_new(const struct meta_config *cfg, struct meta **ret) MUST_CHECK;
void meta_free(struct meta *m);
struct kv *meta_kv(struct meta *m);

/* ---- buckets -------------------------------------------------------------------------------- */

struct meta_bucket {
    unsigned char id[META_BUCKET_ID_SIZE];
    struct slice name, owner,
        region;         /* owner: account id; region: LocationConstraint as given, may be "" */
    int64_t created_ns; /* wall */
    unsigned index_shards;
};

/* AWS "Bucket naming rules" for general purpose buckets, and the names that the gateway itself
 * uses. */
bool meta_bucket_name_valid(struct slice name);

/* name, owner and region are taken from *b; id and created_ns are filled. S3E_INVALID_BUCKET_NAME,
 * S3E_BUCKET_ALREADY_OWNED_BY_YOU (then *b is the existing bucket), S3E_BUCKET_ALREADY_EXISTS,
 * S3E_TOO_MANY_BUCKETS. */
enum rc meta_bucket_create(struct meta *m, struct arena *a, struct meta_bucket *b) MUST_CHECK;
/* S3E_NO_SUCH_BUCKET. May come from the cache. */
enum rc meta_bucket_get(struct meta *m, struct arena *a, struct slice name,
                        struct meta_bucket *ret) MUST_CHECK;
/* S3E_BUCKET_NOT_EMPTY, S3E_NO_SUCH_BUCKET. Safe against concurrent writes: none is lost. */
enum rc meta_bucket_delete(struct meta *m, const struct meta_bucket *b) MUST_CHECK;

struct meta_bucket_page {
    struct meta_bucket *buckets; /* by name */
    size_t n;
    bool truncated;
};
/* Buckets of owner with the prefix, behind `after` (exclusive, may be empty), at most max. */
enum rc meta_bucket_list(struct meta *m, struct arena *a, struct slice owner, struct slice prefix,
                         struct slice after, size_t max, struct meta_bucket_page *ret) MUST_CHECK;

struct meta_bucket_stats {
    int64_t objects, bytes; /* exact when no write is in flight */
};
enum rc meta_bucket_stats(struct meta *m, const struct meta_bucket *b,
                          struct meta_bucket_stats *ret) MUST_CHECK;

/* ---- objects -------------------------------------------------------------------------------- */

struct meta_pair {
    struct slice name, value;
};

enum meta_checksum {
    META_SUM_NONE,
    META_SUM_CRC32,
    META_SUM_CRC32C,
    META_SUM_CRC64NVME,
    META_SUM_SHA1,
    META_SUM_SHA256
};
#define META_SUM_SIZE_MAX 32u

/* What a listing prints. */
struct meta_head {
    uint64_t size;         /* bytes */
    int64_t mtime_ns;      /* wall */
    unsigned char md5[16]; /* of the body, or of the parts' MD5s */
    uint32_t parts;        /* 0: not multipart; else the ETag ends in "-<parts>" */
    uint8_t sum_kind;      /* enum meta_checksum */
    bool sum_composite;
    struct slice storage_class; /* "STANDARD" when empty */
};

struct meta_object {
    struct meta_head head;
    struct slice content_type; /* "" = none given */
    struct meta_pair *headers; /* Content-Encoding, Cache-Control, …: canonical names */
    size_t headers_n;
    struct meta_pair *user; /* x-amz-meta-*: names without the prefix, lower case */
    size_t user_n;
    unsigned char sum[META_SUM_SIZE_MAX];
    struct extent *extents; /* the manifest, in order; empty for inline objects */
    size_t extents_n;
    bool is_inline;
    struct slice body;    /* of an inline object */
    uint64_t row_version; /* of the KV entry */
};

/* Conditions of a write or delete, checked in its transaction (atomically). Absent: all zero.
 * if_match on a missing object is S3E_NO_SUCH_KEY; a failed one S3E_PRECONDITION_FAILED. */
struct meta_cond {
    uint64_t row_version; /* not 0: the row must still be this one, else RC_CONFLICT; keeps its
                           * extents off the GC queue when o has the same */
    struct slice if_match,
        if_none_match; /* header values: "*", or list of quoted or bare ETags; p NULL: none */
    bool has_if_size, has_if_mtime; /* DeleteObject's x-amz-if-match-size, -last-modified-time */
    uint64_t if_size;
    int64_t if_mtime_ns; /* compared to the second */
};

/* "9a03…" or "9a03…-7" without quotes into out; returns the length. */
#define META_ETAG_MAX 44u
size_t meta_etag(const struct meta_head *h, char out[META_ETAG_MAX]);
/* True when the header value (see meta_cond) names this ETag or is "*". */
bool meta_etag_matches(struct slice header_value, const struct meta_head *h);

/* S3E_NO_SUCH_KEY. head_only leaves out body and extents where that is cheaper. */
enum rc meta_object_get(struct meta *m, struct arena *a, const struct meta_bucket *b,
                        struct slice key, bool head_only, struct meta_object *ret) MUST_CHECK;
/* Installs the row in one transaction: conditions, statistics, and the replaced object's extents on
 * the GC queue. mtime_ns is set here, never going backwards for a key. S3E_NO_SUCH_BUCKET when the
 * bucket is gone by now. On any failure the caller still owns o's extents (meta_gc_add them), but
 * for RC_TIMEOUT: whether the row was written is then unknown, and the extents must be left alone.
 */
enum rc meta_object_put(struct meta *m, const struct meta_bucket *b, struct slice key,
                        struct meta_object *o, const struct meta_cond *cond) MUST_CHECK;
/* A missing object is RC_OK unless a condition says otherwise; *ret_existed may be NULL. */
enum rc meta_object_delete(struct meta *m, const struct meta_bucket *b, struct slice key,
                           const struct meta_cond *cond, bool *ret_existed) MUST_CHECK;

/* ---- listing -------------------------------------------------------------------------------- */

struct meta_list_params {
    struct slice prefix, delimiter; /* any strings, may be empty */
    struct slice after;             /* exclusive; a common prefix here skips all keys under it */
    size_t max;                     /* entries: keys + common prefixes; 0 … 1000 */
};
struct meta_list_entry {
    bool is_prefix;
    struct slice key; /* or the common prefix; valid during the callback */
    struct meta_head head;
};
struct meta_list_result {
    bool truncated;
    struct slice next; /* last entry returned: pass as `after` to go on; in the arena */
    size_t n;
};
/* Calls emit for each entry in order. An error of emit ends the listing with it. */
enum rc meta_list(struct meta *m, struct arena *a, const struct meta_bucket *b,
                  const struct meta_list_params *p,
                  enum rc (*emit)(void *arg, const struct meta_list_entry *e), void *arg,
                  struct meta_list_result *ret) MUST_CHECK;

/* ---- GC queue ------------------------------------------------------------------------------- */

/* Queues extents for deletion now + grace; for chunks of a PUT that did not commit. */
enum rc meta_gc_add(struct meta *m, const struct extent *e, size_t n) MUST_CHECK;
struct meta_gc_batch {
    struct extent *extents;
    size_t n;
    void *rows; /* private: what meta_gc_ack removes; in the arena */
    size_t rows_n;
};
/* Entries of logical shard 0 … META_GC_SHARDS - 1 that are due; n == 0 when none. */
#define META_GC_SHARDS 1024u
enum rc meta_gc_due(struct meta *m, struct arena *a, unsigned shard, size_t max,
                    struct meta_gc_batch *ret) MUST_CHECK;
enum rc meta_gc_ack(struct meta *m, unsigned shard, const struct meta_gc_batch *batch) MUST_CHECK;

#endif
