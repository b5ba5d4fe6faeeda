/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"

#include <openssl/err.h>
#include <pthread.h>
#include <signal.h>

struct tls_source {
    char *cert_file, *key_file;
    int min_version;
    pthread_mutex_t lock;
    SSL_CTX *newest; /* guarded by lock; counted by OpenSSL */
};

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                       const unsigned char *in, unsigned in_n, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";

    if (SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_n, ours, sizeof ours - 1, in,
                              in_n) == OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_OK;
    return SSL_TLSEXT_ERR_NOACK;
}

static enum rc fail_tls(const char *what, const char *file)
{
    char text[160];

    ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
    ERR_clear_error();
    return fail_rc(RC_INVALID, "%s %s: %s", what, file, text);
}

static enum rc load_files(const struct tls_source *s, SSL_CTX *ctx)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, s->cert_file) != 1)
        return fail_tls("TLS certificate", s->cert_file);
    if (SSL_CTX_use_PrivateKey_file(ctx, s->key_file, SSL_FILETYPE_PEM) != 1)
        return fail_tls("TLS key", s->key_file);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return fail_tls("TLS key does not fit the certificate:", s->key_file);
    return RC_OK;
}

static enum rc make_context(const struct tls_source *s, SSL_CTX **ret)
{
    static const unsigned char session_context[] = "strata";
    SSL_CTX *ctx;
    enum rc rc;

    ERR_clear_error();
    ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return RC_NO_MEM;
    SSL_CTX_set_min_proto_version(ctx, s->min_version);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_ENABLE_KTLS);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    /* Sessions live in tickets that clients keep; nothing is stored here. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(ctx, session_context, sizeof session_context - 1);
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
    rc = load_files(s, ctx);
    if (rc) {
        SSL_CTX_free(ctx);
        return rc;
    }
    *ret = ctx;
    return RC_OK;
}

/* OpenSSL writes with write(2): a client that left must not kill the process. */
static void ignore_sigpipe(void)
{
    struct sigaction now;

    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

static enum rc parse_version(const char *name, int *ret)
{
    if (!name || strcmp(name, "TLS1.2") == 0)
        *ret = TLS1_2_VERSION;
    else if (strcmp(name, "TLS1.3") == 0)
        *ret = TLS1_3_VERSION;
    else
        return fail_rc(RC_INVALID, "TLS version %s: TLS1.2 and TLS1.3 are known", name);
    return RC_OK;
}

enum rc tls_source_new(const struct http_tls_config *cfg, struct tls_source **ret)
{
    struct tls_source *s;
    int version = TLS1_2_VERSION;
    enum rc rc = parse_version(cfg->min_version, &version);

    if (rc)
        return rc;
    if (!cfg->key_file)
        return fail_rc(RC_INVALID, "TLS certificate %s without a key", cfg->cert_file);
    s = calloc(1, sizeof *s);
    if (!s)
        return RC_NO_MEM;
    pthread_mutex_init(&s->lock, NULL);
    s->min_version = version;
    s->cert_file = strdup(cfg->cert_file);
    s->key_file = strdup(cfg->key_file);
    rc = s->cert_file && s->key_file ? make_context(s, &s->newest) : RC_NO_MEM;
    if (rc) {
        tls_source_free(s);
        return rc;
    }
    ignore_sigpipe();
    *ret = s;
    return RC_OK;
}

void tls_source_free(struct tls_source *s)
{
    if (!s)
        return;
    SSL_CTX_free(s->newest);
    pthread_mutex_destroy(&s->lock);
    free(s->cert_file);
    free(s->key_file);
    free(s);
}

enum rc tls_source_reload(struct tls_source *s)
{
    SSL_CTX *fresh, *old;
    enum rc rc = make_context(s, &fresh);

    if (rc)
        return rc;
    pthread_mutex_lock(&s->lock);
    old = s->newest;
    s->newest = fresh;
    pthread_mutex_unlock(&s->lock);
    SSL_CTX_free(old);
    return RC_OK;
}

SSL *tls_source_accept(struct tls_source *s, int fd)
{
    SSL *ssl;

    pthread_mutex_lock(&s->lock);
    ssl = SSL_new(s->newest);
    pthread_mutex_unlock(&s->lock);
    if (ssl && SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    if (ssl)
        SSL_set_accept_state(ssl);
    return ssl;
}
