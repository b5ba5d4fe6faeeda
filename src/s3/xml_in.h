/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xml_in — a request document as a small tree.
 *
 * Document types, entity declarations, other encodings than UTF-8 and deep nesting are refused, so
 * that a document costs no more than its own length.
 *
 * Owns:    nodes and text live in the arena.
 * Errors:  S3E_MALFORMED_XML; RC_NO_MEM.
 * Threads: any.
 */
#ifndef STRATA_S3_XML_IN_H
#define STRATA_S3_XML_IN_H

#include "base/arena.h"
#include "base/fail.h"

#define XML_DEPTH_MAX 24u
#define XML_NODES_MAX 20000u

struct xml_node {
    struct slice name; /* without a namespace prefix */
    struct slice text; /* of elements without children; "" otherwise */
    struct xml_node *parent, *child, *last, *next;
};

enum rc xml_parse(struct arena *a, struct slice doc, struct xml_node **ret_root) MUST_CHECK;
/* The first child of that name; NULL when absent. */
const struct xml_node *xml_child(const struct xml_node *n, struct slice name);
/* Its text, trimmed of nothing; p NULL when absent. */
struct slice xml_child_text(const struct xml_node *n, struct slice name);

#endif
