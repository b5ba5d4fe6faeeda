/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_suite_priv.h"

#include "base/clock.h"

#include <stdio.h>

#define P SLICE("p")

static void entries_are_put_found_and_deleted(struct kv_env *env)
{
    kv_expect_absent(env, P, SLICE("k"));
    kv_put1(env, P, SLICE("k"), SLICE("one"));
    kv_expect(env, P, SLICE("k"), SLICE("one"));
    kv_put1(env, P, SLICE("k"), SLICE("another"));
    kv_expect(env, P, SLICE("k"), SLICE("another"));
    kv_put1(env, P, SLICE("k"), SLICE(""));
    kv_expect(env, P, SLICE("k"), SLICE(""));
    kv_delete1(env, P, SLICE("k"));
    kv_expect_absent(env, P, SLICE("k"));
    kv_delete1(env, P, SLICE("k"));
    kv_expect_absent(env, P, SLICE("k"));
}

static void a_miss_leaves_the_result_untouched(struct kv_env *env)
{
    struct arena a;
    struct kv_item item = { .key = SLICE("old"), .version = 77 };

    arena_init(&a, SIZE_MAX);
    CHECK_RC(kv_get(env->kv, P, SLICE("k"), &a, &item), RC_NOT_FOUND);
    CHECK(item.version == 77 && slice_eq(item.key, SLICE("old")));
    arena_fini(&a);
}

static void versions_change_with_every_write(struct kv_env *env)
{
    uint64_t seen[6];

    kv_put1(env, P, SLICE("other"), SLICE("x"));
    for (unsigned i = 0; i < ARRAY_LEN(seen); i++) {
        if (i == 4)
            kv_delete1(env, P, SLICE("k"));
        kv_put1(env, P, SLICE("k"), SLICE("same"));
        seen[i] = kv_version1(env, P, SLICE("k"));
        for (unsigned j = 0; j < i; j++)
            CHECK(seen[i] != seen[j]);
    }
    CHECK(kv_version1(env, P, SLICE("k")) == seen[5]);
    seen[0] = kv_version1(env, P, SLICE("other"));
    kv_put1(env, P, SLICE("k"), SLICE("same"));
    CHECK(kv_version1(env, P, SLICE("other")) == seen[0]);
}

static void keys_are_ordered_by_their_bytes(struct kv_env *env)
{
    static const struct slice keys[] = {
        SLICE_INIT("\0"),         SLICE_INIT("\0\0"),     SLICE_INIT("\0\xff"),
        SLICE_INIT("\1"),         SLICE_INIT("A"),        SLICE_INIT("a"),
        SLICE_INIT("a\0"),        SLICE_INIT("a\0b"),     SLICE_INIT("a\1"),
        SLICE_INIT("a/"),         SLICE_INIT("a/b"),      SLICE_INIT("aa"),
        SLICE_INIT("b"),          SLICE_INIT("\x7f"),     SLICE_INIT("\x80"),
        SLICE_INIT("\xff"),       SLICE_INIT("\xff\0"),   SLICE_INIT("\xff\1"),
        SLICE_INIT("\xff\xfe\0"), SLICE_INIT("\xff\xff"),
    };
    unsigned n = ARRAY_LEN(keys);

    for (unsigned i = 0; i < n; i++)
        kv_put1(env, P, keys[i * 7 % n], keys[i * 7 % n]);
    kv_expect_keys(env, &(struct kv_range){ .partition = P }, keys, n);
    for (unsigned i = 0; i < n; i++)
        kv_expect(env, P, keys[i], keys[i]);
    for (unsigned i = 0; i < n; i += 5)
        for (unsigned j = i; j < n; j += 3)
            kv_expect_keys(env,
                           &(struct kv_range){ .partition = P, .from = keys[i], .to = keys[j] },
                           keys + i, j - i);
}

