/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness — a real server on loopback with a handler for every behaviour under test, and a blocking
 * raw client.
 *
 * Threads: the client side runs on the test's thread.
 */
#ifndef STRATA_TESTS_HTTP_HARNESS_H
#define STRATA_TESTS_HTTP_HARNESS_H

#include "http/http.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define BIG_BYTES (3u << 20)
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

struct bench {
    struct rt *rt;
    struct http_server *server;
    struct http_server_config cfg;
};

/* Byte i of the bodies that are checked. */
unsigned char pattern_at(uint64_t i);
void make_pattern(char *p, size_t n);

struct http_server_config bench_config(void);
void bench_start(struct bench *b, const struct http_server_config *cfg);
void bench_stop(struct bench *b, uint32_t grace_ms);
/* Until the server counts n open connections. */
void wait_connections(const struct bench *b, uint64_t n);

struct answer {
    int status;
    bool closed; /* the end of the stream was seen while reading the body */
    char head[16384];
    char *body; /* NUL-terminated */
    size_t body_n;
};

/* Connects; reads and writes of the client give up after 10 s. */
int dial(const struct bench *b);
/* False when the connection broke before all was sent. */
bool try_say(int fd, const void *p, size_t n);
void say(int fd, const char *text);
/* The head alone; status is -1 when the connection ended first. */
void read_head(int fd, struct answer *a);
/* One answer to a request that was not a HEAD; free with answer_fini. */
struct answer hear(int fd);
void answer_fini(struct answer *a);
/* body: NULL for any. */
void expect_answer(int fd, int status, const char *body);
/* The server has closed, with FIN or RST. */
void expect_closed(int fd);
int64_t elapsed_ms(int64_t since_ns);

#endif
