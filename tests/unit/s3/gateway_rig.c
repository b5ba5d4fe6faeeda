/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway_rig.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ROOM ((size_t)32 << 20)

static struct answer last;
static char *input; /* bytes of the answer */

static void open_floors(void *arg)
{
    struct rig *r = arg;
    enum rc rc = kv_memory_open((size_t)256 << 20, &r->kv);

    if (!rc)
        rc = data_memory_open((size_t)512 << 20, &r->data);
    if (!rc)
        rc = meta_new(&(struct meta_config){ .kv = r->kv, .index_shards = 1 }, &r->meta);
    if (!rc)
        rc = object_engine_new(&(struct object_config){ .meta = r->meta,
                                                        .data = r->data,
                                                        .inline_max = 4096,
                                                        .buffer_bytes_max = (size_t)128 << 20 },
                               &r->engine);
    assert(rc == RC_OK);
}

static void close_floors(void *arg)
{
    struct rig *r = arg;

    object_engine_free(r->engine);
    meta_free(r->meta);
    data_close(r->data);
    kv_close(r->kv);
}

int rig_open(struct rig *r)
{
    struct http_server_config cfg = { .listen = "127.0.0.1:0", .server_name = "Strata" };

    *r = (struct rig){ .fd = -1 };
    input = malloc(ROOM);
    if (rt_start(&(struct rt_config){ .loops = 2 }, &r->rt) || rt_run(r->rt, open_floors, r) ||
        metrics_new(&r->metrics) ||
        auth_new(&(struct auth_config){ .mode = AUTH_OFF, .region = SLICE("us-east-1") }, &r->auth))
        return -1;
    if (s3_gateway_new(&(struct s3_config){ .engine = r->engine,
                                            .auth = r->auth,
                                            .region = "us-east-1",
                                            .vhost_patterns = "*.s3.local",
                                            .metrics = r->metrics },
                       &r->s3))
        return -1;
    http_limits_default(&cfg.limits);
    cfg.limits.body_timeout_ms = 2000;
    cfg.handler = (struct http_handler){ s3_serve, s3_refuse, r->s3 };
    if (http_server_start(r->rt, &cfg, &r->http))
        return -1;
    r->port = http_server_port(r->http);
    return input ? 0 : -1;
}

void rig_close(struct rig *r)
{
    if (r->fd >= 0)
        close(r->fd);
    http_server_stop(r->http, 1000);
    s3_gateway_free(r->s3);
    auth_free(r->auth);
    if (rt_run(r->rt, close_floors, r))
        abort();
    rt_stop(r->rt);
    metrics_free(r->metrics);
    free(input);
    free(last.head);
    free(last.body);
    last = (struct answer){ 0 };
}

static int dial(const struct rig *r)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(r->port) };
    struct timeval limit = { .tv_sec = 20 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        abort();
    return fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* Reads until the head is complete, then the body by its length; false when the connection ended.
 */
static bool receive(int fd, bool is_head)
{
    size_t n = 0, head_n = 0, want = 0;
    char *end = NULL;

    free(last.head);
    free(last.body);
    last = (struct answer){ 0 };
    while (!end || n < head_n + want) {
        ssize_t k = n < ROOM - 1 ? recv(fd, input + n, ROOM - 1 - n, 0) : 0;

        if (k <= 0)
            break;
        n += (size_t)k;
        input[n] = 0;
        if (!end && (end = strstr(input, "\r\n\r\n"))) {
            head_n = (size_t)(end - input) + 4;
            last.head = strndup(input, head_n);
            last.status = atoi(input + 9);
            want = is_head || last.status == 204 || last.status == 304
                       ? 0
                       : (size_t)atoll(rig_header(&last, "content-length"));
        }
    }
    if (!end)
        return false;
    last.body_n = n - head_n;
    last.body = malloc(last.body_n + 1);
    memcpy(last.body, input + head_n, last.body_n);
    last.body[last.body_n] = 0;
    return true;
}

const struct answer *rig_ask(struct rig *r, const char *line, const char *headers, const void *body,
                             size_t n)
{
    char length[64] = "", head[16384];
    int head_n;

    if (body)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", n);
    head_n = snprintf(head, sizeof head, "%s HTTP/1.1\r\n%s%s%s\r\n", line,
                      strcasestr(headers, "host:") ? "" : "Host: localhost\r\n", length, headers);
    assert((size_t)head_n < sizeof head);
    for (int i = 0; i < 2; i++) {
        if (r->fd < 0)
            r->fd = dial(r);
        if (send_all(r->fd, head, (size_t)head_n) && (!n || send_all(r->fd, body, n)) &&
            receive(r->fd, !strncmp(line, "HEAD ", 5))) {
            if (strcasestr(last.head, "connection: close")) {
                close(r->fd);
                r->fd = -1;
            }
            return &last;
        }
        close(r->fd);
        r->fd = -1;
    }
    return &last;
}

const struct answer *rig_raw(struct rig *r, const char *bytes, size_t n)
{
    int fd = dial(r);

    (void)send_all(fd, bytes, n);
    (void)receive(fd, false);
    close(fd);
    return &last;
}

const char *rig_header(const struct answer *a, const char *name)
{
    static char value[4096];
    size_t n = strlen(name);

    for (const char *p = a->head; p && (p = strstr(p, "\r\n"));) {
        p += 2;
        if (strncasecmp(p, name, n) == 0 && p[n] == ':') {
            const char *v = p + n + 1 + strspn(p + n + 1, " ");

            snprintf(value, sizeof value, "%.*s", (int)strcspn(v, "\r"), v);
            return value;
        }
    }
    return "";
}

unsigned rig_count(const struct answer *a, const char *text)
{
    unsigned n = 0;

    for (const char *p = a->body; p && (p = strstr(p, text)); p++)
        n++;
    return n;
}