static void partitions_are_apart(struct kv_env *env)
{
    static const struct slice partitions[] = {
        SLICE_INIT("o/b/1"),     SLICE_INIT("o/b/10"),   SLICE_INIT("o/b/1\0"),
        SLICE_INIT("o/b/1\xff"), SLICE_INIT("o/b/1\1k"), SLICE_INIT("\0"),
        SLICE_INIT("\xff"),      SLICE_INIT("\xff\xff"),
    };
    static const struct slice keys[] = { SLICE_INIT("\0"), SLICE_INIT("1k"), SLICE_INIT("k"),
                                         SLICE_INIT("\xff") };

    for (unsigned i = 0; i < ARRAY_LEN(partitions); i++)
        for (unsigned j = 0; j < ARRAY_LEN(keys); j++)
            kv_put1(env, partitions[i], keys[j], partitions[i]);
    for (unsigned i = 0; i < ARRAY_LEN(partitions); i++) {
        kv_delete1(env, partitions[i], SLICE("k"));
        for (unsigned j = i + 1; j < ARRAY_LEN(partitions); j++)
            kv_expect(env, partitions[j], SLICE("k"), partitions[j]);
        kv_expect_absent(env, partitions[i], SLICE("k"));
        kv_put1(env, partitions[i], SLICE("k"), partitions[i]);
        kv_expect_keys(env, &(struct kv_range){ .partition = partitions[i] }, keys, 4);
        kv_expect_keys(env, &(struct kv_range){ .partition = partitions[i], .from = SLICE("1k") },
                       keys + 1, 3);
    }
    kv_expect_keys(env, &(struct kv_range){ .partition = SLICE("o/b/") }, NULL, 0);
}

static void ranges_have_their_start_and_not_their_end(struct kv_env *env)
{
    static const struct slice keys[] = { SLICE_INIT("b"), SLICE_INIT("d"), SLICE_INIT("f") };
    static const struct {
        struct slice from, to;
        unsigned first, n;
    } rows[] = {
        { SLICE_INIT(""), SLICE_INIT(""), 0, 3 },   { SLICE_INIT("b"), SLICE_INIT("f"), 0, 2 },
        { SLICE_INIT("a"), SLICE_INIT("b"), 0, 0 }, { SLICE_INIT("b\0"), SLICE_INIT("f\0"), 1, 2 },
        { SLICE_INIT("d"), SLICE_INIT("d"), 0, 0 }, { SLICE_INIT("f"), SLICE_INIT("b"), 0, 0 },
        { SLICE_INIT("g"), SLICE_INIT(""), 0, 0 },  { SLICE_INIT("c"), SLICE_INIT(""), 1, 2 },
        { SLICE_INIT(""), SLICE_INIT("e"), 0, 2 },  { SLICE_INIT("b"), SLICE_INIT("b\0"), 0, 1 },
    };

    for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
        kv_put1(env, P, keys[i], SLICE("v"));
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        kv_expect_keys(env,
                       &(struct kv_range){ .partition = P, .from = rows[i].from, .to = rows[i].to },
                       keys + rows[i].first, rows[i].n);
}

struct fill {
    struct slice partition;
    unsigned n;
    struct slice value;
};

static struct slice number_key(char buf[16], unsigned i)
{
    return slice_of(buf, (size_t)snprintf(buf, 16, "k%06u", i));
}

/* Keys k000000, k000002 and so on. */
static enum rc put_even(struct kv_txn *txn, void *arg)
{
    const struct fill *f = arg;
    char buf[16];
    enum rc rc = RC_OK;

    for (unsigned i = 0; !rc && i < f->n; i++)
        rc = kv_txn_put(txn, f->partition, number_key(buf, i * 2), f->value);
    return rc;
}

static void fill(struct kv_env *env, unsigned n, struct slice value)
{
    struct fill f = { .partition = P, .n = n, .value = value };

    CHECK_OK(kv_transact(env->kv, P, put_even, &f));
}

static void seeks_go_forward_to_the_first_at_or_behind(struct kv_env *env)
{
    struct kv_range range = { .partition = P, .from = SLICE("k000100"), .to = SLICE("k001900") };
    struct kv_scan *scan;
    struct kv_item item;
    uint64_t random = 42;
    char buf[16];

    fill(env, 1000, SLICE("v"));
    CHECK_OK(kv_scan_open(env->kv, &range, &scan));
    CHECK_OK(kv_scan_seek(scan, SLICE("a")));
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, SLICE("k000100")));
    for (unsigned at = 102; at < 1900;) {
        unsigned to = at + (unsigned)(kv_random(&random) % (kv_random(&random) % 3 ? 9 : 150));

        CHECK_OK(kv_scan_seek(scan, number_key(buf, to)));
        if (to > 1898) {
            CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
            break;
        }
        to += to % 2;
        for (unsigned steps = (unsigned)kv_random(&random) % 3 + 1; steps && to < 1900; steps--) {
            CHECK_OK(kv_scan_next(scan, &item));
            CHECK(slice_eq(item.key, number_key(buf, to)));
            to += 2;
        }
        at = to;
    }
    CHECK_OK(kv_scan_seek(scan, SLICE("k001900")));
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    CHECK_OK(kv_scan_seek(scan, SLICE("z")));
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    kv_scan_close(scan);
}

