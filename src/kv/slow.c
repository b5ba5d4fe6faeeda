/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "kv/gate.h"
#include "kv/wrap.h"
#include "rt/rt.h"

#include <unistd.h>

struct slow {
    struct kv_gate gate;
    unsigned min_us, max_us;
};

static enum rc delay(struct kv_gate *gate)
{
    const struct slow *s = container_of(gate, struct slow, gate);
    static _Thread_local uint64_t x = 88172645463325252;
    unsigned us;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    us = s->min_us + (unsigned)(x % (s->max_us - s->min_us + 1));
    if (us == 0)
        return RC_OK;
    if (fiber_current())
        return fiber_sleep_until(clock_mono_ns() + (int64_t)us * 1000);
    usleep(us);
    return RC_OK;
}

static const struct kv_ops slow_ops = { .name = "slow",
                                        KV_GATE_OPS,
                                        .txn_commit = kv_gate_txn_commit };

enum rc kv_slow_open(struct kv *inner, unsigned min_us, unsigned max_us, struct kv **ret)
{
    struct slow *s;

    if (max_us < min_us)
        return RC_INVALID;
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    *s = (struct slow){
        .gate = { .base = { .ops = &slow_ops }, .inner = inner, .pass = delay },
        .min_us = min_us,
        .max_us = max_us,
    };
    *ret = &s->gate.base;
    return RC_OK;
}
