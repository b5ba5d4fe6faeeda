/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants: families and series are only ever added, at the head of their lists, until
 * metrics_free. So readers may walk the lists under the lock, and holders of a series update it
 * without.
 */
#include "obs/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define LABELS_MAX 6
#define SERIES_MAX 1000

struct metric_series {
    struct metric_series *next;
    const struct metric_family *family;
    char *labels;              /* rendered: a="b",c="d" */
    _Atomic uint64_t value;    /* bits of a double: the value, or a histogram's sum */
    _Atomic uint64_t *buckets; /* bounds_n + 1 */
};

struct metric_family {
    struct metric_family *next;
    struct metrics *owner;
    struct metric_desc desc;
    struct metric_series *series;
    struct metric_series *other; /* for what is past the limit */
    unsigned series_n;
};

struct collector {
    struct collector *next;
    metrics_collect_fn fn;
    void *arg;
};

struct metrics {
    pthread_mutex_t lock; /* guards the lists */
    struct metric_family *families, **families_end;
    struct collector *collectors;
};

enum rc metrics_new(struct metrics **ret)
{
    struct metrics *m = calloc(1, sizeof *m);

    if (!m)
        return RC_NO_MEM;
    pthread_mutex_init(&m->lock, NULL);
    m->families_end = &m->families;
    *ret = m;
    return RC_OK;
}

