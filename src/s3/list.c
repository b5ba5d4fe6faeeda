/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ListObjects and ListObjectsV2.
 *
 * Invariant: every entry is formatted by plain copies into room that was reserved for its longest
 * form before, so a page costs one growing buffer and no formatting calls.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/list_token.h"
#include "s3/sums.h"
#include "s3/xml_out.h"

#define MAX_KEYS 1000u
#define HEAD_ROOM 8192u /* kept free in front of the entries, for what is only known after them */
#define ENTRY_ROOM 512u /* of an entry beside its key and owner */
#define PAGE_MAX ((size_t)64 << 20)

struct list {
    struct s3_call *c;
    bool v2, url, fetch_owner;
    struct slice prefix, delimiter, marker, token, start_after;
    size_t max;
    struct buf page;     /* HEAD_ROOM, then Contents */
    struct buf prefixes; /* CommonPrefixes */
    struct slice owner;  /* rendered element; n == 0: none */
    int64_t second;      /* that iso tells */
    char iso[CLOCK_ISO_SIZE];
    uint64_t n;
};

/* ---- parameters ----------------------------------------------------------------------------- */

static enum rc read_max_keys(struct s3_call *c, size_t *ret)
{
    struct slice v = s3_param(c, SLICE("max-keys"));
    uint64_t n = MAX_KEYS;

    if (v.n && !slice_to_u64(v, &n))
        return s3_invalid_argument(c, "max-keys", v,
                                   "Provided max-keys not an integer or within integer range");
    if (v.n && n > INT32_MAX)
        return s3_invalid_argument(c, "max-keys", v,
                                   "Argument max-keys must be an integer between 0 and 2147483647");
    *ret = MIN(n, MAX_KEYS);
    return RC_OK;
}

static enum rc read_encoding(struct s3_call *c, bool *ret_url)
{
    struct slice v = s3_param(c, SLICE("encoding-type"));

    *ret_url = slice_eq(v, SLICE("url"));
    if (!v.n || *ret_url)
        return RC_OK;
    return s3_invalid_argument(c, "encoding-type", v,
                               "Invalid Encoding Method specified in Request");
}

static enum rc render_owner(struct list *l)
{
    struct s3_call *c = l->c;
    struct slice id = c->bucket.owner, display = id;
    char *p, *start;

    if (slice_eq(id, c->id.account.id) && c->id.account.display.n)
        display = c->id.account.display;
    p = start = arena_alloc(c->arena, 128 + XML_ESCAPED_MAX * (id.n + display.n));
    if (!p)
        return RC_NO_MEM;
    p = mempcpy(p, "<Owner><ID>", 11);
    p = xml_escape(p, id);
    p = mempcpy(p, "</ID><DisplayName>", 18);
    p = xml_escape(p, display);
    p = mempcpy(p, "</DisplayName></Owner>", 22);
    l->owner = slice_of(start, (size_t)(p - start));
    return RC_OK;
}

static enum rc read_params(struct list *l)
{
    struct s3_call *c = l->c;
    struct slice unordered = s3_param(c, SLICE("allow-unordered"));
    enum rc rc = read_max_keys(c, &l->max);

    if (!rc)
        rc = read_encoding(c, &l->url);
    if (rc)
        return rc;
    l->prefix = s3_param(c, SLICE("prefix"));
    l->delimiter = s3_param(c, SLICE("delimiter"));
    l->marker = s3_param(c, SLICE("marker"));
    l->token = s3_param(c, SLICE("continuation-token"));
    l->start_after = s3_param(c, SLICE("start-after"));
    l->fetch_owner = !l->v2 || slice_eq_nocase(s3_param(c, SLICE("fetch-owner")), SLICE("true"));
    if (slice_eq_nocase(unordered, SLICE("true")) && l->delimiter.n)
        return s3_invalid_argument(c, "allow-unordered", unordered,
                                   "Unordered listings cannot be combined with a delimiter");
    return l->fetch_owner ? render_owner(l) : RC_OK;
}

