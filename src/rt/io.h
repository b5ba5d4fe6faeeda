/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io — non-blocking sockets for fibers, registered once with their loop's epoll (edge-triggered).
 *
 * Owns:    a struct io owns its descriptor from io_init until io_close.
 * Errors:  RC_EOF when the peer ended or reset the stream, RC_TIMEOUT, RC_CANCELLED, RC_UNAVAILABLE
 * for other network errors (the error note has the text). Threads: loop-owned: only fibers and
 * callbacks of the loop that it was initialised on. One reading and one writing fiber at a time.
 */
#ifndef STRATA_RT_IO_H
#define STRATA_RT_IO_H

#include "rt/rt.h"

#include <sys/uio.h>

struct io {
    int fd; /* -1 when closed */
    struct loop *loop;
    bool readable, writable, hung_up; /* as of the last edge; cleared by EAGAIN */
    struct waiter *reader, *writer;
    /* When set, called on the loop instead of waking a reader, once, on the next readability or
     * hang-up: how an idle connection costs no fiber. See io_watch. */
    void (*on_ready)(struct io *io);
};

/* Takes over fd (made non-blocking) and registers it. On error fd is still the caller's. */
enum rc io_init(struct io *io, int fd) MUST_CHECK;
void io_close(struct io *io); /* wakes waiters with RC_CANCELLED; idempotent */

/* At least one byte, at most n. RC_EOF at the end of the stream. Tries first, waits only on EAGAIN.
 */
enum rc io_read(struct io *io, void *p, size_t n, size_t *ret_n, int64_t deadline_ns) MUST_CHECK;
/* Without waiting: *ret_n = 0 when nothing is there now. */
enum rc io_try_read(struct io *io, void *p, size_t n, size_t *ret_n) MUST_CHECK;
/* All of it. iov is consumed (modified). */
enum rc io_writev(struct io *io, struct iovec *iov, int iov_n, int64_t deadline_ns) MUST_CHECK;
enum rc io_write(struct io *io, const void *p, size_t n, int64_t deadline_ns) MUST_CHECK;
/* Drops n written bytes from the front of a vector, and empty elements; *iov_n becomes 0 at its
 * end. */
void iov_advance(struct iovec **iov, int *iov_n, size_t n);
/* Waits for readiness alone (for TLS libraries that do the reading themselves). */
enum rc io_wait_readable(struct io *io, int64_t deadline_ns) MUST_CHECK;
enum rc io_wait_writable(struct io *io, int64_t deadline_ns) MUST_CHECK;

/* Calls on_ready once when bytes or a hang-up arrive (at once if they have already). Not on a
 * fiber's stack: spawn one there. io_unwatch takes it back. */
void io_watch(struct io *io, void (*on_ready)(struct io *io));
void io_unwatch(struct io *io);

/* Connects to host:port (numeric or by name; names resolve on the pool). */
enum rc io_connect(struct io *io, const char *host, uint16_t port, int64_t deadline_ns) MUST_CHECK;

/* A listening socket: "host:port", ":port", "[::1]:port"; port 0 picks one. Each loop opens its own
 * with reuse_port, so the kernel spreads connections. RC_INVALID for a bad address, RC_UNAVAILABLE
 * when it is taken. *ret_port may be NULL. */
enum rc io_listen(const char *address, bool reuse_port, int *ret_fd, uint16_t *ret_port) MUST_CHECK;
/* Waits for a connection; *ret_fd is the caller's. Out of descriptors: waits a little and tries
 * again. */
enum rc io_accept(struct io *listener, int *ret_fd, int64_t deadline_ns) MUST_CHECK;

#endif