static void series_free(struct metric_series *s)
{
    if (!s)
        return;
    free(s->labels);
    free(s->buckets);
    free(s);
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (struct metric_family *f = m->families, *fn; f; f = fn) {
        fn = f->next;
        for (struct metric_series *s = f->series, *sn; s; s = sn) {
            sn = s->next;
            series_free(s);
        }
        free(f);
    }
    for (struct collector *c = m->collectors, *cn; c; c = cn) {
        cn = c->next;
        free(c);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static enum rc render_labels(const struct metric_desc *d, const char *const *values,
                             struct buf *out)
{
    enum rc rc = RC_OK;

    for (unsigned i = 0; d->labels && d->labels[i] && !rc; i++) {
        rc = buf_addf(out, "%s%s=\"", i ? "," : "", d->labels[i]);
        for (const char *v = values[i]; *v && !rc; v++) {
            if (*v == '"' || *v == '\\')
                rc = buf_add_char(out, '\\');
            if (!rc)
                rc = buf_add_char(out, *v == '\n' ? ' ' : *v);
        }
        if (!rc)
            rc = buf_add_char(out, '"');
    }
    return rc ? rc : buf_add_char(out, 0);
}

static struct metric_series *series_new(struct metric_family *f, const char *const *values)
{
    AUTO(buf_fini) struct buf labels = { .max = 4096 };
    struct metric_series *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    if (f->desc.bounds_n)
        s->buckets = calloc(f->desc.bounds_n + 1, sizeof *s->buckets);
    if ((f->desc.bounds_n && !s->buckets) || render_labels(&f->desc, values, &labels)) {
        series_free(s);
        return NULL;
    }
    s->labels = STEAL(labels.p);
    s->family = f;
    s->next = f->series;
    f->series = s;
    f->series_n++;
    return s;
}

enum rc metrics_declare(struct metrics *m, const struct metric_desc *desc,
                        struct metric_family **ret)
{
    static const char *const others[LABELS_MAX] = { "other", "other", "other",
                                                    "other", "other", "other" };
    struct metric_family *f;
    enum rc rc = RC_OK;

    pthread_mutex_lock(&m->lock);
    for (f = m->families; f; f = f->next)
        if (!strcmp(f->desc.name, desc->name))
            rc = RC_EXISTS;
    f = rc ? NULL : calloc(1, sizeof *f);
    if (f) {
        f->owner = m;
        f->desc = *desc;
        f->desc.series_max = desc->series_max ? desc->series_max : SERIES_MAX;
        f->other = series_new(f, others);
    }
    if (!rc && (!f || !f->other)) {
        free(f);
        rc = RC_NO_MEM;
    }
    if (!rc) {
        *m->families_end = f;
        m->families_end = &f->next;
        *ret = f;
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

struct metric_series *metrics_series(struct metric_family *f, const char *const *values)
{
    AUTO(buf_fini) struct buf labels = { .max = 4096 };
    struct metric_series *s;

    if (!f->desc.labels)
        return f->other;
    if (render_labels(&f->desc, values, &labels))
        return f->other;
    pthread_mutex_lock(&f->owner->lock);
    for (s = f->series; s; s = s->next)
        if (!strcmp(s->labels, labels.p))
            break;
    if (!s && f->series_n < f->desc.series_max)
        s = series_new(f, values);
    pthread_mutex_unlock(&f->owner->lock);
    return s ? s : f->other;
}

static double as_double(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t as_bits(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits;
}

void metric_add(struct metric_series *s, double v)
{
    uint64_t old = atomic_load_explicit(&s->value, memory_order_relaxed);

    while (!atomic_compare_exchange_weak_explicit(&s->value, &old, as_bits(as_double(old) + v),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

void metric_set(struct metric_series *s, double v)
{
    atomic_store_explicit(&s->value, as_bits(v), memory_order_relaxed);
}

void metric_observe(struct metric_series *s, double v)
{
    const struct metric_desc *d = &s->family->desc;
    unsigned i = 0;

    while (i < d->bounds_n && v > d->bounds[i])
        i++;
    atomic_fetch_add_explicit(&s->buckets[i], 1, memory_order_relaxed);
    metric_add(s, v);
}

enum rc metrics_collector(struct metrics *m, metrics_collect_fn fn, void *arg)
{
    struct collector *c = malloc(sizeof *c);

    if (!c)
        return RC_NO_MEM;
    *c = (struct collector){ .fn = fn, .arg = arg };
    pthread_mutex_lock(&m->lock);
    c->next = m->collectors;
    m->collectors = c;
    pthread_mutex_unlock(&m->lock);
    return RC_OK;
}

static const char *const type_names[] = { "counter", "gauge", "histogram" };

static enum rc head(struct buf *out, const char *name, const char *help, enum metric_type type)
{
    return buf_addf(out, "# HELP strata_%s %s\n# TYPE strata_%s %s\n", name, help, name,
                    type_names[type]);
}

static enum rc sample(struct buf *out, const char *name, const char *suffix, const char *labels,
                      double v)
{
    const char *open = labels && *labels ? "{" : "", *close = labels && *labels ? "}" : "";

    return buf_addf(out, "strata_%s%s%s%s%s %.17g\n", name, suffix, open, labels ? labels : "",
                    close, v);
}

enum rc metrics_emit(struct buf *out, const char *name, const char *help, enum metric_type type,
                     const char *labels, double value)
{
    enum rc rc = head(out, name, help, type);

    return rc ? rc : sample(out, name, "", labels, value);
}

static enum rc render_histogram(const struct metric_series *s, struct buf *out)
{
    const struct metric_desc *d = &s->family->desc;
    const char *comma = *s->labels ? "," : "";
    uint64_t seen = 0;
    enum rc rc = RC_OK;

    for (unsigned i = 0; i <= d->bounds_n && !rc; i++) {
        char le[32] = "+Inf";

        seen += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
        if (i < d->bounds_n)
            snprintf(le, sizeof le, "%g", d->bounds[i]);
        rc = buf_addf(out, "strata_%s_bucket{%s%sle=\"%s\"} %llu\n", d->name, s->labels, comma, le,
                      (unsigned long long)seen);
    }
    if (!rc)
        rc = sample(out, d->name, "_sum", s->labels, as_double(atomic_load(&s->value)));
    return rc ? rc : sample(out, d->name, "_count", s->labels, (double)seen);
}

static bool is_untouched(const struct metric_series *s)
{
    if (atomic_load(&s->value))
        return false;
    for (unsigned i = 0; s->buckets && i <= s->family->desc.bounds_n; i++)
        if (atomic_load(&s->buckets[i]))
            return false;
    return true;
}

static enum rc render_family(const struct metric_family *f, struct buf *out)
{
    enum rc rc = head(out, f->desc.name, f->desc.help, f->desc.type);

    for (const struct metric_series *s = f->series; s && !rc; s = s->next) {
        if (f->desc.labels && s == f->other && is_untouched(s))
            continue;
        rc = f->desc.type == METRIC_HISTOGRAM
                 ? render_histogram(s, out)
                 : sample(out, f->desc.name, "", s->labels, as_double(atomic_load(&s->value)));
    }
    return rc;
}

enum rc metrics_render(struct metrics *m, struct buf *out)
{
    enum rc rc = RC_OK;

    pthread_mutex_lock(&m->lock);
    for (const struct metric_family *f = m->families; f && !rc; f = f->next)
        rc = render_family(f, out);
    pthread_mutex_unlock(&m->lock);
    /* Collectors may take their own locks: not under ours. They are never removed. */
    for (const struct collector *c = m->collectors; c && !rc; c = c->next)
        rc = c->fn(c->arg, out);
    return rc;
}
