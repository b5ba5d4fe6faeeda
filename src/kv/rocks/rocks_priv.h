/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rocks_priv — what the files of the RocksDB driver share.
 *
 * Two column families hold the entries, under the key "length of partition (1 byte), partition,
 * key": default  flags (1), version (8), [expiry (8)], [length of the whole value (4)], value or
 * its head tail     version (8), the rest of a value whose head is in default A tail belongs to a
 * head of the same version; others are leftovers that nobody reads. Keys that begin with a zero
 * byte are the driver's own. Integers are big-endian.
 *
 * The version is the number of the commit batch. Numbers only grow, also across restarts: a batch
 * takes the number after RocksDB's newest sequence number, of which it uses at least one.
 *
 * Threads: struct rocks is immutable after open but for its atomics; a transaction is its fiber's
 * until it is queued, then the commit thread's until it is woken.
 */
#ifndef STRATA_KV_ROCKS_PRIV_H
#define STRATA_KV_ROCKS_PRIV_H

#include "kv/rocks.h"
#include "rt/rt.h"

#include <rocksdb/c.h>
#include <stdatomic.h>

#define ROCKS_KEY_SIZE (1 + KV_PARTITION_MAX + KV_KEY_MAX)
#define ROCKS_SPLIT_SIZE 512u /* longer values are cut behind KV_HEAD_SIZE */
#define ROCKS_COUNT_SHARDS 16u
#define ROCKS_WHY_SIZE 120

struct committer;

/* Kept per loop, so that loops do not share cache lines. */
struct rocks_counts {
    _Atomic uint64_t gets, scans, scan_items, cold_reads;
} __attribute__((aligned(64)));

struct rocks {
    struct kv base;
    rocksdb_t *db;
    rocksdb_column_family_handle_t *entries, *tails;
    rocksdb_cache_t *cache;
    rocksdb_compactionfilter_t *filter;
    rocksdb_readoptions_t
        *cached; /* of memory only: answers "incomplete" rather than read a disk */
    rocksdb_readoptions_t *full;
    struct committer *committer;
    uint64_t hash_seed;
    _Atomic uint64_t visible; /* number of the newest batch that every new read sees */
    struct rocks_counts counts[ROCKS_COUNT_SHARDS];
};

/* ---- code.c: encodings ---------------------------------------------------------------------- */

struct rocks_key {
    size_t n;
    char bytes[ROCKS_KEY_SIZE];
};

struct rocks_entry {
    uint64_t version;
    int64_t expires_at_ns; /* 0: never */
    bool has_tail;
    size_t total;      /* of the whole value */
    struct slice head; /* the value, or its start when has_tail */
};

/* Without the key: the prefix of the partition. */
void rocks_key_init(struct rocks_key *k, struct slice partition);
void rocks_key_add(struct rocks_key *k, struct slice key);
/* The first key behind all that start with *k; false when there is none. */
bool rocks_key_successor(struct rocks_key *k);

/* Slices point into raw. */
bool rocks_entry_decode(struct slice raw, struct rocks_entry *ret) MUST_CHECK;
bool rocks_entry_expired(const struct rocks_entry *e);

/* How a value is stored: sizes of its entry and its tail (0: none). */
struct rocks_layout {
    size_t header_n, head_n, tail_n; /* head_n: of the value; tail_n with the version in front */
};
struct rocks_layout rocks_layout_of(size_t value_n, bool expires);
/* entry has room for header_n + head_n, tail for tail_n. The versions are to be set. */
void rocks_entry_encode(char *entry, char *tail, struct slice value, int64_t expires_at_ns);
void rocks_entry_set_version(char *entry, uint64_t version);
#define ROCKS_TAIL_HEADER 8u

uint64_t rocks_hash(uint64_t seed, struct slice s);

/* The meaning of a RocksDB error; frees text. why may be NULL. */
enum rc rocks_error(char *text, char why[ROCKS_WHY_SIZE]);
bool rocks_error_is_incomplete(const char *text);

/* ---- read.c --------------------------------------------------------------------------------- */

/* One point read. The answer goes to item (RC_OK); seen is filled for RC_OK and RC_NOT_FOUND: the
 * version of the entry that is stored, also of an expired one, or 0. */
struct rocks_read {
    struct rocks *r;
    const rocksdb_snapshot_t *snapshot; /* NULL: the present */
    rocksdb_readoptions_t *options;     /* of the snapshot, for this fiber alone */
    struct slice key;                   /* encoded */
    struct arena *arena;
    struct kv_item *item;
    uint64_t version;
    bool has_tail;
    enum rc rc; /* private from here on */
    bool incomplete;
    char why[ROCKS_WHY_SIZE];
};
/* May park. */
enum rc rocks_read(struct rocks_read *rd) MUST_CHECK;
enum rc rocks_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                  struct kv_item *ret);
/* Blocks: the stored entry as of now, for the commit thread. *ret_pin keeps it. RC_NOT_FOUND. */
enum rc rocks_peek(struct rocks *r, struct slice key, struct rocks_entry *ret,
                   rocksdb_pinnableslice_t **ret_pin, char why[ROCKS_WHY_SIZE]) MUST_CHECK;
struct rocks_counts *rocks_counts(struct rocks *r);
static inline void rocks_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* ---- txn.c ---------------------------------------------------------------------------------- */

