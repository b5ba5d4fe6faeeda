/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in and out of a connection. TLS works on the socket itself (so that the kernel may do the
 * records); it says when it would block, and then the fiber waits for the socket.
 */
#include "http/conn_priv.h"

#include <errno.h>
#include <openssl/err.h>
#include <sys/socket.h>

/* After an operation of OpenSSL that did not succeed: waits for what it wants. RC_OK: try again. */
static enum rc tls_wait(struct http_conn *c, int result, int64_t deadline_ns)
{
    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        c->io.readable = false;
        return io_wait_readable(&c->io, deadline_ns);
    case SSL_ERROR_WANT_WRITE:
        c->io.writable = false;
        return io_wait_writable(&c->io, deadline_ns);
    case SSL_ERROR_ZERO_RETURN:
        return RC_EOF;
    default:
        c->tls_failed = true;
        return RC_EOF;
    }
}

enum rc http_net_handshake(struct http_conn *c, int64_t deadline_ns)
{
    for (;;) {
        int r;
        enum rc rc;

        ERR_clear_error();
        r = SSL_do_handshake(c->ssl);
        if (r == 1) {
            c->handshaken = true;
            return RC_OK;
        }
        rc = tls_wait(c, r, deadline_ns);
        if (rc) {
            c->tls_failed = true;
            return rc;
        }
    }
}

static enum rc tls_read(struct http_conn *c, void *p, size_t n, size_t *ret_n, int64_t deadline_ns)
{
    for (;;) {
        int r;
        enum rc rc;

        ERR_clear_error();
        r = SSL_read_ex(c->ssl, p, n, ret_n);
        if (r == 1)
            return RC_OK;
        rc = tls_wait(c, r, deadline_ns);
        if (rc)
            return rc;
    }
}

static enum rc tls_try_read(struct http_conn *c, void *p, size_t n, size_t *ret_n)
{
    int r;

    ERR_clear_error();
    r = SSL_read_ex(c->ssl, p, n, ret_n);
    if (r == 1)
        return RC_OK;
    switch (SSL_get_error(c->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        c->io.readable = false;
        *ret_n = 0;
        return RC_OK;
    case SSL_ERROR_WANT_WRITE: /* a key update that cannot leave now: rare, the next read retries */
        c->io.writable = false;
        *ret_n = 0;
        return RC_OK;
    default:
        c->tls_failed = true;
        return RC_EOF;
    }
}

enum rc http_net_read(struct http_conn *c, void *p, size_t n, size_t *ret_n, int64_t deadline_ns)
{
    enum rc rc;

    if (c->cut)
        return RC_CANCELLED;
    rc = c->ssl ? tls_read(c, p, n, ret_n, deadline_ns) : io_read(&c->io, p, n, ret_n, deadline_ns);
    if (!rc)
        http_stat_add(&c->lane->stats.bytes_in, *ret_n);
    return rc;
}

enum rc http_net_try_read(struct http_conn *c, void *p, size_t n, size_t *ret_n)
{
    enum rc rc;

    if (c->cut)
        return RC_CANCELLED;
    rc = c->ssl ? tls_try_read(c, p, n, ret_n) : io_try_read(&c->io, p, n, ret_n);
    if (!rc)
        http_stat_add(&c->lane->stats.bytes_in, *ret_n);
    return rc;
}

static enum rc plain_write(struct http_conn *c, struct iovec *iov, int iov_n)
{
    for (;;) {
        struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)iov_n };
        ssize_t n = sendmsg(c->io.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        enum rc rc;

        if (n >= 0) {
            iov_advance(&iov, &iov_n, (size_t)n);
            if (iov_n == 0)
                return RC_OK;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return errno == ENOMEM || errno == ENOBUFS ? RC_NO_MEM : RC_EOF;
        c->io.writable = false;
        rc = io_wait_writable(&c->io, http_after_ms(c, c->lane->server->limits.write_timeout_ms));
        if (rc)
            return rc;
    }
}

static enum rc tls_write_all(struct http_conn *c, const char *p, size_t n)
{
    while (n > 0) {
        size_t done = 0;
        int r;

        ERR_clear_error();
        r = SSL_write_ex(c->ssl, p, n, &done);
        if (r == 1) {
            p += done;
            n -= done;
        } else {
            enum rc rc = tls_wait(c, r, http_after_ms(c, c->lane->server->limits.write_timeout_ms));

            if (rc)
                return rc;
        }
    }
    return RC_OK;
}

/* Small pieces are gathered into one record; what is left of a large one goes straight. */
static enum rc tls_write(struct http_conn *c, struct iovec *iov, int iov_n)
{
    while (iov_n > 0) {
        char record[4096];
        size_t n = 0;
        const char *p = iov->iov_base;
        enum rc rc;

        if (iov->iov_len >= sizeof record || iov_n == 1) {
            rc = tls_write_all(c, p, iov->iov_len);
            n = iov->iov_len;
        } else {
            for (int i = 0; i < iov_n && n < sizeof record; i++) {
                size_t part = MIN(iov[i].iov_len, sizeof record - n);

                memcpy(record + n, iov[i].iov_base, part);
                n += part;
            }
            rc = tls_write_all(c, record, n);
        }
        if (rc)
            return rc;
        iov_advance(&iov, &iov_n, n);
    }
    return RC_OK;
}

enum rc http_net_write(struct http_conn *c, struct iovec *iov, int iov_n)
{
    size_t total = 0;
    enum rc rc;

    if (c->cut)
        return RC_CANCELLED;
    for (int i = 0; i < iov_n; i++)
        total += iov[i].iov_len;
    rc = c->ssl ? tls_write(c, iov, iov_n) : plain_write(c, iov, iov_n);
    if (!rc)
        http_stat_add(&c->lane->stats.bytes_out, total);
    return rc;
}

void http_net_shutdown(struct http_conn *c)
{
    if (c->ssl && c->handshaken && !c->tls_failed) {
        ERR_clear_error();
        (void)SSL_shutdown(c->ssl);
        ERR_clear_error();
        c->tls_failed = true;
    }
    shutdown(c->io.fd, SHUT_WR);
}
