/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv — an ordered, partitioned, transactional key-value store behind a vtable.
 *
 * Keys are bytes, ordered by memcmp inside a partition, itself a short byte string. Each entry has
 * an opaque version that changes with every write. Transactions are optimistic: reads of a
 * transaction are of one snapshot and recorded, writes are buffered, commit succeeds only if
 * nothing read has changed.
 *
 *     begin(home) → get / scan (home partition only) → put / delete / add (any partition) → commit
 *
 * A scan records the entries that it returned; a new entry that appears in the range is not
 * detected. Where that matters, guard the range with a row that both sides read or write.
 *
 * Owns:    slice arguments are borrowed for the call. Returned items live in the arena or until the
 * stated next call. Errors:  RC_NOT_FOUND, RC_CONFLICT (commit), RC_TOO_LARGE, RC_INVALID (an empty
 * partition or key), RC_NO_MEM, RC_NO_SPACE, RC_UNAVAILABLE, RC_TIMEOUT (commit: outcome unknown),
 * RC_CANCELLED, RC_CORRUPT. A failing store is never RC_NOT_FOUND. Threads: a store serves all
 * loops at once; a transaction or scan belongs to one fiber. Calls may park.
 */
#ifndef STRATA_KV_KV_H
#define STRATA_KV_KV_H

#include "base/arena.h"
#include "base/fail.h"

struct kv;
struct kv_txn;
struct kv_scan;

#define KV_PARTITION_MAX 255u        /* bytes; at least 1 */
#define KV_KEY_MAX 4096u             /* bytes; at least 1 */
#define KV_VALUE_MAX (8u << 20)      /* bytes */
#define KV_TXN_BYTES_MAX (32u << 20) /* keys and values written by one transaction */
#define KV_COUNTERS_MAX 16u          /* columns of a counter entry */
/* What KV_HEAD guarantees of a value's start. */
#define KV_HEAD_SIZE 256u

struct kv_item {
    struct slice key;
    struct slice value;
    uint64_t version; /* never 0; equal versions mean that the entry did not change */
};

enum kv_scan_flags {
    /* Values may be cut after KV_HEAD_SIZE bytes: a listing does not pay for the rest. */
    KV_HEAD = 1,
};

/* Ranges are [from, to): an empty `to` means the end of the partition. Bounds obey KV_KEY_MAX. */
struct kv_range {
    struct slice partition, from, to;
    unsigned flags; /* enum kv_scan_flags */
};

struct kv_stats {
    uint64_t gets, scans, scan_items, commits, conflicts, batches, syncs, errors;
    uint64_t disk_bytes, memory_bytes;
};

enum kv_write_kind { KV_PUT, KV_DELETE, KV_ADD };

struct kv_write {
    enum kv_write_kind kind;
    struct slice partition, key;
    struct slice value;    /* KV_PUT */
    int64_t expires_at_ns; /* KV_PUT: wall time from which readers do not see it; 0 = never */
    const int64_t *deltas; /* KV_ADD */
    unsigned deltas_n;
};

struct kv_ops {
    const char *name;
    /* Point read outside a transaction: sees every commit acknowledged before. value in the arena.
     */
    enum rc (*get)(struct kv *, struct slice partition, struct slice key, struct arena *a,
                   struct kv_item *ret);
    /* txn is NULL outside a transaction. *ret is freed by scan_close. */
    enum rc (*scan_open)(struct kv *, struct kv_txn *txn, const struct kv_range *range,
                         struct kv_scan **ret);
    /* The next item, or RC_NOT_FOUND at the end (again and again). It lives until the next call on
     * the same scan. */
    enum rc (*scan_next)(struct kv_scan *, struct kv_item *ret);
    /* The next item will be the first at or behind key (clamped to the range); forwards only. */
    enum rc (*scan_seek)(struct kv_scan *, struct slice key);
    void (*scan_close)(struct kv_scan *);

