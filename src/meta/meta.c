/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/meta_priv.h"

#define BUCKETS_PER_OWNER_DEFAULT 1000u
#define INDEX_SHARDS_MAX 1024u

enum rc meta_new(const struct meta_config *cfg, struct meta **ret)
{
    struct meta *m;
    enum rc rc;

    if (!cfg->kv || cfg->index_shards > INDEX_SHARDS_MAX)
        return RC_INVALID;
    m = calloc(1, sizeof *m);
    if (!m)
        return RC_NO_MEM;
    m->kv = cfg->kv;
    m->index_shards = MAX(cfg->index_shards, 1u);
    m->gc_grace_ms = cfg->gc_grace_ms;
    m->buckets_per_owner_max =
        cfg->buckets_per_owner_max ? cfg->buckets_per_owner_max : BUCKETS_PER_OWNER_DEFAULT;
    rc = bucket_cache_init(&m->cache, cfg->bucket_cache_ms);
    if (rc) {
        free(m);
        return rc;
    }
    *ret = m;
    return RC_OK;
}

void meta_free(struct meta *m)
{
    if (!m)
        return;
    bucket_cache_fini(&m->cache);
    free(m);
}

struct kv *meta_kv(struct meta *m)
{
    return m->kv;
}
