/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "rt/io.h"
#include "rt/sync.h"
#include "rt_test.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOON_NS (clock_mono_ns() + 5 * NS_PER_MS)
#define LATE_NS (clock_mono_ns() + 30 * NS_PER_S)

struct pair {
    struct io a, b;
};

static void pair_init(struct pair *p)
{
    int fd[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0);
    CHECK(io_init(&p->a, fd[0]) == RC_OK);
    CHECK(io_init(&p->b, fd[1]) == RC_OK);
}

static void pair_fini(struct pair *p)
{
    io_close(&p->a);
    io_close(&p->b);
}

/* ---- reading and writing --------------------------------------------------------------------- */

static void reads(void *arg)
{
    char text[16];
    struct pair p;
    size_t n;

    pair_init(&p);
    CHECK(io_try_read(&p.b, text, sizeof text, &n) == RC_OK && n == 0);
    CHECK(io_read(&p.b, text, sizeof text, &n, SOON_NS) == RC_TIMEOUT);
    CHECK(io_write(&p.a, "hello", 5, NO_DEADLINE) == RC_OK);
    CHECK(io_read(&p.b, text, 3, &n, LATE_NS) == RC_OK && n == 3 && memcmp(text, "hel", 3) == 0);
    CHECK(io_read(&p.b, text, sizeof text, &n, LATE_NS) == RC_OK && n == 2);
    CHECK(io_write(&p.a, "bye", 3, NO_DEADLINE) == RC_OK);
    io_close(&p.a);
    CHECK(io_read(&p.b, text, sizeof text, &n, LATE_NS) == RC_OK && n == 3);
    CHECK(io_read(&p.b, text, sizeof text, &n, LATE_NS) == RC_EOF);
    CHECK(io_write(&p.b, "x", 1, LATE_NS) == RC_EOF); /* and no SIGPIPE */
    pair_fini(&p);
    CHECK(io_read(&p.b, text, 1, &n, LATE_NS) == RC_CANCELLED);
    io_close(&p.b);
}

static void reads_give_what_is_there_then_wait_then_end(void **state)
{
    on_runtime(1, reads, NULL);
}

#define BULK (3u << 20)

static void write_bulk(void *arg)
{
    unsigned char *bytes = malloc(BULK);
    struct iovec iov[1500];
    struct io *io = arg;

    CHECK(bytes);
    for (unsigned i = 0; i < BULK; i++)
        bytes[i] = (unsigned char)(i % 251);
    for (unsigned i = 0; i < 1500; i++) /* more than one writev may take, some empty */
        iov[i] = (struct iovec){ bytes + i * 1000, i % 100 ? 1000 : 0 };
    for (unsigned i = 0; i < 1500; i += 100)
        iov[i + 1] = (struct iovec){ bytes + i * 1000, 2000 };
    CHECK(io_writev(io, iov, 1500, LATE_NS) == RC_OK);
    CHECK(io_write(io, bytes + 1500000, BULK - 1500000, LATE_NS) == RC_OK);
    io_close(io);
    free(bytes);
}

static void bulk(void *arg)
{
    static unsigned char part[10007];
    struct fiber *f;
    struct pair p;
    size_t at = 0, n;
    enum rc rc;

    pair_init(&p);
    CHECK(fiber_spawn_joinable(loop_current(), write_bulk, &p.a, &f) == RC_OK);
    while ((rc = io_read(&p.b, part, sizeof part, &n, LATE_NS)) == RC_OK)
        for (size_t i = 0; i < n; i++, at++)
            CHECK(part[i] == at % 251);
    CHECK(rc == RC_EOF && at == BULK);
    fiber_join(f);
    pair_fini(&p);
}

static void long_writes_wait_for_room_and_arrive_whole(void **state)
{
    on_runtime(1, bulk, NULL);
}

static void stuck_write(void *arg)
{
    static char bytes[4 << 20];
    struct pair p;

    pair_init(&p);
    CHECK(io_write(&p.a, bytes, sizeof bytes, SOON_NS) == RC_TIMEOUT);
    fiber_cancel(fiber_current());
    CHECK(io_write(&p.a, bytes, sizeof bytes, NO_DEADLINE) == RC_CANCELLED);
    pair_fini(&p);
}

