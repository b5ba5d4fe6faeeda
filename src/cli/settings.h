/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings — one table of all settings: the environment, the config file, the command line, --help
 * and the documentation are made from it (settings.def).
 *
 * Precedence: command line, environment, config file, default.
 *
 * Owns:    values are copied; strings live until settings_fini.
 * Errors:  RC_INVALID with one clear line as the note; secrets never appear in it.
 * Threads: one at a time while loading; immutable after that.
 */
#ifndef STRATA_CLI_SETTINGS_H
#define STRATA_CLI_SETTINGS_H

#include "base/fail.h"
#include "base/slice.h"

#include <stdio.h>

enum setting_id {
#define SETTING(id, type, def, least, most, doc) SET_##id,
#include "cli/settings.def"
#undef SETTING
    SET_COUNT
};

struct settings {
    char *text[SET_COUNT]; /* as given */
    int64_t
        number[SET_COUNT]; /* INT, SIZE bytes, DURATION ms, BOOL 0/1, enumerations by position */
    unsigned char
        rank[SET_COUNT]; /* who set it: 0 default, 1 file, 2 environment, 3 command line */
};

enum rc settings_init(struct settings *s) MUST_CHECK; /* defaults */
void settings_fini(struct settings *s);
/* Every STRATA_* variable; an unknown one is an error. */
enum rc settings_from_env(struct settings *s, char **environ_) MUST_CHECK;
enum rc settings_from_file(struct settings *s, const char *path) MUST_CHECK;
/* "--name value" or "--name=value" pairs. */
enum rc settings_from_args(struct settings *s, int argc, char **argv) MUST_CHECK;
/* What no single setting can check. */
enum rc settings_check(const struct settings *s) MUST_CHECK;

static inline const char *settings_text(const struct settings *s, enum setting_id id)
{
    return s->text[id];
}
static inline int64_t settings_number(const struct settings *s, enum setting_id id)
{
    return s->number[id];
}

/* The table for people: as text for --help, or as Markdown. */
void settings_print(FILE *out, bool markdown);

#endif
