/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/gate.h"
#include "kv/wrap.h"

struct faulty {
    struct kv_gate gate;
    struct kv_fault fault;
    bool armed;
    uint64_t calls, injected; /* atomic */
};

static struct faulty *faulty_of(const struct kv *kv)
{
    return container_of(kv, struct faulty, gate.base);
}

/* splitmix64: the same call fails in each run with the same seed. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool strikes(struct faulty *f)
{
    uint64_t i = __atomic_fetch_add(&f->calls, 1, __ATOMIC_RELAXED);
    bool hit = (f->fault.nth >= 0 && i == (uint64_t)f->fault.nth) ||
               (f->fault.rate_ppm && mix(f->fault.seed + i) % 1000000 < f->fault.rate_ppm);

    if (hit)
        __atomic_fetch_add(&f->injected, 1, __ATOMIC_RELAXED);
    return hit;
}

/* The injected result of a call; RC_OK: make it. */
static enum rc injected(struct kv_gate *gate)
{
    struct faulty *f = container_of(gate, struct faulty, gate);

    if (!f->armed || f->fault.mode != KV_FAULT_CALL || !strikes(f))
        return RC_OK;
    return fail_rc(f->fault.rc, "injected fault");
}

static enum rc faulty_txn_commit(struct kv_txn *txn)
{
    struct faulty *f = faulty_of(txn->kv);
    bool hit = f->armed && strikes(f);
    enum rc rc;

    if (hit && f->fault.mode != KV_FAULT_COMMIT_ANSWER)
        return fail_rc(f->fault.rc, "injected fault");
    rc = kv_txn_commit(kv_gate_inner(txn));
    return hit && !rc ? fail_rc(RC_TIMEOUT, "injected loss of an answer") : rc;
}

static const struct kv_ops faulty_ops = { .name = "faulty",
                                          KV_GATE_OPS,
                                          .txn_commit = faulty_txn_commit };

enum rc kv_faulty_open(struct kv *inner, struct kv **ret)
{
    struct faulty *f = calloc(1, sizeof *f);

    if (!f)
        return RC_NO_MEM;
    f->gate = (struct kv_gate){ .base = { .ops = &faulty_ops }, .inner = inner, .pass = injected };
    *ret = &f->gate.base;
    return RC_OK;
}

void kv_faulty_arm(struct kv *faulty, const struct kv_fault *fault)
{
    struct faulty *f = faulty_of(faulty);

    assert(faulty->ops == &faulty_ops);
    f->fault = *fault;
    f->armed = true;
    __atomic_store_n(&f->calls, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&f->injected, 0, __ATOMIC_RELAXED);
}

void kv_faulty_disarm(struct kv *faulty)
{
    faulty_of(faulty)->armed = false;
}

uint64_t kv_faulty_calls(const struct kv *faulty)
{
    return __atomic_load_n(&faulty_of(faulty)->calls, __ATOMIC_RELAXED);
}

uint64_t kv_faulty_injected(const struct kv *faulty)
{
    return __atomic_load_n(&faulty_of(faulty)->injected, __ATOMIC_RELAXED);
}
