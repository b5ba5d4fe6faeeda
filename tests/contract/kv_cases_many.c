/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many at once: what must hold whatever the order in which workers come.
 */
#include "kv_suite_priv.h"

#include "base/encode.h"
#include "rt/rt.h"

#include <sched.h>
#include <stdio.h>

#define P SLICE("p")
#define Q SLICE("q")
#define WORKERS 8u

static uint64_t seed_of(unsigned i)
{
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The number stored under key in the home partition; 0 when absent. */
static enum rc txn_number(struct kv_txn *txn, struct slice key, uint64_t *ret)
{
    struct kv_item item;
    struct arena a;
    enum rc rc;

    arena_init(&a, SIZE_MAX);
    rc = kv_txn_get(txn, key, &a, &item);
    if (rc == RC_NOT_FOUND) {
        *ret = 0;
        rc = RC_OK;
    } else if (!rc) {
        CHECK(item.value.n == 8);
        *ret = get_be64(item.value.p);
    }
    arena_fini(&a);
    return rc;
}

static enum rc txn_put_number(struct kv_txn *txn, struct slice partition, struct slice key,
                              uint64_t v)
{
    char value[8];

    put_be64(value, v);
    return kv_txn_put(txn, partition, key, slice_of(value, sizeof value));
}

static uint64_t number(struct kv_env *env, struct slice partition, struct slice key)
{
    struct kv_item item;
    struct arena a;
    uint64_t v = 0;
    enum rc rc;

    arena_init(&a, SIZE_MAX);
    rc = kv_get(env->kv, partition, key, &a, &item);
    CHECK(rc == RC_OK || rc == RC_NOT_FOUND);
    if (!rc) {
        CHECK(item.value.n == 8);
        v = get_be64(item.value.p);
    }
    arena_fini(&a);
    return v;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static enum rc increment(struct kv_txn *txn, void *arg)
{
    uint64_t v;
    enum rc rc = txn_number(txn, SLICE("n"), &v);

    return rc ? rc : txn_put_number(txn, P, SLICE("n"), v + 1);
}

static void increment_often(struct kv_env *env, unsigned i, void *arg)
{
    for (unsigned n = kv_effort(env, 100); n > 0; n--)
        CHECK_OK(kv_transact(env->kv, P, increment, NULL));
}

static void no_increment_is_lost(struct kv_env *env)
{
    kv_parallel(env, WORKERS, increment_often, NULL);
    CHECK(number(env, P, SLICE("n")) == (uint64_t)WORKERS * kv_effort(env, 100));
}

static void add_often(struct kv_env *env, unsigned i, void *arg)
{
    for (unsigned n = kv_effort(env, 200); n > 0; n--) {
        int64_t deltas[3] = { 1, i, -(int64_t)n };
        struct kv_txn *txn;

        CHECK_OK(kv_begin(env->kv, P, &txn));
        CHECK_OK(kv_txn_add(txn, n % 2 ? P : Q, SLICE("n"), deltas, 3));
        CHECK_OK(kv_txn_add(txn, P, SLICE("all"), deltas, 1 + n % 3));
        CHECK_OK(kv_txn_commit(txn)); /* at the first attempt */
        kv_txn_free(txn);
    }
}

static void concurrent_adds_sum_exactly(struct kv_env *env)
{
    int64_t n = kv_effort(env, 200), in_p[3], in_q[3] = { 0 }, all[1];

    kv_parallel(env, WORKERS, add_often, NULL);
    kv_counters1(env, P, SLICE("n"), in_p, 3);
    if (n > 1)
        kv_counters1(env, Q, SLICE("n"), in_q, 3);
    kv_counters1(env, P, SLICE("all"), all, 1);
    CHECK(in_p[0] + in_q[0] == WORKERS * n && all[0] == WORKERS * n);
    CHECK(in_p[1] + in_q[1] == n * (WORKERS * (WORKERS - 1) / 2));
    CHECK(in_p[2] + in_q[2] == -(int64_t)WORKERS * (n * (n + 1) / 2));
}

/* ---- a bank --------------------------------------------------------------------------------- */

#define ACCOUNTS 10u
#define BALANCE 1000u

struct transfer {
    unsigned from, to;
    uint64_t amount;
};

static struct slice account(char *buf, unsigned i)
{
    buf[0] = (char)('a' + i);
    return slice_of(buf, 1);
}

static enum rc open_accounts(struct kv_txn *txn, void *arg)
{
    enum rc rc = RC_OK;
    char buf[1];

    for (unsigned i = 0; !rc && i < ACCOUNTS; i++)
        rc = txn_put_number(txn, P, account(buf, i), BALANCE);
    return rc;
}

static enum rc transfer(struct kv_txn *txn, void *arg)
{
    const struct transfer *t = arg;
    char from[1], to[1];
    uint64_t a, b;
    enum rc rc = txn_number(txn, account(from, t->from), &a);

    if (!rc)
        rc = txn_number(txn, account(to, t->to), &b);
    if (rc || a < t->amount)
        return rc;
    rc = txn_put_number(txn, P, account(from, t->from), a - t->amount);
    return rc ? rc : txn_put_number(txn, P, account(to, t->to), b + t->amount);
}

static void check_sum(struct kv_scan *scan)
{
    struct kv_item item;
    uint64_t sum = 0;

    for (unsigned i = 0; i < ACCOUNTS; i++) {
        CHECK_OK(kv_scan_next(scan, &item));
        CHECK(item.value.n == 8);
        sum += get_be64(item.value.p);
        if (i % 4 == 1 && !fiber_current())
            sched_yield();
    }
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    kv_scan_close(scan);
    CHECK(sum == ACCOUNTS * BALANCE);
}

static enum rc audit(struct kv_txn *txn, void *arg)
{
    struct kv_scan *scan;

    CHECK_OK(kv_txn_scan_open(txn, &(struct kv_range){ 0 }, &scan));
    check_sum(scan);
    return kv_txn_put(txn, Q, SLICE("audited"), SLICE("v"));
}

static void work_in_bank(struct kv_env *env, unsigned i, void *arg)
{
    uint64_t random = seed_of(i);
    struct kv_scan *scan;

    for (unsigned n = kv_effort(env, 100); n > 0; n--) {
        struct transfer t = { .from = (unsigned)kv_random(&random) % ACCOUNTS,
                              .amount = kv_random(&random) % 300 };

        t.to = (t.from + 1 + (unsigned)kv_random(&random) % (ACCOUNTS - 1)) % ACCOUNTS;
        if (i > 1) {
            CHECK_OK(kv_transact(env->kv, P, transfer, &t));
        } else if (i == 1 && n % 10 == 0) {
            CHECK_OK(kv_transact(env->kv, P, audit, NULL));
        } else {
            CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &scan));
            check_sum(scan);
        }
    }
}