static enum rc start_key(struct list *l, struct slice *ret)
{
    if (!l->v2) {
        *ret = l->marker;
        return RC_OK;
    }
    *ret = l->start_after;
    if (!l->token.n)
        return RC_OK;
    if (s3_list_token_decode(l->c->arena, l->token, ret))
        return RC_OK;
    return s3_invalid_argument(l->c, "continuation-token", l->token,
                               "The continuation token provided is incorrect");
}

/* ---- entries -------------------------------------------------------------------------------- */

#define PUT(p, literal) mempcpy((p), (literal), sizeof(literal) - 1)

static char *put_url(char *p, struct slice s)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < s.n; i++) {
        unsigned char ch = (unsigned char)s.p[i];

        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
            ch == '-' || ch == '_' || ch == '.' || ch == '~' || ch == '/') {
            *p++ = (char)ch;
            continue;
        }
        *p++ = '%';
        *p++ = digits[ch >> 4];
        *p++ = digits[ch & 15];
    }
    return p;
}

static char *put_key(const struct list *l, char *p, struct slice key)
{
    return l->url ? put_url(p, key) : xml_escape(p, key);
}

static char *put_u64(char *p, uint64_t v)
{
    char digits[20];
    size_t n = 0;

    do
        digits[sizeof digits - ++n] = (char)('0' + v % 10);
    while (v /= 10);
    return mempcpy(p, digits + sizeof digits - n, n);
}

static char *put_sum(char *p, const struct meta_head *h)
{
    const char *name = s3_sum_name((enum meta_checksum)h->sum_kind);

    p = PUT(p, "<ChecksumAlgorithm>");
    p = mempcpy(p, name, strlen(name));
    p = PUT(p, "</ChecksumAlgorithm><ChecksumType>");
    p = h->sum_composite ? PUT(p, "COMPOSITE") : PUT(p, "FULL_OBJECT");
    return PUT(p, "</ChecksumType>");
}

static enum rc emit_key(struct list *l, const struct meta_list_entry *e)
{
    const struct meta_head *h = &e->head;
    enum rc rc = buf_reserve(&l->page, e->key.n * XML_ESCAPED_MAX + l->owner.n + ENTRY_ROOM);
    char *p;

    if (rc)
        return rc;
    if (h->mtime_ns / NS_PER_S != l->second) {
        l->second = h->mtime_ns / NS_PER_S;
        clock_format_iso(l->iso, l->second * NS_PER_S);
    }
    p = PUT(l->page.p + l->page.n, "<Contents><Key>");
    p = put_key(l, p, e->key);
    p = PUT(p, "</Key><LastModified>");
    p = mempcpy(p, l->iso, sizeof l->iso);
    p = PUT(p, "</LastModified><ETag>&quot;");
    p += meta_etag(h, p);
    p = PUT(p, "&quot;</ETag>");
    if (UNLIKELY(h->sum_kind))
        p = put_sum(p, h);
    p = PUT(p, "<Size>");
    p = put_u64(p, h->size);
    p = PUT(p, "</Size>");
    if (l->owner.n)
        p = mempcpy(p, l->owner.p, l->owner.n);
    p = PUT(p, "<StorageClass>");
    if (h->storage_class.n)
        p = mempcpy(p, h->storage_class.p, MIN(h->storage_class.n, 64));
    else
        p = PUT(p, "STANDARD");
    p = PUT(p, "</StorageClass></Contents>");
    l->page.n = (size_t)(p - l->page.p);
    return RC_OK;
}

static enum rc emit_prefix(struct list *l, struct slice prefix)
{
    enum rc rc = buf_reserve(&l->prefixes, prefix.n * XML_ESCAPED_MAX + ENTRY_ROOM);
    char *p;

    if (rc)
        return rc;
    p = PUT(l->prefixes.p + l->prefixes.n, "<CommonPrefixes><Prefix>");
    p = put_key(l, p, prefix);
    p = PUT(p, "</Prefix></CommonPrefixes>");
    l->prefixes.n = (size_t)(p - l->prefixes.p);
    return RC_OK;
}

static enum rc emit(void *arg, const struct meta_list_entry *e)
{
    struct list *l = arg;

    l->n++;
    return e->is_prefix ? emit_prefix(l, e->key) : emit_key(l, e);
}

