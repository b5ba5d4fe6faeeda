/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct note thread_note;
_Thread_local struct note *note_slot;

static const struct s3_error_info table[S3E_COUNT] = {
#define S3E(id, code_, status_, rc_, message_)                                                     \
    [S3E_##id] = { .code = code_, .message = message_, .status = status_, .rc = rc_ },
#include "base/s3_errors.def"
#undef S3E
};

static const enum s3_error defaults[RC_COUNT] = {
    [RC_OK] = S3E_NONE,
    [RC_NOT_FOUND] = S3E_NO_SUCH_KEY,
    [RC_EXISTS] = S3E_OPERATION_ABORTED,
    [RC_CONFLICT] = S3E_OPERATION_ABORTED,
    [RC_PRECONDITION] = S3E_PRECONDITION_FAILED,
    [RC_INVALID] = S3E_INVALID_REQUEST,
    [RC_TOO_LARGE] = S3E_ENTITY_TOO_LARGE,
    [RC_DENIED] = S3E_ACCESS_DENIED,
    [RC_UNSUPPORTED] = S3E_NOT_IMPLEMENTED,
    [RC_NO_MEM] = S3E_SLOW_DOWN,
    [RC_NO_SPACE] = S3E_STORAGE_FULL,
    [RC_TIMEOUT] = S3E_SERVICE_UNAVAILABLE,
    [RC_CANCELLED] = S3E_SERVICE_UNAVAILABLE,
    [RC_UNAVAILABLE] = S3E_SERVICE_UNAVAILABLE,
    [RC_CORRUPT] = S3E_INTERNAL_ERROR,
    [RC_EOF] = S3E_INCOMPLETE_BODY,
    [RC_INTERNAL] = S3E_INTERNAL_ERROR,
};

static struct note *slot(void)
{
    return note_slot ? note_slot : &thread_note;
}

const struct s3_error_info *s3_error_info(enum s3_error e)
{
    assert((unsigned)e < S3E_COUNT);
    return &table[e];
}

static void set(enum s3_error e, const char *fmt, va_list ap)
{
    struct note *n = slot();

    n->error = e;
    n->text[0] = 0;
    if (fmt)
        vsnprintf(n->text, sizeof n->text, fmt, ap);
}

enum rc fail_s3(enum s3_error e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set(e, fmt, ap);
    va_end(ap);
    return table[e].rc;
}

enum rc fail_rc(enum rc rc, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set(S3E_NONE, fmt, ap);
    va_end(ap);
    return rc;
}

void note_clear(void)
{
    struct note *n = slot();

    n->error = S3E_NONE;
    n->text[0] = 0;
}

enum s3_error note_error(enum rc rc)
{
    enum s3_error e = slot()->error;

    if (e != S3E_NONE && table[e].rc == rc)
        return e;
    return defaults[(unsigned)rc < RC_COUNT ? rc : RC_INTERNAL];
}

const char *note_text(void)
{
    return slot()->text;
}
