/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls — the server's certificate and TLS settings, replaceable while it runs.
 *
 * Owns:    a source owns its newest context; connections hold references to the one they began
 * with. Errors:  RC_INVALID with a note that names the file. Threads: any.
 */
#ifndef STRATA_HTTP_TLS_H
#define STRATA_HTTP_TLS_H

#include "http/http.h"

#include <openssl/ssl.h>

struct tls_source;

/* The settings are copied. */
enum rc tls_source_new(const struct http_tls_config *cfg, struct tls_source **ret) MUST_CHECK;
void tls_source_free(struct tls_source *s);
/* Loads the files again; on failure the old context stays. */
enum rc tls_source_reload(struct tls_source *s) MUST_CHECK;
/* A new server-side session of the newest context for a non-blocking fd; NULL when out of memory.
 */
SSL *tls_source_accept(struct tls_source *s, int fd) MUST_CHECK;

#endif
