/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/wrap.h"

struct faulty {
    struct kv base;
    struct kv *inner; /* owned */
    struct kv_fault fault;
    bool armed;
    uint64_t calls, injected; /* atomic */
};

struct faulty_txn {
    struct kv_txn base;
    struct kv_txn *inner;
};

struct faulty_scan {
    struct kv_scan base;
    struct kv_scan *inner;
};

static struct faulty *faulty_of(const struct kv *kv)
{
    return container_of(kv, struct faulty, base);
}

static struct kv_txn *inner_txn(struct kv_txn *t)
{
    return container_of(t, struct faulty_txn, base)->inner;
}

static struct kv_scan *inner_scan(struct kv_scan *s)
{
    return container_of(s, struct faulty_scan, base)->inner;
}

/* splitmix64: the same call fails in each run with the same seed. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool strikes(struct faulty *f)
{
    uint64_t i = __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
    bool hit = (f->fault.nth >= 0 && i == (uint64_t)f->fault.nth) ||
               (f->fault.rate_ppm && mix(f->fault.seed + i) % 1000000 < f->fault.rate_ppm);

    if (hit)
        __atomic_fetch_add(&f->injected, 1, __ATOMIC_RELAXED);
    return hit;
}

/* The injected result of a call; RC_OK: make it. */
static enum rc injected(struct kv *kv)
{
    struct faulty *f = faulty_of(kv);

    if (!f->armed || f->fault.mode != KV_FAULT_CALL || !strikes(f))
        return RC_OK;
    return fail_rc(f->fault.rc, "injected fault");
}

static enum rc faulty_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                          struct kv_item *ret)
{
    enum rc rc = injected(kv);

    return rc ? rc : kv_get(faulty_of(kv)->inner, partition, key, a, ret);
}

static enum rc faulty_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                                struct kv_scan **ret)
{
    struct faulty_scan *s;
    enum rc rc = injected(kv);

    if (rc)
        return rc;
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    rc = txn ? kv_txn_scan_open(inner_txn(txn), range, &s->inner)
             : kv_scan_open(faulty_of(kv)->inner, range, &s->inner);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return RC_OK;
}

static enum rc faulty_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    enum rc rc = injected(scan->kv);

    return rc ? rc : kv_scan_next(inner_scan(scan), ret);
}

static enum rc faulty_scan_seek(struct kv_scan *scan, struct slice key)
{
    enum rc rc = injected(scan->kv);

    return rc ? rc : kv_scan_seek(inner_scan(scan), key);
}

static void faulty_scan_close(struct kv_scan *scan)
{
    kv_scan_close(inner_scan(scan));
    free(container_of(scan, struct faulty_scan, base));
}

static enum rc faulty_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    struct faulty_txn *t;
    enum rc rc = injected(kv);

    if (rc)
        return rc;
    t = calloc(1, sizeof *t);
    if (!t)
        return RC_NO_MEM;
    rc = kv_begin(faulty_of(kv)->inner, home, &t->inner);
    if (rc) {
        free(t);
        return rc;
    }
    *ret = &t->base;
    return RC_OK;
}

static enum rc faulty_txn_get(struct kv_txn *txn, struct slice key, struct arena *a,
                              struct kv_item *ret)
{
    enum rc rc = injected(txn->kv);

    return rc ? rc : kv_txn_get(inner_txn(txn), key, a, ret);
}

static enum rc faulty_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    enum rc rc = injected(txn->kv);

    return rc ? rc : kv_txn_write(inner_txn(txn), w);
}

static enum rc faulty_txn_commit(struct kv_txn *txn)
{
    struct faulty *f = faulty_of(txn->kv);
    bool hit = f->armed && strikes(f);
    enum rc rc;

    if (hit && f->fault.mode != KV_FAULT_COMMIT_ANSWER)
        return fail_rc(f->fault.rc, "injected fault");
    rc = kv_txn_commit(inner_txn(txn));
    return hit && !rc ? fail_rc(RC_TIMEOUT, "injected loss of an answer") : rc;
}

static void faulty_txn_free(struct kv_txn *txn)
{
    if (!txn)
        return;
    kv_txn_free(inner_txn(txn));
    free(container_of(txn, struct faulty_txn, base));
}

static enum rc faulty_probe(struct kv *kv)
{
    enum rc rc = injected(kv);

    return rc ? rc : kv_probe(faulty_of(kv)->inner);
}

static void faulty_stats(struct kv *kv, struct kv_stats *ret)
{
    kv_stats(faulty_of(kv)->inner, ret);
}

static enum rc faulty_checkpoint(struct kv *kv, const char *directory)
{
    enum rc rc = injected(kv);

    return rc ? rc : kv_checkpoint(faulty_of(kv)->inner, directory);
}

static void faulty_close(struct kv *kv)
{
    kv_close(faulty_of(kv)->inner);
    free(faulty_of(kv));
}

static const struct kv_ops faulty_ops = {
    .name = "faulty",
    .get = faulty_get,
    .scan_open = faulty_scan_open,
    .scan_next = faulty_scan_next,
    .scan_seek = faulty_scan_seek,
    .scan_close = faulty_scan_close,
    .begin = faulty_begin,
    .txn_get = faulty_txn_get,
    .txn_write = faulty_txn_write,
    .txn_commit = faulty_txn_commit,
    .txn_free = faulty_txn_free,
    .probe = faulty_probe,
    .stats = faulty_stats,
    .checkpoint = faulty_checkpoint,
    .close = faulty_close,
};

enum rc kv_faulty_open(struct kv *inner, struct kv **ret)
{
    struct faulty *f = calloc(1, sizeof *f);

    if (!f)
        return RC_NO_MEM;
    f->base.ops = &faulty_ops;
    f->inner = inner;
    *ret = &f->base;
    return RC_OK;
}

void kv_faulty_arm(struct kv *faulty, const struct kv_fault *fault)
{
    struct faulty *f = faulty_of(faulty);

    assert(faulty->ops == &faulty_ops);
    f->fault = *fault;
    f->armed = true;
    __atomic_store_n(&f->calls, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&f->injected, 0, __ATOMIC_RELAXED);
}

void kv_faulty_disarm(struct kv *faulty)
{
    faulty_of(faulty)->armed = false;
}

uint64_t kv_faulty_calls(const struct kv *faulty)
{
    return __atomic_load_n(&faulty_of(faulty)->calls, __ATOMIC_RELAXED);
}

uint64_t kv_faulty_injected(const struct kv *faulty)
{
    return __atomic_load_n(&faulty_of(faulty)->injected, __ATOMIC_RELAXED);
}
