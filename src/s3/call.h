/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call — one S3 request in hand: what routing, authentication and handlers share.
 *
 * Owns:    everything lives in the request's arena or in `body_arena`, freed when the call ends.
 * Errors:  handlers return an rc with the note set; the gateway renders it.
 * Threads: a call belongs to its fiber.
 */
#ifndef STRATA_S3_CALL_H
#define STRATA_S3_CALL_H

#include "s3/ops.h"
#include "s3/query.h"
#include "s3/s3.h"
#include "s3/target.h"

#define S3_XML_MAX (1u << 20)        /* bytes of an XML request body */
#define S3_DELETE_XML_MAX (8u << 20) /* 1,000 keys of 1,024 bytes, escaped */
#define S3_EXTRAS_MAX 10

struct s3_extra { /* an element of the error document, or a header of the error answer */
    const char *name;
    struct slice value;
};

struct s3_call {
    struct s3_gateway *g;
    struct http_req *req;
    struct arena *arena;
    struct s3_target target;
    struct s3_query query;
    const struct s3_op *op; /* NULL until routed */
    struct auth_identity id;
    struct meta_bucket bucket; /* of bucket and object operations, except CreateBucket */
    struct s3_extra extras[S3_EXTRAS_MAX];
    unsigned extras_n;
    struct s3_extra error_headers[S3_EXTRAS_MAX];
    unsigned error_headers_n;
    bool head;               /* the method is HEAD */
    int status;              /* of an error answer, instead of the error's own; 0: that */
    const char *error;       /* code that was answered; NULL: none */
    struct arena body_arena; /* for parsed bodies; max 0 until used */
};

struct object_engine *s3_engine(const struct s3_call *c);
struct meta *s3_meta(const struct s3_call *c);
struct slice s3_region(const struct s3_call *c);

/* The value of a query parameter or a header; p NULL when absent. */
static inline struct slice s3_param(const struct s3_call *c, struct slice name)
{
    return c->query.n ? s3_query_get(&c->query, name) : SLICE_NONE;
}
static inline struct slice s3_header(const struct s3_call *c, struct slice name)
{
    return http_header_get(c->req, name);
}

/* Adds an element to the error document, should there be one. */
void s3_extra(struct s3_call *c, const char *name, struct slice value);
/* Adds a header to the error answer, should there be one. */
void s3_error_header(struct s3_call *c, const char *name, struct slice value);
/* InvalidArgument with ArgumentName and ArgumentValue. */
enum rc s3_invalid_argument(struct s3_call *c, const char *name, struct slice value,
                            const char *message) MUST_CHECK;

/* May this identity do this to the bucket? The one place that decides; AccessDenied. */
enum rc s3_authorize(struct s3_call *c, const char *action, const struct meta_bucket *b,
                     struct slice key) MUST_CHECK;
/* Looks a bucket up: InvalidBucketName, NoSuchBucket. */
enum rc s3_bucket_get(struct s3_call *c, struct slice name, struct meta_bucket *ret) MUST_CHECK;

/* Begins an answer: the status and the headers that all have. Drops headers set before. */
void s3_begin(struct s3_call *c, int status);
/* Answers without a body. */
enum rc s3_answer_empty(struct s3_call *c, int status) MUST_CHECK;
/* Answers with an XML document. */
enum rc s3_answer_xml(struct s3_call *c, int status, struct slice doc) MUST_CHECK;

/* The whole decoded body, verified by every digest that came with it. At most max bytes, else
 * MalformedXML. Lives in body_arena. */
enum rc s3_body_all(struct s3_call *c, size_t max, struct slice *ret) MUST_CHECK;

#endif
