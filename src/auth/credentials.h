/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials — the table of access keys, and the signing keys derived from their secrets.
 *
 * Owns:    copies of all that is added, until credentials_fini. A found credential lives as long.
 * Errors:  RC_NO_MEM, RC_EXISTS.
 * Threads: credentials_find and credential_signing_key take no lock; credentials_add takes one.
 */
#ifndef STRATA_AUTH_CREDENTIALS_H
#define STRATA_AUTH_CREDENTIALS_H

#include "auth/auth.h"

#include <pthread.h>
#include <stdatomic.h>

/* Immutable once added. The secret itself is not kept, only the HMAC key made of "AWS4" + secret.
 */
struct credential {
    uint64_t id; /* unique in the process, never reused */
    uint64_t hash;
    struct slice access_key;
    struct hmac_key root;
    struct auth_account account;
    char text[]; /* what the slices point to */
};

struct credential_table;

struct credentials {
    pthread_mutex_t lock; /* of writers */
    struct credential_table *_Atomic table;
};

void credentials_init(struct credentials *c);
void credentials_fini(struct credentials *c);
enum rc credentials_add(struct credentials *c, struct slice access_key, struct slice secret_key,
                        const struct auth_account *account) MUST_CHECK;
const struct credential *credentials_find(const struct credentials *c, struct slice access_key);

/* The SigV4 signing key of a day ("20060102") and region, service "s3". Kept per thread for the
 * next request. */
void credential_signing_key(const struct credential *c, struct slice day, struct slice region,
                            struct hmac_key *ret);

#endif
