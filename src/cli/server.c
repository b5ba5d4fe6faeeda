/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wiring of the gateway: the one place that names concrete drivers. Parts are opened from the
 * lowest floor up and closed in reverse; each close accepts a part that was never opened.
 */
#include "admin/health.h"
#include "auth/auth.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/credentials.h"
#include "cli/settings.h"
#include "data/local.h"
#include "data/memory.h"
#include "kv/memory.h"
#include "kv/rocks.h"
#include "obs/log.h"
#include "s3/s3.h"
#include "work/gc.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

struct server {
    struct settings settings;
    struct root_credentials root;
    bool has_root; /* root credentials are in force: no static ones were given */
    struct rt *rt;
    struct metrics *metrics;
    struct kv *kv;
    struct data *data;
    struct meta *meta;
    struct object_engine *engine;
    struct auth *auth;
    struct s3_gateway *s3;
    struct gc_worker *gc;
    struct health health;
    struct http_server *http;
    enum rc rc; /* of the part that runs on a fiber */
};

static enum rc load_settings(struct settings *s, int argc, char **argv)
{
    enum rc rc = settings_init(s);

    if (!rc)
        rc = settings_from_args(s, argc, argv);
    if (!rc)
        rc = settings_from_env(s, environ);
    if (!rc && *settings_text(s, SET_CONFIG_FILE))
        rc = settings_from_file(s, settings_text(s, SET_CONFIG_FILE));
    return rc ? rc : settings_check(s);
}

static enum rc make_dir(const char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return RC_OK;
    return fail_rc(RC_UNAVAILABLE, "cannot make the directory %s: %s", path, strerror(errno));
}

static enum rc open_kv(struct server *s)
{
    const struct settings *set = &s->settings;
    char dir[4096];

    if (settings_number(set, SET_META_BACKEND) == 1)
        return kv_memory_open((size_t)settings_number(set, SET_MEMORY_BYTES), &s->kv);
    snprintf(dir, sizeof dir, "%s/meta", settings_text(set, SET_DATA_DIR));
    return kv_rocks_open(
        &(struct kv_rocks_config){
            .directory = dir,
            .block_cache_bytes = (size_t)settings_number(set, SET_ROCKS_CACHE),
            .write_buffer_bytes = (size_t)settings_number(set, SET_ROCKS_WRITE_BUFFER),
        },
        &s->kv);
}

static enum rc open_data(struct server *s)
{
    const struct settings *set = &s->settings;
    char dir[4096];
    enum rc rc;

    if (settings_number(set, SET_DATA_BACKEND) == 1) {
        rc = data_memory_open((size_t)settings_number(set, SET_MEMORY_BYTES), &s->data);
    } else {
        snprintf(dir, sizeof dir, "%s/chunks", settings_text(set, SET_DATA_DIR));
        rc = data_local_open(
            &(struct data_local_config){
                .directory = dir,
                .segment_bytes = (uint64_t)settings_number(set, SET_SEGMENT_BYTES),
                .min_free_bytes = (uint64_t)settings_number(set, SET_DISK_RESERVE),
            },
            &s->data);
    }
    if (!rc)
        s->data->verify = settings_number(set, SET_CHUNK_CRC_VERIFY);
    return rc;
}

static enum rc open_engine(struct server *s)
{
    const struct settings *set = &s->settings;
    enum rc rc = meta_new(
        &(struct meta_config){
            .kv = s->kv,
            .index_shards = (unsigned)settings_number(set, SET_BUCKET_SHARDS),
            .gc_grace_ms = (uint32_t)settings_number(set, SET_GC_GRACE),
            .bucket_cache_ms = (uint32_t)settings_number(set, SET_BUCKET_CACHE),
        },
        &s->meta);

    if (rc)
        return rc;
    return object_engine_new(
        &(struct object_config){
            .meta = s->meta,
            .data = s->data,
            .inline_max = (uint32_t)settings_number(set, SET_INLINE_MAX),
            .put_window = (unsigned)settings_number(set, SET_PUT_WINDOW),
            .get_prefetch = (unsigned)settings_number(set, SET_GET_PREFETCH),
            .buffer_bytes_max = (size_t)settings_number(set, SET_BUFFER_BYTES),
        },
        &s->engine);
}

static enum rc open_auth(struct server *s)
{
    const struct settings *set = &s->settings;
    const char *list = settings_text(set, SET_STATIC_CREDENTIALS);
    const char *dir = settings_text(set, SET_DATA_DIR);
    struct auth_account root = { SLICE_INIT("root"), SLICE_INIT("root"), SLICE_INIT("") };
    enum rc rc = auth_new(
        &(struct auth_config){
            .mode = (enum auth_mode)settings_number(set, SET_AUTH_MODE),
            .region = slice_str(settings_text(set, SET_REGION)),
            .check_region = settings_number(set, SET_AUTH_CHECK_REGION),
            .skew_s = 900,
        },
        &s->auth);

