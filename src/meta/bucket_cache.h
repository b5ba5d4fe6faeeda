/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bucket_cache — bucket rows that were read lately, for at most max_age_ms.
 *
 * A row read before a change and stored after it would outlive the invalidation, so a reader takes
 * a stamp before it reads: invalidation makes older stamps worthless. Absence is never cached.
 *
 * Owns:    copies of the rows.
 * Threads: any; locks are held for a few instructions, never across a park.
 */
#ifndef STRATA_META_BUCKET_CACHE_H
#define STRATA_META_BUCKET_CACHE_H

#include "meta/meta.h"

#include <pthread.h>

#define BUCKET_CACHE_STRIPES 16u
#define BUCKET_CACHE_WAYS 256u /* rows per stripe; a full slot is overwritten */

struct bucket_cache_row;

struct bucket_cache {
    int64_t max_age_ns; /* 0: always empty */
    struct bucket_cache_stripe {
        pthread_mutex_t lock; /* guards all of the stripe */
        uint64_t stamp;       /* raised by each invalidation */
        struct bucket_cache_row *rows[BUCKET_CACHE_WAYS];
    } stripes[BUCKET_CACHE_STRIPES];
};

enum rc bucket_cache_init(struct bucket_cache *c, uint32_t max_age_ms) MUST_CHECK;
void bucket_cache_fini(struct bucket_cache *c);
/* True: *ret is filled, its slices in the arena. False: not there; *ret_stamp is for
 * bucket_cache_add. */
bool bucket_cache_get(struct bucket_cache *c, struct arena *a, struct slice name,
                      struct meta_bucket *ret, uint64_t *ret_stamp);
void bucket_cache_add(struct bucket_cache *c, const struct meta_bucket *b, uint64_t stamp);
void bucket_cache_forget(struct bucket_cache *c, struct slice name);

#endif
