/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/bucket_cache.h"

#include "base/checksum.h"
#include "base/clock.h"

struct bucket_cache_row {
    struct meta_bucket bucket; /* slices point into bytes */
    int64_t loaded_ns;
    char bytes[];
};

enum rc bucket_cache_init(struct bucket_cache *c, uint32_t max_age_ms)
{
    memset(c, 0, sizeof *c);
    c->max_age_ns = (int64_t)max_age_ms * NS_PER_MS;
    for (unsigned i = 0; i < BUCKET_CACHE_STRIPES; i++)
        if (pthread_mutex_init(&c->stripes[i].lock, NULL)) {
            while (i--)
                pthread_mutex_destroy(&c->stripes[i].lock);
            return RC_NO_MEM;
        }
    return RC_OK;
}

void bucket_cache_fini(struct bucket_cache *c)
{
    for (unsigned i = 0; i < BUCKET_CACHE_STRIPES; i++) {
        for (unsigned k = 0; k < BUCKET_CACHE_WAYS; k++)
            free(c->stripes[i].rows[k]);
        pthread_mutex_destroy(&c->stripes[i].lock);
    }
}

static struct bucket_cache_stripe *stripe_of(struct bucket_cache *c, struct slice name,
                                             struct bucket_cache_row ***ret_row)
{
    uint64_t h = hash64(1, name.p, name.n);
    struct bucket_cache_stripe *s = &c->stripes[h % BUCKET_CACHE_STRIPES];

    *ret_row = &s->rows[h / BUCKET_CACHE_STRIPES % BUCKET_CACHE_WAYS];
    return s;
}

static struct slice append(char **at, struct slice s)
{
    struct slice copy = slice_of(*at, s.n);

    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return copy;
}

/* bytes has room for all slices. */
static void copy_bucket(struct meta_bucket *to, const struct meta_bucket *from, char *bytes)
{
    *to = *from;
    to->name = append(&bytes, from->name);
    to->owner = append(&bytes, from->owner);
    to->region = append(&bytes, from->region);
}

static size_t bucket_bytes(const struct meta_bucket *b)
{
    return b->name.n + b->owner.n + b->region.n;
}

bool bucket_cache_get(struct bucket_cache *c, struct arena *a, struct slice name,
                      struct meta_bucket *ret, uint64_t *ret_stamp)
{
    struct bucket_cache_row **slot;
    struct bucket_cache_stripe *s;
    bool found = false;

    *ret_stamp = 0;
    if (!c->max_age_ns)
        return false;
    s = stripe_of(c, name, &slot);
    pthread_mutex_lock(&s->lock);
    *ret_stamp = s->stamp;
    if (*slot && slice_eq((*slot)->bucket.name, name) &&
        clock_mono_ns() - (*slot)->loaded_ns <= c->max_age_ns) {
        char *bytes = arena_alloc(a, bucket_bytes(&(*slot)->bucket));

        if (bytes) {
            copy_bucket(ret, &(*slot)->bucket, bytes);
            found = true;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

void bucket_cache_add(struct bucket_cache *c, const struct meta_bucket *b, uint64_t stamp)
{
    struct bucket_cache_row **slot, *row, *old;
    struct bucket_cache_stripe *s;

    if (!c->max_age_ns)
        return;
    row = malloc(sizeof *row + bucket_bytes(b));
    if (!row)
        return; /* a cache may forget */
    copy_bucket(&row->bucket, b, row->bytes);
    row->loaded_ns = clock_mono_ns();
    s = stripe_of(c, b->name, &slot);
    pthread_mutex_lock(&s->lock);
    old = row;
    if (s->stamp == stamp) {
        old = *slot;
        *slot = row;
    }
    pthread_mutex_unlock(&s->lock);
    free(old);
}

void bucket_cache_forget(struct bucket_cache *c, struct slice name)
{
    struct bucket_cache_row **slot, *old = NULL;
    struct bucket_cache_stripe *s;

    if (!c->max_age_ns)
        return;
    s = stripe_of(c, name, &slot);
    pthread_mutex_lock(&s->lock);
    s->stamp++;
    if (*slot && slice_eq((*slot)->bucket.name, name)) {
        old = *slot;
        *slot = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(old);
}
