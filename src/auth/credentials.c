/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table is open addressing over atomic pointers. Credentials are only ever added, so that
 * readers need no lock: a full table is replaced by one of twice the size, and the old one is kept
 * until the end because somebody may be reading it (all old ones together are no larger than the
 * present one).
 */
#include "auth/credentials.h"

#include "base/checksum.h"

#include <openssl/crypto.h>

#define FIRST_SIZE 64u

struct credential_table {
    struct credential_table *older;
    size_t size, count; /* size is a power of two; count is the writers' */
    struct credential *_Atomic slots[];
};

static struct credential_table *new_table(size_t size, struct credential_table *older)
{
    struct credential_table *t = calloc(1, sizeof *t + size * sizeof t->slots[0]);

    if (t) {
        t->size = size;
        t->older = older;
    }
    return t;
}

static uint64_t hash_of(struct slice access_key)
{
    return hash64(0, access_key.p, access_key.n);
}

/* The slot of the key, or the free one where it belongs. The table is never full. */
static size_t slot_of(const struct credential_table *t, uint64_t hash, struct slice access_key)
{
    for (size_t i = hash & (t->size - 1);; i = (i + 1) & (t->size - 1)) {
        const struct credential *c = atomic_load_explicit(&t->slots[i], memory_order_acquire);

        if (!c || (c->hash == hash && slice_eq(c->access_key, access_key)))
            return i;
    }
}

void credentials_init(struct credentials *c)
{
    pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->table, NULL);
}

void credentials_fini(struct credentials *c)
{
    struct credential_table *t = atomic_load(&c->table);

    for (size_t i = 0; t && i < t->size; i++) {
        struct credential *one = atomic_load(&t->slots[i]);

        if (one)
            OPENSSL_cleanse(&one->root, sizeof one->root);
        free(one);
    }
    while (t) {
        struct credential_table *older = t->older;

        free(t);
        t = older;
    }
    pthread_mutex_destroy(&c->lock);
}

const struct credential *credentials_find(const struct credentials *c, struct slice access_key)
{
    const struct credential_table *t = atomic_load_explicit(&c->table, memory_order_acquire);
    uint64_t hash = hash_of(access_key);

    if (!t)
        return NULL;
    return atomic_load_explicit(&t->slots[slot_of(t, hash, access_key)], memory_order_acquire);
}

static struct slice put_text(char **at, struct slice s)
{
    struct slice copy = { *at, s.n };

    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return copy;
}

static enum rc root_key(struct slice secret, struct hmac_key *ret)
{
    size_t n = secret.n + 4;
    char *text = malloc(n);

    if (!text)
        return RC_NO_MEM;
    memcpy(text, "AWS4", 4);
    memcpy(text + 4, secret.p, secret.n);
    hmac_key_init(ret, slice_of(text, n));
    OPENSSL_cleanse(text, n);
    free(text);
    return RC_OK;
}

static struct credential *new_credential(struct slice access_key, struct slice secret,
                                         const struct auth_account *a)
{
    static _Atomic uint64_t last_id;
    struct credential *c =
        calloc(1, sizeof *c + access_key.n + a->id.n + a->display.n + a->email.n);
    char *at;

    if (!c || root_key(secret, &c->root)) {
        free(c);
        return NULL;
    }
    at = c->text;
    c->id = atomic_fetch_add(&last_id, 1) + 1;
    c->hash = hash_of(access_key);
    c->access_key = put_text(&at, access_key);
    c->account.id = put_text(&at, a->id);
    c->account.display = put_text(&at, a->display);
    c->account.email = put_text(&at, a->email);
    return c;
}

/* Keeps at least half of the slots free. */
static enum rc grow(struct credentials *c)
{
    struct credential_table *old = atomic_load(&c->table), *t;

    if (old && 2 * (old->count + 1) <= old->size)
        return RC_OK;
    t = new_table(old ? 2 * old->size : FIRST_SIZE, old);
    if (!t)
        return RC_NO_MEM;
    for (size_t i = 0; old && i < old->size; i++) {
        struct credential *one = atomic_load(&old->slots[i]);

        if (!one)
            continue;
        atomic_store(&t->slots[slot_of(t, one->hash, one->access_key)], one);
        t->count++;
    }
    atomic_store_explicit(&c->table, t, memory_order_release);
    return RC_OK;
}

enum rc credentials_add(struct credentials *c, struct slice access_key, struct slice secret_key,
                        const struct auth_account *account)
{
    struct credential *one = new_credential(access_key, secret_key, account);
    struct credential_table *t;
    size_t slot;
    enum rc rc;

    if (!one)
        return RC_NO_MEM;
    pthread_mutex_lock(&c->lock);
    rc = grow(c);
    if (!rc) {
        t = atomic_load(&c->table);
        slot = slot_of(t, one->hash, access_key);
        if (atomic_load(&t->slots[slot])) {
            rc = RC_EXISTS;
        } else {
            atomic_store_explicit(&t->slots[slot], STEAL(one), memory_order_release);
            t->count++;
        }
    }
    pthread_mutex_unlock(&c->lock);
    free(one);
    return rc;
}

/* ---- signing keys --------------------------------------------------------------------------- */

#define DAY_SIZE 8
#define REGION_MAX 48
#define CACHED 128 /* per thread */

static void derive(const struct credential *c, struct slice day, struct slice region,
                   struct hmac_key *ret)
{
    unsigned char step[SHA256_SIZE];
    struct hmac_key k;

    hmac_sha256(&c->root, day.p, day.n, step);
    hmac_key_init(&k, slice_of(step, sizeof step));
    hmac_sha256(&k, region.p, region.n, step);
    hmac_key_init(&k, slice_of(step, sizeof step));
    hmac_sha256(&k, "s3", 2, step);
    hmac_key_init(&k, slice_of(step, sizeof step));
    hmac_sha256(&k, "aws4_request", 12, step);
    hmac_key_init(ret, slice_of(step, sizeof step));
}

void credential_signing_key(const struct credential *c, struct slice day, struct slice region,
                            struct hmac_key *ret)
{
    static _Thread_local struct {
        uint64_t id; /* of the credential; 0: unused */
        size_t region_n;
        char day[DAY_SIZE], region[REGION_MAX];
        struct hmac_key key;
    } cache[CACHED], *e;

    assert(day.n == DAY_SIZE);
    if (region.n > REGION_MAX) {
        derive(c, day, region, ret);
        return;
    }
    e = &cache[(c->hash ^ hash64(0, region.p, region.n)) % CACHED];
    if (e->id != c->id || memcmp(e->day, day.p, DAY_SIZE) != 0 ||
        !slice_eq(slice_of(e->region, e->region_n), region)) {
        e->id = c->id;
        memcpy(e->day, day.p, DAY_SIZE);
        if (region.n)
            memcpy(e->region, region.p, region.n);
        e->region_n = region.n;
        derive(c, day, region, &e->key);
    }
    *ret = e->key;
}
