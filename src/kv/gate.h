/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate — what wrapping drivers for tests share: every call first passes a gate, then goes to the
 * store within.
 *
 * Owns:    the inner store, and the wrapper's own memory (malloc'd, with the gate as first member):
 * close frees both. Errors:  those of pass(), then those of the inner store. Threads: as the inner
 * store; pass() is called from all of them.
 */
#ifndef STRATA_KV_GATE_H
#define STRATA_KV_GATE_H

#include "kv/kv.h"

struct kv_gate {
    struct kv base;
    struct kv *inner;
    enum rc (*pass)(struct kv_gate *); /* RC_OK: make the call */
};

/* The inner transaction of one that the gate began. */
struct kv_txn *kv_gate_inner(struct kv_txn *t);

/* For the driver's struct kv_ops, which names the driver and may replace single calls after these.
 */
#define KV_GATE_OPS                                                                                \
    .get = kv_gate_get, .scan_open = kv_gate_scan_open, .scan_next = kv_gate_scan_next,            \
    .scan_seek = kv_gate_scan_seek, .scan_close = kv_gate_scan_close, .begin = kv_gate_begin,      \
    .txn_get = kv_gate_txn_get, .txn_write = kv_gate_txn_write, .txn_free = kv_gate_txn_free,      \
    .probe = kv_gate_probe, .stats = kv_gate_stats, .checkpoint = kv_gate_checkpoint,              \
    .close = kv_gate_close

enum rc kv_gate_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                    struct kv_item *ret);
enum rc kv_gate_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                          struct kv_scan **ret);
enum rc kv_gate_scan_next(struct kv_scan *scan, struct kv_item *ret);
enum rc kv_gate_scan_seek(struct kv_scan *scan, struct slice key);
void kv_gate_scan_close(struct kv_scan *scan);
enum rc kv_gate_begin(struct kv *kv, struct slice home, struct kv_txn **ret);
enum rc kv_gate_txn_get(struct kv_txn *txn, struct slice key, struct arena *a, struct kv_item *ret);
enum rc kv_gate_txn_write(struct kv_txn *txn, const struct kv_write *w);
enum rc kv_gate_txn_commit(struct kv_txn *txn);
void kv_gate_txn_free(struct kv_txn *txn);
enum rc kv_gate_probe(struct kv *kv);
void kv_gate_stats(struct kv *kv, struct kv_stats *ret);
enum rc kv_gate_checkpoint(struct kv *kv, const char *directory);
void kv_gate_close(struct kv *kv);

#endif
