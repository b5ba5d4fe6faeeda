/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <sys/resource.h>

static struct bench bench;

static void connections_past_the_limit_get_503(void **state)
{
    struct http_server_config cfg = bench_config();
    int a, b, c;

    cfg.limits.connections_max = 2;
    bench_start(&bench, &cfg);
    a = dial(&bench);
    b = dial(&bench);
    wait_connections(&bench, 2);
    c = dial(&bench);
    say(c, GET("/hello"));
    expect_answer(c, 503, NULL);
    expect_closed(c);
    close(c);
    say(a, GET("/hello"));
    expect_answer(a, 200, "hello");
    close(a);
    wait_connections(&bench, 1);
    c = dial(&bench);
    say(c, GET("/hello"));
    expect_answer(c, 200, "hello");
    close(b);
    close(c);
    bench_stop(&bench, 1000);
}

static int prepare_dial(struct sockaddr_in *ret)
{
    struct timeval wait = { .tv_sec = 5 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    *ret = (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(http_server_port(bench.server)) };
    ret->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return fd;
}

static void without_descriptors_clients_are_shed_and_service_resumes(void **state)
{
    struct http_server_config cfg = bench_config();
    struct rlimit limit, less;
    struct sockaddr_in address;
    int kept, shed, waits, lowest_free;

    bench_start(&bench, &cfg);
    kept = dial(&bench);
    say(kept, GET("/hello"));
    expect_answer(kept, 200, "hello");
    shed = prepare_dial(&address);
    waits = prepare_dial(&address);
    getrlimit(RLIMIT_NOFILE, &limit);
    less = limit;
    lowest_free = dup(0);
    close(lowest_free);

    /* Only the reserve is left: a client is closed rather than left waiting. */
    less.rlim_cur = (rlim_t)lowest_free;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    assert_int_equal(connect(shed, (struct sockaddr *)&address, sizeof address), 0);
    expect_closed(shed);
    /* Not even that: it waits, others are served, and it is let in later. */
    less.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    assert_int_equal(connect(waits, (struct sockaddr *)&address, sizeof address), 0);
    usleep(20000);
    say(kept, GET("/hello"));
    expect_answer(kept, 200, "hello");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    say(waits, GET("/hello"));
    expect_answer(waits, 200, "hello");
    close(waits);
    close(shed);
    close(kept);
    bench_stop(&bench, 1000);
}

static void few_connections_spread_over_the_loops(void **state)
{
    enum { N = 8 };
    struct http_server_config cfg = bench_config();
    int fds[N];

    bench_start(&bench, &cfg);
    for (int i = 0; i < N; i++) {
        fds[i] = dial(&bench);
        wait_connections(&bench, (uint64_t)i + 1);
    }
    for (int i = 0; i < N; i++)
        say(fds[i], GET("/loop"));
    for (int i = 0, first = 0; i < N; i++) {
        AUTO(answer_fini) struct answer a = hear(fds[i]);

        first += a.body[0] == '0';
        assert_true(i < N - 1 || first == N / 2);
        close(fds[i]);
    }
    bench_stop(&bench, 1000);
}

static void stop_answers_what_is_in_flight(void **state)
{
    struct http_server_config cfg = bench_config();
    int idle, busy;
    int64_t t;
    AUTO(answer_fini) struct answer a = { 0 };

    bench_start(&bench, &cfg);
    idle = dial(&bench);
    busy = dial(&bench);
    say(idle, GET("/hello"));
    expect_answer(idle, 200, "hello");
    say(busy, GET("/slow"));
    usleep(50000);
    t = clock_mono_ns();
    bench_stop(&bench, 5000);
    assert_in_range(elapsed_ms(t), 150, 2000);
    a = hear(busy);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "slow");
    assert_non_null(strstr(a.head, "\r\nConnection: close\r\n"));
    expect_closed(busy);
    expect_closed(idle);
    close(busy);
    close(idle);
}

static void stop_cuts_what_outlasts_the_grace(void **state)
{
    struct http_server_config cfg = bench_config();
    int64_t t;
    int fd, half;

    bench_start(&bench, &cfg);
    fd = dial(&bench);
    half = dial(&bench);
    say(fd, GET("/slow"));
    say(half, "GET / HT");
    usleep(50000);
    t = clock_mono_ns();
    bench_stop(&bench, 50);
    assert_in_range(elapsed_ms(t), 40, 250);
    expect_closed(fd);
    expect_closed(half);
    close(fd);
    close(half);
}

static void bad_settings_are_refused(void **state)
{
    struct http_server_config cfg = bench_config();
    struct rt_config rtc = { .loops = 2, .offload_threads = 1 };
    struct http_server *s, *t;
    char taken[32];
    struct rt *rt;

    assert_int_equal(rt_start(&rtc, &rt), RC_OK);
    cfg.listen = "nonsense";
    assert_int_equal(http_server_start(rt, &cfg, &s), RC_INVALID);
    cfg = bench_config();
    cfg.tls.cert_file = "/nonexistent/cert.pem";
    cfg.tls.key_file = "/nonexistent/key.pem";
    assert_int_equal(http_server_start(rt, &cfg, &s), RC_INVALID);
    assert_non_null(strstr(note_text(), "/nonexistent/cert.pem"));
    cfg.tls.min_version = "SSL3";
    assert_int_equal(http_server_start(rt, &cfg, &s), RC_INVALID);
    cfg = bench_config();
    assert_int_equal(http_server_start(rt, &cfg, &s), RC_OK);
    snprintf(taken, sizeof taken, "127.0.0.1:%u", http_server_port(s));
    cfg.listen = taken;
    if (http_server_start(rt, &cfg, &t) == RC_OK) /* SO_REUSEPORT of the same user shares it */
        http_server_stop(t, 100);
    http_server_stop(s, 100);
    rt_stop(rt);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_past_the_limit_get_503),
        cmocka_unit_test(without_descriptors_clients_are_shed_and_service_resumes),
        cmocka_unit_test(few_connections_spread_over_the_loops),
        cmocka_unit_test(stop_answers_what_is_in_flight),
        cmocka_unit_test(stop_cuts_what_outlasts_the_grace),
        cmocka_unit_test(bad_settings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
