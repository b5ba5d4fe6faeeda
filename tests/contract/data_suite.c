/* SPDX-License-Identifier: Apache-2.0 */
#include "data_suite.h"

#include "base/clock.h"
#include "data/wrap.h"
#include "rt/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cmocka.h>

#define MIB (1u << 20)

/* ---- helpers ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void suite_fill(void *p, size_t n, uint64_t seed)
{
    unsigned char *b = p;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = mix(seed * 0x10001 + i);

        memcpy(b + i, &v, MIN(8, n - i));
    }
}

bool suite_filled(const void *p, size_t n, uint64_t seed)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = mix(seed * 0x10001 + i);

        if (memcmp(b + i, &v, MIN(8, n - i)) != 0)
            return false;
    }
    return true;
}

static void *xmalloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    assert_non_null(p);
    return p;
}

struct extent suite_put(struct data *d, uint32_t n, uint64_t seed)
{
    AUTO(free_p) void *p = xmalloc(n);
    struct iovec iov = { p, n };
    struct data_hint hint = { .stream = seed };
    struct extent e;

    suite_fill(p, n, seed);
    assert_int_equal(data_put(d, &hint, &iov, 1, &e), RC_OK);
    assert_int_equal(e.length, n);
    return e;
}

void suite_check(struct data *d, const struct extent *e, uint64_t seed)
{
    AUTO(free_p) void *p = xmalloc(e->length);

    assert_int_equal(data_get(d, e, 0, p, e->length), RC_OK);
    assert_true(suite_filled(p, e->length, seed));
}

static bool count_one(void *arg, const struct extent *e, int64_t written_at_ns)
{
    ++*(size_t *)arg;
    return true;
}

size_t suite_count(struct data *d)
{
    size_t n = 0;

    assert_int_equal(data_scan(d, count_one, &n), RC_OK);
    return n;
}

/* ---- cases ---- */

static void sizes(struct data *d)
{
    static const uint32_t n[] = { 1,     7,     4095,   4096, 4097,        65535,
                                  65536, 65537, 131072, MIB,  4 * MIB - 1, 4 * MIB };
    struct extent e[ARRAY_LEN(n)];

    for (size_t i = 0; i < ARRAY_LEN(n); i++)
        e[i] = suite_put(d, n[i], i);
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        assert_int_equal(data_stat(d, &e[i]), RC_OK);
        suite_check(d, &e[i], i);
    }
}

static void same_bytes_are_two_chunks(struct data *d)
{
    struct extent a = suite_put(d, 5000, 1), b = suite_put(d, 5000, 1);

    assert_memory_not_equal(a.id, b.id, sizeof a.id);
    assert_int_equal(a.crc32c, b.crc32c);
    assert_int_equal(data_remove(d, &a, 1), RC_OK);
    suite_check(d, &b, 1);
}

static void bad_arguments(struct data *d)
{
    AUTO(free_p) char *p = xmalloc(4 * MIB);
    struct iovec none = { p, 0 }, most[2] = { { p, 4 * MIB }, { p, 1 } };
    char big[4097] = "", out[8];
    struct data_hint hint = { .backref = { big, sizeof big } };
    struct iovec one = { p, 1 };
    struct extent e = { .length = 77 };

    memset(p, 1, 4 * MIB);
    assert_int_equal(data_put(d, NULL, &none, 1, &e), RC_INVALID);
    assert_int_equal(data_put(d, NULL, NULL, 0, &e), RC_INVALID);
    assert_int_equal(data_put(d, NULL, most, 2, &e), RC_TOO_LARGE);
    assert_int_equal(data_put(d, &hint, &one, 1, &e), RC_TOO_LARGE);
    assert_int_equal(e.length, 77);
    e = suite_put(d, 100, 1);
    assert_int_equal(data_get(d, &e, 99, out, 2), RC_INVALID);
    assert_int_equal(data_get(d, &e, 101, out, 0), RC_INVALID);
    assert_int_equal(data_get(d, &e, UINT32_MAX, out, 2), RC_INVALID);
    assert_int_equal(data_get(d, &e, 100, out, 0), RC_OK);
}

