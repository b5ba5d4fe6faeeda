/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets on edge-triggered epoll.
 *
 * Invariants:
 *  - `readable` is false only if the socket was seen empty (EAGAIN, a short read) and no edge has
 * been reported since; the next byte then raises an edge. True may be stale. Likewise `writable`.
 *  - A short read may clear `readable` only while no hang-up is known: a FIN that comes later is an
 * edge of its own.
 *  - A parked fiber learns of io_close from its own stack, since the struct io may be gone by then.
 */
#include "rt/rt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EDGES (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

struct io_wait {
    struct waiter w;
    bool closed;
};

enum rc io_init(struct io *io, int fd)
{
    struct epoll_event e = { .events = EDGES, .data.ptr = io };
    struct loop *l = loop_self;
    int flags = fcntl(fd, F_GETFL);

    assert(l);
    if (flags < 0 || (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0))
        return fail_rc(RC_INTERNAL, "fcntl: %s", strerror(errno));
    *io = (struct io){ .fd = fd, .loop = l, .readable = true, .writable = true };
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        io->fd = -1;
        return fail_rc(RC_UNAVAILABLE, "epoll_ctl: %s", strerror(errno));
    }
    return RC_OK;
}

static void close_waiter(struct waiter **slot)
{
    struct waiter *w = *slot;

    if (!w)
        return;
    *slot = NULL;
    container_of(w, struct io_wait, w)->closed = true;
    waiter_wake_local(w);
}

void io_close(struct io *io)
{
    struct loop *l = io->loop;

    if (!l || io->fd < 0)
        return;
    assert(l == loop_self);
    /* Events of the batch under dispatch may still point here. */
    for (int i = l->event_pos; i < l->event_n; i++)
        if (l->events[i].data.ptr == io)
            l->events[i].data.ptr = NULL;
    /* A duplicate of the descriptor elsewhere would keep the registration alive. */
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    close(io->fd);
    io->fd = -1;
    io->on_ready = NULL;
    close_waiter(&io->reader);
    close_waiter(&io->writer);
}

void io_dispatch(struct io *io, uint32_t events)
{
    bool hang_up = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    bool readable = hang_up || (events & (EPOLLIN | EPOLLPRI));

    io->hung_up |= hang_up;
    io->readable |= readable;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
        io->writable = true;
        if (io->writer)
            waiter_wake_local(io->writer);
    }
    if (!readable)
        return;
    if (io->on_ready) {
        void (*on_ready)(struct io * io) = io->on_ready;

        io->on_ready = NULL;
        on_ready(io); /* may free io */
    } else if (io->reader) {
        waiter_wake_local(io->reader);
    }
}

/* Parks until an edge has set *flag. */
static enum rc wait_edge(struct io *io, struct waiter **slot, const bool *flag, int64_t deadline_ns)
{
    while (!*flag) {
        struct io_wait wait = { 0 };
        enum rc rc;

        assert(!*slot && io->loop == loop_self);
        waiter_init(&wait.w);
        *slot = &wait.w;
        rc = waiter_wait(&wait.w, deadline_ns);
        if (wait.closed)
            return RC_CANCELLED;
        *slot = NULL;
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

static enum rc io_error(const char *what, int err)
{
    if (err == ECONNRESET || err == EPIPE)
        return fail_rc(RC_EOF, "the peer reset the connection");
    return fail_rc(RC_UNAVAILABLE, "%s: %s", what, strerror(err));
}

/* One read without waiting. *ret_n = 0 with RC_OK: nothing there, readable cleared. */
static enum rc read_once(struct io *io, void *p, size_t n, size_t *ret_n)
{
    ssize_t got;

    if (io->fd < 0)
        return RC_CANCELLED;
    do
        got = read(io->fd, p, n);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return RC_EOF;
    if (got < 0 && errno != EAGAIN)
        return io_error("read", errno);
    if ((got < 0 || (size_t)got < n) && !io->hung_up)
        io->readable = false;
    *ret_n = got < 0 ? 0 : (size_t)got;
    return RC_OK;
}

enum rc io_read(struct io *io, void *p, size_t n, size_t *ret_n, int64_t deadline_ns)
{
    assert(n > 0);
    for (;;) {
        size_t got = 0;
        enum rc rc;

        if (io->readable) {
            rc = read_once(io, p, n, &got);
            if (rc != RC_OK)
                return rc;
            if (got > 0) {
                *ret_n = got;
                return RC_OK;
            }
            /* A hang-up of the peer's reading half only, with nothing to read yet. */
            io->readable = false;
        }
        if (io->fd < 0)
            return RC_CANCELLED;
        rc = wait_edge(io, &io->reader, &io->readable, deadline_ns);
        if (rc != RC_OK)
            return rc;
    }
}

enum rc io_try_read(struct io *io, void *p, size_t n, size_t *ret_n)
{
    if (io->fd < 0)
        return RC_CANCELLED;
    if (!io->readable) {
        *ret_n = 0;
        return RC_OK;
    }
    return read_once(io, p, n, ret_n);
}

void iov_advance(struct iovec **iov, int *iov_n, size_t n)
{
    while (*iov_n > 0 && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        (*iov)++;
        (*iov_n)--;
    }
    if (*iov_n > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

enum rc io_writev(struct io *io, struct iovec *iov, int iov_n, int64_t deadline_ns)
{
    iov_advance(&iov, &iov_n, 0);
    while (iov_n > 0) {
        ssize_t n;
        enum rc rc;

        if (io->fd < 0)
            return RC_CANCELLED;
        n = writev(io->fd, iov, MIN(iov_n, IOV_MAX));
        if (n >= 0) {
            iov_advance(&iov, &iov_n, (size_t)n);
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return io_error("write", errno);
        io->writable = false;
        rc = wait_edge(io, &io->writer, &io->writable, deadline_ns);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

enum rc io_write(struct io *io, const void *p, size_t n, int64_t deadline_ns)
{
    struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };

    return io_writev(io, &iov, 1, deadline_ns);
}

/* Flags may be stale where a TLS library reads and writes by itself: asks the kernel. */
static enum rc wait_ready(struct io *io, short events, int64_t deadline_ns)
{
    bool reading = events == POLLIN;
    bool *flag = reading ? &io->readable : &io->writable;

    if (io->fd < 0)
        return RC_CANCELLED;
    if (*flag) {
        struct pollfd p = { .fd = io->fd, .events = events };

        if (poll(&p, 1, 0) != 0)
            return RC_OK;
        *flag = false;
    }
    return wait_edge(io, reading ? &io->reader : &io->writer, flag, deadline_ns);
}

enum rc io_wait_readable(struct io *io, int64_t deadline_ns)
{
    return wait_ready(io, POLLIN, deadline_ns);
}

enum rc io_wait_writable(struct io *io, int64_t deadline_ns)
{
    return wait_ready(io, POLLOUT, deadline_ns);
}

void io_watch(struct io *io, void (*on_ready)(struct io *io))
{
    struct epoll_event e = { .events = EDGES, .data.ptr = io };

    assert(io->fd >= 0 && io->loop == loop_self && !io->reader);
    io->on_ready = on_ready;
    if (!io->readable)
        return;
    /* Perhaps stale. Registering again reports what is there now, as an edge, from the loop. */
    io->readable = false;
    epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &e);
}

void io_unwatch(struct io *io)
{
    io->on_ready = NULL;
}
