/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random steps, compared with a sorted array that does the same.
 */
#include "kv_suite_priv.h"

#define ENTRIES_MAX 512u
#define NAME_MAX_BYTES 4u
#define VALUE_MAX_BYTES 400u

struct entry {
    unsigned partition;
    char key[NAME_MAX_BYTES];
    size_t key_n;
    char value[VALUE_MAX_BYTES];
    size_t value_n;
};

struct model {
    struct entry entries[ENTRIES_MAX];
    unsigned n;
};

static const struct slice partitions[] = { SLICE_INIT("m"), SLICE_INIT("m\0"), SLICE_INIT("ma") };

static struct slice entry_key(const struct entry *e)
{
    return slice_of(e->key, e->key_n);
}

static struct slice entry_value(const struct entry *e)
{
    return slice_of(e->value, e->value_n);
}

/* The first entry at or behind (partition, key). */
static unsigned model_seek(const struct model *m, unsigned partition, struct slice key)
{
    unsigned i = 0;

    while (i < m->n &&
           (m->entries[i].partition < partition || (m->entries[i].partition == partition &&
                                                    slice_cmp(entry_key(&m->entries[i]), key) < 0)))
        i++;
    return i;
}

static bool model_has(const struct model *m, unsigned at, unsigned partition, struct slice key)
{
    return at < m->n && m->entries[at].partition == partition &&
           slice_eq(entry_key(&m->entries[at]), key);
}

static void model_put(struct model *m, unsigned partition, struct slice key, struct slice value)
{
    unsigned at = model_seek(m, partition, key);
    struct entry *e = &m->entries[at];

    if (!model_has(m, at, partition, key)) {
        CHECK(m->n < ENTRIES_MAX);
        memmove(e + 1, e, (m->n++ - at) * sizeof *e);
    }
    *e = (struct entry){ .partition = partition, .key_n = key.n, .value_n = value.n };
    memcpy(e->key, key.p, key.n);
    memcpy(e->value, value.p, value.n);
}

static void model_delete(struct model *m, unsigned partition, struct slice key)
{
    unsigned at = model_seek(m, partition, key);

    if (model_has(m, at, partition, key)) {
        struct entry *e = &m->entries[at];

        memmove(e, e + 1, (--m->n - at) * sizeof *e);
    }
}

static unsigned pick_partition(uint64_t *random)
{
    return (unsigned)(kv_random(random) % ARRAY_LEN(partitions));
}

/* Few different ones, so that they meet; may be empty when `empty`. */
static struct slice pick_key(uint64_t *random, char *buf, bool empty)
{
    static const char bytes[] = { 0, 'a', 'b', (char)0xff };
    size_t n = kv_random(random) % 3 + !empty;

    for (size_t i = 0; i < n; i++)
        buf[i] = bytes[kv_random(random) % sizeof bytes];
    return slice_of(buf, n);
}

static void write_some(struct kv_env *env, struct model *m, uint64_t *random, char *scratch)
{
    unsigned home = pick_partition(random);
    bool commit = kv_random(random) % 5;
    struct model *next = malloc(sizeof *next);
    struct kv_txn *txn;
    char buf[NAME_MAX_BYTES];

    CHECK(next);
    *next = *m;
    CHECK_OK(kv_begin(env->kv, partitions[home], &txn));
    for (unsigned n = (unsigned)kv_random(random) % 6; n > 0; n--) {
        unsigned p = pick_partition(random);
        struct slice key = pick_key(random, buf, false);
        struct slice value =
            slice_of(scratch + kv_random(random) % 100, kv_random(random) % VALUE_MAX_BYTES);

        if (kv_random(random) % 3) {
            CHECK_OK(kv_txn_put(txn, partitions[p], key, value));
            model_put(next, p, key, value);
        } else {
            CHECK_OK(kv_txn_delete(txn, partitions[p], key));
            model_delete(next, p, key);
        }
    }
    if (commit) {
        CHECK_OK(kv_txn_commit(txn));
        *m = *next;
    }
    kv_txn_free(txn);
    free(next);
}

