/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway_rig — a whole gateway on memory stores, and a client that speaks raw HTTP to it.
 *
 * Owns:    everything, from rig_open to rig_close. An answer's texts live until the next rig_ask.
 * Threads: one test thread; the gateway has its own.
 */
#ifndef STRATA_TESTS_GATEWAY_RIG_H
#define STRATA_TESTS_GATEWAY_RIG_H

#include "auth/auth.h"
#include "data/memory.h"
#include "http/http.h"
#include "kv/memory.h"
#include "s3/s3.h"

struct rig {
    struct rt *rt;
    struct kv *kv;
    struct data *data;
    struct meta *meta;
    struct object_engine *engine;
    struct auth *auth;
    struct metrics *metrics;
    struct s3_gateway *s3;
    struct http_server *http;
    int fd; /* the client's kept connection; -1: none */
    uint16_t port;
};

struct answer {
    int status;
    char *head; /* NUL-terminated, with the status line */
    char *body; /* NUL-terminated */
    size_t body_n;
};

int rig_open(struct rig *r);
void rig_close(struct rig *r);
/* Sends one request ("GET /b/k?x", header lines that end in CRLF or "", body or NULL) and reads the
 * answer. */
const struct answer *rig_ask(struct rig *r, const char *line, const char *headers, const void *body,
                             size_t n);
/* Sends bytes as they stand on a fresh connection and reads one answer. */
const struct answer *rig_raw(struct rig *r, const char *bytes, size_t n);
/* The value of an answer's header, "" when absent; valid until the next call. */
const char *rig_header(const struct answer *a, const char *name);
/* How often text occurs in the body. */
unsigned rig_count(const struct answer *a, const char *text);

#endif
