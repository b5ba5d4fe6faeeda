/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing, options, and the calls that are about the store as a whole.
 *
 * Log recovery is point-in-time: it stops at the first damaged record, so what is there after a
 * crash is a prefix of the batches, and every acknowledged batch is in it. RocksDB 7 reuses log
 * files only together with a recovery that may skip records; so files are not reused here.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "kv/rocks/rocks_priv.h"

#include <linux/futex.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define POINT_IN_TIME_RECOVERY 2
#define INFO_LOG_WARN 2
#define BLOB_MIN_SIZE 2048               /* tails from here on go to blob files */
#define EXPIRED_KEPT_NS (600 * NS_PER_S) /* readers with old snapshots may still be there */
#define PROBE_NS NS_PER_S

/* ---- options -------------------------------------------------------------------------------- */

/* Only drops what no reader has seen for a while; leaves everything else as it is. */
static unsigned char filter_expired(void *state, int level, const char *key, size_t key_n,
                                    const char *value, size_t value_n, char **new_value,
                                    size_t *new_n, unsigned char *changed)
{
    struct rocks_entry e;

    *changed = 0;
    if (key_n == 0 || key[0] == 0 || !rocks_entry_decode(slice_of(value, value_n), &e))
        return 0;
    return e.expires_at_ns && e.expires_at_ns < clock_wall_ns() - EXPIRED_KEPT_NS;
}

static const char *filter_name(void *state)
{
    return "strata.expired";
}

static void filter_free(void *state)
{
}

