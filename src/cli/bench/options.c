/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"

#include <getopt.h>
#include <netdb.h>
#include <unistd.h>

const char *const bench_op_names[BENCH_OPS] = { "put",  "get",   "head",     "range",   "delete",
                                                "list", "mixed", "mkbucket", "rmbucket" };

static const char help[] =
    "usage: strata bench s3 --op OP [options]\n"
    "\n"
    "  --op            put, get, head, range, delete, list, mixed, mkbucket, rmbucket\n"
    "  --endpoint URL  http://host:port (default $S3_ENDPOINT, else http://127.0.0.1:9000)\n"
    "  --access, --secret, --region\n"
    "                  default $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY, us-east-1\n"
    "  --bucket B      default bench\n"
    "  --prefix P      of keys: object n is P and ten digits; default obj-\n"
    "  --objects N     size of the key range, default 10000; --first N its first number\n"
    "  --size N[k|m|g] of an object, default 1k\n"
    "  --range N[k|m|g] bytes of each range read, default 1m\n"
    "  --concurrency N connections, default 8; --threads N loops, default 1\n"
    "  --duration S    seconds, default 10; 0: until --count requests\n"
    "  --count N       stop after N requests\n"
    "  --warmup S      seconds that are not counted, default 0\n"
    "  --rate R        open loop: R requests/s; latency counts from when each was due\n"
    "  --mix-get P     percent of GETs in mixed, default 90\n"
    "  --max-keys N    of a listing's page, default 1000; --list-prefix P; --delimiter (/)\n"
    "  --sequential    read in order, not at random\n"
    "  --verify        get: compare the bytes with what put wrote\n"
    "  --sign-body     sign the body's SHA-256 instead of UNSIGNED-PAYLOAD\n"
    "  --timeout S     of a request, default 60\n"
    "  --pid NAME=PID  report this process's CPU and memory, too; repeatable\n"
    "  --label TEXT    copied to the output\n"
    "\n"
    "One JSON line on standard output; a progress line on a terminal. Exit status 0 without "
    "errors.\n";

enum {
    O_ACCESS = 256,
    O_SECRET,
    O_REGION,
    O_BUCKET,
    O_PREFIX,
    O_OBJECTS,
    O_FIRST,
    O_SIZE,
    O_RANGE,
    O_CONC,
    O_THREADS,
    O_DURATION,
    O_COUNT,
    O_WARMUP,
    O_RATE,
    O_MIX,
    O_MAXKEYS,
    O_LISTPREFIX,
    O_DELIMITER,
    O_SEQ,
    O_VERIFY,
    O_SIGN,
    O_TIMEOUT,
    O_PID,
    O_LABEL,
    O_OP,
    O_ENDPOINT,
    O_HELP
};

static const struct option longs[] = {
    { "op", 1, NULL, O_OP },
    { "endpoint", 1, NULL, O_ENDPOINT },
    { "access", 1, NULL, O_ACCESS },
    { "secret", 1, NULL, O_SECRET },
    { "region", 1, NULL, O_REGION },
    { "bucket", 1, NULL, O_BUCKET },
    { "prefix", 1, NULL, O_PREFIX },
    { "objects", 1, NULL, O_OBJECTS },
    { "first", 1, NULL, O_FIRST },
    { "size", 1, NULL, O_SIZE },
    { "range", 1, NULL, O_RANGE },
    { "concurrency", 1, NULL, O_CONC },
    { "threads", 1, NULL, O_THREADS },
    { "duration", 1, NULL, O_DURATION },
    { "count", 1, NULL, O_COUNT },
    { "warmup", 1, NULL, O_WARMUP },
    { "rate", 1, NULL, O_RATE },
    { "mix-get", 1, NULL, O_MIX },
    { "max-keys", 1, NULL, O_MAXKEYS },
    { "list-prefix", 1, NULL, O_LISTPREFIX },
    { "delimiter", 0, NULL, O_DELIMITER },
    { "sequential", 0, NULL, O_SEQ },
    { "verify", 0, NULL, O_VERIFY },
    { "sign-body", 0, NULL, O_SIGN },
    { "timeout", 1, NULL, O_TIMEOUT },
    { "pid", 1, NULL, O_PID },
    { "label", 1, NULL, O_LABEL },
    { "help", 0, NULL, O_HELP },
    { NULL, 0, NULL, 0 },
};

static bool number(const char *text, uint64_t *ret)
{
    struct slice s = slice_str(text);
    unsigned shift = 0;

    if (s.n && strchr("kKmMgG", s.p[s.n - 1])) {
        char c = s.p[s.n - 1] | 32;

        shift = c == 'k' ? 10 : c == 'm' ? 20 : 30;
        s.n--;
    }
    if (!slice_to_u64(s, ret) || *ret > UINT64_MAX >> shift >> 1)
        return false;
    *ret <<= shift;
    return true;
}

static bool real(const char *text, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    return *text && !*end && *ret >= 0 && *ret < 1e12;
}

static bool small(const char *text, unsigned most, unsigned *ret)
{
    uint64_t v;

    if (!number(text, &v) || v > most)
        return false;
    *ret = (unsigned)v;
    return true;
}

