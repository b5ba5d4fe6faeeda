/* SPDX-License-Identifier: Apache-2.0 */
#include "s3/xml_in.h"

#include "base/buf.h"

#include <expat.h>

struct parse {
    struct arena *arena;
    XML_Parser expat;
    struct xml_node *root, *at;
    struct buf text; /* of the innermost open element */
    unsigned depth, nodes;
    enum rc rc;
};

static void stop(struct parse *p, enum rc rc)
{
    if (!p->rc)
        p->rc = rc;
    XML_StopParser(p->expat, XML_FALSE);
}

static void XMLCALL on_start(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct parse *p = arg;
    const char *colon = strrchr(name, ':');
    struct xml_node *n;

    if (p->rc)
        return;
    if (++p->depth > XML_DEPTH_MAX || ++p->nodes > XML_NODES_MAX) {
        stop(p, fail_s3(S3E_MALFORMED_XML, NULL));
        return;
    }
    n = ARENA_NEW(p->arena, struct xml_node);
    if (n)
        n->name = arena_copy(p->arena, slice_str(colon && colon[1] ? colon + 1 : name));
    if (!n || !n->name.p) {
        stop(p, RC_NO_MEM);
        return;
    }
    n->text = SLICE("");
    n->parent = p->at;
    if (!p->at)
        p->root = n;
    else if (p->at->last)
        p->at->last = p->at->last->next = n;
    else
        p->at->child = p->at->last = n;
    p->at = n;
    buf_clear(&p->text);
}

static void XMLCALL on_end(void *arg, const XML_Char *name)
{
    struct parse *p = arg;

    if (p->rc)
        return;
    if (!p->at->child && p->text.n) {
        p->at->text = arena_copy(p->arena, buf_slice(&p->text));
        if (!p->at->text.p) {
            stop(p, RC_NO_MEM);
            return;
        }
    }
    buf_clear(&p->text);
    p->at = p->at->parent;
    p->depth--;
}

static void XMLCALL on_text(void *arg, const XML_Char *s, int n)
{
    struct parse *p = arg;
    enum rc rc;

    if (p->rc || !p->at || p->at->child)
        return;
    rc = buf_add(&p->text, slice_of(s, (size_t)n));
    if (rc)
        stop(p, rc);
}

/* Entities can be declared nowhere else. */
static void XMLCALL on_doctype(void *arg, const XML_Char *name, const XML_Char *sysid,
                               const XML_Char *pubid, int internal)
{
    stop(arg, fail_s3(S3E_MALFORMED_XML, "Document types are not allowed."));
}

static void XMLCALL on_declaration(void *arg, const XML_Char *version, const XML_Char *encoding,
                                   int standalone)
{
    if (encoding && !slice_eq_nocase(slice_str(encoding), SLICE("UTF-8")) &&
        !slice_eq_nocase(slice_str(encoding), SLICE("US-ASCII")))
        stop(arg, fail_s3(S3E_MALFORMED_XML, "Only UTF-8 is accepted."));
}

enum rc xml_parse(struct arena *a, struct slice doc, struct xml_node **ret_root)
{
    struct parse p = { .arena = a, .expat = XML_ParserCreate("UTF-8") };
    enum XML_Status status;

    if (!p.expat)
        return RC_NO_MEM;
    buf_init(&p.text, doc.n + 16);
    XML_SetUserData(p.expat, &p);
    XML_SetElementHandler(p.expat, on_start, on_end);
    XML_SetCharacterDataHandler(p.expat, on_text);
    XML_SetStartDoctypeDeclHandler(p.expat, on_doctype);
    XML_SetXmlDeclHandler(p.expat, on_declaration);
    if (doc.n > INT32_MAX)
        p.rc = fail_s3(S3E_MALFORMED_XML, NULL);
    status = p.rc ? XML_STATUS_ERROR : XML_Parse(p.expat, doc.n ? doc.p : "", (int)doc.n, 1);
    if (!p.rc && (status != XML_STATUS_OK || !p.root))
        p.rc = fail_s3(S3E_MALFORMED_XML, NULL);
    XML_ParserFree(p.expat);
    buf_fini(&p.text);
    if (!p.rc)
        *ret_root = p.root;
    return p.rc;
}

const struct xml_node *xml_child(const struct xml_node *n, struct slice name)
{
    for (const struct xml_node *c = n->child; c; c = c->next)
        if (slice_eq(c->name, name))
            return c;
    return NULL;
}

struct slice xml_child_text(const struct xml_node *n, struct slice name)
{
    const struct xml_node *c = xml_child(n, name);

    return c ? c->text : SLICE_NONE;
}