    if (rc)
        return rc;
    if (*list)
        return auth_add_static(s->auth, slice_str(list));
    if (*dir) {
        rc = credentials_root(dir, &s->root);
        if (rc)
            return rc;
    } else {
        credentials_generate(&s->root);
    }
    s->has_root = true;
    return auth_add_credential(s->auth, slice_str(s->root.access_key),
                               slice_str(s->root.secret_key), &root);
}

/* On a fiber: stores may wait while they open. */
static void open_floors(void *arg)
{
    struct server *s = arg;
    const char *dir = settings_text(&s->settings, SET_DATA_DIR);

    s->rc = *dir ? make_dir(dir) : RC_OK;
    if (!s->rc)
        s->rc = open_kv(s);
    if (!s->rc)
        s->rc = open_data(s);
    if (!s->rc)
        s->rc = open_engine(s);
    if (!s->rc)
        s->rc = open_auth(s);
    if (s->rc) /* the note is this fiber's; keep it for the main thread */
        fprintf(stderr, "strata: %s\n", *note_text() ? note_text() : rc_name(s->rc));
}

static enum rc open_http(struct server *s)
{
    const struct settings *set = &s->settings;
    struct http_server_config cfg = {
        .listen = settings_text(set, SET_LISTEN),
        .server_name = "Strata",
        .handler = { .serve = s3_serve, .refuse = s3_refuse, .ctx = s->s3 },
        .tls = { .min_version = settings_text(set, SET_TLS_MIN_VERSION) },
    };
    char why[200];
    enum rc rc;

    if (*settings_text(set, SET_TLS_CERT_FILE)) {
        cfg.tls.cert_file = settings_text(set, SET_TLS_CERT_FILE);
        cfg.tls.key_file = settings_text(set, SET_TLS_KEY_FILE);
    }
    http_limits_default(&cfg.limits);
    cfg.limits.head_bytes_max = (uint32_t)settings_number(set, SET_HTTP_MAX_HEADER_BYTES);
    cfg.limits.head_timeout_ms = (uint32_t)settings_number(set, SET_HTTP_READ_HEADER_TIMEOUT);
    cfg.limits.body_timeout_ms = (uint32_t)settings_number(set, SET_HTTP_READ_TIMEOUT);
    cfg.limits.write_timeout_ms = (uint32_t)settings_number(set, SET_HTTP_WRITE_TIMEOUT);
    cfg.limits.idle_timeout_ms = (uint32_t)settings_number(set, SET_HTTP_IDLE_TIMEOUT);
    cfg.limits.connections_max = (uint32_t)settings_number(set, SET_HTTP_MAX_CONNECTIONS);
    rc = http_server_start(s->rt, &cfg, &s->http);
    if (!rc)
        return RC_OK;
    snprintf(why, sizeof why, "%s", note_text());
    return fail_rc(rc, "STRATA_LISTEN or STRATA_TLS_*: %s", why);
}

static void close_floors(void *arg)
{
    struct server *s = arg;

    gc_worker_stop(s->gc);
    s3_gateway_free(s->s3);
    auth_free(s->auth);
    object_engine_free(s->engine);
    meta_free(s->meta);
    data_close(s->data);
    kv_close(s->kv);
}

static void print_welcome(const struct server *s)
{
    const struct settings *set = &s->settings;
    const char *scheme = *settings_text(set, SET_TLS_CERT_FILE) ? "https" : "http";
    unsigned port = http_server_port(s->http);

    printf("strata " STRATA_VERSION " serves %s://localhost:%u (metadata: %s, data: %s%s%s)\n",
           scheme, port, settings_text(set, SET_META_BACKEND), settings_text(set, SET_DATA_BACKEND),
           *settings_text(set, SET_DATA_DIR) ? ", directory: " : "",
           settings_text(set, SET_DATA_DIR));
    if (!s->has_root) {
        fflush(stdout);
        return;
    }
    if (!s->root.created) {
        printf("Root credentials are in %s/root-credentials\n", settings_text(set, SET_DATA_DIR));
        fflush(stdout);
        return;
    }
    printf(
        "\nRoot credentials%s (printed this once):\n\n"
        "  export AWS_ACCESS_KEY_ID=%s\n  export AWS_SECRET_ACCESS_KEY=%s\n"
        "  export AWS_DEFAULT_REGION=%s\n\nTry:\n\n"
        "  aws --endpoint-url %s://localhost:%u s3 mb s3://hello\n"
        "  aws --endpoint-url %s://localhost:%u s3 cp README.md s3://hello/\n\n"
        "  curl --aws-sigv4 aws:amz:%s:s3 --user \"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY\" \\\n"
        "       -H x-amz-content-sha256:UNSIGNED-PAYLOAD %s://localhost:%u/hello?list-type=2\n\n"
        "  python3 -c 'import boto3; print(boto3.client(\"s3\", "
        "endpoint_url=\"%s://localhost:%u\").list_buckets()[\"Buckets\"])'\n\n",
        *settings_text(set, SET_DATA_DIR) ? ", kept in the data directory" : "", s->root.access_key,
        s->root.secret_key, settings_text(set, SET_REGION), scheme, port, scheme, port,
        settings_text(set, SET_REGION), scheme, port, scheme, port);
    fflush(stdout);
}