static void seeks_pass_a_common_prefix(struct kv_env *env)
{
    static const struct slice keys[] = { SLICE_INIT("a"),   SLICE_INIT("d/1"), SLICE_INIT("d/2"),
                                         SLICE_INIT("d/3"), SLICE_INIT("e"),   SLICE_INIT("f") };
    struct kv_scan *scan;
    struct kv_item item;

    for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
        kv_put1(env, P, keys[i], SLICE("v"));
    CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &scan));
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, SLICE("d/1")));
    CHECK_OK(kv_scan_seek(scan, SLICE("d0"))); /* '0' follows '/' */
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, SLICE("e")));
    kv_scan_close(scan);
}

static void head_scans_keep_the_start_of_values(struct kv_env *env)
{
    static const size_t sizes[] = { 0, 1, 255, 256, 257, 5000, 70000 };
    char *value = malloc(70000), key = 'a';
    struct kv_item item;
    struct kv_scan *scan;

    CHECK(value);
    for (size_t i = 0; i < 70000; i++)
        value[i] = (char)(i * 31 >> 3);
    for (unsigned i = 0; i < ARRAY_LEN(sizes); i++, key++)
        kv_put1(env, P, slice_of(&key, 1), slice_of(value, sizes[i]));
    for (unsigned flags = 0; flags <= KV_HEAD; flags++) {
        CHECK_OK(
            kv_scan_open(env->kv, &(struct kv_range){ .partition = P, .flags = flags }, &scan));
        for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
            CHECK_OK(kv_scan_next(scan, &item));
            CHECK(item.value.n <= sizes[i]);
            CHECK(item.value.n >= (flags ? MIN(sizes[i], (size_t)KV_HEAD_SIZE) : sizes[i]));
            CHECK(slice_eq(item.value, slice_of(value, item.value.n)));
        }
        CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
        kv_scan_close(scan);
    }
    free(value);
}

/* Deletes every fourth, overwrites the rest, and puts odd keys between. */
static enum rc churn(struct kv_txn *txn, void *arg)
{
    const unsigned *n = arg;
    char buf[16];
    enum rc rc = RC_OK;

    for (unsigned i = 0; !rc && i < *n; i++) {
        struct slice key = number_key(buf, i * 2);

        rc = i % 4 ? kv_txn_put(txn, P, key, SLICE("new")) : kv_txn_delete(txn, P, key);
        if (!rc)
            rc = kv_txn_put(txn, P, number_key(buf, i * 2 + 1), SLICE("new"));
    }
    return rc;
}

static void scans_show_one_snapshot(struct kv_env *env)
{
    unsigned n = 400;
    struct kv_scan *scan;
    struct kv_item item;
    char buf[16];

    fill(env, n, SLICE("old"));
    CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &scan));
    for (unsigned i = 0; i < n; i++) {
        if (i == 3 || i == 200)
            CHECK_OK(kv_transact(env->kv, P, churn, &n));
        if (i == 100)
            kv_delete1(env, P, SLICE("k000790"));
        CHECK_OK(kv_scan_next(scan, &item));
        CHECK(slice_eq(item.key, number_key(buf, i * 2)));
        CHECK(slice_eq(item.value, SLICE("old")));
    }
    CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
    kv_scan_close(scan);
    kv_expect_absent(env, P, SLICE("k000000"));
    kv_expect(env, P, SLICE("k000001"), SLICE("new"));
    kv_expect(env, P, SLICE("k000002"), SLICE("new"));
}

static void items_live_until_the_next_call(struct kv_env *env)
{
    struct kv_scan *a, *b;
    struct kv_item x, y;
    char buf[16];

    fill(env, 300, SLICE("value"));
    CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &a));
    CHECK_OK(kv_scan_open(env->kv, &(struct kv_range){ .partition = P }, &b));
    for (unsigned i = 0; i < 300; i++) {
        CHECK_OK(kv_scan_next(a, &x));
        CHECK_OK(kv_scan_next(b, &y));
        if (i % 50 == 7)
            kv_delete1(env, P, x.key);
        CHECK(slice_eq(x.key, number_key(buf, i * 2)) && slice_eq(x.value, SLICE("value")));
        CHECK(slice_eq(x.key, y.key) && x.version == y.version);
    }
    kv_scan_close(a);
    kv_scan_close(b);
}

/* ---- limits --------------------------------------------------------------------------------- */

