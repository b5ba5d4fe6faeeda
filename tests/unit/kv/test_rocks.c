/* SPDX-License-Identifier: Apache-2.0 */
/* What the RocksDB store promises beyond the contract. */
#include "base/clock.h"
#include "kv/rocks.h"
#include "rt/rt.h"

#include <ftw.h>
#include <rocksdb/c.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static int setup(void **state)
{
    snprintf(directory, sizeof directory, "/tmp/strata-rocks-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
    return nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct kv *open_store(const char *path)
{
    struct kv_rocks_config cfg = { .directory = path,
                                   .block_cache_bytes = 64 << 10,
                                   .write_buffer_bytes = 256 << 10,
                                   .no_sync = true };
    struct kv *kv = NULL;

    assert_int_equal(kv_rocks_open(&cfg, &kv), RC_OK);
    return kv;
}

static enum rc put(struct kv *kv, const char *key, size_t n, char fill)
{
    static char value[1 << 20];
    struct kv_txn *t;
    enum rc rc;

    memset(value, fill, n);
    assert_int_equal(kv_begin(kv, SLICE("p"), &t), RC_OK);
    assert_int_equal(kv_txn_put(t, SLICE("p"), slice_str(key), slice_of(value, n)), RC_OK);
    rc = kv_txn_commit(t);
    kv_txn_free(t);
    return rc;
}

static void drop(struct kv *kv, const char *key)
{
    struct kv_txn *t;

    assert_int_equal(kv_begin(kv, SLICE("p"), &t), RC_OK);
    assert_int_equal(kv_txn_delete(t, SLICE("p"), slice_str(key)), RC_OK);
    assert_int_equal(kv_txn_commit(t), RC_OK);
    kv_txn_free(t);
}

static enum rc get_size(struct kv *kv, const char *key, size_t *ret_n)
{
    struct kv_item item;
    struct arena a;
    enum rc rc;

    arena_init(&a, 2 << 20);
    rc = kv_get(kv, SLICE("p"), slice_str(key), &a, &item);
    if (!rc)
        *ret_n = item.value.n;
    arena_fini(&a);
    return rc;
}

static void a_second_opener_is_told_that_it_is_locked(void **state)
{
    struct kv_rocks_config cfg = { .directory = directory };
    struct kv *kv = open_store(directory), *other = NULL;

    assert_int_equal(kv_rocks_open(&cfg, &other), RC_UNAVAILABLE);
    assert_non_null(strstr(note_text(), "in use"));
    assert_null(other);
    kv_close(kv);
}

static void a_checkpoint_is_a_store_of_that_moment(void **state)
{
    char copy[80];
    struct kv *kv = open_store(directory), *other;
    size_t n = 0;

    snprintf(copy, sizeof copy, "%s/copy", directory);
    assert_int_equal(put(kv, "small", 10, 'a'), RC_OK);
    assert_int_equal(put(kv, "large", 100000, 'b'), RC_OK);
    assert_int_equal(kv_checkpoint(kv, copy), RC_OK);
    assert_int_equal(kv_checkpoint(kv, copy), RC_EXISTS);
    assert_int_equal(put(kv, "later", 10, 'c'), RC_OK);
    other = open_store(copy);
    assert_int_equal(get_size(other, "small", &n), RC_OK);
    assert_int_equal(get_size(other, "large", &n), RC_OK);
    assert_int_equal(n, 100000);
    assert_int_equal(get_size(other, "later", &n), RC_NOT_FOUND);
    kv_close(other);
    kv_close(kv);
}

/* Entries in the column family of tails. */
static unsigned count_tails(void)
{
    const char *names[] = { "default", "tail" };
    rocksdb_options_t *o = rocksdb_options_create();
    const rocksdb_options_t *options[] = { o, o };
    rocksdb_column_family_handle_t *handles[2];
    rocksdb_readoptions_t *ro = rocksdb_readoptions_create();
    char *error = NULL;
    rocksdb_t *db = rocksdb_open_column_families(o, directory, 2, names, options, handles, &error);
    rocksdb_iterator_t *it;
    unsigned n = 0;

    assert_null(error);
    it = rocksdb_create_iterator_cf(db, ro, handles[1]);
    for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it))
        n++;
    rocksdb_iter_destroy(it);
    rocksdb_column_family_handle_destroy(handles[0]);
    rocksdb_column_family_handle_destroy(handles[1]);
    rocksdb_close(db);
    rocksdb_readoptions_destroy(ro);
    rocksdb_options_destroy(o);
    return n;
}