static void pieces(struct data *d)
{
    enum { N = 300 };
    uint32_t total = 0;
    AUTO(free_p) struct iovec *iov = xmalloc(N * sizeof *iov);
    AUTO(free_p) char *p = xmalloc(MIB), *out = xmalloc(MIB);
    struct extent e;

    suite_fill(p, MIB, 42);
    for (unsigned i = 0; i < N; i++) {
        size_t n = i % 7 == 3 ? 0 : mix(i) % 3000 + 1;

        iov[i] = (struct iovec){ n ? p + total : NULL, n };
        total += (uint32_t)n;
    }
    assert_int_equal(data_put(d, NULL, iov, N, &e), RC_OK);
    assert_int_equal(e.length, total);
    assert_int_equal(data_get(d, &e, 0, out, total), RC_OK);
    assert_memory_equal(p, out, total);
    for (int n = 62; n <= 66; n++) { /* around the size of a batch */
        assert_int_equal(data_put(d, NULL, iov, n, &e), RC_OK);
        assert_int_equal(data_get(d, &e, 0, out, e.length), RC_OK);
        assert_memory_equal(p, out, e.length);
    }
}

static void part(struct data *d, const struct extent *e, const char *bytes, uint32_t offset,
                 uint32_t n)
{
    AUTO(free_p) char *out = xmalloc(n + 2);

    if (offset > e->length || n > e->length - offset)
        return;
    out[0] = out[n + 1] = 0x5a;
    assert_int_equal(data_get(d, e, offset, out + 1, n), RC_OK);
    if (n)
        assert_memory_equal(out + 1, bytes + offset, n);
    assert_int_equal(out[0], 0x5a);
    assert_int_equal(out[n + 1], 0x5a);
}

static void parts(struct data *d)
{
    static const uint32_t sizes[] = { 1, 4096, 65536, 65537, 200000, 262144 };
    static const uint32_t edges[] = { 0,     1,      4095,   4096,   65535,  65536, 65537,
                                      70000, 131071, 131072, 131073, 199999, 262143 };
    static const uint32_t runs[] = { 1, 2, 4096, 65535, 65536, 65537, 131072, 199999 };

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        AUTO(free_p) char *bytes = xmalloc(sizes[s]);
        struct extent e = suite_put(d, sizes[s], s);

        suite_fill(bytes, sizes[s], s);
        for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
            for (size_t k = 0; k < ARRAY_LEN(runs); k++)
                part(d, &e, bytes, edges[i], runs[k]);
            if (edges[i] < sizes[s])
                part(d, &e, bytes, edges[i], sizes[s] - edges[i]);
        }
    }
}

static void backrefs(struct data *d)
{
    static const size_t n[] = { 0, 1, 100, 3700, 3776, 3777, 4000, 4096 };
    char ref[4096], out[100];

    memset(ref, 'r', sizeof ref);
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        struct data_hint hint = { .stream = i, .index = 3, .backref = { ref, n[i] } };
        char bytes[70000];
        struct iovec iov = { bytes, sizeof bytes };
        struct extent e;

        suite_fill(bytes, sizeof bytes, i);
        assert_int_equal(data_put(d, &hint, &iov, 1, &e), RC_OK);
        suite_check(d, &e, i);
        assert_int_equal(data_get(d, &e, 65500, out, sizeof out), RC_OK);
        assert_memory_equal(out, bytes + 65500, sizeof out);
    }
}

