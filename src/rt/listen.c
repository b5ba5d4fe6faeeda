/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, connecting, listening, accepting. */
#include "rt/rt_priv.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096
#define ACCEPT_PAUSE_MS 20

struct lookup {
    const char *host; /* NULL: any address, to listen on */
    char port[8];
    struct addrinfo hints, *found;
    int err;
};

static void run_lookup(void *arg)
{
    struct lookup *q = arg;

    q->err = getaddrinfo(q->host, q->port, &q->hints, &q->found);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static enum rc resolve(struct lookup *q)
{
    enum rc rc;

    q->hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM,
                                  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    run_lookup(q);
    if (q->err == EAI_NONAME) {
        q->hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
        rc = offload(run_lookup, q);
        if (rc != RC_OK)
            return rc;
    }
    if (q->err != 0)
        return fail_rc(RC_UNAVAILABLE, "cannot resolve %s: %s", q->host, gai_strerror(q->err));
    return RC_OK;
}

static enum rc connect_to(struct io *io, const struct addrinfo *a, int64_t deadline_ns)
{
    int fd, err = 0, one = 1;
    socklen_t len = sizeof err;
    enum rc rc;

    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_rc(RC_UNAVAILABLE, "socket: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
        rc = fail_rc(RC_UNAVAILABLE, "connect: %s", strerror(errno));
        close(fd);
        return rc;
    }
    rc = io_init(io, fd);
    if (rc != RC_OK) {
        close(fd);
        return rc;
    }
    rc = io_wait_writable(io, deadline_ns);
    if (rc == RC_OK && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
        err = errno;
    if (rc == RC_OK && err != 0)
        rc = fail_rc(RC_UNAVAILABLE, "connect: %s", strerror(err));
    if (rc != RC_OK)
        io_close(io);
    return rc;
}

enum rc io_connect(struct io *io, const char *host, uint16_t port, int64_t deadline_ns)
{
    struct lookup q = { .host = host };
    enum rc rc;

    snprintf(q.port, sizeof q.port, "%u", port);
    rc = resolve(&q);
    if (rc != RC_OK)
        return rc;
    rc = RC_UNAVAILABLE;
    for (const struct addrinfo *a = q.found; a; a = a->ai_next) {
        rc = connect_to(io, a, deadline_ns);
        if (rc != RC_UNAVAILABLE)
            break;
    }
    freeaddrinfo(q.found);
    return rc;
}

/* ---- listening ------------------------------------------------------------------------------- */

/* Cuts "host:port"; host becomes "" for ":port". */
static bool cut_address(const char *address, char host[256], char port[8])
{
    struct slice s = slice_str(address), h, p;
    const char *colon = strrchr(address, ':');
    uint64_t n;

    if (!colon)
        return false;
    h = slice_first(s, (size_t)(colon - address));
    p = slice_from(s, h.n + 1);
    if (h.n >= 2 && h.p[0] == '[' && h.p[h.n - 1] == ']')
        h = slice_of(h.p + 1, h.n - 2);
    else if (slice_find_char(h, ':') < h.n)
        return false; /* IPv6 needs brackets */
    if (h.n >= 256 || p.n >= 8 || !slice_to_u64(p, &n) || n > UINT16_MAX)
        return false;
    snprintf(host, 256, "%.*s", SLICE_ARG(h));
    snprintf(port, 8, "%.*s", SLICE_ARG(p));
    return true;
}

/* The error of errno, -1, or the listening descriptor. */
static int listen_on(const struct addrinfo *a, bool reuse_port)
{
    int one = 1, off = 0, err;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* accepted sockets inherit it */
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if ((!reuse_port || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0) &&
        bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage ss = { 0 };
    socklen_t len = sizeof ss;

    if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
        return 0;
    if (ss.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&ss)->sin6_port);
    return ntohs(((struct sockaddr_in *)&ss)->sin_port);
}

enum rc io_listen(const char *address, bool reuse_port, int *ret_fd, uint16_t *ret_port)
{
    static const int families[] = { AF_INET6, AF_INET }; /* one IPv6 socket serves both */
    char host[256];
    struct lookup q = { .host = host };
    int fd = -1, err = EAFNOSUPPORT;

    if (!cut_address(address, host, q.port))
        return fail_rc(RC_INVALID, "bad address \"%s\": want host:port", address);
    if (host[0] == 0)
        q.host = NULL;
    q.hints =
        (struct addrinfo){ .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    run_lookup(&q);
    if (q.err != 0)
        return fail_rc(RC_INVALID, "bad address \"%s\": %s", address, gai_strerror(q.err));
    for (size_t i = 0; i < ARRAY_LEN(families) && fd < 0 && err == EAFNOSUPPORT; i++)
        for (const struct addrinfo *a = q.found; a && fd < 0; a = a->ai_next) {
            if (a->ai_family != families[i])
                continue;
            fd = listen_on(a, reuse_port);
            if (fd < 0)
                err = errno;
        }
    freeaddrinfo(q.found);
    if (fd < 0)
        return fail_rc(RC_UNAVAILABLE, "cannot listen on %s: %s", address, strerror(err));
    if (ret_port)
        *ret_port = port_of(fd);
    *ret_fd = fd;
    return RC_OK;
}

enum rc io_accept(struct io *listener, int *ret_fd, int64_t deadline_ns)
{
    for (;;) {
        int64_t pause_ns;
        enum rc rc;
        int fd;

        if (listener->fd < 0)
            return RC_CANCELLED;
        fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            *ret_fd = fd;
            return RC_OK;
        }
        switch (errno) {
        case EAGAIN:
            rc = io_wait_readable(listener, deadline_ns);
            break;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            pause_ns = clock_mono_ns() + ACCEPT_PAUSE_MS * NS_PER_MS;
            rc = fiber_sleep_until(MIN(pause_ns, deadline_ns));
            if (rc == RC_OK && pause_ns >= deadline_ns)
                rc = RC_TIMEOUT;
            break;
        case EBADF:
        case EINVAL:
        case ENOTSOCK:
        case EOPNOTSUPP:
            return fail_rc(RC_INTERNAL, "accept: %s", strerror(errno));
        default: /* the connection's own error, or interrupted */
            rc = RC_OK;
        }
        if (rc != RC_OK)
            return rc;
    }
}
