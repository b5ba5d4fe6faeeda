/* SPDX-License-Identifier: Apache-2.0 */
#include "meta_test.h"

/* An object of n chunks whose ids start with tag. */
static enum rc put_chunks(struct world *w, struct slice key, unsigned char tag, unsigned n,
                          const struct meta_cond *cond)
{
    struct extent extents[8] = { 0 };
    struct meta_object o = { .extents = extents, .extents_n = n };

    CHECK(n <= ARRAY_LEN(extents));
    for (unsigned i = 0; i < n; i++) {
        extents[i].id[0] = tag;
        extents[i].id[1] = (unsigned char)i;
        extents[i].length = 100;
        o.head.size += 100;
    }
    return meta_object_put(w->meta, &w->bucket, key, &o, cond);
}

/* Takes everything from the GC queue; counts chunks by tag. */
static void drain(struct world *w, unsigned counts[256])
{
    memset(counts, 0, 256 * sizeof counts[0]);
    for (unsigned shard = 0; shard < META_GC_SHARDS; shard++) {
        struct meta_gc_batch batch;

        do {
            CHECK(meta_gc_due(w->meta, &w->arena, shard, 1000, &batch) == RC_OK);
            for (size_t i = 0; i < batch.n; i++)
                counts[batch.extents[i].id[0]]++;
            CHECK(meta_gc_ack(w->meta, shard, &batch) == RC_OK);
        } while (batch.n);
    }
}

static struct meta_object get(struct world *w, struct slice key)
{
    struct meta_object o;

    CHECK(meta_object_get(w->meta, &w->arena, &w->bucket, key, false, &o) == RC_OK);
    return o;
}

static void gc_body(void *arg)
{
    struct world *w = arg;
    struct meta_cond same = { 0 };
    struct meta_object o;
    unsigned counts[256];

    world_bucket(w, SLICE("writes"));
    CHECK(put_chunks(w, SLICE("k"), 1, 3, NULL) == RC_OK);
    drain(w, counts);
    CHECK(counts[1] == 0);
    CHECK(put_chunks(w, SLICE("k"), 2, 5, NULL) == RC_OK);
    drain(w, counts);
    CHECK(counts[1] == 3 && counts[2] == 0);
    /* New metadata for the same chunks. */
    o = get(w, SLICE("k"));
    same.row_version = o.row_version;
    o.content_type = SLICE("text/new");
    CHECK(meta_object_put(w->meta, &w->bucket, SLICE("k"), &o, &same) == RC_OK);
    drain(w, counts);
    CHECK(counts[2] == 0);
    CHECK(slice_eq(get(w, SLICE("k")).content_type, SLICE("text/new")));
    CHECK(meta_object_put(w->meta, &w->bucket, SLICE("k"), &o, &same) == RC_CONFLICT);
    CHECK(put_sized(w, SLICE("k"), 7, NULL) == RC_OK);
    drain(w, counts);
    CHECK(counts[2] == 5);
    CHECK(put_chunks(w, SLICE("k"), 3, 2, NULL) == RC_OK);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), NULL, NULL) == RC_OK);
    drain(w, counts);
    CHECK(counts[3] == 2);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), NULL, NULL) == RC_OK);
    drain(w, counts);
    CHECK(counts[3] == 0);
}

static void gc_honours_grace_body(void *arg)
{
    struct world *w = arg;
    struct extent *many = calloc(3000, sizeof *many);
    struct meta_gc_batch batch;
    unsigned counts[256];
    struct meta *m;

    CHECK(meta_new(&(struct meta_config){ .kv = w->kv, .gc_grace_ms = 400 }, &m) == RC_OK);
    for (unsigned i = 0; i < 3000; i++)
        many[i] = (struct extent){ .id = { 9 }, .length = 1 };
    CHECK(meta_gc_add(m, many, 3000) == RC_OK);
    drain(w, counts);
    CHECK(counts[9] == 0);
    CHECK(fiber_sleep_ms(450) == RC_OK);
    for (unsigned shard = 0; shard < META_GC_SHARDS; shard++) {
        CHECK(meta_gc_due(m, &w->arena, shard, 1500, &batch) == RC_OK);
        CHECK(batch.n == 0 || batch.n == 2048); /* whole rows */
    }
    drain(w, counts);
    CHECK(counts[9] == 3000);
    meta_free(m);
    free(many);
}

