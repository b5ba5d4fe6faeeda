/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/keys.h"
#include "meta/row.h"
#include "meta_test.h"

static enum rc create(struct world *w, const char *name, const char *owner)
{
    struct meta_bucket b = { .name = slice_str(name),
                             .owner = slice_str(owner),
                             .region = SLICE("eu-1") };

    return meta_bucket_create(w->meta, &w->arena, &b);
}

static void life_body(void *arg)
{
    struct world *w = arg;
    struct meta_bucket b = { .name = SLICE("photos"), .owner = SLICE("alice") }, got;
    struct meta_bucket_stats stats;

    CHECK(meta_bucket_get(w->meta, &w->arena, b.name, &got) == RC_NOT_FOUND);
    CHECK(note_error(RC_NOT_FOUND) == S3E_NO_SUCH_BUCKET);
    CHECK(create(w, "Photos", "alice") == RC_INVALID);
    CHECK(note_error(RC_INVALID) == S3E_INVALID_BUCKET_NAME);
    CHECK(create(w, "photos", "alice") == RC_OK);
    CHECK(create(w, "photos", "bob") == RC_EXISTS);
    CHECK(note_error(RC_EXISTS) == S3E_BUCKET_ALREADY_EXISTS);
    CHECK(meta_bucket_create(w->meta, &w->arena, &b) == RC_EXISTS);
    CHECK(note_error(RC_EXISTS) == S3E_BUCKET_ALREADY_OWNED_BY_YOU);
    CHECK(slice_eq(b.region, SLICE("eu-1")));
    for (unsigned i = 0; i < 2; i++) { /* from the store, from the cache */
        CHECK(meta_bucket_get(w->meta, &w->arena, SLICE("photos"), &got) == RC_OK);
        CHECK(!memcmp(got.id, b.id, META_BUCKET_ID_SIZE) && slice_eq(got.owner, SLICE("alice")));
        CHECK(slice_eq(got.name, b.name) && slice_eq(got.region, b.region));
        CHECK(got.created_ns == b.created_ns && got.index_shards == 3);
    }
    w->bucket = got;
    CHECK(put_sized(w, SLICE("k"), 10, NULL) == RC_OK);
    CHECK(meta_bucket_delete(w->meta, &got) == RC_EXISTS);
    CHECK(note_error(RC_EXISTS) == S3E_BUCKET_NOT_EMPTY);
    CHECK(meta_bucket_stats(w->meta, &got, &stats) == RC_OK);
    CHECK(stats.objects == 1 && stats.bytes == 10);
    CHECK(meta_object_delete(w->meta, &got, SLICE("k"), NULL, NULL) == RC_OK);
    CHECK(meta_bucket_delete(w->meta, &got) == RC_OK);
    CHECK(meta_bucket_get(w->meta, &w->arena, b.name, &b) == RC_NOT_FOUND);
    CHECK(meta_bucket_delete(w->meta, &got) == RC_NOT_FOUND);
    CHECK(put_sized(w, SLICE("k"), 10, NULL) == RC_NOT_FOUND);
    CHECK(note_error(RC_NOT_FOUND) == S3E_NO_SUCH_BUCKET);
    CHECK(create(w, "photos", "bob") == RC_OK);
}

static void buckets_live_and_die(void **state)
{
    struct world w;

    world_open(&w, 3);
    on_runtime(1, life_body, &w);
    world_close(&w);
}

static void list_body(void *arg)
{
    struct world *w = arg;
    struct meta_bucket_page page;
    struct slice after = SLICE_NONE;
    unsigned seen = 0;
    char name[32];

    for (unsigned i = 0; i < 25; i++) {
        snprintf(name, sizeof name, "%s-%02u", i % 5 ? "logs" : "data", i);
        CHECK(create(w, name, i == 7 ? "bob" : "alice") == RC_OK);
    }
    do {
        CHECK(meta_bucket_list(w->meta, &w->arena, SLICE("alice"), SLICE("logs-"), after, 6,
                               &page) == RC_OK);
        for (size_t i = 0; i < page.n; i++) {
            CHECK(slice_starts(page.buckets[i].name, SLICE("logs-")));
            CHECK(slice_cmp(after, page.buckets[i].name) < 0);
            after = page.buckets[i].name;
            seen++;
        }
    } while (page.truncated);
    CHECK(seen == 19);
    CHECK(meta_bucket_list(w->meta, &w->arena, SLICE("bob"), SLICE(""), SLICE(""), 1, &page) ==
          RC_OK);
    CHECK(page.n == 1 && !page.truncated && slice_eq(page.buckets[0].name, SLICE("logs-07")));
    CHECK(meta_bucket_list(w->meta, &w->arena, SLICE("alice"), SLICE("data"), SLICE("logs"), 10,
                           &page) == RC_OK);
    CHECK(page.n == 0);
    CHECK(meta_bucket_list(w->meta, &w->arena, SLICE("eve"), SLICE(""), SLICE(""), 10, &page) ==
          RC_OK);
    CHECK(page.n == 0);
}

static void owners_list_their_buckets_in_pages(void **state)
{
    struct world w;

    world_open(&w, 1);
    on_runtime(1, list_body, &w);
    world_close(&w);
}

