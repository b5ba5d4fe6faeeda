/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kv.h"

#include "base/clock.h"
#include "base/encode.h"
#include "rt/rt.h"

#include <unistd.h>

#define TRANSACT_MAX_NS (10 * NS_PER_S)
#define PAUSE_FIRST_US INT64_C(100)
#define PAUSE_MAX_US INT64_C(50000)

/* ---- what every driver may rely on ---------------------------------------------------------- */

static enum rc check_name(struct slice s, size_t max)
{
    if (s.n == 0)
        return RC_INVALID;
    return s.n > max ? RC_TOO_LARGE : RC_OK;
}

static enum rc check_key(struct slice key)
{
    return check_name(key, KV_KEY_MAX);
}

static enum rc check_place(struct slice partition, struct slice key)
{
    enum rc rc = check_name(partition, KV_PARTITION_MAX);

    return rc ? rc : check_key(key);
}

static enum rc check_bounds(const struct kv_range *r)
{
    return r->from.n > KV_KEY_MAX || r->to.n > KV_KEY_MAX ? RC_TOO_LARGE : RC_OK;
}

/* Sizes of one write; *ret_bytes is what it adds to its transaction. */
static enum rc check_write(const struct kv_write *w, size_t *ret_bytes)
{
    enum rc rc = check_place(w->partition, w->key);
    size_t bytes = w->partition.n + w->key.n;

    if (rc)
        return rc;
    switch (w->kind) {
    case KV_PUT:
        if (w->value.n > KV_VALUE_MAX)
            return RC_TOO_LARGE;
        if (w->expires_at_ns < 0)
            return RC_INVALID;
        bytes += w->value.n;
        break;
    case KV_DELETE:
        break;
    case KV_ADD:
        if (w->deltas_n == 0)
            return RC_INVALID;
        if (w->deltas_n > KV_COUNTERS_MAX)
            return RC_TOO_LARGE;
        bytes += w->deltas_n * sizeof *w->deltas;
        break;
    default:
        return RC_INVALID;
    }
    *ret_bytes = bytes;
    return RC_OK;
}

/* ---- reads ---------------------------------------------------------------------------------- */

enum rc kv_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
               struct kv_item *ret)
{
    enum rc rc = check_place(partition, key);

    return rc ? rc : kv->ops->get(kv, partition, key, a, ret);
}

static enum rc open_scan(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                         struct kv_scan **ret)
{
    enum rc rc = check_bounds(range);

    if (rc)
        return rc;
    rc = kv->ops->scan_open(kv, txn, range, ret);
    if (!rc)
        (*ret)->kv = kv;
    return rc;
}

enum rc kv_scan_open(struct kv *kv, const struct kv_range *range, struct kv_scan **ret)
{
    enum rc rc = check_name(range->partition, KV_PARTITION_MAX);

    return rc ? rc : open_scan(kv, NULL, range, ret);
}

enum rc kv_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    return scan->kv->ops->scan_next(scan, ret);
}

enum rc kv_scan_seek(struct kv_scan *scan, struct slice key)
{
    return key.n > KV_KEY_MAX ? RC_TOO_LARGE : scan->kv->ops->scan_seek(scan, key);
}

void kv_scan_close(struct kv_scan *scan)
{
    if (scan)
        scan->kv->ops->scan_close(scan);
}

/* ---- transactions --------------------------------------------------------------------------- */

enum rc kv_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    enum rc rc = check_name(home, KV_PARTITION_MAX);

    if (rc)
        return rc;
    rc = kv->ops->begin(kv, home, ret);
    if (!rc) {
        (*ret)->kv = kv;
        (*ret)->bytes = 0;
    }
    return rc;
}

enum rc kv_txn_get(struct kv_txn *txn, struct slice key, struct arena *a, struct kv_item *ret)
{
    enum rc rc = check_key(key);

    return rc ? rc : txn->kv->ops->txn_get(txn, key, a, ret);
}

enum rc kv_txn_scan_open(struct kv_txn *txn, const struct kv_range *range, struct kv_scan **ret)
{
    return open_scan(txn->kv, txn, range, ret);
}

enum rc kv_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    size_t bytes = 0;
    enum rc rc = check_write(w, &bytes);

    if (rc)
        return rc;
    if (bytes > KV_TXN_BYTES_MAX - txn->bytes)
        return RC_TOO_LARGE;
    rc = txn->kv->ops->txn_write(txn, w);
    if (!rc)
        txn->bytes += bytes;
    return rc;
}

enum rc kv_txn_put(struct kv_txn *txn, struct slice partition, struct slice key, struct slice value)
{
    return kv_txn_put_expiring(txn, partition, key, value, 0);
}

