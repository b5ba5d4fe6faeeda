/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops — the table of S3 operations: routing, IAM actions, metrics labels and the support matrix.
 *
 * Owns:    nothing; rows are static.
 * Threads: any.
 * Source:  AWS S3 API Reference, list of actions.
 */
#ifndef STRATA_S3_OPS_H
#define STRATA_S3_OPS_H

#include "base/rc.h"
#include "base/slice.h"
#include "s3/query.h"

struct s3_call;

enum s3_method { S3_GET, S3_HEAD, S3_PUT, S3_POST, S3_DELETE, S3_OPTIONS, S3_METHODS };
enum s3_scope { S3_SERVICE, S3_BUCKET, S3_OBJECT };

enum s3_op_flags {
    S3_OP_BODY = 1,       /* takes a document in the body */
    S3_OP_STREAM = 2,     /* takes an object's bytes: aws-chunked trailers are allowed */
    S3_OP_AUDIT = 4,      /* changes state */
    S3_OP_DIGEST = 8,     /* needs Content-MD5 or x-amz-checksum-* */
    S3_OP_NO_AUTH = 16,   /* answered without a signature */
    S3_OP_NO_BUCKET = 32, /* the bucket need not exist */
};

struct s3_op {
    const char *name;
    enum s3_method method;
    enum s3_scope scope;
    const char
        *sub; /* query keys that select it: "acl", "inventory&id", "list-type=2"; NULL: none */
    const char *header;                    /* a header that selects it; NULL: none */
    const char *action;                    /* IAM */
    enum rc (*handler)(struct s3_call *c); /* NULL: 501 NotImplemented */
    unsigned flags;
};

extern const struct s3_op s3_ops[];
extern const size_t s3_ops_n;

const char *s3_method_name(enum s3_method m);
const char *s3_scope_name(enum s3_scope s);
/* S3_METHODS for one that S3 does not know. */
enum s3_method s3_method_parse(struct slice method);

/* The operation of a request; has_header(arg, name) tells of headers. S3E_METHOD_NOT_ALLOWED;
 * S3E_NOT_IMPLEMENTED for a sub-resource that nobody knows: never another operation instead. */
enum rc s3_route(enum s3_method method, enum s3_scope scope, const struct s3_query *query,
                 bool (*has_header)(void *arg, struct slice name), void *arg,
                 const struct s3_op **ret) MUST_CHECK;

#endif
