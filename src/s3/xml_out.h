/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xml_out — XML documents written straight into a growing buffer.
 *
 * Owns:    its buffer, until xml_fini. The first error sticks; xml_end tells of it.
 * Errors:  RC_NO_MEM, RC_TOO_LARGE.
 * Threads: one at a time.
 */
#ifndef STRATA_S3_XML_OUT_H
#define STRATA_S3_XML_OUT_H

#include "base/buf.h"

#define XML_DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define XML_NS " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""
/* The most that one byte of text becomes. */
#define XML_ESCAPED_MAX 6u

struct xml {
    struct buf b;
    enum rc rc;
};

void xml_init(struct xml *x); /* empty, with the declaration */
void xml_fini(struct xml *x);
void xml_raw(struct xml *x, struct slice s);
void xml_open(struct xml *x, const char *tag); /* may hold attributes */
void xml_close(struct xml *x, const char *tag);
void xml_text(struct xml *x, const char *tag, struct slice value); /* escaped */
void xml_url(struct xml *x, const char *tag, struct slice value);  /* percent-encoded, '/' kept */
void xml_u64(struct xml *x, const char *tag, uint64_t value);
void xml_bool(struct xml *x, const char *tag, bool value);
void xml_time(struct xml *x, const char *tag, int64_t wall_ns); /* to the second, as S3 tells it */

/* Writes the escaped form to p, which has room for XML_ESCAPED_MAX * s.n; returns the end.
 * Characters that XML 1.0 cannot hold become numeric references, as AWS writes them: clients that
 * may meet such keys ask for encoding-type=url. */
char *xml_escape(char *p, struct slice s);

#endif