static void conditions_body(void *arg)
{
    struct world *w = arg;
    struct meta_cond star = { .if_none_match = SLICE("*") }, any = { .if_match = SLICE("*") };
    struct meta_cond size = { .has_if_size = true, .if_size = 6 }, mtime = { .has_if_mtime = true };
    struct meta_object o;
    bool existed = true;

    world_bucket(w, SLICE("writes"));
    CHECK(put_sized(w, SLICE("k"), 5, &any) == RC_NOT_FOUND);
    CHECK(note_error(RC_NOT_FOUND) == S3E_NO_SUCH_KEY);
    CHECK(put_sized(w, SLICE("k"), 5, &star) == RC_OK);
    CHECK(put_sized(w, SLICE("k"), 6, &star) == RC_PRECONDITION);
    CHECK(note_error(RC_PRECONDITION) == S3E_PRECONDITION_FAILED);
    CHECK(put_sized(w, SLICE("k"), 6, &any) == RC_OK);
    CHECK(get(w, SLICE("k")).head.size == 6);
    any.if_match = SLICE("\"00000000000000000000000000000000\"");
    CHECK(put_sized(w, SLICE("k"), 6, &any) == RC_OK);
    any.if_match = SLICE("\"10000000000000000000000000000000\"");
    CHECK(put_sized(w, SLICE("k"), 6, &any) == RC_PRECONDITION);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), &any, &existed) == RC_PRECONDITION);
    size.if_size = 7;
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), &size, &existed) == RC_PRECONDITION);
    o = get(w, SLICE("k"));
    mtime.if_mtime_ns = o.head.mtime_ns - 2 * NS_PER_S;
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), &mtime, &existed) == RC_PRECONDITION);
    mtime.if_mtime_ns = o.head.mtime_ns / NS_PER_S * NS_PER_S;
    mtime.has_if_size = true;
    mtime.if_size = 6;
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), &mtime, &existed) == RC_OK);
    CHECK(existed);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), NULL, &existed) == RC_OK);
    CHECK(!existed);
    CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("k"), &any, &existed) == RC_NOT_FOUND);
    CHECK(put_sized(w, SLICE(""), 6, NULL) == RC_INVALID);
}

/* ---- many writers -----------------------------------------------------------------------------
 */

#define WRITERS 32

struct crowd {
    struct world *world;
    struct wait_group group;
    unsigned winners;
    unsigned seed;
};

static void race_for_key(void *arg)
{
    struct crowd *c = arg;
    struct meta_cond star = { .if_none_match = SLICE("*") };
    enum rc rc = put_sized(c->world, SLICE("contested"), 1, &star);

    CHECK(rc == RC_OK || rc == RC_PRECONDITION);
    if (rc == RC_OK)
        __atomic_fetch_add(&c->winners, 1, __ATOMIC_RELAXED);
    wait_group_done(&c->group);
}

static void change_at_random(void *arg)
{
    struct crowd *c = arg;
    unsigned seed = __atomic_add_fetch(&c->seed, 1, __ATOMIC_RELAXED);

    for (unsigned i = 0; i < 60; i++) {
        char key[] = "key-a";
        enum rc rc;

        seed = seed * 1103515245u + 12345u;
        key[4] = (char)('a' + (seed >> 16) % 20);
        if ((seed >> 8) % 3)
            rc = put_sized(c->world, slice_str(key), (seed >> 20) % 1000, NULL);
        else
            rc = meta_object_delete(c->world->meta, &c->world->bucket, slice_str(key), NULL, NULL);
        CHECK(rc == RC_OK);
    }
    wait_group_done(&c->group);
}

static void run_crowd(struct crowd *c, void (*fn)(void *))
{
    struct rt *rt = loop_rt(loop_current());

    wait_group_init(&c->group);
    for (unsigned i = 0; i < WRITERS; i++) {
        wait_group_add(&c->group, 1);
        CHECK(fiber_spawn(rt_loop(rt, i % rt_loops(rt)), fn, c) == RC_OK);
    }
    CHECK(wait_group_wait(&c->group, NO_DEADLINE) == RC_OK);
    wait_group_fini(&c->group);
}

static enum rc add_up(void *arg, const struct meta_list_entry *e)
{
    struct meta_bucket_stats *sum = arg;

    sum->objects++;
    sum->bytes += (int64_t)e->head.size;
    return RC_OK;
}