static void set_table_options(rocksdb_options_t *o, rocksdb_cache_t *cache)
{
    rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_cache(t, cache);
    rocksdb_block_based_options_set_block_size(t, 8192);
    rocksdb_block_based_options_set_format_version(t, 5);
    rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(t, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(t, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(t, 1);
    rocksdb_options_set_block_based_table_factory(o, t);
    rocksdb_block_based_options_destroy(t);
}

static void set_common_options(rocksdb_options_t *o, const struct kv_rocks_config *cfg)
{
    rocksdb_options_set_write_buffer_size(o, cfg->write_buffer_bytes ? cfg->write_buffer_bytes
                                                                     : 64 * MIB);
    rocksdb_options_set_max_write_buffer_number(o, 4);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
    rocksdb_options_set_memtable_whole_key_filtering(o, 1);
    rocksdb_options_set_memtable_prefix_bloom_size_ratio(o, 0.02);
    rocksdb_options_set_compression(o, rocksdb_lz4_compression);
}

static rocksdb_options_t *entry_options(struct rocks *r, const struct kv_rocks_config *cfg)
{
    rocksdb_options_t *o = rocksdb_options_create();

    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_create_missing_column_families(o, 1);
    rocksdb_options_set_wal_recovery_mode(o, POINT_IN_TIME_RECOVERY);
    rocksdb_options_set_max_total_wal_size(o, 512 * MIB);
    rocksdb_options_set_max_open_files(o, -1);
    rocksdb_options_set_max_background_jobs(o, 2);
    rocksdb_options_set_bytes_per_sync(o, MIB);
    rocksdb_options_set_enable_pipelined_write(o, 0);
    rocksdb_options_set_info_log_level(o, INFO_LOG_WARN);
    rocksdb_options_set_max_log_file_size(o, 16 * MIB);
    rocksdb_options_set_keep_log_file_num(o, 4);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);
    set_common_options(o, cfg);
    set_table_options(o, r->cache);
    rocksdb_options_set_compaction_filter(o, r->filter);
    return o;
}

static rocksdb_options_t *tail_options(struct rocks *r, const struct kv_rocks_config *cfg)
{
    rocksdb_options_t *o = rocksdb_options_create();

    set_common_options(o, cfg);
    set_table_options(o, r->cache);
    rocksdb_options_set_enable_blob_files(o, 1);
    rocksdb_options_set_min_blob_size(o, BLOB_MIN_SIZE);
    rocksdb_options_set_blob_file_size(o, 64 * MIB);
    rocksdb_options_set_enable_blob_gc(o, 1);
    rocksdb_options_set_blob_cache(o, r->cache);
    return o;
}

/* ---- opening -------------------------------------------------------------------------------- */

static enum rc open_error(char *error, const char *directory)
{
    char why[ROCKS_WHY_SIZE];
    bool locked = strstr(error, "lock") || strstr(error, "LOCK");
    enum rc rc = rocks_error(error, why);

    if (locked && rc == RC_UNAVAILABLE)
        return fail_rc(rc, "metadata store: %s is in use by another process", directory);
    return fail_rc(rc, "metadata store: cannot open %s: %s", directory, why);
}

static enum rc open_database(struct rocks *r, const struct kv_rocks_config *cfg)
{
    const char *names[] = { "default", "tail" };
    rocksdb_options_t *options[] = { entry_options(r, cfg), tail_options(r, cfg) };
    rocksdb_column_family_handle_t *handles[2];
    char *error = NULL;

    r->db =
        rocksdb_open_column_families(options[0], cfg->directory, 2, names,
                                     (const rocksdb_options_t *const *)options, handles, &error);
    rocksdb_options_destroy(options[0]);
    rocksdb_options_destroy(options[1]);
    if (error) {
        r->db = NULL;
        return open_error(error, cfg->directory);
    }
    r->entries = handles[0];
    r->tails = handles[1];
    return RC_OK;
}

static void make_read_options(struct rocks *r)
{
    r->full = rocksdb_readoptions_create();
    r->cached = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(r->cached, 1);
}

/* So that the next open has no log to replay. */
static void flush(struct rocks *r)
{
    rocksdb_column_family_handle_t *handles[] = { r->entries, r->tails };
    rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();

    for (size_t i = 0; i < ARRAY_LEN(handles); i++) {
        char *error = NULL;

        rocksdb_flush_cf(r->db, o, handles[i], &error);
        rocksdb_free(error); /* the log still has it all */
    }
    rocksdb_flushoptions_destroy(o);
}

static void rocks_close(struct kv *kv)
{
    struct rocks *r = container_of(kv, struct rocks, base);

    committer_stop(r->committer);
    if (r->db) {
        flush(r);
        rocksdb_column_family_handle_destroy(r->entries);
        rocksdb_column_family_handle_destroy(r->tails);
        rocksdb_close(r->db);
    }
    if (r->full)
        rocksdb_readoptions_destroy(r->full);
    if (r->cached)
        rocksdb_readoptions_destroy(r->cached);
    if (r->filter)
        rocksdb_compactionfilter_destroy(r->filter);
    if (r->cache)
        rocksdb_cache_destroy(r->cache);
    free(r);
}

/* ---- probe, statistics, copy ---------------------------------------------------------------- */

static bool wait_done(struct rocks_txn *t, int64_t deadline_ns)
{
    int64_t left = deadline_ns - clock_mono_ns();

    while (!atomic_load(&t->done) && left > 0) {
        struct timespec ts = { left / NS_PER_S, left % NS_PER_S };

        syscall(SYS_futex, &t->done, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);
        left = deadline_ns - clock_mono_ns();
    }
    /* Who comes second frees the transaction; see finish() of the commit thread. */
    return atomic_exchange(&t->done, 2) == 1;
}

static enum rc probe_write(struct rocks *r)
{
    struct kv_write w = {
        .kind = KV_PUT, .partition = SLICE(""), .key = SLICE("probe"), .expires_at_ns = 1
    };
    struct kv_txn *base;
    struct rocks_txn *t;
    enum rc rc = rocks_begin(&r->base, w.partition, &base);

    if (rc)
        return rc;
    t = container_of(base, struct rocks_txn, base);
    rc = rocks_txn_write(base, &w);
    if (rc) {
        rocks_txn_free(base);
        return rc;
    }
    t->unowned = true;
    committer_post(r->committer, t);
    if (!wait_done(t, clock_mono_ns() + PROBE_NS))
        return fail_rc(RC_UNAVAILABLE, "metadata store: a write takes more than a second");
    rc = t->rc;
    if (rc)
        rc = fail_rc(rc, "metadata store: %s", t->why);
    rocks_txn_free(base);
    return rc;
}

struct probe_job {
    struct rocks *r;
    enum rc rc;
};

static void run_probe(void *arg)
{
    struct probe_job *job = arg;
    struct rocks_entry e;
    rocksdb_pinnableslice_t *pin = NULL;
    char why[ROCKS_WHY_SIZE];

    job->rc = rocks_peek(job->r, SLICE("\0probe"), &e, &pin, why);
    if (pin)
        rocksdb_pinnableslice_destroy(pin);
    if (job->rc && job->rc != RC_NOT_FOUND) {
        job->rc = fail_rc(job->rc, "metadata store: %s", why);
        return;
    }
    /* Commits of others say as much as one of our own. */
    if (committer_last_ok_ns(job->r->committer) > clock_mono_ns() - PROBE_NS / 2)
        job->rc = RC_OK;
    else
        job->rc = probe_write(job->r);
}

static enum rc rocks_probe(struct kv *kv)
{
    struct probe_job job = { .r = container_of(kv, struct rocks, base) };
    enum rc rc = offload(run_probe, &job);

    return rc ? rc : job.rc;
}

static uint64_t property(struct rocks *r, const char *name)
{
    uint64_t a = 0, b = 0;

    rocksdb_property_int_cf(r->db, r->entries, name, &a);
    rocksdb_property_int_cf(r->db, r->tails, name, &b);
    return a + b;
}

static void rocks_stats(struct kv *kv, struct kv_stats *ret)
{
    struct rocks *r = container_of(kv, struct rocks, base);
    struct committer_stats c;

    committer_stats(r->committer, &c);
    ret->commits = c.commits;
    ret->conflicts = c.conflicts;
    ret->batches = c.batches;
    ret->syncs = c.syncs;
    ret->errors = c.errors;
    for (size_t i = 0; i < ROCKS_COUNT_SHARDS; i++) {
        ret->gets += r->counts[i].gets;
        ret->scans += r->counts[i].scans;
        ret->scan_items += r->counts[i].scan_items;
    }
    ret->disk_bytes =
        property(r, "rocksdb.total-sst-files-size") + property(r, "rocksdb.total-blob-file-size");
    ret->memory_bytes = property(r, "rocksdb.cur-size-all-mem-tables") +
                        property(r, "rocksdb.estimate-table-readers-mem") +
                        rocksdb_cache_get_usage(r->cache);
}

struct checkpoint_job {
    struct rocks *r;
    const char *directory;
    enum rc rc;
};

static void run_checkpoint(void *arg)
{
    struct checkpoint_job *job = arg;
    char *error = NULL, why[ROCKS_WHY_SIZE];
    rocksdb_checkpoint_t *c;

    if (access(job->directory, F_OK) == 0) {
        job->rc = fail_rc(RC_EXISTS, "%s exists already", job->directory);
        return;
    }
    c = rocksdb_checkpoint_object_create(job->r->db, &error);
    if (!error)
        rocksdb_checkpoint_create(c, job->directory, 0, &error);
    if (error) {
        job->rc = rocks_error(error, why);
        job->rc = fail_rc(job->rc, "metadata store: %s", why);
    }
    if (c)
        rocksdb_checkpoint_object_destroy(c);
}

static enum rc rocks_checkpoint(struct kv *kv, const char *directory)
{
    struct checkpoint_job job = { .r = container_of(kv, struct rocks, base),
                                  .directory = directory };
    enum rc rc = offload(run_checkpoint, &job);

    return rc ? rc : job.rc;
}

/* ---- the driver ----------------------------------------------------------------------------- */

static const struct kv_ops rocks_ops = {
    .name = "rocks",
    .get = rocks_get,
    .scan_open = rocks_scan_open,
    .scan_next = rocks_scan_next,
    .scan_seek = rocks_scan_seek,
    .scan_close = rocks_scan_close,
    .begin = rocks_begin,
    .txn_get = rocks_txn_get,
    .txn_write = rocks_txn_write,
    .txn_commit = rocks_txn_commit,
    .txn_free = rocks_txn_free,
    .probe = rocks_probe,
    .stats = rocks_stats,
    .checkpoint = rocks_checkpoint,
    .close = rocks_close,
};

enum rc kv_rocks_open(const struct kv_rocks_config *cfg, struct kv **ret)
{
    struct rocks *r = aligned_alloc(64, sizeof *r);
    enum rc rc;

    if (!r)
        return RC_NO_MEM;
    memset(r, 0, sizeof *r);
    r->base.ops = &rocks_ops;
    if (getrandom(&r->hash_seed, sizeof r->hash_seed, 0) != (ssize_t)sizeof r->hash_seed)
        r->hash_seed = (uint64_t)clock_mono_ns();
    r->cache =
        rocksdb_cache_create_lru(cfg->block_cache_bytes ? cfg->block_cache_bytes : 256 * MIB);
    r->filter = rocksdb_compactionfilter_create(NULL, filter_free, filter_expired, filter_name);
    make_read_options(r);
    rc = open_database(r, cfg);
    if (!rc)
        rc = committer_start(r, cfg);
    if (rc)
        rocks_close(&r->base);
    else
        *ret = &r->base;
    return rc;
}
