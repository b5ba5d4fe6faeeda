/* SPDX-License-Identifier: Apache-2.0 */
/*
 * support — requests built by hand for the tests of authentication.
 *
 * Owns:    a fake_req owns its arena and texts, from fake_req_init to fake_req_fini.
 * Threads: one at a time.
 */
#ifndef STRATA_TESTS_AUTH_SUPPORT_H
#define STRATA_TESTS_AUTH_SUPPORT_H

#include "auth/auth.h"
#include "base/fail.h"

#define TEST_ACCESS_KEY "AKIAIOSFODNN7EXAMPLE"
#define TEST_SECRET_KEY "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define TEST_NOW_NS                                                                                \
    (INT64_C(1369353600) * 1000000000) /* 2013-05-24T00:00:00Z, as in AWS's examples */

struct fake_req {
    struct http_req req;
    struct arena arena;
    struct http_header headers[HTTP_HEADERS_MAX];
};

static inline void fake_req_init(struct fake_req *f, struct slice method, struct slice target)
{
    memset(f, 0, sizeof *f);
    arena_init(&f->arena, (size_t)1 << 20);
    f->req.method = method;
    f->req.target = target;
    f->req.path = slice_cut(target, '?', &f->req.query);
    f->req.arena = &f->arena;
    f->req.headers = f->headers;
}

static inline void fake_req_fini(struct fake_req *f)
{
    arena_fini(&f->arena);
}

static inline void fake_req_header(struct fake_req *f, struct slice name, struct slice value)
{
    if (f->req.headers_n == HTTP_HEADERS_MAX)
        return;
    f->headers[f->req.headers_n++] = (struct http_header){ name, slice_trim(value) };
    if (slice_eq_nocase(name, SLICE("host")))
        f->req.host = slice_trim(value);
}

/* "name: value" lines. */
static inline void fake_req_headers(struct fake_req *f, struct slice lines)
{
    while (lines.n) {
        struct slice value, line = slice_cut(lines, '\n', &lines);
        struct slice name = slice_cut(line, ':', &value);

        if (name.n)
            fake_req_header(f, name, value);
    }
}

static inline int64_t test_now(void)
{
    return TEST_NOW_NS;
}

#endif
