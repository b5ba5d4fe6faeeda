/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/target.h"

#include "base/encode.h"
#include "meta/meta.h"

#include <ctype.h>

static int longer_first(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;

    return (x->n < y->n) - (x->n > y->n);
}

static enum rc add_pattern(struct s3_vhosts *v, struct slice p)
{
    p = slice_trim(p);
    if (p.n == 0)
        return RC_OK;
    if (slice_starts(p, SLICE("*.")))
        p = slice_from(p, 2);
    if (p.n == 0 || slice_find_char(p, '*') < p.n || p.p[0] == '.' || p.p[p.n - 1] == '.')
        return fail_rc(RC_INVALID, "bad virtual-host pattern: %.*s", SLICE_ARG(p));
    v->suffixes[v->n++] = p;
    return RC_OK;
}

enum rc s3_vhosts_init(struct s3_vhosts *v, const char *list)
{
    struct slice rest;
    size_t most = 1;
    enum rc rc = RC_OK;

    *v = (struct s3_vhosts){ 0 };
    if (!list || !*list || !strcmp(list, "-"))
        return RC_OK;
    v->text = strdup(list);
    for (char *c = v->text; c && *c; c++) {
        *c = (char)tolower((unsigned char)*c);
        most += *c == ',';
    }
    v->suffixes = calloc(most, sizeof *v->suffixes);
    if (!v->text || !v->suffixes)
        rc = RC_NO_MEM;
    rest = slice_str(v->text);
    while (!rc && rest.n)
        rc = add_pattern(v, slice_cut(rest, ',', &rest));
    if (rc)
        s3_vhosts_fini(v);
    else
        qsort(v->suffixes, v->n, sizeof *v->suffixes, longer_first);
    return rc;
}

void s3_vhosts_fini(struct s3_vhosts *v)
{
    free(v->text);
    free(v->suffixes);
    *v = (struct s3_vhosts){ 0 };
}

/* Without port and the dot of a fully qualified name. */
static struct slice bare_host(struct slice host)
{
    size_t colon;

    if (host.n && host.p[0] == '[') /* an IPv6 address: never a virtual host */
        return SLICE_NONE;
    colon = slice_find_char(host, ':');
    host = slice_first(host, colon);
    if (host.n && host.p[host.n - 1] == '.')
        host.n--;
    return host;
}

static bool is_ipv4(struct slice host)
{
    for (size_t i = 0; i < host.n; i++)
        if (!isdigit((unsigned char)host.p[i]) && host.p[i] != '.')
            return false;
    return true;
}

enum rc s3_vhost_bucket(const struct s3_vhosts *v, struct arena *a, struct slice host,
                        struct slice *ret)
{
    *ret = SLICE_NONE;
    host = bare_host(host);
    if (!v->n || !host.n || is_ipv4(host))
        return RC_OK;
    for (size_t i = 0; i < v->n; i++) {
        struct slice suffix = v->suffixes[i];
        size_t name_n = host.n - suffix.n - 1;
        char *lower;

        if (host.n == suffix.n && slice_eq_nocase(host, suffix))
            return RC_OK;
        if (host.n < suffix.n + 2 || host.p[name_n] != '.' ||
            !slice_eq_nocase(slice_from(host, name_n + 1), suffix))
            continue;
        lower = arena_alloc(a, name_n);
        if (!lower)
            return RC_NO_MEM;
        for (size_t k = 0; k < name_n; k++)
            lower[k] = (char)tolower((unsigned char)host.p[k]);
        *ret = slice_of(lower, name_n);
        return RC_OK;
    }
    return RC_OK;
}

enum rc s3_key_check(struct slice key)
{
    if (key.n > META_KEY_MAX)
        return fail_s3(S3E_KEY_TOO_LONG, NULL);
    if (!slice_is_utf8(key) || slice_find_char(key, 0) < key.n)
        return fail_s3(S3E_INVALID_URI, NULL);
    return RC_OK;
}

enum rc s3_key_decode(struct arena *a, struct slice raw, struct slice *ret)
{
    struct slice key = raw;

    if (raw.n && uri_decode(a, raw, false, &key))
        return fail_s3(S3E_INVALID_URI, NULL);
    if (key.n) {
        enum rc rc = s3_key_check(key);

        if (rc)
            return rc;
    }
    *ret = key;
    return RC_OK;
}

enum rc s3_target_parse(const struct s3_vhosts *v, struct arena *a, struct slice host,
                        struct slice path, struct s3_target *ret)
{
    struct s3_target t = { 0 };
    struct slice rest;
    enum rc rc = s3_vhost_bucket(v, a, host, &t.bucket);

    if (rc)
        return rc;
    t.vhost = t.bucket.n > 0;
    rest = slice_from(path, 1);
    if (!t.vhost && rest.n) {
        struct slice raw = slice_cut(rest, '/', &rest);

        if (raw.n == 0)
            return fail_s3(S3E_INVALID_BUCKET_NAME, NULL);
        if (uri_decode(a, raw, false, &t.bucket) || !slice_is_utf8(t.bucket))
            return fail_s3(S3E_INVALID_URI, NULL);
    }
    rc = s3_key_decode(a, rest, &t.key);
    if (!rc)
        *ret = t;
    return rc;
}
