/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_suite_priv.h"

#include "base/clock.h"

#define P SLICE("p")
#define Q SLICE("q")
#define ANY SLICE("any value")

/* ---- inside a transaction ------------------------------------------------------------------- */

static struct kv_txn *begin(struct kv_env *env)
{
    struct kv_txn *txn;

    CHECK_OK(kv_begin(env->kv, P, &txn));
    return txn;
}

static void finish(struct kv_txn *txn, enum rc expected)
{
    CHECK_RC(kv_txn_commit(txn), expected);
    kv_txn_free(txn);
}

/* Reads in txn; ANY accepts every value, SLICE_NONE wants none. The version, 0 when absent. */
static uint64_t read(struct kv_txn *txn, struct slice key, struct slice value)
{
    struct kv_item item = { .version = 0 };
    struct arena a;

    arena_init(&a, SIZE_MAX);
    CHECK_RC(kv_txn_get(txn, key, &a, &item), value.p ? RC_OK : RC_NOT_FOUND);
    if (value.p) {
        CHECK(slice_eq(item.key, key) && item.version != 0);
        CHECK(slice_eq(value, ANY) || slice_eq(item.value, value));
    }
    arena_fini(&a);
    return item.version;
}

static void own_writes_are_read(struct kv_env *env)
{
    struct kv_txn *txn;

    kv_put1(env, P, SLICE("a"), SLICE("old"));
    kv_put1(env, P, SLICE("b"), SLICE("old"));
    txn = begin(env);
    CHECK_OK(kv_txn_put(txn, P, SLICE("a"), SLICE("new")));
    read(txn, SLICE("a"), SLICE("new"));
    CHECK_OK(kv_txn_put(txn, P, SLICE("a"), SLICE("newer")));
    read(txn, SLICE("a"), SLICE("newer"));
    CHECK_OK(kv_txn_delete(txn, P, SLICE("b")));
    read(txn, SLICE("b"), SLICE_NONE);
    CHECK_OK(kv_txn_put(txn, P, SLICE("c"), SLICE("made")));
    read(txn, SLICE("c"), SLICE("made"));
    CHECK_OK(kv_txn_delete(txn, P, SLICE("c")));
    read(txn, SLICE("c"), SLICE_NONE);
    CHECK_OK(kv_txn_put(txn, Q, SLICE("d"), SLICE("elsewhere")));
    read(txn, SLICE("d"), SLICE_NONE);
    kv_expect(env, P, SLICE("a"), SLICE("old"));
    kv_expect(env, P, SLICE("b"), SLICE("old"));
    kv_expect_absent(env, Q, SLICE("d"));
    finish(txn, RC_OK);
    kv_expect(env, P, SLICE("a"), SLICE("newer"));
    kv_expect_absent(env, P, SLICE("b"));
    kv_expect_absent(env, P, SLICE("c"));
    kv_expect(env, Q, SLICE("d"), SLICE("elsewhere"));
}

static void without_commit_nothing_happens(struct kv_env *env)
{
    struct kv_txn *txn = begin(env);

    CHECK_OK(kv_txn_put(txn, P, SLICE("a"), SLICE("v")));
    CHECK_OK(kv_txn_put(txn, Q, SLICE("a"), SLICE("v")));
    kv_txn_free(txn);
    kv_expect_absent(env, P, SLICE("a"));
    kv_expect_absent(env, Q, SLICE("a"));
    kv_txn_free(NULL);
    finish(begin(env), RC_OK);
}

static void reads_are_of_one_snapshot(struct kv_env *env)
{
    struct kv_txn *txn;
    struct kv_scan *scan;
    struct kv_item item;
    uint64_t version;

    kv_put1(env, P, SLICE("a"), SLICE("1"));
    kv_put1(env, P, SLICE("b"), SLICE("1"));
    txn = begin(env);
    version = read(txn, SLICE("a"), SLICE("1"));
    kv_put1(env, P, SLICE("a"), SLICE("2"));
    kv_put1(env, P, SLICE("b"), SLICE("2"));
    kv_put1(env, P, SLICE("c"), SLICE("2"));
    read(txn, SLICE("b"), SLICE("1"));
    read(txn, SLICE("c"), SLICE_NONE);
    CHECK(read(txn, SLICE("a"), SLICE("1")) == version);
    CHECK_OK(kv_txn_scan_open(txn, &(struct kv_range){ 0 }, &scan));
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, SLICE("a")) && slice_eq(item.value, SLICE("1")));
    CHECK(item.version == version);
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, SLICE("b")) && slice_eq(item.value, SLICE("1")));
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    kv_scan_close(scan);
    CHECK_OK(kv_txn_put(txn, P, SLICE("d"), SLICE("v")));
    finish(txn, RC_CONFLICT);
}

