/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, deletes and listings against a model: a sorted array of keys. */
#include "meta_test.h"

#define KEYS 10000
#define KEY_MAX 40

struct model_key {
    size_t n, size;
    bool present;
    char p[KEY_MAX];
};

static struct model_key keys[KEYS];
static size_t keys_n;
static uint64_t seed = 20250101;

static uint32_t rnd(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static struct slice key_at(size_t i)
{
    return slice_of(keys[i].p, keys[i].n);
}

static int key_cmp(const void *a, const void *b)
{
    const struct model_key *x = a, *y = b;

    return slice_cmp(slice_of(x->p, x->n), slice_of(y->p, y->n));
}

/* Few letters, so that prefixes and delimiters are shared; some bytes of UTF-8, controls, and 0xff.
 */
static void make_key(struct model_key *k)
{
    static const char *parts[] = {
        "a",    "b",    "/",   "//", "dir/", "\xc3\xa9", "\xf0\x9f\x98\x80",
        "\xff", "\x01", "x--", "--", "7",    " ",        "\xff\xff/"
    };
    unsigned n = 1 + rnd(9);

    k->n = 0;
    while (n--) {
        const char *part = parts[rnd(ARRAY_LEN(parts))];

        if (k->n + strlen(part) > KEY_MAX)
            break;
        memcpy(k->p + k->n, part, strlen(part));
        k->n += strlen(part);
    }
}

static void make_keys(void)
{
    size_t n = 0;

    memset(keys, 0, sizeof keys);
    for (size_t i = 0; i < KEYS; i++)
        make_key(&keys[i]);
    qsort(keys, KEYS, sizeof keys[0], key_cmp);
    for (size_t i = 0; i < KEYS; i++)
        if (!n || key_cmp(&keys[n - 1], &keys[i]))
            keys[n++] = keys[i];
    keys_n = n;
}

struct page {
    size_t n;
    struct {
        bool is_prefix;
        size_t n, size;
        char p[KEY_MAX];
    } entries[1000];
    bool truncated;
};

/* What a listing should give, the plain way. */
static void model_list(const struct meta_list_params *p, struct page *page)
{
    memset(page, 0, offsetof(struct page, entries));
    page->truncated = false;
    for (size_t i = 0; i < keys_n && p->max; i++) {
        struct slice key = key_at(i), entry = key;
        bool is_prefix = false;

        if (!keys[i].present || !slice_starts(key, p->prefix))
            continue;
        if (p->delimiter.n) {
            size_t at = slice_find(slice_from(key, p->prefix.n), p->delimiter);

            if (at != SIZE_MAX) {
                entry = slice_first(key, p->prefix.n + at + p->delimiter.n);
                is_prefix = true;
            }
        }
        if (p->after.n &&
            (slice_cmp(entry, p->after) <= 0 || (is_prefix && slice_starts(p->after, entry))))
            continue;
        if (is_prefix && page->n && page->entries[page->n - 1].is_prefix &&
            slice_eq(entry, slice_of(page->entries[page->n - 1].p, page->entries[page->n - 1].n)))
            continue;
        if (page->n == p->max) {
            page->truncated = true;
            return;
        }
        page->entries[page->n].is_prefix = is_prefix;
        page->entries[page->n].n = entry.n;
        page->entries[page->n].size = is_prefix ? 0 : keys[i].size;
        memcpy(page->entries[page->n].p, entry.p, entry.n);
        page->n++;
    }
}

static enum rc collect(void *arg, const struct meta_list_entry *e)
{
    struct page *page = arg;

    CHECK(page->n < 1000 && e->key.n <= KEY_MAX);
    page->entries[page->n].is_prefix = e->is_prefix;
    page->entries[page->n].n = e->key.n;
    page->entries[page->n].size = e->head.size;
    memcpy(page->entries[page->n].p, e->key.p, e->key.n);
    page->n++;
    return RC_OK;
}

static struct page want, got;

static void check_list(struct world *w, const struct meta_list_params *p, struct slice *ret_next)
{
    struct meta_list_result result;

    model_list(p, &want);
    got.n = 0;
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, p, collect, &got, &result) == RC_OK);
    CHECK(got.n == want.n && result.n == want.n);
    CHECK(result.truncated == want.truncated);
    for (size_t i = 0; i < want.n; i++) {
        CHECK(got.entries[i].n == want.entries[i].n);
        CHECK(!memcmp(got.entries[i].p, want.entries[i].p, want.entries[i].n));
        CHECK(got.entries[i].is_prefix == want.entries[i].is_prefix);
        CHECK(got.entries[i].size == want.entries[i].size);
    }
    if (result.truncated)
        CHECK(slice_eq(result.next,
                       slice_of(want.entries[want.n - 1].p, want.entries[want.n - 1].n)));
    *ret_next = result.next;
    if (!result.truncated)
        *ret_next = SLICE_NONE;
}

