/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"
#include "cli/bench/procstat.h"
#include "cli/commands.h"

#include <pthread.h>
#include <unistd.h>

struct cpu_marks {
    double self, pid[BENCH_PIDS_MAX];
};

static struct cpu_marks cpu_now(const struct bench_options *o)
{
    struct cpu_marks m = { .self = procstat_cpu_s(0) };

    for (unsigned i = 0; i < o->pids; i++)
        m.pid[i] = procstat_cpu_s(o->pid[i]);
    return m;
}

static void print_string(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            putchar('\\');
        if ((unsigned char)*s >= 32)
            putchar(*s);
    }
    putchar('"');
}

static void merge(struct bench_result *into, const struct bench_result *from)
{
    histogram_merge(&into->latency, &from->latency);
    into->ops += from->ops;
    into->bytes += from->bytes;
    into->keys += from->keys;
    into->errors += from->errors;
    into->lost += from->lost;
    into->wrong += from->wrong;
    for (unsigned i = 0; i < ARRAY_LEN(into->by_status); i++)
        into->by_status[i] += from->by_status[i];
    into->last_ns = MAX(into->last_ns, from->last_ns);
    if (!into->first_error[0])
        memcpy(into->first_error, from->first_error, sizeof into->first_error);
}

static void print_errors(const struct bench_result *r)
{
    const char *sep = "";

    printf(",\"errors\":%llu,\"status\":{", (unsigned long long)r->errors);
    for (unsigned i = 0; i < ARRAY_LEN(r->by_status); i++)
        if (r->by_status[i]) {
            printf("%s\"%u\":%llu", sep, i, (unsigned long long)r->by_status[i]);
            sep = ",";
        }
    if (r->lost)
        printf("%s\"lost\":%llu", sep, (unsigned long long)r->lost);
    if (r->wrong)
        printf("%s\"wrong\":%llu", r->lost || *sep ? "," : "", (unsigned long long)r->wrong);
    fputs("}", stdout);
}

static void print_cpu(const struct bench_options *o, const struct cpu_marks *from, double wall,
                      uint64_t requests)
{
    struct cpu_marks to = cpu_now(o);

    printf(",\"cpu_cores\":{\"client\":%.3f", (to.self - from->self) / wall);
    for (unsigned i = 0; i < o->pids; i++)
        printf(",\"%s\":%.3f", o->pid_name[i], (to.pid[i] - from->pid[i]) / wall);
    fputs("},\"cpu_us_per_op\":{", stdout);
    for (unsigned i = 0; i < o->pids; i++)
        printf("%s\"%s\":%.1f", i ? "," : "", o->pid_name[i],
               requests ? (to.pid[i] - from->pid[i]) * 1e6 / (double)requests : 0.0);
    fputs("},\"rss_mb\":{", stdout);
    for (unsigned i = 0; i < o->pids; i++)
        printf("%s\"%s\":%.1f", i ? "," : "", o->pid_name[i],
               (double)procstat_rss_bytes(o->pid[i]) / 1e6);
    fputs("}", stdout);
}

static void print_result(const struct bench_run *run, const struct bench_result *r,
                         const struct cpu_marks *cpu, double wall)
{
    static const struct {
        const char *name;
        double p;
    } q[] = { { "p50", .5 }, { "p95", .95 }, { "p99", .99 }, { "p999", .999 } };
    const struct bench_options *o = run->o;
    double s = (double)(r->last_ns - run->measure_ns) / 1e9;

    s = r->ops && s > 0 ? s : wall;
    fputs("{\"label\":", stdout);
    print_string(o->label);
    printf(",\"op\":\"%s\",\"size\":%llu,\"concurrency\":%u,\"rate\":%.6g,\"seconds\":%.2f,"
           "\"ops\":%llu,\"ops_s\":%.1f,\"mb_s\":%.2f,\"keys_s\":%.0f",
           bench_op_names[o->op], (unsigned long long)o->size, o->concurrency, o->rate, s,
           (unsigned long long)r->ops, (double)r->ops / s, (double)r->bytes / s / 1e6,
           (double)r->keys / s);
    print_errors(r);
    printf(",\"latency_us\":{\"mean\":%.1f",
           r->latency.n ? r->latency.sum / (double)r->latency.n / 1e3 : 0);
    for (unsigned i = 0; i < ARRAY_LEN(q); i++)
        printf(",\"%s\":%.1f", q[i].name, (double)histogram_quantile(&r->latency, q[i].p) / 1e3);
    printf(",\"max\":%.1f}", (double)r->latency.max / 1e3);
    print_cpu(o, cpu, wall, atomic_load(&run->done));
    if (r->first_error[0]) {
        fputs(",\"first_error\":", stdout);
        print_string(r->first_error);
    }
    puts("}");
}

