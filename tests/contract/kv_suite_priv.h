/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_suite_priv — what the cases of the KV suite share.
 *
 * Errors:  helpers abort the process when a call does not give what it must.
 */
#ifndef STRATA_TESTS_CONTRACT_KV_SUITE_PRIV_H
#define STRATA_TESTS_CONTRACT_KV_SUITE_PRIV_H

#include "kv_suite.h"

struct rt;

struct kv_env {
    const struct kv_suite *suite;
    struct kv *kv;
    struct rt *rt; /* NULL on threads */
};

struct kv_case {
    const char *name;
    void (*fn)(struct kv_env *);
    bool needs_reopen;
};
extern const struct kv_case kv_basic_cases[], kv_txn_cases[], kv_many_cases[], kv_model_cases[];
extern const unsigned kv_basic_cases_n, kv_txn_cases_n, kv_many_cases_n, kv_model_cases_n;

void kv_check_failed(const char *file, int line, const char *what, enum rc rc) NO_RETURN;
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            kv_check_failed(__FILE__, __LINE__, #cond, RC_OK);                                     \
    } while (0)
#define CHECK_RC(expr, expected)                                                                   \
    do {                                                                                           \
        enum rc check_rc_ = (expr);                                                                \
        if (check_rc_ != (expected))                                                               \
            kv_check_failed(__FILE__, __LINE__, #expr " must be " #expected, check_rc_);           \
    } while (0)
#define CHECK_OK(expr) CHECK_RC(expr, RC_OK)

/* steps scaled by the suite's effort, at least 1. */
unsigned kv_effort(const struct kv_env *env, unsigned steps);
void kv_sleep_ms(int64_t ms);
uint64_t kv_random(uint64_t *state); /* xorshift; state is not 0 */

/* Runs fn(env, i, arg) for each i below n at once, on fibers of all loops or on threads. */
void kv_parallel(struct kv_env *env, unsigned n, void (*fn)(struct kv_env *, unsigned i, void *arg),
                 void *arg);

/* One write in a transaction of its own. */
void kv_put1(struct kv_env *env, struct slice partition, struct slice key, struct slice value);
void kv_delete1(struct kv_env *env, struct slice partition, struct slice key);
/* The version of an entry; 0 when absent. */
uint64_t kv_version1(struct kv_env *env, struct slice partition, struct slice key);
/* Checks that a point read gives the value, or nothing. */
void kv_expect(struct kv_env *env, struct slice partition, struct slice key, struct slice value);
void kv_expect_absent(struct kv_env *env, struct slice partition, struct slice key);
/* Checks that a scan gives exactly these keys. */
void kv_expect_keys(struct kv_env *env, const struct kv_range *range, const struct slice *keys,
                    unsigned n);
/* A counter entry's columns. */
void kv_counters1(struct kv_env *env, struct slice partition, struct slice key, int64_t *columns,
                  unsigned n);

/* ---- histories on one register -------------------------------------------------------------- */

enum kv_event_kind { KV_EVENT_READ, KV_EVENT_WRITE, KV_EVENT_CAS };

struct kv_event {
    enum kv_event_kind kind;
    uint64_t invoked, answered; /* places in one total order of all invocations and answers */
    uint64_t saw;               /* READ, CAS: the value found; 0 = absent */
    uint64_t wrote;             /* WRITE, CAS; 0 = deleted */
};

#define KV_HISTORY_MAX 64u
/* Whether some order of the events, each between its invocation and its answer, explains all that
 * was seen, from an absent register on. At most KV_HISTORY_MAX events. */
bool kv_linearizable(const struct kv_event *events, unsigned n);

#endif
