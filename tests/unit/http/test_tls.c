/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

static struct bench bench;
static char directory[] = "/tmp/strata-tls-XXXXXX";
static char cert_file[64], key_file[64];

/* A self-signed certificate for `name`, written over the files. */
static void write_certificate(const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *subject;
    FILE *f;

    assert_true(key && cert);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, subject);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    f = fopen(cert_file, "w");
    assert_true(f && PEM_write_X509(f, cert) == 1 && fclose(f) == 0);
    f = fopen(key_file, "w");
    assert_true(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1 &&
                fclose(f) == 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int start(void **state)
{
    struct http_server_config cfg = bench_config();

    assert_non_null(mkdtemp(directory));
    snprintf(cert_file, sizeof cert_file, "%s/cert.pem", directory);
    snprintf(key_file, sizeof key_file, "%s/key.pem", directory);
    write_certificate("first");
    cfg.tls.cert_file = cert_file;
    cfg.tls.key_file = key_file;
    cfg.limits.head_timeout_ms = 500;
    cfg.limits.idle_timeout_ms = 2000;
    bench_start(&bench, &cfg);
    return 0;
}

static int stop(void **state)
{
    bench_stop(&bench, 1000);
    unlink(cert_file);
    unlink(key_file);
    rmdir(directory);
    return 0;
}

struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
};

static bool try_connect(struct client *c, int max_version, SSL_SESSION *resume)
{
    static const unsigned char alpn[] = "\x02h2\x08http/1.1";

    c->ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(c->ctx);
    SSL_CTX_set_max_proto_version(c->ctx, max_version);
    SSL_CTX_set_alpn_protos(c->ctx, alpn, sizeof alpn - 1);
    c->ssl = SSL_new(c->ctx);
    c->fd = dial(&bench);
    SSL_set_fd(c->ssl, c->fd);
    if (resume)
        SSL_set_session(c->ssl, resume);
    return SSL_connect(c->ssl) == 1;
}

static void hang_up(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    close(c->fd);
}

/* Sends a request; the answer's body must be `body`. */
static void ask(struct client *c, const char *request, const char *body)
{
    char text[8192];
    size_t n = 0, got;
    char *end;

    assert_int_equal(SSL_write(c->ssl, request, (int)strlen(request)), (int)strlen(request));
    do {
        assert_true(n < sizeof text - 1);
        assert_int_equal(SSL_read_ex(c->ssl, text + n, sizeof text - 1 - n, &got), 1);
        n += got;
        text[n] = 0;
        end = strstr(text, "\r\n\r\n");
    } while (!end || strlen(end + 4) < strlen(body));
    assert_string_equal(end + 4, body);
}

static void ask_hello(struct client *c)
{
    ask(c, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "hello");
}

static void assert_peer(struct client *c, const char *name)
{
    X509 *cert = SSL_get1_peer_certificate(c->ssl);
    char text[64] = "";

    assert_non_null(cert);
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, text, sizeof text);
    assert_string_equal(text, name);
    X509_free(cert);
}

static void requests_are_served_on_both_versions(void **state)
{
    static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct client c;
        const unsigned char *alpn;
        unsigned alpn_n;

        assert_true(try_connect(&c, versions[i], NULL));
        assert_int_equal(SSL_version(c.ssl), versions[i]);
        SSL_get0_alpn_selected(c.ssl, &alpn, &alpn_n);
        assert_int_equal(alpn_n, 8);
        assert_memory_equal(alpn, "http/1.1", 8);
        for (int k = 0; k < 5; k++) {
            ask_hello(&c);
            usleep(20000); /* idle in between, without a fiber */
        }
        ask(&c,
            "POST /all HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
            "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n",
            "abc");
        hang_up(&c);
    }
}

static void old_versions_are_refused(void **state)
{
    struct client c;

    assert_false(try_connect(&c, TLS1_1_VERSION, NULL));
    hang_up(&c);
    ERR_clear_error();
}

