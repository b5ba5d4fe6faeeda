/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail — the error note: what went wrong, said once where it is found, read once by who answers.
 *
 * A function that fails for a reason that a client should see calls fail_s3() and returns its
 * result. The note belongs to the running fiber (or thread, outside of fibers); the runtime
 * switches note_slot. Later notes replace earlier ones.
 *
 * Owns:    text is copied.
 * Threads: each fiber and thread has its own note.
 */
#ifndef STRATA_BASE_FAIL_H
#define STRATA_BASE_FAIL_H

#include "base/rc.h"

enum s3_error {
#define S3E(id, code, status, rc, message) S3E_##id,
#include "base/s3_errors.def"
#undef S3E
    S3E_COUNT
};

struct s3_error_info {
    const char *code;
    const char *message;
    int status;
    enum rc rc;
};

/* The row of an error; static. */
const struct s3_error_info *s3_error_info(enum s3_error e);

struct note {
    enum s3_error error; /* S3E_NONE: derive it from the rc */
    char text[252];      /* replaces the table's message when not empty; NUL-terminated UTF-8 */
};

/* Where fail_s3() writes; NULL for the thread's own. Set by the runtime at each switch of fibers.
 */
extern _Thread_local struct note *note_slot;

/* Notes the error with an optional text (NULL: the table's own message) and returns the error's rc.
 */
enum rc fail_s3(enum s3_error e, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
/* As fail_s3, for an rc that needs no S3 error of its own: only a text for logs and answers. */
enum rc fail_rc(enum rc rc, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
void note_clear(void);
/* The S3 error to answer rc with: the noted one if it has that rc, else the default of rc. */
enum s3_error note_error(enum rc rc);
/* The noted text, "" when none; valid until the next note. */
const char *note_text(void);

#endif