static void scans_do_not_show_own_writes(struct kv_env *env)
{
    struct kv_txn *txn;
    struct kv_scan *scan;
    struct kv_item item;

    kv_put1(env, P, SLICE("a"), SLICE("1"));
    kv_put1(env, Q, SLICE("q"), SLICE("1"));
    txn = begin(env);
    CHECK_OK(kv_txn_put(txn, P, SLICE("0"), SLICE("v")));
    CHECK_OK(kv_txn_delete(txn, P, SLICE("a")));
    CHECK_OK(kv_txn_scan_open(txn, &(struct kv_range){ .partition = Q }, &scan));
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, SLICE("a")));
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    kv_scan_close(scan);
    finish(txn, RC_OK);
    kv_expect_absent(env, P, SLICE("a"));
    kv_expect(env, P, SLICE("0"), SLICE("v"));
}

/* ---- conflicts ------------------------------------------------------------------------------ */

static enum rc change_nothing(struct kv_txn *txn)
{
    return kv_txn_put(txn, Q, SLICE("unrelated"), SLICE("v"));
}
static enum rc change_k(struct kv_txn *txn)
{
    return kv_txn_put(txn, P, SLICE("k"), SLICE("changed"));
}
static enum rc rewrite_k(struct kv_txn *txn)
{
    return kv_txn_put(txn, P, SLICE("k"), SLICE("v"));
}
static enum rc delete_k(struct kv_txn *txn)
{
    return kv_txn_delete(txn, P, SLICE("k"));
}
static enum rc create_absent(struct kv_txn *txn)
{
    return kv_txn_put(txn, P, SLICE("absent"), SLICE("v"));
}
static enum rc add_to_count(struct kv_txn *txn)
{
    return kv_txn_add(txn, P, SLICE("count"), (int64_t[]){ 1 }, 1);
}
static enum rc change_same_key_elsewhere(struct kv_txn *txn)
{
    return kv_txn_put(txn, Q, SLICE("k"), SLICE("changed"));
}

static void what_was_read_and_changed_conflicts(struct kv_env *env)
{
    static const struct {
        enum rc (*change)(struct kv_txn *);
        enum rc expected;
    } rows[] = {
        { change_nothing, RC_OK },
        { change_k, RC_CONFLICT },
        { rewrite_k, RC_CONFLICT },
        { delete_k, RC_CONFLICT },
        { create_absent, RC_CONFLICT },
        { add_to_count, RC_CONFLICT },
        { change_same_key_elsewhere, RC_OK },
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct kv_txn *txn, *other;

        kv_put1(env, P, SLICE("k"), SLICE("v"));
        kv_put1(env, P, SLICE("count"), SLICE("\0\0\0\0\0\0\0\1"));
        kv_delete1(env, P, SLICE("absent"));
        kv_delete1(env, P, SLICE("out"));
        kv_delete1(env, Q, SLICE("out"));
        txn = begin(env);
        read(txn, SLICE("k"), SLICE("v"));
        read(txn, SLICE("absent"), SLICE_NONE);
        read(txn, SLICE("count"), ANY);
        CHECK_OK(kv_txn_put(txn, P, SLICE("out"), SLICE("v")));
        CHECK_OK(kv_txn_put(txn, Q, SLICE("out"), SLICE("v")));
        other = begin(env);
        CHECK_OK(rows[i].change(other));
        finish(other, RC_OK);
        finish(txn, rows[i].expected);
        CHECK((kv_version1(env, P, SLICE("out")) == 0) == (rows[i].expected != RC_OK));
        CHECK((kv_version1(env, Q, SLICE("out")) == 0) == (rows[i].expected != RC_OK));
    }
}

