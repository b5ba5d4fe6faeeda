/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "kv/wrap.h"
#include "rt/rt.h"

#include <unistd.h>

struct slow {
    struct kv base;
    struct kv *inner; /* owned */
    unsigned min_us, max_us;
};

struct slow_txn {
    struct kv_txn base;
    struct kv_txn *inner;
};

struct slow_scan {
    struct kv_scan base;
    struct kv_scan *inner;
};

static struct slow *slow_of(const struct kv *kv)
{
    return container_of(kv, struct slow, base);
}

static struct kv_txn *inner_txn(struct kv_txn *t)
{
    return container_of(t, struct slow_txn, base)->inner;
}

static struct kv_scan *inner_scan(struct kv_scan *s)
{
    return container_of(s, struct slow_scan, base)->inner;
}

static enum rc delay(const struct kv *kv)
{
    const struct slow *s = slow_of(kv);
    static _Thread_local uint64_t x = 88172645463325252;
    unsigned us;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    us = s->min_us + (unsigned)(x % (s->max_us - s->min_us + 1));
    if (us == 0)
        return RC_OK;
    if (fiber_current())
        return fiber_sleep_until(clock_mono_ns() + (int64_t)us * 1000);
    usleep(us);
    return RC_OK;
}

static enum rc slow_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                        struct kv_item *ret)
{
    enum rc rc = delay(kv);

    return rc ? rc : kv_get(slow_of(kv)->inner, partition, key, a, ret);
}

static enum rc slow_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                              struct kv_scan **ret)
{
    struct slow_scan *s;
    enum rc rc = delay(kv);

    if (rc)
        return rc;
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    rc = txn ? kv_txn_scan_open(inner_txn(txn), range, &s->inner)
             : kv_scan_open(slow_of(kv)->inner, range, &s->inner);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return RC_OK;
}

static enum rc slow_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    enum rc rc = delay(scan->kv);

    return rc ? rc : kv_scan_next(inner_scan(scan), ret);
}

static enum rc slow_scan_seek(struct kv_scan *scan, struct slice key)
{
    enum rc rc = delay(scan->kv);

    return rc ? rc : kv_scan_seek(inner_scan(scan), key);
}

static void slow_scan_close(struct kv_scan *scan)
{
    kv_scan_close(inner_scan(scan));
    free(container_of(scan, struct slow_scan, base));
}

static enum rc slow_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    struct slow_txn *t;
    enum rc rc = delay(kv);

    if (rc)
        return rc;
    t = calloc(1, sizeof *t);
    if (!t)
        return RC_NO_MEM;
    rc = kv_begin(slow_of(kv)->inner, home, &t->inner);
    if (rc) {
        free(t);
        return rc;
    }
    *ret = &t->base;
    return RC_OK;
}

static enum rc slow_txn_get(struct kv_txn *txn, struct slice key, struct arena *a,
                            struct kv_item *ret)
{
    enum rc rc = delay(txn->kv);

    return rc ? rc : kv_txn_get(inner_txn(txn), key, a, ret);
}

static enum rc slow_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    enum rc rc = delay(txn->kv);

    return rc ? rc : kv_txn_write(inner_txn(txn), w);
}

static enum rc slow_txn_commit(struct kv_txn *txn)
{
    enum rc rc = delay(txn->kv);

    return rc ? rc : kv_txn_commit(inner_txn(txn));
}

static void slow_txn_free(struct kv_txn *txn)
{
    if (!txn)
        return;
    kv_txn_free(inner_txn(txn));
    free(container_of(txn, struct slow_txn, base));
}

static enum rc slow_probe(struct kv *kv)
{
    enum rc rc = delay(kv);

    return rc ? rc : kv_probe(slow_of(kv)->inner);
}

static void slow_stats(struct kv *kv, struct kv_stats *ret)
{
    kv_stats(slow_of(kv)->inner, ret);
}

static enum rc slow_checkpoint(struct kv *kv, const char *directory)
{
    enum rc rc = delay(kv);

    return rc ? rc : kv_checkpoint(slow_of(kv)->inner, directory);
}

static void slow_close(struct kv *kv)
{
    kv_close(slow_of(kv)->inner);
    free(slow_of(kv));
}

static const struct kv_ops slow_ops = {
    .name = "slow",
    .get = slow_get,
    .scan_open = slow_scan_open,
    .scan_next = slow_scan_next,
    .scan_seek = slow_scan_seek,
    .scan_close = slow_scan_close,
    .begin = slow_begin,
    .txn_get = slow_txn_get,
    .txn_write = slow_txn_write,
    .txn_commit = slow_txn_commit,
    .txn_free = slow_txn_free,
    .probe = slow_probe,
    .stats = slow_stats,
    .checkpoint = slow_checkpoint,
    .close = slow_close,
};

enum rc kv_slow_open(struct kv *inner, unsigned min_us, unsigned max_us, struct kv **ret)
{
    struct slow *s;

    if (max_us < min_us)
        return RC_INVALID;
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    *s = (struct slow){
        .base = { .ops = &slow_ops }, .inner = inner, .min_us = min_us, .max_us = max_us
    };
    *ret = &s->base;
    return RC_OK;
}