static void limit_body(void *arg)
{
    struct world *w = arg;
    struct meta *m;

    CHECK(meta_new(&(struct meta_config){ .kv = w->kv, .buckets_per_owner_max = 2 }, &m) == RC_OK);
    for (unsigned i = 0; i < 3; i++) {
        char name[] = "bucket-0";
        struct meta_bucket b = { .name = slice_str(name), .owner = SLICE("alice") };

        name[7] = (char)('0' + i);
        CHECK(meta_bucket_create(m, &w->arena, &b) == (i < 2 ? RC_OK : RC_TOO_LARGE));
    }
    CHECK(note_error(RC_TOO_LARGE) == S3E_TOO_MANY_BUCKETS);
    meta_free(m);
}

static void owners_have_a_limit(void **state)
{
    struct world w;

    world_open(&w, 1);
    on_runtime(1, limit_body, &w);
    world_close(&w);
}

/* ---- delete against put -----------------------------------------------------------------------
 */

#define PUTTERS 12

struct race {
    struct world *world;
    struct wait_group group;
    int acknowledged[PUTTERS];
    int deletes;
};

struct racer {
    struct race *race;
    unsigned index;
};

static void put_racer(void *arg)
{
    struct racer *r = arg;
    char key[] = "key-a";

    key[4] = (char)('a' + r->index);
    for (unsigned i = 0; i < r->index % 4; i++)
        fiber_yield();
    r->race->acknowledged[r->index] = put_sized(r->race->world, slice_str(key), 5, NULL) == RC_OK;
    wait_group_done(&r->race->group);
}

static void delete_racer(void *arg)
{
    struct racer *r = arg;
    enum rc rc;

    for (unsigned i = 0; i < r->index % 3; i++)
        fiber_yield();
    rc = meta_bucket_delete(r->race->world->meta, &r->race->world->bucket);
    CHECK(rc == RC_OK || rc == RC_EXISTS || rc == RC_CONFLICT || rc == RC_NOT_FOUND);
    if (rc == RC_OK)
        __atomic_fetch_add(&r->race->deletes, 1, __ATOMIC_RELAXED);
    wait_group_done(&r->race->group);
}

static void check_partitions_empty(struct world *w)
{
    for (unsigned i = 0; i < w->bucket.index_shards; i++) {
        char buf[KEYS_INDEX_PARTITION_SIZE];
        struct kv_range range = { .partition = keys_index_partition(buf, &w->bucket, i) };
        struct kv_scan *scan;
        struct kv_item item;

        CHECK(kv_scan_open(w->kv, &range, &scan) == RC_OK);
        CHECK(kv_scan_next(scan, &item) == RC_NOT_FOUND);
        kv_scan_close(scan);
    }
}

static void check_race(struct race *race)
{
    struct world *w = race->world;
    unsigned n = 0;

    for (unsigned i = 0; i < PUTTERS; i++) {
        struct meta_object o;
        char key[] = "key-a";

        key[4] = (char)('a' + i);
        n += race->acknowledged[i] != 0;
        if (race->acknowledged[i])
            CHECK(meta_object_get(w->meta, &w->arena, &w->bucket, slice_str(key), true, &o) ==
                  RC_OK);
    }
    CHECK(race->deletes <= 1);
    if (race->deletes) {
        CHECK(n == 0);
        check_partitions_empty(w);
        return;
    }
    /* Whatever the deletes left behind, the bucket still takes writes and can be emptied and
     * deleted. */
    for (unsigned i = 0; i < PUTTERS; i++) {
        char key[] = "key-a";

        key[4] = (char)('a' + i);
        CHECK(put_sized(w, slice_str(key), 1, NULL) == RC_OK);
        CHECK(meta_object_delete(w->meta, &w->bucket, slice_str(key), NULL, NULL) == RC_OK);
    }
    CHECK(meta_bucket_delete(w->meta, &w->bucket) == RC_OK);
    check_partitions_empty(w);
}

static void race_body(void *arg)
{
    struct world *w = arg;
    struct rt *rt = loop_rt(loop_current());
    unsigned won = 0, lost = 0;

    for (unsigned round = 0; round < 150; round++) {
        struct race race = { .world = w };
        struct racer racers[PUTTERS + 2];

        wait_group_init(&race.group);
        world_bucket(w, SLICE("contested"));
        for (unsigned i = 0; i < ARRAY_LEN(racers); i++) {
            /* Deletes come first in some rounds, last in others. */
            unsigned k = round % 2 ? i : (unsigned)ARRAY_LEN(racers) - 1 - i;

            racers[k] = (struct racer){ &race, k < PUTTERS ? k : round };
            wait_group_add(&race.group, 1);
            CHECK(fiber_spawn(rt_loop(rt, k % 2), k < PUTTERS ? put_racer : delete_racer,
                              &racers[k]) == RC_OK);
        }
        CHECK(wait_group_wait(&race.group, NO_DEADLINE) == RC_OK);
        wait_group_fini(&race.group);
        check_race(&race);
        won += race.deletes != 0;
        lost += race.deletes == 0;
        arena_reset(&w->arena);
    }
    CHECK(won + lost == 150 && lost > 0);
}

