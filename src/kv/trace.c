/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/wrap.h"

#include <pthread.h>

#define SHOWN_MAX 64u /* bytes of a name in the log */
#define LINE_MAX_BYTES 1024u

struct trace {
    struct kv base;
    struct kv *inner;                             /* owned */
    uint64_t calls[KV_CALL_N], errors[KV_CALL_N]; /* atomic */
    pthread_mutex_t lock;
    bool logs;
    struct buf log;   /* guarded by lock */
    uint64_t dropped; /* lines; guarded by lock */
};

struct trace_txn {
    struct kv_txn base;
    struct kv_txn *inner;
};

struct trace_scan {
    struct kv_scan base;
    struct kv_scan *inner;
};

static const char *const call_names[KV_CALL_N] = {
    [KV_CALL_GET] = "get",
    [KV_CALL_SCAN_OPEN] = "scan_open",
    [KV_CALL_SCAN_NEXT] = "scan_next",
    [KV_CALL_SCAN_SEEK] = "scan_seek",
    [KV_CALL_BEGIN] = "begin",
    [KV_CALL_TXN_GET] = "txn_get",
    [KV_CALL_TXN_WRITE] = "txn_write",
    [KV_CALL_TXN_COMMIT] = "txn_commit",
    [KV_CALL_PROBE] = "probe",
    [KV_CALL_CHECKPOINT] = "checkpoint",
};

const char *kv_call_name(enum kv_call call)
{
    assert((unsigned)call < KV_CALL_N);
    return call_names[call];
}

static struct trace *trace_of(const struct kv *kv)
{
    return container_of(kv, struct trace, base);
}

static struct kv_txn *inner_txn(struct kv_txn *t)
{
    return container_of(t, struct trace_txn, base)->inner;
}

static struct kv_scan *inner_scan(struct kv_scan *s)
{
    return container_of(s, struct trace_scan, base)->inner;
}

/* Printable bytes as they are, others as \xNN, long names cut. */
static enum rc add_name(struct buf *line, struct slice name)
{
    enum rc rc = buf_add(line, SLICE(" \""));

    for (size_t i = 0; !rc && i < MIN(name.n, (size_t)SHOWN_MAX); i++) {
        unsigned char c = (unsigned char)name.p[i];

        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
            rc = buf_addf(line, "\\x%02x", c);
        else
            rc = buf_add_char(line, (char)c);
    }
    return rc ? rc : buf_add(line, name.n > SHOWN_MAX ? SLICE("\"...") : SLICE("\""));
}

/* A line such as: txn_write "partition" "key" OK. A line that finds no room is dropped as a whole.
 */
static void log_call(struct trace *t, enum kv_call call, struct slice partition, struct slice key,
                     enum rc rc)
{
    AUTO(buf_fini) struct buf line = { .max = LINE_MAX_BYTES };

    if (buf_add(&line, slice_str(call_names[call])) ||
        (partition.n && add_name(&line, partition)) || (key.n && add_name(&line, key)) ||
        buf_addf(&line, " %s\n", rc_name(rc)))
        return;
    pthread_mutex_lock(&t->lock);
    if (buf_add(&t->log, buf_slice(&line)))
        t->dropped++;
    pthread_mutex_unlock(&t->lock);
}

static enum rc note_call(const struct kv *kv, enum kv_call call, struct slice partition,
                         struct slice key, enum rc rc)
{
    struct trace *t = trace_of(kv);

    __atomic_fetch_add(&t->calls[call], 1, __ATOMIC_RELAXED);
    if (rc && rc != RC_NOT_FOUND)
        __atomic_fetch_add(&t->errors[call], 1, __ATOMIC_RELAXED);
    if (t->logs)
        log_call(t, call, partition, key, rc);
    return rc;
}

static enum rc trace_get(struct kv *kv, struct slice partition, struct slice key, struct arena *a,
                         struct kv_item *ret)
{
    return note_call(kv, KV_CALL_GET, partition, key,
                     kv_get(trace_of(kv)->inner, partition, key, a, ret));
}

static enum rc trace_scan_open(struct kv *kv, struct kv_txn *txn, const struct kv_range *range,
                               struct kv_scan **ret)
{
    struct trace_scan *s = calloc(1, sizeof *s);
    enum rc rc;

    if (!s)
        return RC_NO_MEM;
    rc = txn ? kv_txn_scan_open(inner_txn(txn), range, &s->inner)
             : kv_scan_open(trace_of(kv)->inner, range, &s->inner);
    note_call(kv, KV_CALL_SCAN_OPEN, txn ? SLICE_NONE : range->partition, range->from, rc);
    if (rc) {
        free(s);
        return rc;
    }
    *ret = &s->base;
    return RC_OK;
}

static enum rc trace_scan_next(struct kv_scan *scan, struct kv_item *ret)
{
    enum rc rc = kv_scan_next(inner_scan(scan), ret);