/* Waits for the signal that ends the server; SIGHUP reads the TLS files again. */
static void wait_for_end(struct server *s, const sigset_t *set)
{
    for (;;) {
        int sig = 0;

        if (sigwait(set, &sig) != 0)
            continue;
        if (sig != SIGHUP) {
            log_msg(LOG_INFO, "stopping: signal %d", sig);
            return;
        }
        if (http_server_reload_tls(s->http))
            log_msg(LOG_ERROR, "TLS files not reloaded: %s", note_text());
        else
            log_msg(LOG_INFO, "TLS files reloaded");
    }
}

/* Many connections need many descriptors: take what the system lets us have. */
static void raise_fd_limit(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

static enum rc start(struct server *s)
{
    enum rc rc = metrics_new(&s->metrics);

    if (!rc)
        rc = rt_start(
            &(struct rt_config){
                .loops = (unsigned)settings_number(&s->settings, SET_LOOPS),
                .offload_threads = (unsigned)settings_number(&s->settings, SET_OFFLOAD_THREADS),
            },
            &s->rt);
    if (!rc)
        rc = rt_run(s->rt, open_floors, s);
    if (rc || s->rc)
        return rc ? rc : s->rc;
    s->health = (struct health){ .kv = s->kv, .data = s->data, .metrics = s->metrics };
    rc = s3_gateway_new(
        &(struct s3_config){
            .engine = s->engine,
            .auth = s->auth,
            .region = settings_text(&s->settings, SET_REGION),
            .vhost_patterns = settings_text(&s->settings, SET_VHOST_PATTERN),
            .metrics = s->metrics,
            .builtin = health_serve,
            .builtin_ctx = &s->health,
        },
        &s->s3);
    if (!rc)
        rc = gc_worker_start(s->rt, s->engine, s->metrics,
                             settings_number(&s->settings, SET_GC_INTERVAL), &s->gc);
    if (!rc)
        rc = open_http(s);
    if (rc)
        fprintf(stderr, "strata: %s\n", *note_text() ? note_text() : rc_name(rc));
    return rc;
}

static void stop(struct server *s)
{
    enum rc rc;

    atomic_store(&s->health.stopping, true);
    if (s->http)
        http_server_stop(s->http, (uint32_t)settings_number(&s->settings, SET_SHUTDOWN_WAIT));
    if (s->rt) {
        rc = rt_run(s->rt, close_floors, s);
        if (rc)
            log_msg(LOG_ERROR, "stores not closed: %s", rc_name(rc));
        rt_stop(s->rt);
    }
    metrics_free(s->metrics);
    settings_fini(&s->settings);
}

static void help(void)
{
    puts("usage: strata server [--setting value]…\n\n"
         "Every setting can be given as an environment variable (STRATA_LISTEN=:9000), as an "
         "option\n"
         "(--listen :9000) or in the file named by STRATA_CONFIG_FILE (listen = \":9000\").\n");
    settings_print(stdout, false);
}

int server_command(int argc, char **argv)
{
    struct server s = { 0 };
    sigset_t set;
    enum rc rc;

    if (argc == 1 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
        help();
        return 0;
    }
    rc = load_settings(&s.settings, argc, argv);
    if (rc) {
        fprintf(stderr, "strata: %s\n", *note_text() ? note_text() : rc_name(rc));
        settings_fini(&s.settings);
        return 2;
    }
    log_setup((enum log_level)settings_number(&s.settings, SET_LOG_LEVEL),
              (enum log_format)settings_number(&s.settings, SET_LOG_FORMAT), STDERR_FILENO);
    /* Blocked before any thread starts, so that only sigwait sees them. */
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    raise_fd_limit();
    rc = start(&s);
    if (!rc) {
        print_welcome(&s);
        wait_for_end(&s, &set);
    }
    stop(&s);
    return rc ? 1 : 0;
}