static void scanned_entries_conflict_when_changed(struct kv_env *env)
{
    static const struct {
        struct slice key;
        bool deletes;
        enum rc expected;
    } rows[] = {
        { SLICE_INIT("b"), false, RC_CONFLICT }, /* returned */
        { SLICE_INIT("a"), true, RC_CONFLICT },
        { SLICE_INIT("d"), false, RC_OK }, /* in the range, but not returned */
        { SLICE_INIT("e"), true, RC_OK },
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct kv_txn *txn;
        struct kv_scan *scan;
        struct kv_item item;

        for (char c = 'a'; c < 'h'; c++)
            kv_put1(env, P, slice_of(&c, 1), SLICE("v"));
        txn = begin(env);
        CHECK_OK(kv_txn_scan_open(txn, &(struct kv_range){ .flags = KV_HEAD }, &scan));
        for (unsigned n = 0; n < 3; n++)
            CHECK_OK(kv_scan_next(scan, &item));
        kv_scan_close(scan);
        if (rows[i].deletes)
            kv_delete1(env, P, rows[i].key);
        else
            kv_put1(env, P, rows[i].key, SLICE("v"));
        CHECK_OK(kv_txn_put(txn, P, SLICE("out"), SLICE("v")));
        finish(txn, rows[i].expected);
    }
}

static void blind_writes_do_not_conflict(struct kv_env *env)
{
    struct kv_txn *a = begin(env), *b = begin(env), *c = begin(env);

    CHECK_OK(kv_txn_put(a, P, SLICE("k"), SLICE("a")));
    CHECK_OK(kv_txn_put(b, P, SLICE("k"), SLICE("b")));
    CHECK_OK(kv_txn_delete(c, P, SLICE("k")));
    finish(b, RC_OK);
    finish(a, RC_OK);
    kv_expect(env, P, SLICE("k"), SLICE("a"));
    finish(c, RC_OK);
    kv_expect_absent(env, P, SLICE("k"));
}

static void of_two_that_read_and_write_one_wins(struct kv_env *env)
{
    struct kv_txn *a = begin(env), *b = begin(env);

    read(a, SLICE("k"), SLICE_NONE);
    read(b, SLICE("k"), SLICE_NONE);
    CHECK_OK(kv_txn_put(a, P, SLICE("k"), SLICE("a")));
    CHECK_OK(kv_txn_put(b, P, SLICE("k"), SLICE("b")));
    finish(a, RC_OK);
    finish(b, RC_CONFLICT);
    kv_expect(env, P, SLICE("k"), SLICE("a"));
}

static void the_last_of_many_writes_counts(struct kv_env *env)
{
    struct kv_txn *txn = begin(env);
    unsigned n = kv_effort(env, 500);
    struct kv_scan *scan;
    struct kv_item item;
    unsigned seen = 0;

    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < n; i++) {
            struct slice key = slice_of(&i, sizeof i), value = slice_of(&round, sizeof round);

            if ((i + round) % 3 == 0)
                CHECK_OK(kv_txn_delete(txn, P, key));
            else
                CHECK_OK(kv_txn_put(txn, P, key, value));
        }
    finish(txn, RC_OK);
    CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &scan));
    while (kv_scan_next(scan, &item) == RC_OK) {
        unsigned i, round = 2;

        memcpy(&i, item.key.p, sizeof i);
        CHECK((i + 2) % 3 != 0 && slice_eq(item.value, slice_of(&round, sizeof round)));
        seen++;
    }
    kv_scan_close(scan);
    CHECK(seen == n - (n + 1) / 3);
}

/* ---- counters ------------------------------------------------------------------------------- */

static void add(struct kv_txn *txn, int64_t a, int64_t b, unsigned n)
{
    CHECK_OK(kv_txn_add(txn, P, SLICE("n"), (int64_t[]){ a, b }, n));
}

static void expect_counters(struct kv_env *env, int64_t a, int64_t b)
{
    int64_t columns[3];

    kv_counters1(env, P, SLICE("n"), columns, 3);
    CHECK(columns[0] == a && columns[1] == b && columns[2] == 0);
}