static void missing(struct data *d)
{
    struct extent kept = suite_put(d, 1000, 1), gone = kept;
    char out[1000];

    memset(gone.id, 0xab, sizeof gone.id);
    assert_int_equal(data_get(d, &gone, 0, out, 1000), RC_NOT_FOUND);
    assert_int_equal(data_get(d, &gone, 10, out, 10), RC_NOT_FOUND);
    assert_int_equal(data_stat(d, &gone), RC_NOT_FOUND);
    assert_int_equal(data_remove(d, &gone, 1), RC_OK);
    gone = kept;
    gone.id[15] ^= 1; /* the neighbourhood of a real one */
    assert_int_equal(data_stat(d, &gone), RC_NOT_FOUND);
    assert_int_equal(data_get(d, &gone, 0, out, 1000), RC_NOT_FOUND);
    assert_int_equal(data_remove(d, &gone, 1), RC_OK);
    suite_check(d, &kept, 1);
}

static void removes(struct data *d)
{
    struct extent e[20], twice[2];
    char out[100];

    for (unsigned i = 0; i < 20; i++)
        e[i] = suite_put(d, 100 + i * 9000, i);
    twice[0] = twice[1] = e[3];
    assert_int_equal(data_remove(d, twice, 2), RC_OK);
    assert_int_equal(data_remove(d, e, 10), RC_OK);
    assert_int_equal(data_remove(d, e, 10), RC_OK);
    assert_int_equal(data_remove(d, NULL, 0), RC_OK);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(data_get(d, &e[i], 0, out, 100), RC_NOT_FOUND);
        assert_int_equal(data_get(d, &e[i], 1, out, 99), RC_NOT_FOUND);
        assert_int_equal(data_stat(d, &e[i]), RC_NOT_FOUND);
    }
    for (unsigned i = 10; i < 20; i++)
        suite_check(d, &e[i], i);
    assert_int_equal(data_remove(d, e, 20), RC_OK);
    assert_int_equal(suite_count(d), 0);
}

static void wrong_sum(struct data *d)
{
    struct extent e = suite_put(d, 70000, 1);
    AUTO(free_p) char *out = xmalloc(70000);
    struct data_stats before, after;

    data_stats(d, &before);
    e.crc32c ^= 1;
    assert_int_equal(data_get(d, &e, 0, out, 70000), RC_CORRUPT);
    data_stats(d, &after);
    assert_int_equal(after.crc_errors, before.crc_errors + 1);
    assert_int_equal(after.errors, before.errors + 1);
    e.crc32c ^= 1;
    suite_check(d, &e, 1);
}

struct listing {
    struct extent e[64];
    size_t n, stop;
    int64_t oldest_ns;
};

static bool list_one(void *arg, const struct extent *e, int64_t written_at_ns)
{
    struct listing *l = arg;

    assert_true(l->n < 64);
    l->e[l->n++] = *e;
    l->oldest_ns = MIN(l->oldest_ns, written_at_ns);
    return l->n != l->stop;
}

static bool listed(const struct listing *l, const struct extent *e)
{
    for (size_t i = 0; i < l->n; i++)
        if (memcmp(&l->e[i], e, sizeof *e) == 0)
            return true;
    return false;
}

static void scans(struct data *d)
{
    int64_t from = clock_wall_ns();
    struct listing l = { .oldest_ns = INT64_MAX };
    struct extent e[30];

    for (unsigned i = 0; i < 30; i++)
        e[i] = suite_put(d, 1 + i * 5000, i);
    assert_int_equal(data_remove(d, e, 7), RC_OK);
    assert_int_equal(data_scan(d, list_one, &l), RC_OK);
    assert_int_equal(l.n, 23);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(listed(&l, &e[i]), i >= 7);
    assert_true(l.oldest_ns >= from && l.oldest_ns <= clock_wall_ns());
    l = (struct listing){ .stop = 5 };
    assert_int_equal(data_scan(d, list_one, &l), RC_OK);
    assert_int_equal(l.n, 5);
}

