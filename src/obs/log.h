/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log — one line per event, as JSON or text, on standard error.
 *
 * Library code below floor 6 logs nothing above debug. Secrets are never passed in.
 *
 * Threads: any. A line is written whole by one write(2).
 */
#ifndef STRATA_OBS_LOG_H
#define STRATA_OBS_LOG_H

#include "base/slice.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_JSON, LOG_TEXT };

void log_setup(enum log_level level, enum log_format format, int fd);
bool log_enabled(enum log_level level);

/* Fields are built in a fixed buffer; what does not fit is cut. Strings are escaped. */
struct log_line {
    char text[2048];
    size_t n;
    enum log_level level;
};
void log_begin(struct log_line *l, enum log_level level, const char *message);
void log_str(struct log_line *l, const char *name, struct slice value);
void log_int(struct log_line *l, const char *name, int64_t value);
void log_float(struct log_line *l, const char *name, double value);
void log_end(struct log_line *l); /* writes it */

/* Message with printf, no fields. */
void log_msg(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
