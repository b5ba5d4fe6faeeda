/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics — counters, gauges and histograms with labels, rendered as Prometheus text.
 *
 * A metric family is declared once; a series (family + label values) is found once and then updated
 * without locks or allocation. Values that live elsewhere are read by collectors at render time.
 *
 * Owns:    the registry owns families and series until metrics_free.
 * Errors:  RC_NO_MEM, RC_EXISTS (name taken), RC_TOO_LARGE (more than the family's series limit;
 * the caller then uses the series that metrics_series gives for overflow). Threads: declare and
 * series: any, under a lock. add/set/observe: any, lock-free. Source:  Prometheus text exposition
 * format 0.0.4.
 */
#ifndef STRATA_OBS_METRICS_H
#define STRATA_OBS_METRICS_H

#include "base/buf.h"

struct metrics;
struct metric_family;
struct metric_series;

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_desc {
    const char *name; /* without the "strata_" prefix, which render adds */
    const char *help;
    enum metric_type type;
    const char *const *labels; /* names; NULL-terminated; NULL: none */
    const double *bounds;      /* METRIC_HISTOGRAM: upper bounds in rising order, seconds */
    unsigned bounds_n;
    unsigned series_max; /* 0: 1000 */
};

enum rc metrics_new(struct metrics **ret) MUST_CHECK;
void metrics_free(struct metrics *m);
enum rc metrics_declare(struct metrics *m, const struct metric_desc *desc,
                        struct metric_family **ret) MUST_CHECK;
/* The series with these label values, made at need; never fails: past the limit or out of memory a
 * shared series with the label values "other" is returned. */
struct metric_series *metrics_series(struct metric_family *f, const char *const *values);
void metric_add(struct metric_series *s, double v);
void metric_set(struct metric_series *s, double v);
void metric_observe(struct metric_series *s, double v);

/* Called while rendering to add lines of values kept elsewhere. */
typedef enum rc (*metrics_collect_fn)(void *arg, struct buf *out);
enum rc metrics_collector(struct metrics *m, metrics_collect_fn fn, void *arg) MUST_CHECK;
/* For collectors: "# HELP", "# TYPE" and one sample. labels: "a=\"b\",…" or NULL. */
enum rc metrics_emit(struct buf *out, const char *name, const char *help, enum metric_type type,
                     const char *labels, double value) MUST_CHECK;
enum rc metrics_render(struct metrics *m, struct buf *out) MUST_CHECK;

#endif