static void get_one(struct kv_env *env, const struct model *m, uint64_t *random)
{
    char buf[NAME_MAX_BYTES];
    unsigned p = pick_partition(random);
    struct slice key = pick_key(random, buf, false);
    unsigned at = model_seek(m, p, key);

    if (model_has(m, at, p, key))
        kv_expect(env, partitions[p], key, entry_value(&m->entries[at]));
    else
        kv_expect_absent(env, partitions[p], key);
}

static void check_next(struct kv_scan *scan, const struct model *m, const struct kv_range *range,
                       unsigned partition, unsigned *at)
{
    const struct entry *e = &m->entries[*at];
    struct kv_item item;

    if (*at == m->n || e->partition != partition ||
        (range->to.n && slice_cmp(entry_key(e), range->to) >= 0)) {
        CHECK_RC(kv_scan_next(scan, &item), RC_NOT_FOUND);
        return;
    }
    CHECK_OK(kv_scan_next(scan, &item));
    CHECK(slice_eq(item.key, entry_key(e)));
    if (range->flags & KV_HEAD)
        CHECK(item.value.n >= MIN(e->value_n, (size_t)KV_HEAD_SIZE) &&
              slice_starts(entry_value(e), item.value));
    else
        CHECK(slice_eq(item.value, entry_value(e)));
    ++*at;
}

static void scan_some(struct kv_env *env, const struct model *m, uint64_t *random)
{
    char from[NAME_MAX_BYTES], to[NAME_MAX_BYTES], buf[NAME_MAX_BYTES];
    unsigned p = pick_partition(random);
    struct kv_range range = { .partition = partitions[p],
                              .from = pick_key(random, from, true),
                              .to = pick_key(random, to, true),
                              .flags = (unsigned)kv_random(random) & KV_HEAD };
    unsigned at = model_seek(m, p, range.from);
    bool whole = kv_random(random) % 4 == 0;
    struct kv_scan *scan;

    CHECK_OK(kv_scan_open(env->kv, &range, &scan));
    for (unsigned n = whole ? m->n + 1 : (unsigned)kv_random(random) % 20; n > 0; n--) {
        if (!whole && kv_random(random) % 5 == 0) {
            struct slice key = pick_key(random, buf, true);
            unsigned to_at = model_seek(m, p, key);

            if (to_at < at)
                continue; /* backwards */
            CHECK_OK(kv_scan_seek(scan, key));
            at = to_at;
        }
        check_next(scan, m, &range, p, &at);
    }
    kv_scan_close(scan);
}

static void random_steps_agree_with_a_sorted_array(struct kv_env *env)
{
    struct model *m = calloc(1, sizeof *m);
    char scratch[VALUE_MAX_BYTES + 100];
    uint64_t random = UINT64_C(0x853c49e6748fea9b);
    unsigned steps = kv_effort(env, 3000);

    CHECK(m);
    for (size_t i = 0; i < sizeof scratch; i++)
        scratch[i] = (char)(i * 7 ^ i >> 3);
    for (unsigned i = 0; i < steps; i++) {
        switch (kv_random(&random) % 4) {
        case 0:
        case 1:
            write_some(env, m, &random, scratch);
            break;
        case 2:
            get_one(env, m, &random);
            break;
        default:
            scan_some(env, m, &random);
        }
        if (env->suite->durable && env->suite->reopen && i % 500 == 499)
            CHECK_OK(env->suite->reopen(env->suite->arg, &env->kv));
    }
    free(m);
}

const struct kv_case kv_model_cases[] = {
    { "random_steps_agree_with_a_sorted_array", random_steps_agree_with_a_sorted_array, false },
};
const unsigned kv_model_cases_n = ARRAY_LEN(kv_model_cases);