enum rc kv_txn_put_expiring(struct kv_txn *txn, struct slice partition, struct slice key,
                            struct slice value, int64_t expires_at_ns)
{
    return kv_txn_write(txn, &(struct kv_write){ .kind = KV_PUT,
                                                 .partition = partition,
                                                 .key = key,
                                                 .value = value,
                                                 .expires_at_ns = expires_at_ns });
}

enum rc kv_txn_delete(struct kv_txn *txn, struct slice partition, struct slice key)
{
    return kv_txn_write(
        txn, &(struct kv_write){ .kind = KV_DELETE, .partition = partition, .key = key });
}

enum rc kv_txn_add(struct kv_txn *txn, struct slice partition, struct slice key,
                   const int64_t *deltas, unsigned n)
{
    return kv_txn_write(
        txn,
        &(struct kv_write){
            .kind = KV_ADD, .partition = partition, .key = key, .deltas = deltas, .deltas_n = n });
}

enum rc kv_txn_commit(struct kv_txn *txn)
{
    return txn->kv->ops->txn_commit(txn);
}

void kv_txn_free(struct kv_txn *txn)
{
    if (txn)
        txn->kv->ops->txn_free(txn);
}

/* ---- transact ------------------------------------------------------------------------------- */

static uint64_t random_u64(void)
{
    static _Thread_local uint64_t x;

    if (!x)
        x = ((uint64_t)clock_mono_ns() ^ (uint64_t)(uintptr_t)&x) | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

/* When the running fiber has to be done; NO_DEADLINE off fibers. */
static int64_t deadline_now(void)
{
    int64_t at;

    if (!fiber_current())
        return NO_DEADLINE;
    at = fiber_set_deadline(NO_DEADLINE);
    fiber_set_deadline(at);
    return at;
}

/* Half of the pause is random, so that those who met once do not meet again. */
static enum rc pause_us(int64_t us)
{
    us = us / 2 + (int64_t)(random_u64() % (uint64_t)(us / 2 + 1));
    if (fiber_current())
        return fiber_sleep_until(clock_mono_ns() + us * 1000);
    usleep((useconds_t)us);
    return RC_OK;
}

static enum rc attempt(struct kv *kv, struct slice home, enum rc (*fn)(struct kv_txn *, void *),
                       void *arg, bool *ret_again)
{
    struct kv_txn *txn;
    enum rc rc = kv_begin(kv, home, &txn);

    if (rc)
        return rc;
    rc = fn(txn, arg);
    if (!rc) {
        rc = kv_txn_commit(txn);
        *ret_again = rc == RC_CONFLICT;
    }
    kv_txn_free(txn);
    return rc;
}

enum rc kv_transact(struct kv *kv, struct slice home, enum rc (*fn)(struct kv_txn *, void *arg),
                    void *arg)
{
    int64_t end = MIN(clock_mono_ns() + TRANSACT_MAX_NS, deadline_now());
    int64_t pause = PAUSE_FIRST_US;

    for (;;) {
        bool again = false;
        enum rc rc = attempt(kv, home, fn, arg, &again);

        if (!again)
            return rc;
        if (clock_mono_ns() + pause * 1000 >= end)
            return fail_rc(RC_UNAVAILABLE, "too many conflicting writes");
        rc = pause_us(pause);
        if (rc == RC_CANCELLED)
            return rc;
        if (rc)
            return fail_rc(RC_UNAVAILABLE, "too many conflicting writes");
        pause = MIN(pause * 2, PAUSE_MAX_US);
    }
}

/* ---- the rest ------------------------------------------------------------------------------- */

enum rc kv_counters_decode(struct slice value, int64_t *columns, unsigned n)
{
    if (value.n % 8 || value.n / 8 > KV_COUNTERS_MAX)
        return RC_CORRUPT;
    for (unsigned i = 0; i < n; i++)
        columns[i] = i < value.n / 8 ? (int64_t)get_be64(value.p + (size_t)i * 8) : 0;
    return RC_OK;
}

enum rc kv_probe(struct kv *kv)
{
    return kv->ops->probe(kv);
}

void kv_stats(struct kv *kv, struct kv_stats *ret)
{
    *ret = (struct kv_stats){ 0 };
    kv->ops->stats(kv, ret);
}

enum rc kv_checkpoint(struct kv *kv, const char *directory)
{
    return kv->ops->checkpoint ? kv->ops->checkpoint(kv, directory) : RC_UNSUPPORTED;
}

const char *kv_name(const struct kv *kv)
{
    return kv->ops->name;
}

void kv_close(struct kv *kv)
{
    if (kv)
        kv->ops->close(kv);
}