static void transfers_keep_the_sum(struct kv_env *env)
{
    CHECK_OK(kv_transact(env->kv, P, open_accounts, NULL));
    kv_parallel(env, WORKERS, work_in_bank, NULL);
    CHECK_OK(kv_transact(env->kv, P, audit, NULL));
}

/* ---- no write skew -------------------------------------------------------------------------- */

/* Takes the place of this worker only while the other's is free. */
static enum rc take_place(struct kv_txn *txn, void *arg)
{
    const unsigned *i = arg;
    uint64_t a, b;
    enum rc rc = txn_number(txn, SLICE("a"), &a);

    if (!rc)
        rc = txn_number(txn, SLICE("b"), &b);
    if (rc || a || b)
        return rc;
    return txn_put_number(txn, P, *i % 2 ? SLICE("a") : SLICE("b"), 1);
}

static void try_place(struct kv_env *env, unsigned i, void *arg)
{
    CHECK_OK(kv_transact(env->kv, P, take_place, &i));
}

static void reads_are_checked_against_each_other(struct kv_env *env)
{
    for (unsigned n = kv_effort(env, 60); n > 0; n--) {
        kv_delete1(env, P, SLICE("a"));
        kv_delete1(env, P, SLICE("b"));
        kv_parallel(env, 4, try_place, NULL);
        CHECK(number(env, P, SLICE("a")) + number(env, P, SLICE("b")) == 1);
    }
}

/* ---- other partitions change with home ------------------------------------------------------- */

static enum rc write_both(struct kv_txn *txn, void *arg)
{
    const uint64_t *v = arg;
    uint64_t turns;
    enum rc rc = txn_number(txn, SLICE("turns"), &turns);

    if (!rc)
        rc = txn_put_number(txn, P, SLICE("turns"), turns + 1);
    if (!rc)
        rc = txn_put_number(txn, Q, SLICE("k"), *v);
    if (!rc)
        rc = txn_put_number(txn, P, SLICE("k"), *v);
    return rc ? rc : kv_txn_add(txn, Q, SLICE("turns"), (int64_t[]){ 1 }, 1);
}

