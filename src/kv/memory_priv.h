/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_priv — what the files of the memory driver share.
 *
 * Threads: a store is for any; a transaction belongs to its fiber.
 */
#ifndef STRATA_KV_MEMORY_PRIV_H
#define STRATA_KV_MEMORY_PRIV_H

#include "kv/memory.h"
#include "kv/memory_map.h"

struct memory {
    struct kv base;
    struct map map;
    size_t max_bytes;
    uint64_t gets, scans, scan_items, commits, conflicts, errors; /* atomic */
};

struct read {
    struct slice name;
    uint64_t version; /* 0 = was absent */
};

struct memory_txn {
    struct kv_txn base;
    struct memory *store;
    struct snapshot view;
    bool done; /* view is closed */
    unsigned open_scans;
    struct slice home; /* as a name with an empty key */
    struct read *reads;
    size_t reads_n, reads_cap;
    struct node_list writes;
    size_t writes_n;    /* at least as many as there are nodes in writes */
    struct arena arena; /* home and the names of reads */
};

static inline struct memory *memory_of(struct kv *kv)
{
    return container_of(kv, struct memory, base);
}

static inline void count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* Removes what the last reader may have kept, unless somebody is at work anyway. */
void memory_tidy(struct memory *s);
/* A copy in the arena. */
enum rc memory_copy_item(struct arena *a, struct slice key, struct slice value, uint64_t version,
                         struct kv_item *ret) MUST_CHECK;
/* What a reader of that commit and time sees under name. */
enum rc memory_read_at(struct memory *s, struct slice name, uint64_t seq, int64_t now_ns,
                       struct arena *a, struct kv_item *ret) MUST_CHECK;
/* Notes that the transaction depends on key being at version; 0 = absent. */
enum rc memory_txn_record(struct memory_txn *t, struct slice key, uint64_t version) MUST_CHECK;

/* The members of kv_ops that stand in other files. */
enum rc memory_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                         struct kv_scan **ret);
enum rc memory_scan_next(struct kv_scan *scan, struct kv_item *ret);
enum rc memory_scan_seek(struct kv_scan *scan, struct slice key);
void memory_scan_close(struct kv_scan *scan);
enum rc memory_begin(struct kv *kv, struct slice home, struct kv_txn **ret);
enum rc memory_txn_get(struct kv_txn *txn, struct slice key, struct arena *a, struct kv_item *ret);
enum rc memory_txn_write(struct kv_txn *txn, const struct kv_write *w);
enum rc memory_txn_commit(struct kv_txn *txn);
void memory_txn_free(struct kv_txn *txn);

#endif