static void writes_end_at_their_deadline_or_cancelled(void **state)
{
    on_runtime(1, stuck_write, NULL);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void read_until_closed(void *arg)
{
    char c;
    size_t n;

    CHECK(io_read(arg, &c, 1, &n, NO_DEADLINE) == RC_CANCELLED);
}

static void closes(void *arg)
{
    struct pair *p = malloc(sizeof *p);
    struct fiber *f;

    CHECK(p);
    pair_init(p);
    CHECK(fiber_spawn_joinable(loop_current(), read_until_closed, &p->a, &f) == RC_OK);
    CHECK(fiber_sleep_ms(1) == RC_OK);
    pair_fini(p);
    free(p); /* at once: the reader must not look at it again */
    fiber_join(f);
}

static void io_close_wakes_a_reader_that_no_longer_needs_the_io(void **state)
{
    on_runtime(1, closes, NULL);
}

/* ---- watching -------------------------------------------------------------------------------- */

static int ready_n;

static void on_ready(struct io *io)
{
    CHECK(!fiber_current());
    ready_n++;
}

static void on_ready_close(struct io *io)
{
    struct pair *p = container_of(io, struct pair, b);

    ready_n++;
    pair_fini(p);
    free(p);
}

static void watches(void *arg)
{
    struct pair *many[20];
    struct pair p;
    char c[4];
    size_t n;

    ready_n = 0;
    pair_init(&p);
    io_watch(&p.b, on_ready);
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 0);
    CHECK(io_write(&p.a, "ab", 2, NO_DEADLINE) == RC_OK);
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 1); /* once */
    io_watch(&p.b, on_ready);
    CHECK(ready_n == 1); /* not on this stack */
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 2); /* the bytes were there already */
    CHECK(io_try_read(&p.b, c, 2, &n) == RC_OK && n == 2);
    io_watch(&p.b, on_ready); /* the buffer was just filled: is there more? */
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 2);
    io_unwatch(&p.b);
    CHECK(io_write(&p.a, "c", 1, NO_DEADLINE) == RC_OK);
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 2);
    CHECK(io_read(&p.b, c, 4, &n, LATE_NS) == RC_OK && n == 1);
    io_watch(&p.b, on_ready);
    io_close(&p.a);
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 3); /* a hang-up */
    io_watch(&p.b, on_ready);
    CHECK(fiber_sleep_ms(2) == RC_OK);
    CHECK(ready_n == 4); /* that has already come */
    pair_fini(&p);

    for (int i = 0; i < 20; i++) {
        many[i] = malloc(sizeof *many[i]);
        CHECK(many[i]);
        pair_init(many[i]);
        io_watch(&many[i]->b, on_ready_close);
    }
    for (int i = 0; i < 20; i++)
        CHECK(write(many[i]->a.fd, "x", 1) == 1);
    CHECK(fiber_sleep_ms(5) == RC_OK);
    CHECK(ready_n == 24);
}

static void a_watch_fires_once_for_bytes_or_a_hang_up(void **state)
{
    on_runtime(1, watches, NULL);
}

static void readiness(void *arg)
{
    struct pair p;
    char c;

    pair_init(&p);
    CHECK(io_wait_writable(&p.a, LATE_NS) == RC_OK);
    CHECK(io_wait_readable(&p.b, SOON_NS) == RC_TIMEOUT);
    CHECK(io_write(&p.a, "x", 1, LATE_NS) == RC_OK);
    CHECK(io_wait_readable(&p.b, LATE_NS) == RC_OK);
    CHECK(io_wait_readable(&p.b, LATE_NS) == RC_OK);
    CHECK(read(p.b.fd, &c, 1) == 1); /* behind io's back, as TLS does */
    CHECK(io_wait_readable(&p.b, SOON_NS) == RC_TIMEOUT);
    pair_fini(&p);
}

static void readiness_is_asked_anew_when_others_read(void **state)
{
    on_runtime(1, readiness, NULL);
}

/* ---- connections ----------------------------------------------------------------------------- */

#define CLIENTS 200
#define ECHOES 5

struct echo {
    struct wait_group listening, clients;
    uint16_t port;
};

static void echo_one(void *arg)
{
    char bytes[4096];
    struct io io;
    size_t n;

    CHECK(io_init(&io, (int)(intptr_t)arg) == RC_OK);
    while (io_read(&io, bytes, sizeof bytes, &n, LATE_NS) == RC_OK)
        CHECK(io_write(&io, bytes, n, LATE_NS) == RC_OK);
    io_close(&io);
}