static void sizes_up_to_the_limits_are_kept(struct kv_env *env)
{
    char *big = malloc(KV_VALUE_MAX + 1);
    struct slice partition, key;

    CHECK(big);
    for (size_t i = 0; i <= KV_VALUE_MAX; i++)
        big[i] = (char)(i % 251 + 5);
    partition = slice_of(big, KV_PARTITION_MAX);
    key = slice_of(big, KV_KEY_MAX);
    kv_put1(env, partition, key, slice_of(big, KV_VALUE_MAX));
    kv_expect(env, partition, key, slice_of(big, KV_VALUE_MAX));
    kv_expect_keys(env, &(struct kv_range){ .partition = partition }, &key, 1);
    kv_delete1(env, partition, key);
    kv_expect_absent(env, partition, key);
    free(big);
}

static void check_refused(struct kv_txn *txn, char *big)
{
    struct slice partition = slice_of(big, KV_PARTITION_MAX + 1);
    struct slice key = slice_of(big, KV_KEY_MAX + 1);
    int64_t deltas[KV_COUNTERS_MAX + 1] = { 1 };
    struct arena a;
    struct kv_item item;

    arena_init(&a, SIZE_MAX);
    CHECK_RC(kv_txn_put(txn, partition, SLICE("k"), SLICE("")), RC_TOO_LARGE);
    CHECK_RC(kv_txn_put(txn, P, key, SLICE("")), RC_TOO_LARGE);
    CHECK_RC(kv_txn_put(txn, P, SLICE("k"), slice_of(big, KV_VALUE_MAX + 1)), RC_TOO_LARGE);
    CHECK_RC(kv_txn_put(txn, SLICE(""), SLICE("k"), SLICE("")), RC_INVALID);
    CHECK_RC(kv_txn_put(txn, P, SLICE(""), SLICE("")), RC_INVALID);
    CHECK_RC(kv_txn_delete(txn, P, key), RC_TOO_LARGE);
    CHECK_RC(kv_txn_delete(txn, P, SLICE("")), RC_INVALID);
    CHECK_RC(kv_txn_add(txn, P, SLICE("k"), deltas, KV_COUNTERS_MAX + 1), RC_TOO_LARGE);
    CHECK_RC(kv_txn_add(txn, P, SLICE("k"), deltas, 0), RC_INVALID);
    CHECK_RC(kv_txn_get(txn, key, &a, &item), RC_TOO_LARGE);
    CHECK_RC(kv_txn_get(txn, SLICE(""), &a, &item), RC_INVALID);
    arena_fini(&a);
}

static void sizes_beyond_the_limits_are_refused(struct kv_env *env)
{
    char *big = calloc(1, KV_VALUE_MAX + 1);
    struct slice partition = slice_of(big, KV_PARTITION_MAX + 1);
    struct kv_scan *scan;
    struct kv_txn *txn;
    struct kv_item item;
    struct arena a;

    CHECK(big);
    arena_init(&a, SIZE_MAX);
    CHECK_RC(kv_get(env->kv, partition, SLICE("k"), &a, &item), RC_TOO_LARGE);
    CHECK_RC(kv_get(env->kv, SLICE(""), SLICE("k"), &a, &item), RC_INVALID);
    CHECK_RC(kv_get(env->kv, P, SLICE(""), &a, &item), RC_INVALID);
    CHECK_RC(kv_scan_open(env->kv, &(struct kv_range){ .partition = partition }, &scan),
             RC_TOO_LARGE);
    CHECK_RC(kv_scan_open(env->kv, &(struct kv_range){ .partition = SLICE("") }, &scan),
             RC_INVALID);
    CHECK_RC(kv_begin(env->kv, partition, &txn), RC_TOO_LARGE);
    CHECK_RC(kv_begin(env->kv, SLICE(""), &txn), RC_INVALID);
    CHECK_OK(kv_begin(env->kv, P, &txn));
    check_refused(txn, big);
    CHECK_OK(kv_txn_put(txn, P, SLICE("fine"), SLICE("v")));
    CHECK_OK(kv_txn_commit(txn));
    kv_txn_free(txn);
    kv_expect_keys(env, &(struct kv_range){ .partition = P }, &SLICE("fine"), 1);
    arena_fini(&a);
    free(big);
}