struct rocks_readrec {
    struct rocks_readrec *next;
    uint64_t hash, version; /* version 0: no entry */
    size_t key_n;
    bool has_tail;
    char key[];
};

/* One per key: later writes to the key are merged into it. */
struct rocks_write {
    struct rocks_write *next;
    struct rocks_write *next_in_slot; /* of the index */
    uint64_t hash;
    struct slice key;
    enum kv_write_kind kind;
    bool old_known, old_tail; /* whether the entry that it replaces has a tail */
    char *entry, *tail;       /* KV_PUT */
    size_t entry_n, tail_n;
    int64_t *deltas; /* KV_ADD: KV_COUNTERS_MAX of them */
    unsigned deltas_n;
};

struct rocks_txn {
    struct kv_txn base;
    struct rocks *r;
    struct arena arena;
    struct slice home;                  /* encoded, without a key */
    const rocksdb_snapshot_t *snapshot; /* taken by the first read */
    rocksdb_readoptions_t *options;
    uint64_t seen; /* every batch up to this one is in the snapshot */
    struct rocks_readrec *reads;
    struct rocks_write *writes, **writes_end;
    unsigned reads_n, writes_n, slots_n;
    struct rocks_write **slots; /* hash index of writes; NULL while there are few */
    size_t bytes;               /* written */
    /* The commit thread's part. */
    struct rocks_txn *next;
    enum rc rc;
    struct waiter waiter;
    bool on_fiber, unowned; /* unowned: the commit thread frees it */
    _Atomic int done;       /* a futex for plain threads */
    char why[ROCKS_WHY_SIZE];
};

enum rc rocks_begin(struct kv *kv, struct slice home, struct kv_txn **ret);
enum rc rocks_txn_get(struct kv_txn *base, struct slice key, struct arena *a, struct kv_item *ret);
enum rc rocks_txn_write(struct kv_txn *base, const struct kv_write *w);
enum rc rocks_txn_commit(struct kv_txn *base);
void rocks_txn_free(struct kv_txn *base);
/* Before the first read: fixes what the transaction sees. */
enum rc rocks_txn_snapshot(struct rocks_txn *t) MUST_CHECK;
/* Adds to the read set. key is encoded. */
enum rc rocks_txn_record(struct rocks_txn *t, struct slice key, uint64_t version,
                         bool has_tail) MUST_CHECK;

/* ---- scan.c --------------------------------------------------------------------------------- */

enum rc rocks_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                        struct kv_scan **ret);
enum rc rocks_scan_next(struct kv_scan *base, struct kv_item *ret);
enum rc rocks_scan_seek(struct kv_scan *base, struct slice key);
void rocks_scan_close(struct kv_scan *base);

/* ---- commit.c ------------------------------------------------------------------------------- */

struct committer_stats {
    uint64_t commits, conflicts, batches, syncs, errors;
};
enum rc committer_start(struct rocks *r, const struct kv_rocks_config *cfg) MUST_CHECK;
/* Finishes what is queued and ends the thread. NULL is allowed. */
void committer_stop(struct committer *c);
/* Queues t; t->rc is there when it is woken. */
void committer_post(struct committer *c, struct rocks_txn *t);
void committer_stats(struct committer *c, struct committer_stats *ret);
/* Monotonic time of the last batch, 0 when it failed. */
int64_t committer_last_ok_ns(struct committer *c);

/* ---- recent.c: which keys changed lately ---------------------------------------------------- */

struct recent_slot {
    uint64_t hash, batch; /* batch 0: empty */
};
/* Owned by the commit thread. Two tables of the same size; when the young one is full it becomes
 * the old one, and the old one is forgotten: then batches up to `floor` are not known in full. */
struct recent {
    struct recent_slot *young, *old;
    size_t young_n;
    uint64_t floor, young_floor;
};
enum rc recent_init(struct recent *rec, uint64_t floor) MUST_CHECK;
void recent_fini(struct recent *rec);
/* Forgets everything up to and including batch. */
void recent_reset(struct recent *rec, uint64_t batch);
void recent_note(struct recent *rec, uint64_t hash, uint64_t batch);
/* The newest batch known to have changed the key (or one with the same hash); 0: none after floor.
 */
uint64_t recent_find(const struct recent *rec, uint64_t hash);

/* ---- counters.c: the values of counter entries, as the commit thread left them --------------- */

struct counter {
    struct counter *next; /* in its bucket */
    struct counter *next_dirty;
    uint64_t hash;
    int64_t expires_at_ns;
    bool dirty; /* changed by the batch being made */
    unsigned n;
    int64_t columns[KV_COUNTERS_MAX];
    size_t key_n;
    char key[];
};
#define COUNTER_BUCKETS 8192u
struct counters {
    struct counter *buckets[COUNTER_BUCKETS];
    struct counter *dirty;
    size_t count;
};
struct counter *counters_find(struct counters *cs, uint64_t hash, struct slice key);
/* NULL when out of memory. All zeros. */
struct counter *counters_add(struct counters *cs, uint64_t hash, struct slice key);
void counters_drop(struct counters *cs, uint64_t hash, struct slice key);
void counters_clear(struct counters *cs);

#endif
