/* SPDX-License-Identifier: Apache-2.0 */
/* Request documents: whatever the bytes, a tree of bounded size or MalformedXML. */
#include "s3/xml_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t measure(const struct xml_node *n, unsigned depth)
{
    size_t nodes = 1;

    assert(depth <= XML_DEPTH_MAX);
    assert(n->name.n > 0);
    for (const struct xml_node *c = n->child; c; c = c->next) {
        assert(c->parent == n);
        assert(!n->text.n);
        nodes += measure(c, depth + 1);
    }
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct xml_node *root = NULL;
    enum rc rc;

    arena_init(&a, (size_t)16 << 20);
    rc = xml_parse(&a, slice_of(data, size), &root);
    if (rc == RC_OK)
        assert(measure(root, 1) <= XML_NODES_MAX);
    else
        assert(!root && (rc == RC_NO_MEM || note_error(rc) == S3E_MALFORMED_XML));
    arena_fini(&a);
    return 0;
}