static void transactions_have_a_limit_in_bytes(struct kv_env *env)
{
    char *big = calloc(1, KV_VALUE_MAX);
    struct kv_txn *txn;
    char key = 'a';

    CHECK(big);
    CHECK_OK(kv_begin(env->kv, P, &txn));
    for (; key < 'a' + 3; key++)
        CHECK_OK(kv_txn_put(txn, P, slice_of(&key, 1), slice_of(big, KV_VALUE_MAX)));
    CHECK_RC(kv_txn_put(txn, P, SLICE("x"), slice_of(big, KV_VALUE_MAX)), RC_TOO_LARGE);
    CHECK_OK(kv_txn_put(txn, P, SLICE("x"), slice_of(big, KV_VALUE_MAX - 100)));
    CHECK_RC(kv_txn_put(txn, P, SLICE("y"), slice_of(big, 200)), RC_TOO_LARGE);
    CHECK_OK(kv_txn_commit(txn));
    kv_txn_free(txn);
    kv_expect(env, P, SLICE("c"), slice_of(big, KV_VALUE_MAX));
    kv_expect_absent(env, P, SLICE("y"));
    free(big);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void probes_and_figures_work(struct kv_env *env)
{
    struct kv_stats before, after;

    CHECK_OK(kv_probe(env->kv));
    kv_stats(env->kv, &before);
    for (unsigned i = 0; i < 5; i++)
        kv_put1(env, P, SLICE("k"), SLICE("v"));
    kv_expect(env, P, SLICE("k"), SLICE("v"));
    kv_expect_keys(env, &(struct kv_range){ .partition = P }, &SLICE("k"), 1);
    kv_stats(env->kv, &after);
    CHECK(after.commits >= before.commits + 5);
    CHECK(after.gets > before.gets && after.scans > before.scans);
    CHECK(after.scan_items > before.scan_items);
    CHECK(kv_name(env->kv)[0]);
}

static void committed_entries_survive_reopen(struct kv_env *env)
{
    unsigned n = 300;
    int64_t columns[2];
    struct kv_txn *txn;
    uint64_t version;

    fill(env, n, SLICE("old"));
    CHECK_OK(kv_transact(env->kv, P, churn, &n));
    CHECK_OK(kv_begin(env->kv, P, &txn));
    CHECK_OK(kv_txn_add(txn, SLICE("c"), SLICE("n"), (int64_t[]){ 5, -6 }, 2));
    CHECK_OK(kv_txn_put_expiring(txn, P, SLICE("soon"), SLICE("v"), clock_wall_ns() + 1));
    CHECK_OK(
        kv_txn_put_expiring(txn, P, SLICE("late"), SLICE("v"), clock_wall_ns() + 3600 * NS_PER_S));
    CHECK_OK(kv_txn_commit(txn));
    kv_txn_free(txn);
    CHECK_OK(kv_begin(env->kv, P, &txn));
    CHECK_OK(kv_txn_put(txn, P, SLICE("never committed"), SLICE("v")));
    kv_txn_free(txn);
    version = kv_version1(env, P, SLICE("k000002"));
    for (unsigned round = 0; round < 2; round++) {
        CHECK_OK(env->suite->reopen(env->suite->arg, &env->kv));
        kv_expect(env, P, SLICE("k000001"), SLICE("new"));
        kv_expect(env, P, SLICE("k000598"), SLICE("new"));
        kv_expect(env, P, SLICE("late"), SLICE("v"));
        kv_expect_absent(env, P, SLICE("k000000"));
        kv_expect_absent(env, P, SLICE("soon"));
        kv_expect_absent(env, P, SLICE("never committed"));
        CHECK(kv_version1(env, P, SLICE("k000002")) == version);
        kv_counters1(env, SLICE("c"), SLICE("n"), columns, 2);
        CHECK(columns[0] == 5 && columns[1] == -6);
    }
    kv_put1(env, P, SLICE("k000002"), SLICE("new"));
    CHECK(kv_version1(env, P, SLICE("k000002")) != version);
}

/* clang-format off */
#define CASE(fn) { #fn, fn, false }
/* clang-format on */
const struct kv_case kv_basic_cases[] = {
    CASE(entries_are_put_found_and_deleted),
    CASE(a_miss_leaves_the_result_untouched),
    CASE(versions_change_with_every_write),
    CASE(keys_are_ordered_by_their_bytes),
    CASE(partitions_are_apart),
    CASE(ranges_have_their_start_and_not_their_end),
    CASE(seeks_go_forward_to_the_first_at_or_behind),
    CASE(seeks_pass_a_common_prefix),
    CASE(head_scans_keep_the_start_of_values),
    CASE(scans_show_one_snapshot),
    CASE(items_live_until_the_next_call),
    CASE(sizes_up_to_the_limits_are_kept),
    CASE(sizes_beyond_the_limits_are_refused),
    CASE(transactions_have_a_limit_in_bytes),
    CASE(probes_and_figures_work),
    { "committed_entries_survive_reopen", committed_entries_survive_reopen, true },
};
const unsigned kv_basic_cases_n = ARRAY_LEN(kv_basic_cases);