static void change_some(struct world *w, unsigned n)
{
    while (n--) {
        size_t i = rnd((uint32_t)keys_n);
        bool existed = false;

        if (rnd(4)) {
            keys[i].size = rnd(100);
            CHECK(put_sized(w, key_at(i), keys[i].size, NULL) == RC_OK);
            keys[i].present = true;
        } else {
            CHECK(meta_object_delete(w->meta, &w->bucket, key_at(i), NULL, &existed) == RC_OK);
            CHECK(existed == keys[i].present);
            keys[i].present = false;
        }
    }
}

static void check_stats(struct world *w)
{
    struct meta_bucket_stats stats;
    int64_t objects = 0, bytes = 0;

    for (size_t i = 0; i < keys_n; i++)
        if (keys[i].present) {
            objects++;
            bytes += (int64_t)keys[i].size;
        }
    CHECK(meta_bucket_stats(w->meta, &w->bucket, &stats) == RC_OK);
    CHECK(stats.objects == objects && stats.bytes == bytes);
}

static struct slice some_prefix(void)
{
    struct slice key = key_at(rnd((uint32_t)keys_n));

    return rnd(3) ? slice_first(key, rnd(4)) : SLICE_NONE;
}

static void walk_pages(struct world *w)
{
    static const struct slice delimiters[] = { SLICE_INIT(""),     SLICE_INIT("/"),
                                               SLICE_INIT("//"),   SLICE_INIT("--"),
                                               SLICE_INIT("\xff"), SLICE_INIT("a"),
                                               SLICE_INIT("dir/") };
    struct meta_list_params p = { .prefix = some_prefix(),
                                  .delimiter = delimiters[rnd(ARRAY_LEN(delimiters))],
                                  .max = 1 + rnd(rnd(2) ? 1000 : 10) };

    if (!rnd(4))
        p.after = slice_first(key_at(rnd((uint32_t)keys_n)), 1 + rnd(KEY_MAX));
    for (unsigned pages = 0; pages < 20; pages++) {
        struct slice next;

        check_list(w, &p, &next);
        if (!next.n)
            break;
        p.after = next;
    }
}

static void model_body(void *arg)
{
    struct world *w = arg;
    struct meta_list_params none = { .max = 0 };
    struct slice next;

    make_keys();
    world_bucket(w, SLICE("listing"));
    for (unsigned round = 0; round < 6; round++) {
        change_some(w, 2500);
        check_stats(w);
        check_list(w, &none, &next);
        for (unsigned i = 0; i < 25; i++)
            walk_pages(w);
        arena_reset(&w->arena);
    }
}

static void run_model(unsigned shards)
{
    struct world w;

    world_open(&w, shards);
    on_runtime(1, model_body, &w);
    world_close(&w);
}

static void listings_agree_with_a_model_on_one_shard(void **state)
{
    run_model(1);
}

static void listings_agree_with_a_model_on_seven_shards(void **state)
{
    run_model(7);
}

static enum rc refuse_third(void *arg, const struct meta_list_entry *e)
{
    unsigned *n = arg;

    return ++*n == 3 ? RC_TOO_LARGE : RC_OK;
}

static void emit_body(void *arg)
{
    struct world *w = arg;
    struct meta_list_params p = { .max = 1000 };
    struct meta_list_result result;
    unsigned n = 0;
    char key[META_KEY_MAX + 1];

    world_bucket(w, SLICE("listing"));
    memset(key, 0xff, sizeof key);
    for (unsigned i = 1; i <= 5; i++)
        CHECK(put_sized(w, slice_of(key, 200 * i), 1, NULL) == RC_OK);
    CHECK(put_sized(w, slice_of(key, META_KEY_MAX), 1, NULL) == RC_OK);
    CHECK(put_sized(w, slice_of(key, META_KEY_MAX + 1), 1, NULL) == RC_TOO_LARGE);
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &p, refuse_third, &n, &result) == RC_TOO_LARGE);
    CHECK(n == 3);
    /* A prefix of 0xff alone has no successor among keys, a page border at the longest key works.
     */
    p.prefix = slice_of(key, 1000);
    p.max = 1;
    n = 10;
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &p, refuse_third, &n, &result) == RC_OK);
    CHECK(result.truncated && result.n == 1 && result.next.n == 1000);
    p.after = result.next;
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &p, refuse_third, &n, &result) == RC_OK);
    CHECK(!result.truncated && result.n == 1 && result.next.n == META_KEY_MAX);
    p.after = result.next;
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &p, refuse_third, &n, &result) == RC_OK);
    CHECK(!result.truncated && result.n == 0);
    p.prefix = slice_of(key, META_KEY_MAX + 1);
    p.after = SLICE_NONE;
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &p, refuse_third, &n, &result) == RC_OK);
    CHECK(result.n == 0);
}

static void listings_end_with_the_callback_and_take_longest_keys(void **state)
{
    struct world w;

    world_open(&w, 2);
    on_runtime(1, emit_body, &w);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listings_agree_with_a_model_on_one_shard),
        cmocka_unit_test(listings_agree_with_a_model_on_seven_shards),
        cmocka_unit_test(listings_end_with_the_callback_and_take_longest_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