static void crowd_body(void *arg)
{
    struct world *w = arg;
    struct meta_bucket_stats stats, sum = { 0 };
    struct meta_list_params all = { .max = 1000 };
    struct meta_list_result result;

    world_bucket(w, SLICE("crowded"));
    for (unsigned i = 0; i < 20; i++) {
        struct crowd c = { .world = w };

        run_crowd(&c, race_for_key);
        CHECK(c.winners == 1);
        CHECK(meta_object_delete(w->meta, &w->bucket, SLICE("contested"), NULL, NULL) == RC_OK);
    }
    run_crowd(&(struct crowd){ .world = w }, change_at_random);
    CHECK(meta_list(w->meta, &w->arena, &w->bucket, &all, add_up, &sum, &result) == RC_OK);
    CHECK(meta_bucket_stats(w->meta, &w->bucket, &stats) == RC_OK);
    CHECK(stats.objects == sum.objects && stats.bytes == sum.bytes && sum.objects > 0);
}

/* ---- faults -----------------------------------------------------------------------------------
 */

static void unknown_outcomes_body(void *arg)
{
    struct world *w = arg;
    struct kv_fault lost = { .mode = KV_FAULT_COMMIT_ANSWER };
    struct kv_fault failed = { .mode = KV_FAULT_COMMIT, .rc = RC_TIMEOUT };
    struct kv_fault dead = {
        .mode = KV_FAULT_COMMIT, .rc = RC_TIMEOUT, .nth = -1, .rate_ppm = 1000000
    };
    unsigned counts[256];

    world_bucket(w, SLICE("writes"));
    CHECK(put_chunks(w, SLICE("k"), 1, 2, NULL) == RC_OK);
    kv_faulty_arm(w->kv, &lost);
    CHECK(put_chunks(w, SLICE("k"), 2, 2, NULL) == RC_OK); /* it was committed */
    kv_faulty_arm(w->kv, &failed);
    CHECK(put_chunks(w, SLICE("k"), 3, 2, NULL) == RC_UNAVAILABLE); /* it surely was not */
    kv_faulty_arm(w->kv, &dead);
    CHECK(put_chunks(w, SLICE("k"), 4, 2, NULL) == RC_TIMEOUT); /* nobody knows */
    kv_faulty_disarm(w->kv);
    CHECK(get(w, SLICE("k")).extents[0].id[0] == 2);
    drain(w, counts);
    CHECK(counts[1] == 2 && counts[2] == 0);
}

/* Each call of the store fails in turn: the key is as before, or as it was to be. */
static void faults_body(void *arg)
{
    struct world *w = arg;
    bool passed = false;

    world_bucket(w, SLICE("writes"));
    CHECK(put_chunks(w, SLICE("k"), 0, 1, NULL) == RC_OK);
    for (int64_t nth = 0; !passed; nth++) {
        struct kv_fault fault = { .rc = RC_UNAVAILABLE, .nth = nth };
        unsigned char before = get(w, SLICE("k")).extents[0].id[0], tag = (unsigned char)(nth + 1);
        struct meta_bucket_stats stats;
        unsigned counts[256];
        enum rc rc;

        kv_faulty_arm(w->kv, &fault);
        rc = put_chunks(w, SLICE("k"), tag, 1, NULL);
        passed = kv_faulty_injected(w->kv) == 0;
        kv_faulty_disarm(w->kv);
        CHECK(get(w, SLICE("k")).extents[0].id[0] == (rc ? before : tag));
        drain(w, counts);
        CHECK(counts[before] == (rc ? 0 : 1) && counts[tag] == 0);
        CHECK(meta_bucket_stats(w->meta, &w->bucket, &stats) == RC_OK);
        CHECK(stats.objects == 1 && stats.bytes == 100);
    }
}

static void run(unsigned loops, unsigned shards, void (*fn)(void *))
{
    struct world w;

    world_open(&w, shards);
    on_runtime(loops, fn, &w);
    world_close(&w);
}

static void replaced_chunks_reach_the_gc_queue_once(void **state)
{
    run(1, 1, gc_body);
}

static void gc_rows_wait_for_their_grace(void **state)
{
    run(1, 1, gc_honours_grace_body);
}

static void conditions_hold_in_the_transaction(void **state)
{
    run(1, 1, conditions_body);
}

static void concurrent_writers_have_one_winner_and_exact_stats(void **state)
{
    run(2, 1, crowd_body);
    run(2, 4, crowd_body);
}

static void unknown_commits_are_resolved_or_reported(void **state)
{
    run(1, 1, unknown_outcomes_body);
}

static void a_failed_put_changes_nothing(void **state)
{
    run(1, 1, faults_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced_chunks_reach_the_gc_queue_once),
        cmocka_unit_test(gc_rows_wait_for_their_grace),
        cmocka_unit_test(conditions_hold_in_the_transaction),
        cmocka_unit_test(concurrent_writers_have_one_winner_and_exact_stats),
        cmocka_unit_test(unknown_commits_are_resolved_or_reported),
        cmocka_unit_test(a_failed_put_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