static void write_both_often(struct kv_env *env, unsigned i, void *arg)
{
    for (uint64_t n = kv_effort(env, 60); n > 0; n--) {
        uint64_t v = i * 1000 + n;

        CHECK_OK(kv_transact(env->kv, P, write_both, &v));
    }
}

static void other_partitions_change_with_home(struct kv_env *env)
{
    kv_parallel(env, WORKERS, write_both_often, NULL);
    CHECK(number(env, P, SLICE("turns")) == (uint64_t)WORKERS * kv_effort(env, 60));
    CHECK(number(env, Q, SLICE("turns")) == number(env, P, SLICE("turns")));
    CHECK(number(env, Q, SLICE("k")) == number(env, P, SLICE("k")));
}

/* ---- linearizability ------------------------------------------------------------------------ */

#define KEYS 3u
#define CLIENTS 6u
#define STEPS 24u /* per client and round; CLIENTS * STEPS / KEYS stays well below KV_HISTORY_MAX  \
                   */

struct history {
    uint64_t clock, values; /* atomic */
    unsigned round;
    struct kv_event events[CLIENTS][STEPS];
    unsigned keys[CLIENTS][STEPS];
    unsigned n[CLIENTS];
};

struct step {
    struct kv_event *event;
    struct slice key;
    uint64_t value;
    bool effect;
};

static uint64_t tick(struct history *h)
{
    return __atomic_fetch_add(&h->clock, 1, __ATOMIC_SEQ_CST);
}

/* Reads, and writes when the parity of what was read fits: a compare-and-set that may fail. */
static enum rc cas(struct kv_txn *txn, struct step *s)
{
    enum rc rc = txn_number(txn, s->key, &s->event->saw);

    s->effect = s->event->saw % 2 == 0 || s->value % 3 == 0;
    if (!rc && s->effect)
        rc =
            s->value % 5 ? txn_put_number(txn, P, s->key, s->value) : kv_txn_delete(txn, P, s->key);
    return rc;
}

/* One attempt; false when it conflicted and so did nothing. */
static bool run_cas(struct kv_env *env, struct step *s)
{
    struct kv_txn *txn;
    enum rc rc;

    CHECK_OK(kv_begin(env->kv, P, &txn));
    CHECK_OK(cas(txn, s));
    rc = kv_txn_commit(txn);
    kv_txn_free(txn);
    if (rc == RC_CONFLICT)
        return false;
    CHECK_OK(rc);
    s->event->kind = s->effect ? KV_EVENT_CAS : KV_EVENT_READ;
    s->event->wrote = s->value % 5 ? s->value : 0;
    return true;
}

static bool run_step(struct kv_env *env, struct step *s, unsigned kind)
{
    struct kv_event *e = s->event;
    char value[8];

    if (kind < 4) {
        e->kind = KV_EVENT_READ;
        e->saw = number(env, P, s->key);
        return true;
    }
    if (kind >= 6)
        return run_cas(env, s);
    e->kind = KV_EVENT_WRITE;
    e->wrote = kind == 4 ? 0 : s->value;
    put_be64(value, s->value);
    if (kind == 4)
        kv_delete1(env, P, s->key);
    else
        kv_put1(env, P, s->key, slice_of(value, 8));
    return true;
}

static void make_history(struct kv_env *env, unsigned i, void *arg)
{
    struct history *h = arg;
    uint64_t random = seed_of(h->round * CLIENTS + i);

    for (unsigned n = 0; n < STEPS; n++) {
        struct kv_event *e = &h->events[i][h->n[i]];
        unsigned key = (unsigned)kv_random(&random) % KEYS;
        char name[32];
        int len = snprintf(name, sizeof name, "r%u-%u", h->round, key);
        struct step s = { .event = e,
                          .key = slice_of(name, (size_t)len),
                          .value = __atomic_add_fetch(&h->values, 1, __ATOMIC_RELAXED) };

        e->invoked = tick(h);
        if (!run_step(env, &s, (unsigned)kv_random(&random) % 10))
            continue;
        e->answered = tick(h);
        h->keys[i][h->n[i]++] = key;
    }
}

