/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    enum log_level level;
    enum log_format format;
    int fd;
} config = { LOG_INFO, LOG_TEXT, 2 };

static const char *const level_names[] = { "ERROR", "WARN", "INFO", "DEBUG" };

/* Room that is kept for the end of the line. */
#define TAIL 4

void log_setup(enum log_level level, enum log_format format, int fd)
{
    config.level = level;
    config.format = format;
    config.fd = fd;
}

bool log_enabled(enum log_level level)
{
    return level <= config.level;
}

static void add(struct log_line *l, const char *p, size_t n)
{
    n = MIN(n, sizeof l->text - TAIL - l->n);
    memcpy(l->text + l->n, p, n);
    l->n += n;
}

static void add_escaped(struct log_line *l, struct slice s)
{
    char hex[8];

    for (size_t i = 0; i < s.n && l->n + 8 < sizeof l->text - TAIL; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '"' || c == '\\') {
            char two[2] = { '\\', (char)c };

            add(l, two, 2);
        } else if (c < 0x20 || c == 0x7f) {
            add(l, hex, (size_t)snprintf(hex, sizeof hex, "\\u%04x", c));
        } else {
            add(l, (const char *)&c, 1);
        }
    }
}

static void add_name(struct log_line *l, const char *name)
{
    bool json = config.format == LOG_JSON;

    add(l, json ? ",\"" : " ", json ? 2 : 1);
    add(l, name, strlen(name));
    add(l, json ? "\":" : "=", json ? 2 : 1);
}

void log_begin(struct log_line *l, enum log_level level, const char *message)
{
    char iso[CLOCK_ISO_SIZE];

    l->n = 0;
    l->level = level;
    clock_format_iso(iso, clock_wall_ns());
    if (config.format == LOG_JSON) {
        add(l, "{\"time\":\"", 9);
        add(l, iso, sizeof iso);
        add(l, "\",\"level\":\"", 11);
        add(l, level_names[level], strlen(level_names[level]));
        add(l, "\",\"msg\":\"", 9);
        add_escaped(l, slice_str(message));
        add(l, "\"", 1);
        return;
    }
    add(l, iso, sizeof iso);
    add(l, " ", 1);
    add(l, level_names[level], strlen(level_names[level]));
    add(l, " ", 1);
    add_escaped(l, slice_str(message));
}

void log_str(struct log_line *l, const char *name, struct slice value)
{
    /* Nothing at all rather than a name without its value. */
    if (l->n + strlen(name) + 16 > sizeof l->text - TAIL)
        return;
    add_name(l, name);
    add(l, "\"", 1);
    add_escaped(l, value);
    add(l, "\"", 1);
}

void log_int(struct log_line *l, const char *name, int64_t value)
{
    char d[32];

    if (l->n + strlen(name) + sizeof d > sizeof l->text - TAIL)
        return;
    add_name(l, name);
    add(l, d, (size_t)snprintf(d, sizeof d, "%lld", (long long)value));
}

void log_float(struct log_line *l, const char *name, double value)
{
    char d[32];

    if (l->n + strlen(name) + sizeof d > sizeof l->text - TAIL)
        return;
    add_name(l, name);
    add(l, d, (size_t)snprintf(d, sizeof d, "%.6g", value));
}

void log_end(struct log_line *l)
{
    ssize_t ignored;

    if (!log_enabled(l->level))
        return;
    if (config.format == LOG_JSON)
        l->text[l->n++] = '}';
    l->text[l->n++] = '\n';
    ignored = write(config.fd, l->text, l->n);
    (void)ignored; /* there is nowhere to complain to */
}

void log_msg(enum log_level level, const char *fmt, ...)
{
    struct log_line l;
    char text[1024];
    va_list ap;

    if (!log_enabled(level))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_begin(&l, level, text);
    log_end(&l);
}