static void adds_sum_up_and_grow(struct kv_env *env)
{
    struct kv_txn *txn = begin(env);

    add(txn, 5, 0, 1);
    finish(txn, RC_OK);
    expect_counters(env, 5, 0);
    kv_expect(env, P, SLICE("n"), SLICE("\0\0\0\0\0\0\0\5"));
    txn = begin(env);
    add(txn, -7, 1, 2);
    finish(txn, RC_OK);
    expect_counters(env, -2, 1);
    txn = begin(env);
    add(txn, 1, 0, 1);
    add(txn, 1, 4, 2);
    finish(txn, RC_OK);
    expect_counters(env, 0, 5);
    txn = begin(env);
    CHECK_OK(kv_txn_delete(txn, P, SLICE("n")));
    add(txn, 3, 3, 2);
    finish(txn, RC_OK);
    expect_counters(env, 3, 3);
    txn = begin(env);
    CHECK_OK(kv_txn_put(txn, P, SLICE("n"), SLICE("\0\0\0\0\0\0\0\1")));
    add(txn, 1, 9, 2);
    finish(txn, RC_OK);
    expect_counters(env, 2, 9);
    txn = begin(env);
    add(txn, 1, 9, 2);
    CHECK_OK(kv_txn_delete(txn, P, SLICE("n")));
    finish(txn, RC_OK);
    kv_expect_absent(env, P, SLICE("n"));
}

static void own_adds_are_read(struct kv_env *env)
{
    struct kv_txn *txn = begin(env);

    add(txn, 5, 0, 1);
    finish(txn, RC_OK);
    txn = begin(env);
    add(txn, 2, 0, 1);
    read(txn, SLICE("n"), SLICE("\0\0\0\0\0\0\0\7"));
    add(txn, 1, 0, 1);
    read(txn, SLICE("n"), SLICE("\0\0\0\0\0\0\0\10"));
    finish(txn, RC_OK);
    expect_counters(env, 8, 0);
}

static void adds_do_not_conflict(struct kv_env *env)
{
    struct kv_txn *txns[8];

    for (unsigned i = 0; i < ARRAY_LEN(txns); i++) {
        txns[i] = begin(env);
        add(txns[i], 1, (int64_t)i, 2);
    }
    for (unsigned i = 0; i < ARRAY_LEN(txns); i++)
        finish(txns[i], RC_OK);
    expect_counters(env, 8, 28);
}

static void adding_to_what_is_no_counter_is_refused(struct kv_env *env)
{
    struct kv_txn *txn = begin(env);
    enum rc rc;

    kv_put1(env, P, SLICE("n"), SLICE("abc"));
    rc = kv_txn_add(txn, P, SLICE("n"), (int64_t[]){ 1 }, 1);
    if (!rc)
        rc = kv_txn_commit(txn);
    CHECK(rc == RC_CORRUPT);
    kv_txn_free(txn);
    kv_expect(env, P, SLICE("n"), SLICE("abc"));
}

static void counters_are_decoded_strictly(struct kv_env *env)
{
    static const char zeros[8 * (KV_COUNTERS_MAX + 1)];
    int64_t columns[2] = { 7, 7 };

    CHECK_RC(kv_counters_decode(SLICE("1234567"), columns, 2), RC_CORRUPT);
    CHECK_RC(kv_counters_decode(slice_of(zeros, sizeof zeros), columns, 2), RC_CORRUPT);
    CHECK(columns[0] == 7 && columns[1] == 7);
    CHECK_OK(kv_counters_decode(SLICE("\xff\xff\xff\xff\xff\xff\xff\xfe"), columns, 2));
    CHECK(columns[0] == -2 && columns[1] == 0);
    CHECK_OK(kv_counters_decode(SLICE(""), columns, 2));
    CHECK(columns[0] == 0);
}

/* ---- expiry --------------------------------------------------------------------------------- */

static void put_until(struct kv_env *env, struct slice key, int64_t at_ns)
{
    struct kv_txn *txn = begin(env);

    CHECK_OK(kv_txn_put_expiring(txn, P, key, SLICE("v"), at_ns));
    finish(txn, RC_OK);
}

