/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_priv — what the files of the HTTP server share: server, lanes (its part on one loop),
 * connections, and the working set of a connection that has a request in hand.
 *
 * Owns:    the server owns lanes, lanes own connections; a working set belongs to a connection from
 * its first byte of a request until it is idle again, so idle connections cost only their struct.
 * Threads: lanes, connections and working sets are loop-owned; stats are read from any thread
 * (relaxed).
 */
#ifndef STRATA_HTTP_CONN_PRIV_H
#define STRATA_HTTP_CONN_PRIV_H

#include "http/chunked.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/tls.h"

#include "base/clock.h"
#include "rt/io.h"

#include <pthread.h>

#define HTTP_TRAILERS_MAX 32u
#define HTTP_TRAILER_BYTES 4096u
#define HTTP_OUT_SIZE 4096u
#define HTTP_PEER_SIZE 46u
#define HTTP_SPARE_WORKS 64u /* working sets kept per lane for reuse */

struct http_lane;

enum http_body_state { HTTP_BODY_DONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };
enum http_res_state {
    HTTP_RES_NONE,    /* no status yet */
    HTTP_RES_HEADERS, /* status set, headers are being collected */
    HTTP_RES_READY,   /* the head is complete, not sent */
    HTTP_RES_BODY,    /* the head has left */
    HTTP_RES_ENDED
};

/* The response being built. out starts as the working set's buffer and moves to the arena when it
 * grows. */
struct http_res {
    enum http_res_state state;
    int status;
    bool no_mem;  /* a header did not fit */
    bool no_body; /* HEAD, 204, 304 */
    bool chunked, until_close;
    char *out;
    size_t out_n, out_cap;
    uint64_t length, sent; /* of the body */
};

struct http_work {
    struct http_work *next; /* in the lane's spare list */
    struct arena arena;
    struct http_req req;
    struct http_res res;
    struct http_parser parser;
    struct http_chunked chunked;
    enum http_body_state body;
    uint64_t body_left; /* HTTP_BODY_LENGTH */
    enum rc body_rc;    /* a lasting failure */
    bool continue_due;  /* 100 Continue is owed before the first read */
    bool keep_alive;
    bool dead; /* the connection cannot be used any more: cut or failed */
    struct http_header *trailers;
    unsigned trailers_n;
    size_t head_n, pos, end; /* input: the head's end, the unread bytes */
    size_t in_cap;
    struct http_header headers[HTTP_HEADERS_MAX];
    char out[HTTP_OUT_SIZE];
    char in[];
};

struct http_conn {
    struct io io;
    struct http_lane *lane;
    struct http_conn *prev, *next; /* of the lane's list */
    struct http_work *work;        /* NULL when idle */
    struct fiber *fiber;           /* NULL when idle */
    SSL *ssl;
    struct loop_timer timer; /* started when idle; runs on while busy and is then ignored */
    int64_t idle_until_ns;
    bool timer_on;
    bool busy; /* a fiber serves it or is about to */
    bool handshaken;
    bool tls_failed; /* no close_notify may be sent */
    bool over_limit; /* answered 503 and closed */
    bool cut;        /* the server gave up waiting for it */
    bool reset;      /* close with RST */
    char peer[HTTP_PEER_SIZE];
};

struct http_lane {
    struct http_server *server;
    struct loop *loop;
    struct io listener;
    struct loop_timer accept_retry;
    int listen_fd;  /* until the listener is set up */
    int reserve_fd; /* given up for a moment to refuse clients when descriptors run out */
    bool stopping, listening, done;
    struct http_conn *conns;
    unsigned conns_n, over_limit_n;
    struct http_work *spare;
    unsigned spare_n;
    uint64_t next_id;
    int64_t date_until_ns; /* date is right until then */
    char date[CLOCK_HTTP_SIZE];
    struct loop_task begin, stop, cut;
    struct http_server_stats stats; /* figures that only this loop writes */
};

struct http_server {
    struct rt *rt;
    struct http_limits limits;
    struct http_handler handler;
    char *server_name;
    struct tls_source *tls; /* NULL: plain */
    uint16_t port;
    uint32_t connections; /* atomic: of all lanes */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned busy_n; /* guarded by lock: lanes, and cuts, that are not done */
    unsigned lanes_n;
    struct http_lane *lanes;
};

/* Adds to a figure that only this loop writes. */
static inline void http_stat_add(uint64_t *figure, uint64_t n)
{
    __atomic_store_n(figure, __atomic_load_n(figure, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static inline int64_t http_after_ms(const struct http_conn *c, uint32_t ms)
{
    return loop_now_ns(c->io.loop) + ms * NS_PER_MS;
}

/* conn.c */
enum rc http_conn_open(struct http_lane *lane, int fd, const char *peer,
                       bool over_limit) MUST_CHECK;
void http_conn_close(struct http_conn *c);
void http_conn_cut(struct http_conn *c); /* stop has waited long enough */
/* server.c: after a connection or listener is gone. The lane may be freed by another thread then.
 */
void http_lane_check_done(struct http_lane *lane);

/* net.c: bytes by TLS or plainly. Errors as of io.h. */
enum rc http_net_handshake(struct http_conn *c, int64_t deadline_ns) MUST_CHECK;
enum rc http_net_read(struct http_conn *c, void *p, size_t n, size_t *ret_n,
                      int64_t deadline_ns) MUST_CHECK;
/* *ret_n = 0 when nothing is there now. */
enum rc http_net_try_read(struct http_conn *c, void *p, size_t n, size_t *ret_n) MUST_CHECK;
/* All of it, with the write timeout for each wait. Consumes iov; at most 8 entries. */
enum rc http_net_write(struct http_conn *c, struct iovec *iov, int iov_n) MUST_CHECK;
void http_net_shutdown(struct http_conn *c); /* no more is sent; never waits */

/* body.c */
void http_body_start(struct http_conn *c, const struct http_head *head);
/* Reads and drops up to max bytes of the body; true when its end was reached. */
bool http_body_drain(struct http_conn *c, uint64_t max);

/* response.c */
void http_res_start(struct http_conn *c);
/* Makes sure that a response has been sent whole; false when the connection must be cut. */
bool http_res_complete(struct http_conn *c);
enum rc http_res_continue(struct http_conn *c) MUST_CHECK; /* sends 100 Continue */

#endif