static bool add_pid(struct bench_options *o, char *text)
{
    char *eq = strchr(text, '=');
    unsigned pid;

    if (!eq || o->pids == BENCH_PIDS_MAX || !small(eq + 1, 1 << 30, &pid))
        return false;
    *eq = 0;
    o->pid_name[o->pids] = text;
    o->pid[o->pids++] = (int)pid;
    return true;
}

static bool set_op(struct bench_options *o, const char *text)
{
    for (unsigned i = 0; i < BENCH_OPS; i++)
        if (!strcmp(text, bench_op_names[i])) {
            o->op = (enum bench_op)i;
            return true;
        }
    return false;
}

static bool set_string(struct bench_options *o, int c)
{
    switch (c) {
    case O_ENDPOINT:
        o->endpoint = optarg;
        return true;
    case O_ACCESS:
        o->access = optarg;
        return true;
    case O_SECRET:
        o->secret = optarg;
        return true;
    case O_REGION:
        o->region = optarg;
        return true;
    case O_BUCKET:
        o->bucket = optarg;
        return true;
    case O_PREFIX:
        o->prefix = optarg;
        return true;
    case O_LISTPREFIX:
        o->list_prefix = optarg;
        return true;
    case O_LABEL:
        o->label = optarg;
        return true;
    case O_DELIMITER:
        return o->delimiter = true;
    case O_SEQ:
        return o->sequential = true;
    case O_VERIFY:
        return o->verify = true;
    case O_SIGN:
        return o->sign_body = true;
    default:
        return false;
    }
}

static bool set_option(struct bench_options *o, int c)
{
    switch (c) {
    case O_OP:
        return set_op(o, optarg);
    case O_OBJECTS:
        return number(optarg, &o->objects) && o->objects > 0;
    case O_FIRST:
        return number(optarg, &o->first);
    case O_SIZE:
        return number(optarg, &o->size);
    case O_RANGE:
        return number(optarg, &o->range) && o->range > 0;
    case O_CONC:
        return small(optarg, 100000, &o->concurrency) && o->concurrency > 0;
    case O_THREADS:
        return small(optarg, 256, &o->threads) && o->threads > 0;
    case O_MIX:
        return small(optarg, 100, &o->mix_get);
    case O_COUNT:
        return number(optarg, &o->count);
    case O_MAXKEYS:
        return number(optarg, &o->max_keys);
    case O_DURATION:
        return real(optarg, &o->duration_s);
    case O_WARMUP:
        return real(optarg, &o->warmup_s);
    case O_RATE:
        return real(optarg, &o->rate);
    case O_TIMEOUT:
        return real(optarg, &o->timeout_s) && o->timeout_s > 0;
    case O_PID:
        return add_pid(o, optarg);
    default:
        return set_string(o, c);
    }
}

static bool resolve(struct bench_options *o)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
    struct slice url = slice_str(o->endpoint), port, name;
    char host[200], service[16];

    if (slice_starts(url, SLICE("http://")))
        url = slice_from(url, 7);
    else if (slice_find(url, SLICE("://")) != SIZE_MAX)
        return false;
    url = slice_first(url, slice_find_char(url, '/'));
    name = slice_cut(url, ':', &port);
    if (name.n == 0 || name.n >= sizeof host || port.n >= sizeof service)
        return false;
    snprintf(host, sizeof host, "%.*s", SLICE_ARG(name));
    snprintf(service, sizeof service, "%.*s", SLICE_ARG(port.n ? port : SLICE("80")));
    snprintf(o->host, sizeof o->host, "%.*s", SLICE_ARG(url));
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return false;
    memcpy(&o->addr, list->ai_addr, list->ai_addrlen);
    o->addr_len = list->ai_addrlen;
    freeaddrinfo(list);
    return true;
}

static const char *env_or(const char *name, const char *otherwise)
{
    const char *v = getenv(name);

    return v && *v ? v : otherwise;
}

int bench_options_parse(struct bench_options *o, int argc, char **argv)
{
    int c, at;

    *o = (struct bench_options){
        .endpoint = env_or("S3_ENDPOINT", "http://127.0.0.1:9000"),
        .access = env_or("AWS_ACCESS_KEY_ID", ""),
        .secret = env_or("AWS_SECRET_ACCESS_KEY", ""),
        .region = env_or("AWS_DEFAULT_REGION", "us-east-1"),
        .bucket = "bench",
        .prefix = "obj-",
        .list_prefix = "",
        .label = "",
        .op = BENCH_OPS,
        .objects = 10000,
        .size = 1024,
        .range = 1 << 20,
        .max_keys = 1000,
        .concurrency = 8,
        .threads = 1,
        .mix_get = 90,
        .duration_s = 10,
        .timeout_s = 60,
        .progress = isatty(STDERR_FILENO),
    };
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, "", longs, &at)) != -1) {
        if (c == O_HELP) {
            fputs(help, stdout);
            return 1;
        }
        if (!set_option(o, c)) {
            fprintf(stderr, "strata bench: bad option or value: %s (--help tells all)\n",
                    argv[optind - 1]);
            return 3;
        }
    }
    if (o->op == BENCH_OPS || optind < argc) {
        fprintf(stderr, "strata bench: --op is missing, or a stray argument (--help tells all)\n");
        return 3;
    }
    if (!resolve(o)) {
        fprintf(stderr, "strata bench: cannot use endpoint %s (http://host:port)\n", o->endpoint);
        return 3;
    }
    o->threads = MIN(o->threads, o->concurrency);
    return 0;
}