static void no_tail_outlives_its_entry(void **state)
{
    struct kv *kv = open_store(directory);
    size_t n = 0;

    assert_int_equal(put(kv, "shrinks", 5000, 'a'), RC_OK);
    assert_int_equal(put(kv, "goes", 5000, 'a'), RC_OK);
    assert_int_equal(put(kv, "stays", 5000, 'a'), RC_OK);
    kv_close(kv);
    assert_int_equal(count_tails(), 3);
    kv = open_store(directory);
    assert_int_equal(put(kv, "shrinks", 20, 'b'), RC_OK);
    drop(kv, "goes");
    assert_int_equal(get_size(kv, "shrinks", &n), RC_OK);
    assert_int_equal(n, 20);
    kv_close(kv);
    assert_int_equal(count_tails(), 1);
}

/* ---- larger than memory --------------------------------------------------------------------- */

#define COLD_KEYS 3000

static void read_cold(void *arg)
{
    struct kv *kv = arg;
    struct kv_range range = { .partition = SLICE("p") };
    struct kv_scan *s;
    struct kv_item item;
    unsigned n = 0;
    size_t size = 0;
    char key[16];

    for (unsigned i = 0; i < COLD_KEYS; i += 37) {
        snprintf(key, sizeof key, "%06u", i);
        assert_int_equal(get_size(kv, key, &size), RC_OK);
        assert_int_equal(size, 100 + i % 2 * 1000);
    }
    assert_int_equal(kv_scan_open(kv, &range, &s), RC_OK);
    while (kv_scan_next(s, &item) == RC_OK) {
        snprintf(key, sizeof key, "%06u", n);
        assert_true(slice_eq(item.key, slice_str(key)));
        assert_int_equal(item.value.n, 100 + n % 2 * 1000);
        n++;
    }
    kv_scan_close(s);
    assert_int_equal(n, COLD_KEYS);
    /* Seeks stay right in the middle of copied runs. */
    assert_int_equal(kv_scan_open(kv, &range, &s), RC_OK);
    for (n = 0; n < COLD_KEYS; n += n % 5 ? 1 : 131) {
        snprintf(key, sizeof key, "%06u", n);
        assert_int_equal(kv_scan_seek(s, slice_str(key)), RC_OK);
        assert_int_equal(kv_scan_next(s, &item), RC_OK);
        assert_true(slice_eq(item.key, slice_str(key)));
    }
    kv_scan_close(s);
}

static void what_is_not_in_memory_is_read_all_the_same(void **state)
{
    struct kv *kv = open_store(directory);
    struct rt *rt;
    char key[16];

    for (unsigned i = 0; i < COLD_KEYS; i++) {
        snprintf(key, sizeof key, "%06u", i);
        assert_int_equal(put(kv, key, 100 + i % 2 * 1000, 'x'), RC_OK);
    }
    kv_close(kv);
    kv = open_store(directory);
    read_cold(kv);
    assert_int_equal(rt_start(&(struct rt_config){ .loops = 1 }, &rt), RC_OK);
    assert_int_equal(rt_run(rt, read_cold, kv), RC_OK);
    rt_stop(rt);
    kv_close(kv);
}

/* ---- a full disk ---------------------------------------------------------------------------- */

static void a_full_disk_is_an_error_until_there_is_room(void **state)
{
    char filler[96], key[16], store[80];
    int64_t end;
    unsigned acked = 0;
    size_t n = 0;
    struct kv *kv;
    enum rc rc = RC_OK;
    FILE *f;

    if (mount("tmpfs", directory, "tmpfs", 0, "size=24m") != 0)
        skip();
    snprintf(store, sizeof store, "%s/store", directory);
    snprintf(filler, sizeof filler, "%s/filler", directory);
    f = fopen(filler, "w");
    assert_non_null(f);
    for (int i = 0; i < 8 << 20; i++)
        fputc(i, f);
    fclose(f);
    kv = open_store(store);
    for (unsigned i = 0; i < 200 && !rc; i++) {
        snprintf(key, sizeof key, "%u", i);
        rc = put(kv, key, 200000, (char)i);
        acked = rc ? acked : i + 1;
    }
    assert_int_equal(rc, RC_NO_SPACE);
    assert_int_equal(kv_probe(kv), RC_NO_SPACE);
    assert_int_equal(get_size(kv, "0", &n), RC_OK);
    unlink(filler);
    end = clock_mono_ns() + 30 * NS_PER_S;
    while ((rc = put(kv, "again", 1000, 'y')) && clock_mono_ns() < end)
        usleep(100000);
    assert_int_equal(rc, RC_OK);
    kv_close(kv);
    kv = open_store(store);
    for (unsigned i = 0; i < acked; i++) {
        snprintf(key, sizeof key, "%u", i);
        assert_int_equal(get_size(kv, key, &n), RC_OK);
    }
    assert_int_equal(get_size(kv, "again", &n), RC_OK);
    kv_close(kv);
    umount(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_second_opener_is_told_that_it_is_locked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_is_a_store_of_that_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(no_tail_outlives_its_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_in_memory_is_read_all_the_same, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_an_error_until_there_is_room, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
