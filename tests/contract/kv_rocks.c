/* SPDX-License-Identifier: Apache-2.0 */
/* The RocksDB store, bare and wrapped, through the contract suite; and what is its own. */
#include "base/clock.h"
#include "kv/rocks.h"
#include "kv/wrap.h"
#include "kv_suite.h"

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum wrapping { BARE, TRACED, SLOW };

struct rocks_case {
    char directory[64];
    enum wrapping wrapping;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static void remove_all(const char *directory)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static enum rc open_again(struct rocks_case *rc_case, struct kv **ret)
{
    /* Small buffers, so that flushes and compactions take part. */
    struct kv_rocks_config cfg = { .directory = rc_case->directory,
                                   .block_cache_bytes = 1 << 20,
                                   .write_buffer_bytes = 128 << 10,
                                   .no_sync = true };
    struct kv *kv;
    enum rc rc = kv_rocks_open(&cfg, &kv);

    if (rc) {
        fprintf(stderr, "%s\n", note_text());
        return rc;
    }
    if (rc_case->wrapping == TRACED)
        rc = kv_trace_open(kv, 0, &kv);
    if (rc_case->wrapping == SLOW)
        rc = kv_slow_open(kv, 0, 20, &kv);
    if (rc)
        kv_close(kv);
    else
        *ret = kv;
    return rc;
}

static enum rc open_new(void *arg, struct kv **ret)
{
    struct rocks_case *c = arg;

    snprintf(c->directory, sizeof c->directory, "/tmp/strata-kv-XXXXXX");
    if (!mkdtemp(c->directory))
        return RC_INTERNAL;
    return open_again(c, ret);
}

static enum rc reopen(void *arg, struct kv **kv)
{
    kv_close(*kv);
    *kv = NULL;
    return open_again(arg, kv);
}

static void clean(void *arg)
{
    struct rocks_case *c = arg;

    remove_all(c->directory);
}

static int run(const char *name, enum wrapping wrapping, unsigned modes, unsigned effort)
{
    struct rocks_case c = { .wrapping = wrapping };

    return kv_suite_run(&(struct kv_suite){ .name = name,
                                            .modes = modes,
                                            .effort = effort,
                                            .durable = true,
                                            .arg = &c,
                                            .open = open_new,
                                            .reopen = reopen,
                                            .clean = clean });
}

int main(void)
{
    return run("rocks", BARE, KV_SUITE_THREADS | KV_SUITE_FIBERS, 50) +
           run("rocks traced", TRACED, KV_SUITE_FIBERS, 10) +
           run("rocks slow", SLOW, KV_SUITE_FIBERS, 2);
}
