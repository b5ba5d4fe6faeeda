/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/gate.h"

struct gate_txn {
    struct kv_txn base;
    struct kv_txn *inner;
};

struct gate_scan {
    struct kv_scan base;
    struct kv_scan *inner;
};

static struct kv_gate *gate_of(struct kv *kv)
{
    return container_of(kv, struct kv_gate, base);
}

static enum rc pass(struct kv *kv)
{
    return gate_of(kv)->pass(gate_of(kv));
}

struct kv_txn *kv_gate_inner(struct kv_txn *t)
{
    return container_of(t, struct gate_txn, base)->inner;
}

static struct kv_scan *inner_scan(struct kv_scan *s)
{
    return container_of(s, struct gate_scan, base)->inner;
}

enum rc kv_gate_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                    struct kv_item *ret)
{
    enum rc rc = pass(kv);

    return rc ? rc : kv_get(gate_of(kv)->inner, partition, key, a, ret);
}

enum rc kv_gate_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                          struct kv_scan **ret)
{
    struct gate_scan *s;
    enum rc rc = pass(kv);

    if (rc)
        return rc;
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    rc = txn ? kv_txn_scan_open(kv_gate_inner(txn), range, &s->inner)
             : kv_scan_open(gate_of(kv)->inner, range, &s->inner);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return RC_OK;
}

enum rc kv_gate_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    enum rc rc = pass(scan->kv);

    return rc ? rc : kv_scan_next(inner_scan(scan), ret);
}

enum rc kv_gate_scan_seek(struct kv_scan *scan, struct slice key)
{
    enum rc rc = pass(scan->kv);

    return rc ? rc : kv_scan_seek(inner_scan(scan), key);
}

void kv_gate_scan_close(struct kv_scan *scan)
{
    kv_scan_close(inner_scan(scan));
    free(container_of(scan, struct gate_scan, base));
}

enum rc kv_gate_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    struct gate_txn *t;
    enum rc rc = pass(kv);

    if (rc)
        return rc;
    t = calloc(1, sizeof *t);
    if (!t)
        return RC_NO_MEM;
    rc = kv_begin(gate_of(kv)->inner, home, &t->inner);
    if (rc) {
        free(t);
        return rc;
    }
    *ret = &t->base;
    return RC_OK;
}

enum rc kv_gate_txn_get(struct kv_txn *txn, struct slice key, struct arena *a, struct kv_item *ret)
{
    enum rc rc = pass(txn->kv);

    return rc ? rc : kv_txn_get(kv_gate_inner(txn), key, a, ret);
}

enum rc kv_gate_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    enum rc rc = pass(txn->kv);

    return rc ? rc : kv_txn_write(kv_gate_inner(txn), w);
}

enum rc kv_gate_txn_commit(struct kv_txn *txn)
{
    enum rc rc = pass(txn->kv);

    return rc ? rc : kv_txn_commit(kv_gate_inner(txn));
}

void kv_gate_txn_free(struct kv_txn *txn)
{
    if (!txn)
        return;
    kv_txn_free(kv_gate_inner(txn));
    free(container_of(txn, struct gate_txn, base));
}

enum rc kv_gate_probe(struct kv *kv)
{
    enum rc rc = pass(kv);

    return rc ? rc : kv_probe(gate_of(kv)->inner);
}

void kv_gate_stats(struct kv *kv, struct kv_stats *ret)
{
    kv_stats(gate_of(kv)->inner, ret);
}

enum rc kv_gate_checkpoint(struct kv *kv, const char *directory)
{
    enum rc rc = pass(kv);

    return rc ? rc : kv_checkpoint(gate_of(kv)->inner, directory);
}

void kv_gate_close(struct kv *kv)
{
    kv_close(gate_of(kv)->inner);
    free(gate_of(kv));
}