static void stats_and_probe(struct data *d)
{
    struct data_stats s;
    struct extent e = suite_put(d, 10000, 1);

    suite_check(d, &e, 1);
    assert_int_equal(data_probe(d), RC_OK);
    assert_int_equal(data_probe(d), RC_OK);
    data_stats(d, &s);
    assert_int_equal(s.puts, 1);
    assert_int_equal(s.put_bytes, 10000);
    assert_int_equal(s.gets, 1);
    assert_int_equal(s.get_bytes, 10000);
    assert_int_equal(s.live_bytes, 10000);
    assert_int_equal(s.errors, 0);
    assert_true(s.free_bytes > 0);
    assert_int_equal(data_remove(d, &e, 1), RC_OK);
    data_stats(d, &s);
    assert_int_equal(s.deletes, 1);
    assert_int_equal(s.live_bytes, 0);
}

#define CROWD 12u
#define ROUNDS 12u

struct crowd {
    struct data *store;
    struct wait_group left;
    atomic_size_t kept;
};

struct member {
    struct crowd *crowd;
    uint64_t seed;
};

static uint32_t member_size(uint64_t seed)
{
    static const uint32_t n[] = { 1, 100, 4096, 5000, 65536, 70000, 300000, MIB };

    return n[mix(seed) % ARRAY_LEN(n)];
}

/* Puts, reads back, reads older ones, removes two of three. */
static void member_run(void *arg)
{
    struct member *m = arg;
    struct data *d = m->crowd->store;
    struct extent e[ROUNDS];
    char out[10];

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t seed = m->seed * 100 + i;

        e[i] = suite_put(d, member_size(seed), seed);
        suite_check(d, &e[i], seed);
        if (i % 3 == 2) {
            struct extent two[2] = { e[i - 1], e[i - 2] };

            suite_check(d, &e[i - 2], seed - 2);
            assert_int_equal(data_remove(d, two, 2), RC_OK);
            assert_int_equal(data_get(d, &e[i - 2], 0, out, 1), RC_NOT_FOUND);
            suite_check(d, &e[i], seed);
            atomic_fetch_add(&m->crowd->kept, 1);
        }
    }
    wait_group_done(&m->crowd->left);
}

static void crowd(struct data *d)
{
    struct crowd c = { .store = d };
    struct member m[CROWD];
    struct rt *rt = loop_rt(loop_current());

    wait_group_init(&c.left);
    wait_group_add(&c.left, CROWD);
    for (unsigned i = 0; i < CROWD; i++) {
        m[i] = (struct member){ &c, i + 1 };
        assert_int_equal(fiber_spawn(rt_loop(rt, i % rt_loops(rt)), member_run, &m[i]), RC_OK);
    }
    assert_int_equal(wait_group_wait(&c.left, NO_DEADLINE), RC_OK);
    wait_group_fini(&c.left);
    assert_int_equal(suite_count(d), atomic_load(&c.kept));
}

struct race {
    struct data *store;
    struct extent e;
    uint64_t seed;
    struct wait_group left;
};

static void race_read(void *arg)
{
    struct race *r = arg;
    AUTO(free_p) char *out = xmalloc(r->e.length);
    enum rc rc = RC_OK;

    for (unsigned i = 0; rc == RC_OK; i++) {
        uint32_t from = i % 2 ? 70001 : 0;

        rc = data_get(r->store, &r->e, from, out, r->e.length - from);
        if (rc == RC_OK && !from)
            assert_true(suite_filled(out, r->e.length, r->seed));
        fiber_yield();
    }
    assert_int_equal(rc, RC_NOT_FOUND); /* never CORRUPT */
    wait_group_done(&r->left);
}

