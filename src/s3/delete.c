/* SPDX-License-Identifier: Apache-2.0 */
/* DeleteObject and DeleteObjects. */
#include "base/clock.h"
#include "rt/rt.h"
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/xml_in.h"
#include "s3/xml_out.h"

#define KEYS_MAX 1000u
#define FIBERS_MAX 16u

static bool parse_time(struct slice text, int64_t *ret_ns)
{
    return clock_parse_http(text, ret_ns) || clock_parse_iso(text, ret_ns);
}

static enum rc read_conditions(struct s3_call *c, struct meta_cond *cond)
{
    struct slice size = s3_header(c, SLICE("x-amz-if-match-size"));
    struct slice mtime = s3_header(c, SLICE("x-amz-if-match-last-modified-time"));

    cond->if_match = s3_header(c, SLICE("if-match"));
    cond->has_if_size = size.p != NULL;
    if (size.p && !slice_to_u64(size, &cond->if_size))
        return s3_invalid_argument(c, "x-amz-if-match-size", size, "Invalid size");
    cond->has_if_mtime = mtime.p != NULL;
    if (mtime.p && !parse_time(mtime, &cond->if_mtime_ns))
        return s3_invalid_argument(c, "x-amz-if-match-last-modified-time", mtime, "Invalid time");
    return RC_OK;
}

enum rc s3_delete_object(struct s3_call *c)
{
    struct meta_cond cond = { 0 };
    enum rc rc = s3_check_version(c);

    if (!rc)
        rc = read_conditions(c, &cond);
    if (!rc)
        rc = object_delete(s3_engine(c), &c->bucket, c->target.key, &cond);
    return rc ? rc : s3_answer_empty(c, 204);
}

/* ---- DeleteObjects -------------------------------------------------------------------------- */

struct victim {
    struct slice key, version;
    struct meta_cond cond;
    const char *code; /* NULL: deleted */
    struct slice message;
};

struct delete_many {
    struct s3_call *c;
    struct victim *victims;
    size_t n, next;
    bool quiet;
};

static enum rc malformed(void)
{
    return fail_s3(S3E_MALFORMED_XML, NULL);
}

static enum rc read_victim(const struct xml_node *node, struct victim *v)
{
    struct slice size = xml_child_text(node, SLICE("Size"));
    struct slice mtime = xml_child_text(node, SLICE("LastModifiedTime"));

    v->key = xml_child_text(node, SLICE("Key"));
    v->version = xml_child_text(node, SLICE("VersionId"));
    v->cond.if_match = xml_child_text(node, SLICE("ETag"));
    v->cond.has_if_size = size.p != NULL;
    v->cond.has_if_mtime = mtime.p != NULL;
    if (!v->key.n || (size.p && !slice_to_u64(size, &v->cond.if_size)) ||
        (mtime.p && !parse_time(mtime, &v->cond.if_mtime_ns)))
        return malformed();
    return RC_OK;
}

static enum rc read_document(struct delete_many *d)
{
    struct arena *a;
    struct slice doc;
    struct xml_node *root;
    enum rc rc = s3_body_all(d->c, S3_DELETE_XML_MAX, &doc);

    if (rc)
        return rc;
    if (!doc.n)
        return fail_s3(S3E_MISSING_REQUEST_BODY, NULL);
    a = &d->c->body_arena;
    rc = xml_parse(a, doc, &root);
    if (rc)
        return rc;
    if (!slice_eq(root->name, SLICE("Delete")))
        return malformed();
    d->quiet = slice_eq_nocase(slice_trim(xml_child_text(root, SLICE("Quiet"))), SLICE("true"));
    d->victims = arena_zalloc(a, KEYS_MAX * sizeof *d->victims);
    if (!d->victims)
        return RC_NO_MEM;
    for (const struct xml_node *n = root->child; n && !rc; n = n->next) {
        if (!slice_eq(n->name, SLICE("Object")))
            continue;
        rc = d->n < KEYS_MAX ? read_victim(n, &d->victims[d->n++]) : malformed();
    }
    return rc || d->n ? rc : malformed();
}

static enum rc delete_one(struct delete_many *d, struct victim *v)
{
    enum rc rc = s3_key_check(v->key);

    if (!rc && v->version.n && !slice_eq(v->version, SLICE("null")))
        rc = fail_s3(S3E_NO_SUCH_VERSION, NULL);
    if (!rc)
        rc = s3_authorize(d->c, "s3:DeleteObject", &d->c->bucket, v->key);
    return rc ? rc : object_delete(s3_engine(d->c), &d->c->bucket, v->key, &v->cond);
}

/* Runs on several fibers of one loop at once: next and the arena are never touched across a park.
 */
static void delete_some(void *arg)
{
    struct delete_many *d = arg;

    while (d->next < d->n) {
        struct victim *v = &d->victims[d->next++];
        const struct s3_error_info *info;
        enum rc rc;

        note_clear();
        rc = delete_one(d, v);
        if (!rc)
            continue;
        info = s3_error_info(note_error(rc));
        v->code = info->code;
        v->message = slice_str(info->message);
        if (*note_text() && info->status < 500) {
            struct slice text = arena_copy(&d->c->body_arena, slice_str(note_text()));

            v->message = text.p ? text : v->message;
        }
    }
}

static void delete_all(struct delete_many *d)
{
    struct fiber *fibers[FIBERS_MAX];
    unsigned n = 0;

    while (n < FIBERS_MAX && n + 1 < d->n &&
           fiber_spawn_joinable(loop_current(), delete_some, d, &fibers[n]) == RC_OK)
        n++;
    if (n == 0) /* one key, or no fiber to be had */
        delete_some(d);
    while (n)
        fiber_join(fibers[--n]);
    note_clear();
}

static enum rc answer_many(struct delete_many *d)
{
    AUTO(xml_fini) struct xml x = { 0 };

    xml_init(&x);
    xml_open(&x, "DeleteResult" XML_NS);
    for (size_t i = 0; i < d->n; i++) {
        const struct victim *v = &d->victims[i];
        const char *tag = v->code ? "Error" : "Deleted";

        if (!v->code && d->quiet)
            continue;
        xml_open(&x, tag);
        xml_text(&x, "Key", v->key);
        if (v->version.n)
            xml_text(&x, "VersionId", v->version);
        if (v->code) {
            xml_text(&x, "Code", slice_str(v->code));
            xml_text(&x, "Message", v->message);
        }
        xml_close(&x, tag);
    }
    xml_close(&x, "DeleteResult");
    return x.rc ? x.rc : s3_answer_xml(d->c, 200, buf_slice(&x.b));
}

enum rc s3_delete_objects(struct s3_call *c)
{
    struct delete_many d = { .c = c };
    enum rc rc = read_document(&d);

    if (rc)
        return rc;
    delete_all(&d);
    return answer_many(&d);
}
