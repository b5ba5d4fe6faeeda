/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit thread: the only writer of the database.
 *
 *     inbox (lock-free stack) → pending (in order of arrival) → check, stage → one write, one sync
 * → wake
 *
 * Invariants:
 *   1. A transaction is staged only if everything that it read is as it was, counting what this
 * batch has staged before. Once it is being staged nothing can fail but the write itself.
 *   2. All of a batch is one RocksDB write batch, so it is applied whole or not at all.
 *   3. `visible` moves before any transaction of the batch is woken.
 *   4. After a failed write nothing that this thread remembers of the batch is kept.
 *   5. A key is not both added to and put or deleted in one batch: the later one begins the next
 * batch. So sums are written once, at the batch's end, whatever the order of adds.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks/rocks_priv.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH_TXNS 2048u
#define BATCH_BYTES ((size_t)8 << 20)
#define COUNTERS_KEPT 16384u
#define WAKE_LOOPS 64

static const char meta_seq_key[] = "\0batch";
#define META_SEQ_N (sizeof meta_seq_key - 1)

struct committer {
    struct rocks *r;
    pthread_t thread;
    unsigned delay_us;
    rocksdb_writeoptions_t *options;
    bool sync;
    _Atomic(struct rocks_txn *) inbox;
    _Atomic int sleeping; /* a futex */
    _Atomic bool stopping;
    /* Of the thread alone from here on. */
    struct rocks_txn *pending, **pending_end;
    uint64_t seq; /* of the batch being made */
    rocksdb_writebatch_t *batch;
    size_t batch_bytes;
    bool tails_used; /* there may be tails in the database */
    struct recent recent;
    struct counters counters;
    char why[ROCKS_WHY_SIZE];
    struct {
        _Atomic uint64_t commits, conflicts, batches, syncs, errors;
        _Atomic int64_t last_ok_ns;
    } stats;
};

/* ---- the queue ------------------------------------------------------------------------------ */