struct progress {
    struct bench_run *run;
    atomic_bool end;
};

static void *progress_main(void *arg)
{
    struct progress *p = arg;
    unsigned long long before = 0;

    while (!atomic_load(&p->end)) {
        unsigned long long done;

        for (int i = 0; i < 10 && !atomic_load(&p->end); i++)
            usleep(100000);
        done = atomic_load(&p->run->done);
        fprintf(stderr, "\r%s: %llu requests, %llu/s, %llu failed ", bench_op_names[p->run->o->op],
                done, done - before, (unsigned long long)atomic_load(&p->run->failed));
        before = done;
    }
    fputs("\r\033[K", stderr);
    return NULL;
}

static int run_workers(struct bench_run *run, struct bench_worker *w, pthread_t *t)
{
    const struct bench_options *o = run->o;
    unsigned started = 0;
    int rc = 0;

    for (unsigned i = 0; i < o->threads; i++) {
        w[i].run = run;
        w[i].index = i;
        w[i].connections = o->concurrency / o->threads + (i < o->concurrency % o->threads);
        if (pthread_create(&t[i], NULL, bench_worker_main, &w[i]) != 0) {
            rc = 1;
            break;
        }
        started++;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(t[i], NULL);
        rc |= w[i].rc;
    }
    return rc;
}

int bench_s3_run(const struct bench_options *o)
{
    AUTO(free_p) struct bench_worker *w = calloc(o->threads, sizeof *w);
    AUTO(free_p) pthread_t *t = calloc(o->threads, sizeof *t);
    AUTO(free_p) struct bench_result *all = calloc(1, sizeof *all);
    struct bench_run run = { .o = o };
    struct progress progress = { .run = &run };
    struct cpu_marks cpu;
    pthread_t progress_thread;
    bool shows;
    int rc;

    if (!w || !t || !all || !bench_pattern_init(o->size)) {
        fputs("strata bench: out of memory\n", stderr);
        return 1;
    }
    cpu = cpu_now(o);
    run.begin_ns = clock_mono_ns();
    run.measure_ns = run.begin_ns + (int64_t)(o->warmup_s * 1e9);
    run.end_ns = o->duration_s > 0 ? run.measure_ns + (int64_t)(o->duration_s * 1e9) : INT64_MAX;
    shows = o->progress && pthread_create(&progress_thread, NULL, progress_main, &progress) == 0;
    rc = run_workers(&run, w, t);
    if (shows) {
        atomic_store(&progress.end, true);
        pthread_join(progress_thread, NULL);
    }
    for (unsigned i = 0; i < o->threads; i++)
        merge(all, &w[i].result);
    print_result(&run, all, &cpu, (double)(clock_mono_ns() - run.begin_ns) / 1e9);
    if (rc)
        fputs("strata bench: a thread could not run\n", stderr);
    return rc || all->errors ? 1 : 0;
}

int bench_command(int argc, char **argv)
{
    struct bench_options o;
    int rc;

    if (argc < 1 || strcmp(argv[0], "s3") != 0) {
        fputs("usage: strata bench s3 --op OP [options] (--help tells all)\n", stderr);
        return argc == 1 && !strcmp(argv[0], "--help") ? 0 : 2;
    }
    rc = bench_options_parse(&o, argc, argv);
    if (rc)
        return rc - 1;
    return bench_s3_run(&o);
}