    return note_call(scan->kv, KV_CALL_SCAN_NEXT, SLICE_NONE, rc ? SLICE_NONE : ret->key, rc);
}

static enum rc trace_scan_seek(struct kv_scan *scan, struct slice key)
{
    return note_call(scan->kv, KV_CALL_SCAN_SEEK, SLICE_NONE, key,
                     kv_scan_seek(inner_scan(scan), key));
}

static void trace_scan_close(struct kv_scan *scan)
{
    kv_scan_close(inner_scan(scan));
    free(container_of(scan, struct trace_scan, base));
}

static enum rc trace_begin(struct kv *kv, struct slice home, struct kv_txn **ret)
{
    struct trace_txn *t = calloc(1, sizeof *t);
    enum rc rc;

    if (!t)
        return RC_NO_MEM;
    rc = note_call(kv, KV_CALL_BEGIN, home, SLICE_NONE,
                   kv_begin(trace_of(kv)->inner, home, &t->inner));
    if (rc) {
        free(t);
        return rc;
    }
    *ret = &t->base;
    return RC_OK;
}

static enum rc trace_txn_get(struct kv_txn *txn, struct slice key, struct arena *a,
                             struct kv_item *ret)
{
    return note_call(txn->kv, KV_CALL_TXN_GET, SLICE_NONE, key,
                     kv_txn_get(inner_txn(txn), key, a, ret));
}

static enum rc trace_txn_write(struct kv_txn *txn, const struct kv_write *w)
{
    return note_call(txn->kv, KV_CALL_TXN_WRITE, w->partition, w->key,
                     kv_txn_write(inner_txn(txn), w));
}

static enum rc trace_txn_commit(struct kv_txn *txn)
{
    return note_call(txn->kv, KV_CALL_TXN_COMMIT, SLICE_NONE, SLICE_NONE,
                     kv_txn_commit(inner_txn(txn)));
}

static void trace_txn_free(struct kv_txn *txn)
{
    if (!txn)
        return;
    kv_txn_free(inner_txn(txn));
    free(container_of(txn, struct trace_txn, base));
}

static enum rc trace_probe(struct kv *kv)
{
    return note_call(kv, KV_CALL_PROBE, SLICE_NONE, SLICE_NONE, kv_probe(trace_of(kv)->inner));
}

static void trace_stats(struct kv *kv, struct kv_stats *ret)
{
    kv_stats(trace_of(kv)->inner, ret);
}

static enum rc trace_checkpoint(struct kv *kv, const char *directory)
{
    return note_call(kv, KV_CALL_CHECKPOINT, SLICE_NONE, SLICE_NONE,
                     kv_checkpoint(trace_of(kv)->inner, directory));
}

static void trace_close(struct kv *kv)
{
    struct trace *t = trace_of(kv);

    kv_close(t->inner);
    pthread_mutex_destroy(&t->lock);
    buf_fini(&t->log);
    free(t);
}

static const struct kv_ops trace_ops = {
    .name = "trace",
    .get = trace_get,
    .scan_open = trace_scan_open,
    .scan_next = trace_scan_next,
    .scan_seek = trace_scan_seek,
    .scan_close = trace_scan_close,
    .begin = trace_begin,
    .txn_get = trace_txn_get,
    .txn_write = trace_txn_write,
    .txn_commit = trace_txn_commit,
    .txn_free = trace_txn_free,
    .probe = trace_probe,
    .stats = trace_stats,
    .checkpoint = trace_checkpoint,
    .close = trace_close,
};

enum rc kv_trace_open(struct kv *inner, size_t log_max, struct kv **ret)
{
    struct trace *t = calloc(1, sizeof *t);

    if (!t)
        return RC_NO_MEM;
    if (pthread_mutex_init(&t->lock, NULL)) {
        free(t);
        return RC_NO_MEM;
    }
    t->base.ops = &trace_ops;
    t->inner = inner;
    t->logs = log_max > 0;
    buf_init(&t->log, log_max);
    *ret = &t->base;
    return RC_OK;
}

void kv_trace_counts(const struct kv *trace, struct kv_trace_counts *ret)
{
    const struct trace *t = trace_of(trace);

    for (unsigned i = 0; i < KV_CALL_N; i++) {
        ret->calls[i] = __atomic_load_n(&t->calls[i], __ATOMIC_RELAXED);
        ret->errors[i] = __atomic_load_n(&t->errors[i], __ATOMIC_RELAXED);
    }
}

enum rc kv_trace_take_log(struct kv *trace, struct buf *out)
{
    struct trace *t = trace_of(trace);
    enum rc rc;

    pthread_mutex_lock(&t->lock);
    rc = buf_add(out, buf_slice(&t->log));
    if (!rc)
        buf_clear(&t->log);
    pthread_mutex_unlock(&t->lock);
    return rc;
}
