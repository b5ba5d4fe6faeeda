/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object — the object engine: bodies in and out as streams, cut into chunks, summed, stored, and
 * installed by one metadata transaction. Knows no HTTP.
 *
 * Owns:    results live in the caller's arena. Memory per stream is bounded by the window.
 * Errors:  those of meta and data; source and sink errors pass through. Nothing of a failed put is
 * visible, and its chunks are on the GC queue. Threads: one engine serves all loops; calls park; on
 * fibers only.
 */
#ifndef STRATA_OBJECT_OBJECT_H
#define STRATA_OBJECT_OBJECT_H

#include "base/checksum.h"
#include "base/digest.h"
#include "meta/meta.h"

struct object_engine;

struct object_config {
    struct meta *meta;       /* borrowed */
    struct data *data;       /* borrowed */
    uint32_t inline_max;     /* bytes of the largest body kept in the row; 0: none; at most 1 MiB */
    unsigned put_window;     /* chunk writes in flight for one put; 0: 4 */
    unsigned get_prefetch;   /* chunk reads in flight for one get; 0: 2 */
    size_t buffer_bytes_max; /* of all body buffers lent at once; 0: 1 GiB */
};
enum rc object_engine_new(const struct object_config *cfg, struct object_engine **ret) MUST_CHECK;
void object_engine_free(struct object_engine *e);
struct meta *object_engine_meta(struct object_engine *e);

/* Sums over the whole body. md5 always; others as asked by `want` (bits 1u << enum meta_checksum).
 */
struct object_sums {
    uint64_t size;
    unsigned char md5[MD5_SIZE];
    unsigned char sum[META_SUM_SHA256 + 1]
                     [META_SUM_SIZE_MAX]; /* big-endian for CRCs; by enum meta_checksum */
};

struct object_source {
    /* Up to n bytes, at least one; RC_EOF at the end. */
    enum rc (*read)(void *arg, void *p, size_t n, size_t *ret_n);
    /* After the end and before anything becomes visible: verifies digests, may set o->sum,
     * o->head.sum_kind. An error here fails the put. NULL is allowed. */
    enum rc (*finish)(void *arg, const struct object_sums *sums, struct meta_object *o);
    void *arg;
    uint64_t size; /* UINT64_MAX when not known beforehand */
    unsigned want; /* sums to compute */
};

/* The largest object of one put: 5 GiB (S3E_ENTITY_TOO_LARGE). */
#define OBJECT_PUT_MAX (UINT64_C(5) << 30)

/* *o brings content_type, headers, user and class; comes back as installed (size, md5, mtime). */
enum rc object_put(struct object_engine *e, struct arena *a, const struct meta_bucket *b,
                   struct slice key, struct meta_object *o, const struct meta_cond *cond,
                   const struct object_source *source) MUST_CHECK;

/* Bytes [offset, offset + length) of an object that meta_object_get gave, in order, to write. Every
 * byte is verified before it is given. */
enum rc object_read(struct object_engine *e, const struct meta_object *o, uint64_t offset,
                    uint64_t length, enum rc (*write)(void *arg, const void *p, size_t n),
                    void *arg) MUST_CHECK;

/* Copies src's bytes to a new object; *o as for object_put. Extents are copied, never shared. */
enum rc object_copy(struct object_engine *e, struct arena *a, const struct meta_object *src,
                    const struct meta_bucket *b, struct slice key, struct meta_object *o,
                    const struct meta_cond *cond) MUST_CHECK;
/* Replaces metadata only (self-copy): the bytes stay, provided that the row is still src's.
 * RC_CONFLICT. */
enum rc object_replace_metadata(struct object_engine *e, const struct meta_object *src,
                                const struct meta_bucket *b, struct slice key,
                                struct meta_object *o, const struct meta_cond *cond) MUST_CHECK;

enum rc object_delete(struct object_engine *e, const struct meta_bucket *b, struct slice key,
                      const struct meta_cond *cond) MUST_CHECK;

/* One pass over the due entries of the GC queue; returns how many chunks it deleted. */
enum rc object_gc_pass(struct object_engine *e, uint64_t *ret_deleted) MUST_CHECK;

#endif