static void expired_entries_are_not_seen(struct kv_env *env)
{
    int64_t soon = clock_wall_ns() + 300 * NS_PER_MS;
    struct slice left[] = { SLICE_INIT("again"), SLICE_INIT("late"), SLICE_INIT("plain") };
    struct kv_txn *txn;

    put_until(env, SLICE("soon"), soon);
    put_until(env, SLICE("again"), soon);
    put_until(env, SLICE("late"), soon + 3600 * NS_PER_S);
    put_until(env, SLICE("past"), clock_wall_ns() - NS_PER_S);
    kv_put1(env, P, SLICE("plain"), SLICE("v"));
    put_until(env, SLICE("plain"), soon);
    kv_put1(env, P, SLICE("plain"), SLICE("v"));
    kv_expect_absent(env, P, SLICE("past"));
    if (kv_version1(env, P, SLICE("soon")) == 0)
        CHECK(clock_wall_ns() >= soon);
    while (clock_wall_ns() <= soon)
        kv_sleep_ms(20);
    kv_expect_absent(env, P, SLICE("soon"));
    kv_expect_absent(env, P, SLICE("again"));
    kv_put1(env, P, SLICE("again"), SLICE("v"));
    kv_expect_keys(env, &(struct kv_range){ .partition = P }, left, ARRAY_LEN(left));
    txn = begin(env);
    read(txn, SLICE("soon"), SLICE_NONE);
    read(txn, SLICE("late"), SLICE("v"));
    CHECK_OK(kv_txn_put(txn, P, SLICE("soon"), SLICE("new")));
    finish(txn, RC_OK);
    kv_expect(env, P, SLICE("soon"), SLICE("new"));
}

/* ---- transact ------------------------------------------------------------------------------- */

struct attempts {
    struct kv_env *env;
    unsigned n, meddle;
    enum rc result;
};

static enum rc meddled(struct kv_txn *txn, void *arg)
{
    struct attempts *t = arg;

    read(txn, SLICE("k"), ANY);
    if (t->n++ < t->meddle)
        kv_put1(t->env, P, SLICE("k"), SLICE("meddled"));
    CHECK_OK(kv_txn_put(txn, P, SLICE("out"), SLICE("v")));
    return t->result;
}

static void transact_runs_again_on_conflict(struct kv_env *env)
{
    struct attempts t = { .env = env, .meddle = 4 };

    kv_put1(env, P, SLICE("k"), SLICE("v"));
    CHECK_OK(kv_transact(env->kv, P, meddled, &t));
    CHECK(t.n == 5);
    kv_expect(env, P, SLICE("out"), SLICE("v"));
}

static void transact_gives_back_what_the_function_says(struct kv_env *env)
{
    static const enum rc results[] = { RC_PRECONDITION, RC_NOT_FOUND, RC_CONFLICT };

    kv_put1(env, P, SLICE("k"), SLICE("v"));
    for (unsigned i = 0; i < ARRAY_LEN(results); i++) {
        struct attempts t = { .env = env, .result = results[i] };

        CHECK_RC(kv_transact(env->kv, P, meddled, &t), results[i]);
        CHECK(t.n == 1);
    }
    kv_expect_absent(env, P, SLICE("out"));
}

/* clang-format off */
#define CASE(fn) { #fn, fn, false }
/* clang-format on */
const struct kv_case kv_txn_cases[] = {
    CASE(own_writes_are_read),
    CASE(without_commit_nothing_happens),
    CASE(reads_are_of_one_snapshot),
    CASE(scans_do_not_show_own_writes),
    CASE(what_was_read_and_changed_conflicts),
    CASE(scanned_entries_conflict_when_changed),
    CASE(blind_writes_do_not_conflict),
    CASE(of_two_that_read_and_write_one_wins),
    CASE(the_last_of_many_writes_counts),
    CASE(adds_sum_up_and_grow),
    CASE(own_adds_are_read),
    CASE(adds_do_not_conflict),
    CASE(adding_to_what_is_no_counter_is_refused),
    CASE(counters_are_decoded_strictly),
    CASE(expired_entries_are_not_seen),
    CASE(transact_runs_again_on_conflict),
    CASE(transact_gives_back_what_the_function_says),
};
const unsigned kv_txn_cases_n = ARRAY_LEN(kv_txn_cases);