static void check_history(const struct history *h)
{
    for (unsigned key = 0; key < KEYS; key++) {
        struct kv_event events[CLIENTS * STEPS];
        unsigned n = 0;

        for (unsigned i = 0; i < CLIENTS; i++)
            for (unsigned j = 0; j < h->n[i]; j++)
                if (h->keys[i][j] == key)
                    events[n++] = h->events[i][j];
        if (n <= KV_HISTORY_MAX)
            CHECK(kv_linearizable(events, n));
    }
}

static void histories_are_linearizable(struct kv_env *env)
{
    struct history *h = malloc(sizeof *h);

    CHECK(h);
    for (unsigned round = 0; round < kv_effort(env, 30); round++) {
        *h = (struct history){ .round = round };
        kv_parallel(env, CLIENTS, make_history, h);
        check_history(h);
    }
    free(h);
}

/* Of the checker itself. */
static void impossible_histories_are_found(struct kv_env *env)
{
    struct kv_event stale[] = {
        { .kind = KV_EVENT_WRITE, .invoked = 0, .answered = 1, .wrote = 1 },
        { .kind = KV_EVENT_WRITE, .invoked = 2, .answered = 3, .wrote = 2 },
        { .kind = KV_EVENT_READ, .invoked = 4, .answered = 5, .saw = 1 },
    };
    struct kv_event both_win[] = {
        { .kind = KV_EVENT_CAS, .invoked = 0, .answered = 2, .saw = 0, .wrote = 1 },
        { .kind = KV_EVENT_CAS, .invoked = 1, .answered = 3, .saw = 0, .wrote = 2 },
    };
    struct kv_event flicker[] = {
        { .kind = KV_EVENT_WRITE, .invoked = 0, .answered = 9, .wrote = 1 },
        { .kind = KV_EVENT_READ, .invoked = 1, .answered = 2, .saw = 1 },
        { .kind = KV_EVENT_READ, .invoked = 3, .answered = 4, .saw = 0 },
    };

    CHECK(!kv_linearizable(stale, 3));
    stale[1].answered = 6;
    CHECK(kv_linearizable(stale, 3));
    CHECK(!kv_linearizable(both_win, 2));
    both_win[1].saw = 1;
    CHECK(kv_linearizable(both_win, 2));
    CHECK(!kv_linearizable(flicker, 3));
    flicker[1].saw = 0;
    CHECK(kv_linearizable(flicker, 3));
    CHECK(kv_linearizable(NULL, 0));
}

/* ---- scans among writers -------------------------------------------------------------------- */

struct moved {
    unsigned from, to;
};

static enum rc move(struct kv_txn *txn, void *arg)
{
    const struct moved *m = arg;
    enum rc rc = kv_txn_delete(txn, P, slice_of(&m->from, sizeof m->from));

    return rc ? rc : kv_txn_put(txn, P, slice_of(&m->to, sizeof m->to), SLICE("v"));
}

/* Worker 0 counts; each of the others moves one entry about. */
static void move_and_count(struct kv_env *env, unsigned i, void *arg)
{
    struct moved m = { .to = i << 16 };
    uint64_t random = seed_of(i);

    for (unsigned n = kv_effort(env, 100); n > 0; n--) {
        struct kv_scan *scan;
        struct kv_item item;
        unsigned seen = 0;

        if (i > 0) {
            m.from = m.to;
            m.to = (i << 16) + n + ((unsigned)kv_random(&random) << 24);
            CHECK_OK(kv_transact(env->kv, P, move, &m));
            continue;
        }
        CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &scan));
        while (kv_scan_next(scan, &item) == RC_OK)
            seen++;
        kv_scan_close(scan);
        CHECK(seen == WORKERS - 1);
    }
}

static void scans_count_each_moving_entry_once(struct kv_env *env)
{
    for (unsigned i = 1; i < WORKERS; i++) {
        unsigned key = i << 16;

        kv_put1(env, P, slice_of(&key, sizeof key), SLICE("v"));
    }
    kv_parallel(env, WORKERS, move_and_count, NULL);
}

/* clang-format off */
#define CASE(fn) { #fn, fn, false }
/* clang-format on */
const struct kv_case kv_many_cases[] = {
    CASE(no_increment_is_lost),
    CASE(concurrent_adds_sum_exactly),
    CASE(transfers_keep_the_sum),
    CASE(reads_are_checked_against_each_other),
    CASE(other_partitions_change_with_home),
    CASE(impossible_histories_are_found),
    CASE(histories_are_linearizable),
    CASE(scans_count_each_moving_entry_once),
};
const unsigned kv_many_cases_n = ARRAY_LEN(kv_many_cases);