static void serve(void *arg)
{
    struct echo *e = arg;
    char address[32];
    struct io listener;
    uint16_t port;
    int fd;

    snprintf(address, sizeof address, "127.0.0.1:%u", e->port);
    CHECK(io_listen(address, true, &fd, &port) == RC_OK);
    CHECK(e->port == 0 || e->port == port);
    e->port = port;
    CHECK(io_init(&listener, fd) == RC_OK);
    wait_group_done(&e->listening);
    while (io_accept(&listener, &fd, NO_DEADLINE) == RC_OK)
        CHECK(fiber_spawn(loop_current(), echo_one, (void *)(intptr_t)fd) == RC_OK);
    CHECK(fiber_cancelled());
    io_close(&listener);
}

static void client(void *arg)
{
    unsigned char out[3000], in[3000];
    struct echo *e = arg;
    struct io io;
    size_t n, got;

    CHECK(io_connect(&io, "127.0.0.1", e->port, LATE_NS) == RC_OK);
    for (int i = 0; i < ECHOES; i++) {
        memset(out, 'a' + i, sizeof out);
        CHECK(io_write(&io, out, sizeof out, LATE_NS) == RC_OK);
        for (got = 0; got < sizeof in; got += n)
            CHECK(io_read(&io, in + got, sizeof in - got, &n, LATE_NS) == RC_OK);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    io_close(&io);
    wait_group_done(&e->clients);
}

static void echoes(void *arg)
{
    struct rt *rt = loop_rt(loop_current());
    struct echo *e = arg;

    wait_group_init(&e->listening);
    wait_group_init(&e->clients);
    for (unsigned i = 0; i < 2; i++) {
        wait_group_add(&e->listening, 1);
        CHECK(fiber_spawn(rt_loop(rt, i), serve, e) == RC_OK);
        CHECK(wait_group_wait(&e->listening, LATE_NS) == RC_OK);
    }
    wait_group_add(&e->clients, CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++)
        CHECK(fiber_spawn(rt_loop(rt, i % 2), client, e) == RC_OK);
    CHECK(wait_group_wait(&e->clients, LATE_NS) == RC_OK);
    wait_group_fini(&e->clients);
    wait_group_fini(&e->listening);
}

static void many_connections_echo_over_two_loops(void **state)
{
    struct echo e = { .port = 0 };

    on_runtime(2, echoes, &e);
}

static void addresses(void *arg)
{
    uint16_t port;
    struct io io;
    char taken[32];
    int fd, fd2;

    CHECK(io_listen("localhost", false, &fd, NULL) == RC_INVALID);
    CHECK(io_listen("127.0.0.1:65536", false, &fd, NULL) == RC_INVALID);
    CHECK(io_listen("::1:80", false, &fd, NULL) == RC_INVALID);
    CHECK(io_listen("127.0.0.1:x", false, &fd, NULL) == RC_INVALID);
    CHECK(io_listen(":0", false, &fd, &port) == RC_OK && port != 0);
    snprintf(taken, sizeof taken, "127.0.0.1:%u", port);
    CHECK(io_listen(taken, false, &fd2, NULL) == RC_UNAVAILABLE);
    CHECK(note_text()[0] != 0);
    CHECK(io_connect(&io, "localhost", port, LATE_NS) == RC_OK);
    io_close(&io);
    close(fd);
    CHECK(io_connect(&io, "127.0.0.1", port, LATE_NS) == RC_UNAVAILABLE);
    CHECK(strstr(note_text(), "refused"));
}

static void addresses_are_checked_and_refusals_told(void **state)
{
    on_runtime(1, addresses, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_give_what_is_there_then_wait_then_end),
        cmocka_unit_test(long_writes_wait_for_room_and_arrive_whole),
        cmocka_unit_test(writes_end_at_their_deadline_or_cancelled),
        cmocka_unit_test(io_close_wakes_a_reader_that_no_longer_needs_the_io),
        cmocka_unit_test(a_watch_fires_once_for_bytes_or_a_hang_up),
        cmocka_unit_test(readiness_is_asked_anew_when_others_read),
        cmocka_unit_test(many_connections_echo_over_two_loops),
        cmocka_unit_test(addresses_are_checked_and_refusals_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
