/* SPDX-License-Identifier: Apache-2.0 */
/* All three wrappers are one driver with a hook before and one after the inner call. */
#include "data/wrap.h"

#include "base/clock.h"
#include "rt/rt.h"

#include <stdatomic.h>

struct wrap;

struct wrap_hooks {
    const char *name;
    /* Not RC_OK: the inner store is not called. */
    enum rc (*before)(struct wrap *w, enum data_verb verb);
    /* Gets and returns the call's result. */
    enum rc (*after)(struct wrap *w, enum data_verb verb, size_t bytes, enum rc rc,
                     int64_t from_ns);
};

struct wrap {
    struct data base;
    struct data_ops ops; /* with the inner store's abilities */
    struct data *inner;
    const struct wrap_hooks *hooks;
    struct data_fault fault;
    struct data_delay delay;
    data_trace_fn trace;
    void *trace_arg;
    _Atomic uint64_t calls;
};

static struct wrap *wrap_of(struct data *d)
{
    return container_of(d, struct wrap, base);
}

static enum rc before(struct wrap *w, enum data_verb verb, int64_t *ret_from_ns)
{
    *ret_from_ns = clock_mono_ns();
    return w->hooks->before ? w->hooks->before(w, verb) : RC_OK;
}

static enum rc after(struct wrap *w, enum data_verb verb, size_t bytes, enum rc rc, int64_t from_ns)
{
    return w->hooks->after ? w->hooks->after(w, verb, bytes, rc, from_ns) : rc;
}

static enum rc wrap_put(struct data *d, const struct data_hint *hint, const struct iovec *iov,
                        int iov_n, struct extent *ret)
{
    struct wrap *w = wrap_of(d);
    struct extent e = *ret;
    int64_t from;
    enum rc rc = before(w, DATA_PUT, &from);

    if (!rc)
        rc = data_put(w->inner, hint, iov, iov_n, &e);
    rc = after(w, DATA_PUT, ret->length, rc, from);
    if (!rc)
        *ret = e;
    return rc;
}

static enum rc wrap_get(struct data *d, const struct extent *e, uint32_t offset, void *out,
                        uint32_t n)
{
    struct wrap *w = wrap_of(d);
    const struct data_fault *f = &w->fault;
    int64_t from;
    enum rc rc = before(w, DATA_GET, &from);

    if (!rc)
        rc = data_get(w->inner, e, offset, out, n);
    rc = after(w, DATA_GET, n, rc, from);
    if (rc == RC_OK && f->flip && (f->verbs & DATA_GET)) {
        uint64_t call = atomic_load(&w->calls);

        if (call == f->nth || (f->onwards && call > f->nth))
            ((unsigned char *)out)[n / 2] ^= 1;
    }
    return rc;
}

static enum rc wrap_remove(struct data *d, const struct extent *e, size_t n)
{
    struct wrap *w = wrap_of(d);
    int64_t from;
    enum rc rc = before(w, DATA_REMOVE, &from);

    if (!rc)
        rc = data_remove(w->inner, e, n);
    return after(w, DATA_REMOVE, n, rc, from);
}

static enum rc wrap_stat(struct data *d, const struct extent *e)
{
    struct wrap *w = wrap_of(d);
    int64_t from;
    enum rc rc = before(w, DATA_STAT, &from);

    if (!rc)
        rc = data_stat(w->inner, e);
    return after(w, DATA_STAT, e->length, rc, from);
}

static enum rc wrap_scan(struct data *d, data_scan_fn fn, void *arg)
{
    struct wrap *w = wrap_of(d);
    int64_t from;
    enum rc rc = before(w, DATA_SCAN, &from);

    if (!rc)
        rc = data_scan(w->inner, fn, arg);
    return after(w, DATA_SCAN, 0, rc, from);
}

static enum rc wrap_probe(struct data *d)
{
    struct wrap *w = wrap_of(d);
    int64_t from;
    enum rc rc = before(w, DATA_PROBE, &from);

    if (!rc)
        rc = data_probe(w->inner);
    return after(w, DATA_PROBE, 0, rc, from);
}

static void wrap_stats(struct data *d, struct data_stats *ret)
{
    data_stats(wrap_of(d)->inner, ret);
}