static void bucket_delete_never_loses_a_put(void **state)
{
    struct world w;

    world_open(&w, 3);
    on_runtime(2, race_body, &w);
    world_close(&w);
}

/* ---- abandoned deletes ------------------------------------------------------------------------
 */

struct leave {
    struct world *world;
    uint64_t row_token, guard_token;
    int64_t since_ms;
};

static enum rc leave_row(struct kv_txn *t, void *arg)
{
    struct leave *l = arg;
    struct row_bucket row = { .bucket = l->world->bucket,
                              .closing_token = l->row_token,
                              .closing_since_ms = (uint64_t)l->since_ms };
    char buf[KV_PARTITION_MAX], index[KEYS_INDEX_PARTITION_SIZE], guard[17] = { 1 };
    struct slice value;
    enum rc rc;

    put_be64(guard + 1, l->guard_token);
    put_be64(guard + 9, (uint64_t)l->since_ms);
    CHECK(row_bucket_encode(&l->world->arena, &row, &value) == RC_OK);
    rc = kv_txn_put(t, keys_bucket_partition(buf, row.bucket.name), KEYS_BUCKET_ROW, value);
    return rc ? rc
              : kv_txn_put(t, keys_index_partition(index, &row.bucket, 0), KEYS_GUARD,
                           slice_of(guard, sizeof guard));
}

static void leave_delete(struct world *w, uint64_t row_token, uint64_t guard_token, int64_t age_ms)
{
    struct leave l = { w, row_token, guard_token, clock_wall_ns() / NS_PER_MS - age_ms };
    char buf[KV_PARTITION_MAX];

    CHECK(kv_transact(w->kv, keys_bucket_partition(buf, w->bucket.name), leave_row, &l) == RC_OK);
}

static void abandoned_body(void *arg)
{
    struct world *w = arg;
    int64_t start;

    world_bucket(w, SLICE("abandoned"));
    leave_delete(w, 7, 7, 60000); /* the gateway died in the middle */
    start = clock_mono_ns();
    CHECK(put_sized(w, SLICE("a"), 1, NULL) == RC_OK);
    leave_delete(w, 0, 7, 0); /* taken back, but for this guard */
    CHECK(put_sized(w, SLICE("b"), 1, NULL) == RC_OK);
    CHECK(clock_mono_ns() - start < 500 * NS_PER_MS);
    leave_delete(w, 9, 9, 0); /* under way */
    CHECK(put_sized(w, SLICE("c"), 1, NULL) == RC_CONFLICT);
    CHECK(note_error(RC_CONFLICT) == S3E_OPERATION_ABORTED);
    CHECK(meta_bucket_delete(w->meta, &w->bucket) == RC_EXISTS);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("a"), NULL, NULL) == RC_OK);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("b"), NULL, NULL) == RC_OK);
    CHECK(meta_bucket_delete(w->meta, &w->bucket) == RC_OK); /* takes over */
    check_partitions_empty(w);
}

static void abandoned_deletes_are_taken_back(void **state)
{
    struct world w;

    world_open(&w, 1);
    on_runtime(1, abandoned_body, &w);
    world_close(&w);
}

/* ---- faults -----------------------------------------------------------------------------------
 */

static void faults_body(void *arg)
{
    struct world *w = arg;
    struct kv_fault fault = { .rc = RC_UNAVAILABLE };
    bool passed = false;

    for (unsigned mode = 0; mode < 3; mode++, passed = false)
        for (fault.mode = (enum kv_fault_mode)mode, fault.nth = 0; !passed; fault.nth++) {
            struct meta_bucket got;
            enum rc rc;

            world_bucket(w, SLICE("faulty"));
            kv_faulty_arm(w->kv, &fault);
            rc = meta_bucket_delete(w->meta, &w->bucket);
            passed = kv_faulty_injected(w->kv) == 0;
            kv_faulty_disarm(w->kv);
            CHECK(!passed || rc == RC_OK);
            if (rc == RC_OK) {
                CHECK(meta_bucket_get(w->meta, &w->arena, w->bucket.name, &got) == RC_NOT_FOUND);
                check_partitions_empty(w);
                continue;
            }
            CHECK(meta_bucket_get(w->meta, &w->arena, w->bucket.name, &got) == RC_OK);
            CHECK(put_sized(w, SLICE("k"), 1, NULL) == RC_OK);
            CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), NULL, NULL) == RC_OK);
            CHECK(meta_bucket_delete(w->meta, &w->bucket) == RC_OK);
        }
}

static void a_failed_delete_leaves_the_bucket_usable(void **state)
{
    struct world w;

    world_open(&w, 2);
    on_runtime(1, faults_body, &w);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_live_and_die),
        cmocka_unit_test(owners_list_their_buckets_in_pages),
        cmocka_unit_test(owners_have_a_limit),
        cmocka_unit_test(bucket_delete_never_loses_a_put),
        cmocka_unit_test(abandoned_deletes_are_taken_back),
        cmocka_unit_test(a_failed_delete_leaves_the_bucket_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
