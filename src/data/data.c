/* SPDX-License-Identifier: Apache-2.0 */
#include "data/data.h"

#include "base/checksum.h"

#include <stdatomic.h>

#define BACKREF_MAX 4096u

static const struct data_hint no_hint;

static void count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* NOT_FOUND is an answer, the rest are errors of the store. */
static enum rc counted(struct data *d, enum rc rc)
{
    if (rc && rc != RC_NOT_FOUND)
        count(&d->counters.errors, 1);
    return rc;
}

void data_init(struct data *d, const struct data_ops *ops)
{
    d->ops = ops;
    d->verify = true;
    memset(&d->counters, 0, sizeof d->counters);
}

static enum rc iov_total(const struct iovec *iov, int iov_n, size_t *ret)
{
    size_t total = 0;

    for (int i = 0; i < iov_n; i++) {
        if (iov[i].iov_len > DATA_CHUNK_MAX - total)
            return fail_rc(RC_TOO_LARGE, "a chunk has at most %u bytes", DATA_CHUNK_MAX);
        total += iov[i].iov_len;
    }
    if (!total)
        return fail_rc(RC_INVALID, "a chunk has at least one byte");
    *ret = total;
    return RC_OK;
}

enum rc data_put(struct data *d, const struct data_hint *hint, const struct iovec *iov, int iov_n,
                 struct extent *ret)
{
    struct extent e = { .length = 0 };
    size_t total = 0;
    enum rc rc = iov_total(iov, iov_n, &total);

    if (rc)
        return rc;
    hint = hint ? hint : &no_hint;
    if (hint->backref.n > BACKREF_MAX)
        return fail_rc(RC_TOO_LARGE, "a back-reference has at most %u bytes", BACKREF_MAX);
    e.length = (uint32_t)total;
    if (!(d->ops->caps & DATA_CAP_PUT_CRC))
        for (int i = 0; i < iov_n; i++)
            e.crc32c = crc32c(e.crc32c, iov[i].iov_base, iov[i].iov_len);
    rc = d->ops->put(d, hint, iov, iov_n, &e);
    if (rc)
        return counted(d, rc);
    count(&d->counters.puts, 1);
    count(&d->counters.put_bytes, total);
    *ret = e;
    return RC_OK;
}

/* A chunk that is removed while it is read shows as wrong bytes: ask before calling it corrupt. */
static enum rc mismatch(struct data *d, const struct extent *e)
{
    enum rc rc = d->ops->stat(d, e);

    if (rc)
        return rc;
    count(&d->counters.crc_errors, 1);
    return fail_rc(RC_CORRUPT, "chunk of %s store fails its CRC32C", d->ops->name);
}

enum rc data_get(struct data *d, const struct extent *e, uint32_t offset, void *out, uint32_t n)
{
    enum rc rc;

    if (offset > e->length || n > e->length - offset)
        return fail_rc(RC_INVALID, "read past the end of a chunk");
    if (!n)
        return RC_OK;
    rc = d->ops->get(d, e, offset, out, n);
    if (rc == RC_CORRUPT)
        count(&d->counters.crc_errors, 1);
    if (!rc && d->verify && n == e->length && crc32c(0, out, n) != e->crc32c)
        rc = mismatch(d, e);
    if (rc)
        return counted(d, rc);
    count(&d->counters.gets, 1);
    count(&d->counters.get_bytes, n);
    return RC_OK;
}

enum rc data_remove(struct data *d, const struct extent *e, size_t n)
{
    enum rc rc = n ? d->ops->remove(d, e, n) : RC_OK;

    if (!rc)
        count(&d->counters.deletes, n);
    return counted(d, rc);
}

enum rc data_stat(struct data *d, const struct extent *e)
{
    return counted(d, d->ops->stat(d, e));
}

enum rc data_scan(struct data *d, data_scan_fn fn, void *arg)
{
    if (!(d->ops->caps & DATA_CAP_LIST))
        return fail_rc(RC_UNSUPPORTED, "the %s store cannot list its chunks", d->ops->name);
    return counted(d, d->ops->scan(d, fn, arg));
}

enum rc data_probe(struct data *d)
{
    return counted(d, d->ops->probe(d));
}

void data_stats(struct data *d, struct data_stats *ret)
{
    struct data_counters *c = &d->counters;

    memset(ret, 0, sizeof *ret);
    d->ops->stats(d, ret);
    ret->puts = atomic_load_explicit(&c->puts, memory_order_relaxed);
    ret->gets = atomic_load_explicit(&c->gets, memory_order_relaxed);
    ret->deletes = atomic_load_explicit(&c->deletes, memory_order_relaxed);
    ret->put_bytes = atomic_load_explicit(&c->put_bytes, memory_order_relaxed);
    ret->get_bytes = atomic_load_explicit(&c->get_bytes, memory_order_relaxed);
    ret->errors = atomic_load_explicit(&c->errors, memory_order_relaxed);
    ret->crc_errors = atomic_load_explicit(&c->crc_errors, memory_order_relaxed);
}

const char *data_name(const struct data *d)
{
    return d->ops->name;
}

void data_close(struct data *d)
{
    if (d)
        d->ops->close(d);
}