static void futex_wake(_Atomic int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wake_thread(struct committer *c)
{
    if (atomic_load(&c->sleeping) && atomic_exchange(&c->sleeping, 0))
        futex_wake(&c->sleeping);
}

void committer_post(struct committer *c, struct rocks_txn *t)
{
    struct rocks_txn *head = atomic_load_explicit(&c->inbox, memory_order_relaxed);

    do {
        t->next = head;
    } while (!atomic_compare_exchange_weak(&c->inbox, &head, t));
    wake_thread(c);
}

/* Moves what has arrived behind pending, oldest first. */
static void collect(struct committer *c)
{
    struct rocks_txn *t = atomic_exchange(&c->inbox, NULL), *first = NULL, *last = t;

    while (t) {
        struct rocks_txn *next = t->next;

        t->next = first;
        first = t;
        t = next;
    }
    if (!first)
        return;
    *c->pending_end = first;
    c->pending_end = &last->next;
}

static void sleep_until_posted(struct committer *c)
{
    atomic_store(&c->sleeping, 1);
    if (atomic_load(&c->inbox) || atomic_load(&c->stopping)) {
        atomic_store(&c->sleeping, 0);
        return;
    }
    while (atomic_load(&c->sleeping))
        syscall(SYS_futex, &c->sleeping, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- checking ------------------------------------------------------------------------------- */

static enum rc check_in_database(struct committer *c, const struct rocks_readrec *rec)
{
    rocksdb_pinnableslice_t *pin = NULL;
    struct rocks_entry e;
    enum rc rc = rocks_peek(c->r, slice_of(rec->key, rec->key_n), &e, &pin, c->why);

    if (rc == RC_NOT_FOUND)
        return rec->version == 0 ? RC_OK : RC_CONFLICT;
    if (rc)
        return rc;
    rocksdb_pinnableslice_destroy(pin);
    return e.version == rec->version ? RC_OK : RC_CONFLICT;
}

static enum rc check_read(struct committer *c, const struct rocks_txn *t,
                          const struct rocks_readrec *rec)
{
    uint64_t changed = recent_find(&c->recent, rec->hash);

    /* The snapshot may be younger than t->seen, so what was read may be, too. */
    if (changed && changed == rec->version)
        return RC_OK;
    if (changed > t->seen)
        return RC_CONFLICT;
    if (t->seen >= c->recent.floor)
        return RC_OK;
    return check_in_database(c, rec);
}

static enum rc check_reads(struct committer *c, const struct rocks_txn *t)
{
    for (const struct rocks_readrec *rec = t->reads; rec; rec = rec->next) {
        enum rc rc = check_read(c, t, rec);

        if (rc)
            return rc;
    }
    return RC_OK;
}

static enum rc load_columns(struct committer *c, struct counter *k, struct slice key)
{
    rocksdb_pinnableslice_t *pin = NULL;
    struct rocks_entry e;
    enum rc rc = rocks_peek(c->r, key, &e, &pin, c->why);

    if (rc)
        return rc == RC_NOT_FOUND ? RC_OK : rc;
    k->expires_at_ns = e.expires_at_ns;
    k->n = (unsigned)(e.head.n / 8);
    rc = e.has_tail ? RC_CORRUPT : kv_counters_decode(e.head, k->columns, KV_COUNTERS_MAX);
    rocksdb_pinnableslice_destroy(pin);
    if (rc == RC_CORRUPT)
        snprintf(c->why, sizeof c->why, "an entry that is added to is no counter");
    return rc;
}

/* Makes sure that the counter is in memory, with its stored value. */
static enum rc need_counter(struct committer *c, const struct rocks_write *w)
{
    struct counter *k = counters_find(&c->counters, w->hash, w->key);
    enum rc rc;

    if (k)
        return RC_OK;
    k = counters_add(&c->counters, w->hash, w->key);
    if (!k)
        return RC_NO_MEM;
    rc = load_columns(c, k, w->key);
    if (rc)
        counters_drop(&c->counters, w->hash, w->key);
    return rc;
}

/* Invariant 5. */
static bool must_begin_batch(struct committer *c, const struct rocks_txn *t)
{
    for (const struct rocks_write *w = t->writes; w; w = w->next) {
        struct counter *k = counters_find(&c->counters, w->hash, w->key);
        bool dirty = k && k->dirty;

        if (w->kind != KV_ADD && dirty)
            return true;
        if (w->kind == KV_ADD && !dirty && recent_find(&c->recent, w->hash) == c->seq)
            return true;
    }
    return false;
}

static enum rc need_counters(struct committer *c, const struct rocks_txn *t)
{
    for (const struct rocks_write *w = t->writes; w; w = w->next) {
        enum rc rc = w->kind == KV_ADD ? need_counter(c, w) : RC_OK;

        if (rc)
            return rc;
    }
    return RC_OK;
}

/* ---- staging -------------------------------------------------------------------------------- */

/* Whether a tail may be stored under w's key, as of what is staged. */
static bool may_have_tail(struct committer *c, const struct rocks_write *w)
{
    char *value = NULL;
    size_t n = 0;

    if (!c->tails_used)
        return false;
    if (w->old_known)
        return w->old_tail;
    if (recent_find(&c->recent, w->hash) == c->seq)
        return true;
    return rocksdb_key_may_exist_cf(c->r->db, c->r->cached, c->r->tails, w->key.p, w->key.n, &value,
                                    &n, NULL, 0, NULL);
}

static void stage_put(struct committer *c, const struct rocks_write *w)
{
    rocks_entry_set_version(w->entry, c->seq);
    rocksdb_writebatch_put_cf(c->batch, c->r->entries, w->key.p, w->key.n, w->entry, w->entry_n);
    if (w->tail) {
        put_be64(w->tail, c->seq);
        c->tails_used = true;
        rocksdb_writebatch_put_cf(c->batch, c->r->tails, w->key.p, w->key.n, w->tail, w->tail_n);
    }
}

static void stage_write(struct committer *c, const struct rocks_write *w)
{
    if (w->kind == KV_ADD) {
        struct counter *k = counters_find(&c->counters, w->hash, w->key);

        for (unsigned i = 0; i < w->deltas_n; i++)
            k->columns[i] = (int64_t)((uint64_t)k->columns[i] + (uint64_t)w->deltas[i]);
        k->n = MAX(k->n, w->deltas_n);
        if (!k->dirty) {
            k->dirty = true;
            k->next_dirty = c->counters.dirty;
            c->counters.dirty = k;
        }
    } else {
        counters_drop(&c->counters, w->hash, w->key);
        if (!w->tail && may_have_tail(c, w))
            rocksdb_writebatch_delete_cf(c->batch, c->r->tails, w->key.p, w->key.n);
        if (w->kind == KV_PUT)
            stage_put(c, w);
        else
            rocksdb_writebatch_delete_cf(c->batch, c->r->entries, w->key.p, w->key.n);
    }
    recent_note(&c->recent, w->hash, c->seq);
}

static void stage_counter(struct committer *c, struct counter *k)
{
    char value[KV_COUNTERS_MAX * 8], entry[32 + sizeof value];
    struct rocks_layout l = rocks_layout_of((size_t)k->n * 8, k->expires_at_ns != 0);

    for (unsigned i = 0; i < k->n; i++)
        put_be64(value + (size_t)i * 8, (uint64_t)k->columns[i]);
    rocks_entry_encode(entry, NULL, slice_of(value, (size_t)k->n * 8), k->expires_at_ns);
    rocks_entry_set_version(entry, c->seq);
    rocksdb_writebatch_put_cf(c->batch, c->r->entries, k->key, k->key_n, entry,
                              l.header_n + l.head_n);
}

static void stage_counters(struct committer *c)
{
    for (struct counter *k = c->counters.dirty; k; k = k->next_dirty) {
        stage_counter(c, k);
        k->dirty = false;
    }
    c->counters.dirty = NULL;
}

/* An expired counter counts from zero again. */
static void restart_expired(struct committer *c, const struct rocks_txn *t)
{
    for (const struct rocks_write *w = t->writes; w; w = w->next) {
        struct counter *k = w->kind == KV_ADD ? counters_find(&c->counters, w->hash, w->key) : NULL;

        if (!k || k->dirty || !k->expires_at_ns || k->expires_at_ns > clock_wall_ns())
            continue;
        memset(k->columns, 0, sizeof k->columns);
        k->n = 0;
        k->expires_at_ns = 0;
    }
}

/* The result of t is in t->rc. */
static void check_and_stage(struct committer *c, struct rocks_txn *t)
{
    c->why[0] = 0;
    t->rc = check_reads(c, t);
    if (!t->rc)
        t->rc = need_counters(c, t);
    if (t->rc) {
        memcpy(t->why, c->why, sizeof t->why);
        return;
    }
    restart_expired(c, t);
    for (const struct rocks_write *w = t->writes; w; w = w->next)
        stage_write(c, w);
    c->batch_bytes += t->bytes;
}

/* ---- waking --------------------------------------------------------------------------------- */

struct wakes {
    struct {
        struct loop *loop;
        struct loop_task *first, *last;
    } loops[WAKE_LOOPS];
    unsigned n;
};

static void wakes_flush(struct wakes *w)
{
    for (unsigned i = 0; i < w->n; i++)
        loop_post_chain(w->loops[i].loop, w->loops[i].first, w->loops[i].last);
    w->n = 0;
}

static void wakes_add(struct wakes *w, struct loop *loop, struct loop_task *task)
{
    unsigned i = 0;

    while (i < w->n && w->loops[i].loop != loop)
        i++;
    if (i == WAKE_LOOPS) {
        wakes_flush(w);
        i = 0;
    }
    task->next = NULL;
    if (i < w->n) {
        w->loops[i].last->next = task;
        w->loops[i].last = task;
        return;
    }
    w->loops[w->n].loop = loop;
    w->loops[w->n].first = w->loops[w->n].last = task;
    w->n++;
}

/* t may be gone when this returns. */
static void finish(struct rocks_txn *t, struct wakes *wakes)
{
    if (t->unowned) {
        if (atomic_exchange(&t->done, 1))
            rocks_txn_free(&t->base);
        else
            futex_wake(&t->done);
    } else if (t->on_fiber) {
        struct loop *loop = t->waiter.loop;
        struct loop_task *task = waiter_wake_task(&t->waiter);

        if (task)
            wakes_add(wakes, loop, task);
    } else {
        atomic_store_explicit(&t->done, 1, memory_order_release);
        futex_wake(&t->done);
    }
}

/* Before anybody is woken, who might look at the figures. */
static void settle(struct committer *c, struct rocks_txn *first, enum rc rc)
{
    uint64_t commits = 0, conflicts = 0;

    for (struct rocks_txn *t = first; t; t = t->next) {
        if (rc && !t->rc && t->writes) {
            t->rc = rc;
            memcpy(t->why, c->why, sizeof t->why);
        }
        commits += t->rc == RC_OK;
        conflicts += t->rc == RC_CONFLICT;
    }
    rocks_count(&c->stats.commits, commits);
    rocks_count(&c->stats.conflicts, conflicts);
}

static void finish_all(struct rocks_txn *t)
{
    struct wakes wakes = { .n = 0 };

    while (t) {
        struct rocks_txn *next = t->next;

        finish(t, &wakes);
        t = next;
    }
    wakes_flush(&wakes);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* See rocks_priv.h. Failed writes may have pushed the number ahead of what RocksDB will come up
 * with after a restart; then it is stored. */
static void next_number(struct committer *c)
{
    uint64_t latest = rocksdb_get_latest_sequence_number(c->r->db);

    c->seq = MAX(c->seq, latest) + 1;
    if (c->seq != latest + 1) {
        char value[8];

        put_be64(value, c->seq);
        rocksdb_writebatch_put_cf(c->batch, c->r->entries, meta_seq_key, META_SEQ_N, value,
                                  sizeof value);
    }
}

static enum rc write_batch(struct committer *c)
{
    char *error = NULL;

    rocksdb_write(c->r->db, c->options, c->batch, &error);
    if (error) {
        /* Whether a crash now would keep the batch is unknown; in this process it did not happen.
         */
        recent_reset(&c->recent, c->seq);
        counters_clear(&c->counters);
        rocks_count(&c->stats.errors, 1);
        atomic_store_explicit(&c->stats.last_ok_ns, 0, memory_order_relaxed);
        return rocks_error(error, c->why);
    }
    atomic_store_explicit(&c->r->visible, c->seq, memory_order_release);
    rocks_count(&c->stats.batches, 1);
    rocks_count(&c->stats.syncs, c->sync);
    atomic_store_explicit(&c->stats.last_ok_ns, clock_mono_ns(), memory_order_relaxed);
    return RC_OK;
}

static void clear_batch(struct committer *c)
{
    if (c->batch_bytes > BATCH_BYTES / 2) {
        /* A write batch never shrinks. */
        rocksdb_writebatch_destroy(c->batch);
        c->batch = rocksdb_writebatch_create();
    } else {
        rocksdb_writebatch_clear(c->batch);
    }
    c->batch_bytes = 0;
    if (c->counters.count > COUNTERS_KEPT)
        counters_clear(&c->counters);
}

static struct rocks_txn *take_pending(struct committer *c)
{
    struct rocks_txn *t = c->pending;

    c->pending = t->next;
    if (!c->pending)
        c->pending_end = &c->pending;
    t->next = NULL;
    return t;
}

static void run_batch(struct committer *c)
{
    struct rocks_txn *first = NULL, **end = &first;
    uint64_t previous = c->seq;
    bool writes = false;
    enum rc rc = RC_OK;

    next_number(c);
    for (unsigned n = 0; c->pending && n < BATCH_TXNS && c->batch_bytes < BATCH_BYTES; n++) {
        struct rocks_txn *t;

        /* So large that `recent` has forgotten keys of this very batch? */
        if (writes && (c->recent.floor >= c->seq || must_begin_batch(c, c->pending)))
            break;
        t = take_pending(c);
        check_and_stage(c, t);
        writes |= !t->rc && t->writes;
        *end = t;
        end = &t->next;
    }
    if (writes) {
        stage_counters(c);
        rc = write_batch(c);
    } else {
        c->seq = previous;
    }
    clear_batch(c);
    settle(c, first, rc);
    finish_all(first);
}

static void *run(void *arg)
{
    struct committer *c = arg;

    for (;;) {
        collect(c);
        if (c->pending) {
            if (c->delay_us) {
                usleep(c->delay_us);
                collect(c);
            }
            run_batch(c);
        } else if (atomic_load(&c->stopping)) {
            return NULL;
        } else {
            sleep_until_posted(c);
        }
    }
}

/* ---- start and stop ------------------------------------------------------------------------- */

static enum rc load_number(struct committer *c)
{
    char *error = NULL, why[ROCKS_WHY_SIZE], *value;
    uint64_t stored = 0, keys = 0;
    size_t n;

    value =
        rocksdb_get_cf(c->r->db, c->r->full, c->r->entries, meta_seq_key, META_SEQ_N, &n, &error);
    if (error) {
        enum rc rc = rocks_error(error, why);

        return fail_rc(rc, "metadata store: %s", why);
    }
    if (value && n == 8)
        stored = get_be64(value);
    rocksdb_free(value);
    c->seq = MAX(stored, rocksdb_get_latest_sequence_number(c->r->db));
    c->r->visible = c->seq;
    c->tails_used =
        rocksdb_property_int_cf(c->r->db, c->r->tails, "rocksdb.estimate-num-keys", &keys) ||
        keys > 0;
    return RC_OK;
}

static enum rc start_thread(struct committer *c)
{
    sigset_t all, old;
    int error;

    /* Signals are for the main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&c->thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return RC_NO_MEM;
    pthread_setname_np(c->thread, "kv-commit");
    return RC_OK;
}

static void committer_free(struct committer *c)
{
    if (c->batch)
        rocksdb_writebatch_destroy(c->batch);
    if (c->options)
        rocksdb_writeoptions_destroy(c->options);
    counters_clear(&c->counters);
    recent_fini(&c->recent);
    free(c);
}

enum rc committer_start(struct rocks *r, const struct kv_rocks_config *cfg)
{
    struct committer *c = calloc(1, sizeof *c);
    enum rc rc;

    if (!c)
        return RC_NO_MEM;
    c->r = r;
    c->delay_us = cfg->commit_delay_us;
    c->sync = !cfg->no_sync;
    c->pending_end = &c->pending;
    c->batch = rocksdb_writebatch_create();
    c->options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(c->options, c->sync);
    rc = load_number(c);
    if (!rc)
        rc = recent_init(&c->recent, c->seq);
    if (!rc)
        rc = start_thread(c);
    if (rc)
        committer_free(c);
    else
        r->committer = c;
    return rc;
}

void committer_stop(struct committer *c)
{
    if (!c)
        return;
    atomic_store(&c->stopping, true);
    wake_thread(c);
    pthread_join(c->thread, NULL);
    committer_free(c);
}

void committer_stats(struct committer *c, struct committer_stats *ret)
{
    ret->commits = c->stats.commits;
    ret->conflicts = c->stats.conflicts;
    ret->batches = c->stats.batches;
    ret->syncs = c->stats.syncs;
    ret->errors = c->stats.errors;
}

int64_t committer_last_ok_ns(struct committer *c)
{
    return atomic_load_explicit(&c->stats.last_ok_ns, memory_order_relaxed);
}