/* ---- the document --------------------------------------------------------------------------- */

static void text(const struct list *l, struct xml *x, const char *tag, struct slice v)
{
    if (l->url)
        xml_url(x, tag, v);
    else
        xml_text(x, tag, v);
}

static void write_next(struct list *l, struct xml *x, const struct meta_list_result *r)
{
    char token[S3_LIST_TOKEN_MAX];

    if (!r->truncated)
        return;
    if (l->v2)
        xml_text(x, "NextContinuationToken", slice_of(token, s3_list_token_encode(token, r->next)));
    else if (l->delimiter.n) /* without one, the last key is the next marker */
        text(l, x, "NextMarker", r->next);
}

static void write_head(struct list *l, struct xml *x, const struct meta_list_result *r)
{
    xml_init(x);
    xml_open(x, "ListBucketResult" XML_NS);
    xml_text(x, "Name", l->c->target.bucket);
    text(l, x, "Prefix", l->prefix);
    if (!l->v2)
        text(l, x, "Marker", l->marker);
    if (l->v2 && l->token.n)
        xml_text(x, "ContinuationToken", l->token);
    if (l->v2 && l->start_after.n)
        text(l, x, "StartAfter", l->start_after);
    write_next(l, x, r);
    if (l->v2)
        xml_u64(x, "KeyCount", l->n);
    xml_u64(x, "MaxKeys", l->max);
    if (l->delimiter.n)
        text(l, x, "Delimiter", l->delimiter);
    if (l->url)
        xml_text(x, "EncodingType", SLICE("url"));
    xml_bool(x, "IsTruncated", r->truncated);
}

static enum rc send(struct list *l, const struct meta_list_result *r)
{
    AUTO(xml_fini) struct xml head = { 0 };
    enum rc rc;

    write_head(l, &head, r);
    rc = head.rc;
    if (!rc)
        rc = buf_add(&l->page, buf_slice(&l->prefixes));
    if (!rc)
        rc = buf_add(&l->page, SLICE("</ListBucketResult>"));
    if (rc)
        return rc;
    if (head.b.n <= HEAD_ROOM) { /* in front of the entries, so that all leaves at once */
        size_t at = HEAD_ROOM - head.b.n;

        memcpy(l->page.p + at, head.b.p, head.b.n);
        return s3_answer_xml(l->c, 200, slice_from(buf_slice(&l->page), at));
    }
    s3_begin(l->c, 200);
    http_res_header(l->c->req, SLICE("Content-Type"), SLICE("application/xml"));
    rc = http_res_begin(l->c->req, head.b.n + l->page.n - HEAD_ROOM);
    if (!rc)
        rc = http_res_write(l->c->req, head.b.p, head.b.n);
    if (!rc)
        rc = http_res_write(l->c->req, l->page.p + HEAD_ROOM, l->page.n - HEAD_ROOM);
    return rc ? rc : http_res_end(l->c->req);
}

static enum rc list(struct s3_call *c, bool v2)
{
    struct list l = { .c = c, .v2 = v2, .second = INT64_MIN };
    struct meta_list_params p;
    struct meta_list_result r = { 0 };
    enum rc rc = read_params(&l);

    if (!rc)
        rc = start_key(&l, &p.after);
    if (rc)
        return rc;
    p.prefix = l.prefix;
    p.delimiter = l.delimiter;
    p.max = l.max;
    buf_init(&l.page, PAGE_MAX);
    buf_init(&l.prefixes, PAGE_MAX);
    rc = buf_reserve(&l.page, HEAD_ROOM + 64);
    l.page.n = rc ? 0 : HEAD_ROOM;
    if (!rc && l.max)
        rc = meta_list(s3_meta(c), c->arena, &c->bucket, &p, emit, &l, &r);
    if (!rc)
        rc = send(&l, &r);
    buf_fini(&l.page);
    buf_fini(&l.prefixes);
    return rc;
}

enum rc s3_list_objects(struct s3_call *c)
{
    return list(c, false);
}

enum rc s3_list_objects_v2(struct s3_call *c)
{
    return list(c, true);
}
