/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row — the bytes of an object row: a fixed header with all that a listing prints, a protobuf tail,
 * and the body of an inline object.
 *
 *     0  format 1 (ROW_FORMAT)         16 mtime, wall ns 8          44 reserved 4
 *     1  length of the header 1        24 MD5 16                    48 write id 8
 *     2  flags 1                       40 parts 4                   56 reserved 8 (version order)
 *     3  checksum kind 1               64 with ROW_CLASS_NAMED: length 1 and name of the class 31
 *     4  storage class id 1, reserved 3
 *     8  size 8
 * then the tail's length 4, the tail (message Tail of row.proto), the inline body. Big-endian.
 *
 * Owns:    decoded slices point into the arena or into the value, as said below.
 * Errors:  RC_CORRUPT for every malformed value (any bytes are safe to decode), RC_NO_MEM,
 * RC_TOO_LARGE. Threads: any.
 */
#ifndef STRATA_META_ROW_H
#define STRATA_META_ROW_H

#include "meta/meta.h"

#define ROW_FORMAT 0xa1
#define ROW_HEADER_SIZE 64u
#define ROW_HEADER_SIZE_MAX 96u
#define ROW_CLASS_NAME_MAX 31u
#define ROW_EXTENT_SIZE 24u
/* More in one row than any object of ours needs: bounds what a decoder allocates. */
#define ROW_EXTENTS_MAX 65536u

/* A row as bytes, in the arena. mtime can be set later: it is known inside the transaction only. */
enum rc row_encode(struct arena *a, const struct meta_object *o, uint64_t write_id,
                   struct slice *ret) MUST_CHECK;
void row_set_mtime(struct slice row, int64_t mtime_ns);

/* The first KV_HEAD_SIZE bytes of a value are enough. A named storage_class points into value. */
enum rc row_decode_head(struct slice value, struct meta_head *ret) MUST_CHECK;
/* Body and class point into value, the rest into the arena. Does not set row_version. With
 * head_only extents and body are left out. */
enum rc row_decode(struct arena *a, struct slice value, bool head_only,
                   struct meta_object *ret) MUST_CHECK;
/* Which write made it: equal means the very same write. Of a value that row_decode_head accepts. */
uint64_t row_write_id(struct slice value);
bool row_is_inline(struct slice value);

/* n extents in their packed form; out has n * ROW_EXTENT_SIZE bytes. */
void row_pack_extents(void *out, const struct extent *e, size_t n);
/* The reverse, appended to ret (room for packed.n / ROW_EXTENT_SIZE). RC_CORRUPT for impossible
 * ones. */
enum rc row_unpack_extents(struct slice packed, struct extent *ret) MUST_CHECK;

/* The bucket row. Slices of *ret live in the arena. */
struct row_bucket {
    struct meta_bucket bucket;
    uint64_t closing_token; /* of the delete under way; 0: none */
    uint64_t closing_since_ms;
};
enum rc row_bucket_encode(struct arena *a, const struct row_bucket *b,
                          struct slice *ret) MUST_CHECK;
enum rc row_bucket_decode(struct arena *a, struct slice value, struct row_bucket *ret) MUST_CHECK;

#endif
