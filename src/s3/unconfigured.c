/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What AWS answers for settings of a bucket that nobody made: clients probe these before they do
 * their work. True as long as the matching Put operations are refused.
 */
#include "s3/fields.h"
#include "s3/handlers.h"
#include "s3/xml_out.h"

#define DOC(text) SLICE_INIT(XML_DECLARATION text)

static const struct answer {
    const char *sub;
    enum s3_error error; /* S3E_NONE: the document */
    struct slice doc;
} answers[] = {
    { "versioning", S3E_NONE, DOC("<VersioningConfiguration" XML_NS "/>") },
    { "accelerate", S3E_NONE, DOC("<AccelerateConfiguration" XML_NS "/>") },
    { "logging", S3E_NONE, DOC("<BucketLoggingStatus" XML_NS "/>") },
    { "notification", S3E_NONE, DOC("<NotificationConfiguration" XML_NS "/>") },
    { "requestPayment", S3E_NONE,
      DOC("<RequestPaymentConfiguration" XML_NS "><Payer>BucketOwner</Payer>"
          "</RequestPaymentConfiguration>") },
    { "cors", S3E_NO_SUCH_CORS, SLICE_INIT("") },
    { "encryption", S3E_NO_SUCH_ENCRYPTION, SLICE_INIT("") },
    { "lifecycle", S3E_NO_SUCH_LIFECYCLE, SLICE_INIT("") },
    { "object-lock", S3E_NO_SUCH_OBJECT_LOCK, SLICE_INIT("") },
    { "ownershipControls", S3E_NO_SUCH_OWNERSHIP_CONTROLS, SLICE_INIT("") },
    { "policy", S3E_NO_SUCH_POLICY, SLICE_INIT("") },
    { "policyStatus", S3E_NO_SUCH_POLICY, SLICE_INIT("") },
    { "publicAccessBlock", S3E_NO_SUCH_PUBLIC_ACCESS_BLOCK, SLICE_INIT("") },
    { "replication", S3E_NO_SUCH_REPLICATION, SLICE_INIT("") },
    { "tagging", S3E_NO_SUCH_TAG_SET, SLICE_INIT("") },
    { "website", S3E_NO_SUCH_WEBSITE, SLICE_INIT("") },
};

static const struct slice no_tags = DOC("<Tagging" XML_NS "><TagSet/></Tagging>");

/* An object must exist for its sub-resources to be told. */
static enum rc check_object(struct s3_call *c)
{
    struct meta_object o = { 0 };
    enum rc rc = s3_check_version(c);

    return rc ? rc : meta_object_get(s3_meta(c), c->arena, &c->bucket, c->target.key, true, &o);
}

enum rc s3_get_unconfigured(struct s3_call *c)
{
    if (c->op->scope == S3_OBJECT) { /* only tagging: objects always have a set, maybe empty */
        enum rc rc = check_object(c);

        return rc ? rc : s3_answer_xml(c, 200, no_tags);
    }
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        if (strcmp(answers[i].sub, c->op->sub) != 0)
            continue;
        if (answers[i].error == S3E_NONE)
            return s3_answer_xml(c, 200, answers[i].doc);
        s3_extra(c, "BucketName", c->target.bucket);
        return fail_s3(answers[i].error, NULL);
    }
    return fail_s3(S3E_NOT_IMPLEMENTED, NULL);
}

/* The owner, and nobody else, has full control. */
enum rc s3_get_acl(struct s3_call *c)
{
    struct slice owner = c->bucket.owner, display = owner;
    AUTO(xml_fini) struct xml x = { 0 };
    enum rc rc = c->op->scope == S3_OBJECT ? check_object(c) : RC_OK;

    if (rc)
        return rc;
    if (slice_eq(owner, c->id.account.id) && c->id.account.display.n)
        display = c->id.account.display;
    xml_init(&x);
    xml_open(&x, "AccessControlPolicy" XML_NS);
    xml_open(&x, "Owner");
    xml_text(&x, "ID", owner);
    xml_text(&x, "DisplayName", display);
    xml_close(&x, "Owner");
    xml_raw(&x, SLICE("<AccessControlList><Grant><Grantee "
                      "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                      "xsi:type=\"CanonicalUser\">"));
    xml_text(&x, "ID", owner);
    xml_text(&x, "DisplayName", display);
    xml_raw(&x, SLICE("</Grantee><Permission>FULL_CONTROL</Permission></Grant>"
                      "</AccessControlList></AccessControlPolicy>"));
    return x.rc ? x.rc : s3_answer_xml(c, 200, buf_slice(&x.b));
}

/* No bucket has CORS rules yet, so every preflight is refused: 400 without the headers that make it
 * one, as AWS. */
enum rc s3_preflight(struct s3_call *c)
{
    if (!s3_header(c, SLICE("origin")).n)
        return fail_s3(S3E_BAD_REQUEST, "Insufficient information. Origin request header needed.");
    if (!s3_header(c, SLICE("access-control-request-method")).n)
        return fail_s3(S3E_BAD_REQUEST, "Invalid Access-Control-Request-Method: null");
    s3_extra(c, "Method", s3_header(c, SLICE("access-control-request-method")));
    s3_extra(c, "ResourceType", c->target.key.n ? SLICE("OBJECT") : SLICE("BUCKET"));
    return fail_s3(S3E_ACCESS_FORBIDDEN, NULL);
}