static void wrap_close(struct data *d)
{
    struct wrap *w = wrap_of(d);

    data_close(w->inner);
    free(w);
}

static struct wrap *wrap_new(struct data *inner, const struct wrap_hooks *hooks)
{
    struct wrap *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->ops = (struct data_ops){
        .name = hooks->name,
        .caps = inner->ops->caps | DATA_CAP_PUT_CRC,
        .put = wrap_put,
        .get = wrap_get,
        .remove = wrap_remove,
        .stat = wrap_stat,
        .scan = wrap_scan,
        .probe = wrap_probe,
        .stats = wrap_stats,
        .close = wrap_close,
    };
    w->inner = inner;
    w->hooks = hooks;
    data_init(&w->base, &w->ops);
    return w;
}

/* ---- faulty ---- */

/* Counts in `before` alone, so that both hooks see one number per call when calls come one by one.
 */
static bool hit(const struct data_fault *f, enum data_verb verb, uint64_t call)
{
    return (f->verbs & verb) && f->nth && (call == f->nth || (f->onwards && call > f->nth));
}

static enum rc faulty_before(struct wrap *w, enum data_verb verb)
{
    const struct data_fault *f = &w->fault;

    if (!(f->verbs & verb))
        return RC_OK;
    if (!hit(f, verb, atomic_fetch_add(&w->calls, 1) + 1) || f->after || f->flip)
        return RC_OK;
    return fail_rc(f->rc, "a fault, as asked for");
}

static enum rc faulty_after(struct wrap *w, enum data_verb verb, size_t bytes, enum rc rc,
                            int64_t from_ns)
{
    const struct data_fault *f = &w->fault;

    if (rc || !f->after || !hit(f, verb, atomic_load(&w->calls)))
        return rc;
    return fail_rc(f->rc, "an answer was lost, as asked for");
}

static const struct wrap_hooks faulty_hooks = { .name = "faulty",
                                                .before = faulty_before,
                                                .after = faulty_after };

void data_faulty_arm(struct data *faulty, const struct data_fault *fault)
{
    struct wrap *w = wrap_of(faulty);

    assert(w->hooks == &faulty_hooks);
    w->fault = fault ? *fault : (struct data_fault){ .nth = 0 };
    atomic_store(&w->calls, 0);
}

enum rc data_faulty_open(struct data *inner, const struct data_fault *fault, struct data **ret)
{
    struct wrap *w = wrap_new(inner, &faulty_hooks);

    if (!w)
        return RC_NO_MEM;
    data_faulty_arm(&w->base, fault);
    *ret = &w->base;
    return RC_OK;
}

/* ---- slow ---- */

static enum rc slow_before(struct wrap *w, enum data_verb verb)
{
    const struct data_delay *d = &w->delay;
    uint64_t turn = atomic_fetch_add(&w->calls, 1) * 0x9e3779b97f4a7c15u >> 32;

    if (!(d->verbs & verb))
        return RC_OK;
    return fiber_sleep_ms((int64_t)(d->min_ms + turn % (d->max_ms - d->min_ms + 1)));
}

static const struct wrap_hooks slow_hooks = { .name = "slow", .before = slow_before };

enum rc data_slow_open(struct data *inner, const struct data_delay *delay, struct data **ret)
{
    struct wrap *w = wrap_new(inner, &slow_hooks);

    if (!w)
        return RC_NO_MEM;
    assert(delay->min_ms <= delay->max_ms);
    w->delay = *delay;
    *ret = &w->base;
    return RC_OK;
}

/* ---- trace ---- */

static enum rc trace_after(struct wrap *w, enum data_verb verb, size_t bytes, enum rc rc,
                           int64_t from_ns)
{
    w->trace(w->trace_arg, verb, bytes, rc, clock_mono_ns() - from_ns);
    return rc;
}

static const struct wrap_hooks trace_hooks = { .name = "trace", .after = trace_after };

enum rc data_trace_open(struct data *inner, data_trace_fn fn, void *arg, struct data **ret)
{
    struct wrap *w = wrap_new(inner, &trace_hooks);

    if (!w)
        return RC_NO_MEM;
    w->trace = fn;
    w->trace_arg = arg;
    *ret = &w->base;
    return RC_OK;
}