    enum rc (*begin)(struct kv *, struct slice home, struct kv_txn **ret);
    /* Sees the transaction's own writes. RC_NOT_FOUND joins the read set, too. */
    enum rc (*txn_get)(struct kv_txn *, struct slice key, struct arena *a, struct kv_item *ret);
    /* Buffers one write; see kv_write. Bytes are copied. */
    enum rc (*txn_write)(struct kv_txn *, const struct kv_write *w);
    /* Once. Durable when RC_OK. RC_CONFLICT: nothing was written. The transaction still needs free.
     */
    enum rc (*txn_commit)(struct kv_txn *);
    void (*txn_free)(struct kv_txn *); /* NULL is allowed; without commit nothing happens */

    enum rc (*probe)(struct kv *); /* RC_OK when a read and a write would work now; within 1 s */
    void (*stats)(struct kv *, struct kv_stats *ret);
    /* An online copy into a new directory, usable as a store of the same kind. NULL:
     * RC_UNSUPPORTED. */
    enum rc (*checkpoint)(struct kv *, const char *directory);
    void (*close)(struct kv *); /* no calls in flight */
};

/* Every driver embeds this as `base`. Callers use the functions below, never ops. */
struct kv {
    const struct kv_ops *ops;
};
struct kv_txn {
    struct kv *kv; /* these two are set by kv_begin */
    size_t bytes;  /* of keys and values written so far, against KV_TXN_BYTES_MAX */
};
struct kv_scan {
    struct kv *kv; /* set by the functions that open */
};

enum rc kv_get(struct kv *, struct slice partition, struct slice key, struct arena *a,
               struct kv_item *ret) MUST_CHECK;
enum rc kv_scan_open(struct kv *, const struct kv_range *range, struct kv_scan **ret) MUST_CHECK;
enum rc kv_scan_next(struct kv_scan *, struct kv_item *ret) MUST_CHECK;
enum rc kv_scan_seek(struct kv_scan *, struct slice key) MUST_CHECK;
void kv_scan_close(struct kv_scan *); /* NULL is allowed */

enum rc kv_begin(struct kv *, struct slice home, struct kv_txn **ret) MUST_CHECK;
enum rc kv_txn_get(struct kv_txn *, struct slice key, struct arena *a,
                   struct kv_item *ret) MUST_CHECK;
/* Range of the home partition (range->partition is ignored). Does not see the transaction's own
 * writes. Close it before commit and free. */
enum rc kv_txn_scan_open(struct kv_txn *, const struct kv_range *range,
                         struct kv_scan **ret) MUST_CHECK;
enum rc kv_txn_put(struct kv_txn *, struct slice partition, struct slice key,
                   struct slice value) MUST_CHECK;
enum rc kv_txn_put_expiring(struct kv_txn *, struct slice partition, struct slice key,
                            struct slice value, int64_t expires_at_ns) MUST_CHECK;
enum rc kv_txn_delete(struct kv_txn *, struct slice partition, struct slice key) MUST_CHECK;
/* Adds to the columns of a counter entry (big-endian int64 each; absent = zeros; entries grow to
 * the wider of the two). Blind and commutative: it joins no read set and never conflicts with other
 * adds. */
enum rc kv_txn_add(struct kv_txn *, struct slice partition, struct slice key, const int64_t *deltas,
                   unsigned n) MUST_CHECK;
/* One of the above. */
enum rc kv_txn_write(struct kv_txn *, const struct kv_write *w) MUST_CHECK;
enum rc kv_txn_commit(struct kv_txn *) MUST_CHECK;
void kv_txn_free(struct kv_txn *);

/* Runs fn in a transaction and commits, again from the start on RC_CONFLICT, with growing random
 * pauses, until the fiber's deadline or 10 s have passed (then RC_UNAVAILABLE). Another result of
 * fn than RC_OK is returned as it is, without commit. fn must be repeatable. */
enum rc kv_transact(struct kv *, struct slice home, enum rc (*fn)(struct kv_txn *, void *arg),
                    void *arg) MUST_CHECK;

/* Reads a counter entry's value into columns; missing ones are 0. RC_CORRUPT. */
enum rc kv_counters_decode(struct slice value, int64_t *columns, unsigned n) MUST_CHECK;

enum rc kv_probe(struct kv *) MUST_CHECK;
void kv_stats(struct kv *, struct kv_stats *ret);
enum rc kv_checkpoint(struct kv *, const char *directory) MUST_CHECK;
const char *kv_name(const struct kv *);
void kv_close(struct kv *); /* NULL is allowed */

#endif