static void sessions_resume(void **state)
{
    struct client a, b;
    SSL_SESSION *session;

    assert_true(try_connect(&a, TLS1_3_VERSION, NULL));
    ask_hello(&a); /* the ticket comes with the first bytes */
    session = SSL_get1_session(a.ssl);
    assert_true(try_connect(&b, TLS1_3_VERSION, session));
    ask_hello(&b);
    assert_int_equal(SSL_session_reused(b.ssl), 1);
    SSL_SESSION_free(session);
    hang_up(&a);
    hang_up(&b);
}

static void large_bodies_pass_both_ways(void **state)
{
    static char body[1000000], text[4096];
    struct client c;
    size_t got, total = 0, head = 0;

    assert_true(try_connect(&c, TLS1_3_VERSION, NULL));
    make_pattern(body, sizeof body);
    snprintf(text, sizeof text, "PUT /upload HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
             sizeof body);
    assert_true(SSL_write(c.ssl, text, (int)strlen(text)) > 0);
    for (size_t at = 0; at < sizeof body; at += 100000)
        assert_int_equal(SSL_write(c.ssl, body + at, 100000), 100000);
    assert_int_equal(SSL_read_ex(c.ssl, text, sizeof text - 1, &got), 1);
    text[got] = 0;
    assert_non_null(strstr(text, "1000000 bytes 0 wrong"));

    assert_true(SSL_write(c.ssl, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", 31) == 31);
    while (head == 0 || total < head + BIG_BYTES) {
        static char in[65536];

        assert_int_equal(SSL_read_ex(c.ssl, in, sizeof in, &got), 1);
        if (head == 0)
            head = (size_t)((char *)memmem(in, got, "\r\n\r\n", 4) - in) + 4;
        for (size_t i = total ? 0 : head; i < got; i++)
            assert_true((unsigned char)in[i] == pattern_at(total + i - head));
        total += got;
    }
    assert_int_equal(total, head + BIG_BYTES);
    hang_up(&c);
}

static void new_certificates_serve_new_connections(void **state)
{
    struct client before, after, again;

    assert_true(try_connect(&before, TLS1_3_VERSION, NULL));
    assert_peer(&before, "first");
    write_certificate("second");
    assert_int_equal(http_server_reload_tls(bench.server), RC_OK);
    assert_true(try_connect(&after, TLS1_3_VERSION, NULL));
    assert_peer(&after, "second");
    ask_hello(&before);
    ask_hello(&after);
    /* Bad files: what is in use stays. */
    assert_int_equal(truncate(cert_file, 10), 0);
    assert_int_equal(http_server_reload_tls(bench.server), RC_INVALID);
    assert_non_null(strstr(note_text(), cert_file));
    assert_true(try_connect(&again, TLS1_3_VERSION, NULL));
    assert_peer(&again, "second");
    ask_hello(&again);
    hang_up(&before);
    hang_up(&after);
    hang_up(&again);
}

static void a_silent_or_plain_client_is_dropped(void **state)
{
    int64_t t = clock_mono_ns();
    int fd = dial(&bench);

    say(fd, "\x16\x03\x01"); /* the handshake begins and stalls */
    expect_closed(fd);
    assert_in_range(elapsed_ms(t), 400, 1500);
    close(fd);
    fd = dial(&bench);
    say(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    while (recv(fd, (char[64]){ 0 }, 64, 0) > 0) /* an alert at most */
        ;
    assert_true(errno != EAGAIN);
    close(fd);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_served_on_both_versions),
        cmocka_unit_test(old_versions_are_refused),
        cmocka_unit_test(sessions_resume),
        cmocka_unit_test(large_bodies_pass_both_ways),
        cmocka_unit_test(a_silent_or_plain_client_is_dropped),
        cmocka_unit_test(new_certificates_serve_new_connections),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