static void reads_race_removes(struct data *d)
{
    struct rt *rt = loop_rt(loop_current());

    for (unsigned i = 0; i < 10; i++) {
        struct race r = { .store = d, .e = suite_put(d, MIB, i), .seed = i };

        wait_group_init(&r.left);
        wait_group_add(&r.left, 2);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(fiber_spawn(rt_loop(rt, k % rt_loops(rt)), race_read, &r), RC_OK);
        assert_int_equal(fiber_sleep_ms(2), RC_OK);
        assert_int_equal(data_remove(d, &r.e, 1), RC_OK);
        assert_int_equal(wait_group_wait(&r.left, NO_DEADLINE), RC_OK);
        wait_group_fini(&r.left);
    }
}

/* ---- running ---- */

static struct rt *the_rt;

void suite_on_fiber(void (*fn)(void *arg), void *arg)
{
    if (!the_rt) {
        struct rt_config cfg = { .loops = 2, .offload_threads = 6 };

        assert_int_equal(rt_start(&cfg, &the_rt), RC_OK);
    }
    assert_int_equal(rt_run(the_rt, fn, arg), RC_OK);
}

typedef void (*case_fn)(struct data *d);

static const struct {
    const char *name;
    case_fn run;
} cases[] = {
    { "sizes", sizes },
    { "the same bytes are two chunks", same_bytes_are_two_chunks },
    { "bad arguments", bad_arguments },
    { "pieces", pieces },
    { "parts", parts },
    { "back-references", backrefs },
    { "missing", missing },
    { "removes", removes },
    { "wrong sum", wrong_sum },
    { "scans", scans },
    { "stats and probe", stats_and_probe },
    { "crowd", crowd },
    { "reads race removes", reads_race_removes },
};

enum wrapping { BARE, SLOW, TRACE, FAULTY, WRAPPINGS };
static const char *const wrapping_names[] = { "bare", "slow", "trace", "faulty" };

struct one_case {
    case_fn run;
    suite_open_fn open;
    enum wrapping wrapping;
    char name[96];
};

static void trace_line(void *arg, enum data_verb verb, size_t bytes, enum rc rc, int64_t took_ns)
{
    assert_true(verb && took_ns >= 0);
    atomic_fetch_add((atomic_size_t *)arg, 1);
}

static atomic_size_t traced;

static struct data *wrapped(struct data *inner, enum wrapping wrapping)
{
    struct data_delay delay = { .verbs = DATA_PUT | DATA_REMOVE, .max_ms = 2 };
    struct data *d = inner;

    if (wrapping == SLOW)
        assert_int_equal(data_slow_open(inner, &delay, &d), RC_OK);
    if (wrapping == TRACE)
        assert_int_equal(data_trace_open(inner, trace_line, &traced, &d), RC_OK);
    if (wrapping == FAULTY)
        assert_int_equal(data_faulty_open(inner, NULL, &d), RC_OK);
    return d;
}

static void run_case(void *arg)
{
    struct one_case *c = arg;
    struct data *d = wrapped(c->open(), c->wrapping);

    traced = 0;
    c->run(d);
    assert_true(c->wrapping != TRACE || traced > 0);
    data_close(d);
}

static void suite_test(void **state)
{
    suite_on_fiber(run_case, *state);
}

int data_suite_run(const char *driver, suite_open_fn open)
{
    static struct one_case all[ARRAY_LEN(cases) * WRAPPINGS];
    static struct CMUnitTest tests[ARRAY_LEN(all)];
    size_t n = 0;
    int failed;

    for (unsigned w = 0; w < WRAPPINGS; w++)
        for (size_t i = 0; i < ARRAY_LEN(cases); i++, n++) {
            all[n] = (struct one_case){ cases[i].run, open, w, "" };
            snprintf(all[n].name, sizeof all[n].name, "%s, %s: %s", driver, wrapping_names[w],
                     cases[i].name);
            tests[n] = (struct CMUnitTest){ .name = all[n].name,
                                            .test_func = suite_test,
                                            .initial_state = &all[n] };
        }
    failed = cmocka_run_group_tests_name(driver, tests, NULL, NULL);
    if (the_rt)
        rt_stop(the_rt);
    the_rt = NULL;
    return failed;
}
