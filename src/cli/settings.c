/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include "base/encode.h"

#include <ctype.h>
#include <errno.h>

enum setting_type {
    TYPE_STRING,
    TYPE_SECRET,
    TYPE_INT,
    TYPE_SIZE,
    TYPE_DURATION,
    TYPE_BOOL,
    TYPE_META,
    TYPE_DATA,
    TYPE_AUTH,
    TYPE_LEVEL,
    TYPE_FORMAT
};

static const struct {
    const char *name;
    enum setting_type type;
    const char *def;
    int64_t least, most;
    const char *doc;
} table[SET_COUNT] = {
#define SETTING(id, type_, def_, least_, most_, doc_)                                              \
    [SET_##id] = { #id, TYPE_##type_, def_, least_, most_, doc_ },
#include "cli/settings.def"
#undef SETTING
};

/* The words of the enumerations; a word's position, counted up to the first NULL, is its number. */
static const char *const words[][6] = {
    [TYPE_META] = { "rocks", "memory", "tikv", "cassandra", NULL },
    [TYPE_DATA] = { "local", "memory", "rados", "s3", NULL },
    [TYPE_AUTH] = { "required", "optional", "off", "disabled", NULL },
    [TYPE_LEVEL] = { "error", "warn", "info", "debug", NULL },
    [TYPE_FORMAT] = { "json", "text", NULL },
    [TYPE_BOOL] = { "false", "true", "off", "on", NULL },
};

static const char *const type_names[] = {
    [TYPE_STRING] = "string", [TYPE_SECRET] = "string", [TYPE_INT] = "number",
    [TYPE_SIZE] = "size",     [TYPE_BOOL] = "boolean",  [TYPE_DURATION] = "duration",
    [TYPE_META] = "word",     [TYPE_DATA] = "word",     [TYPE_AUTH] = "word",
    [TYPE_LEVEL] = "word",    [TYPE_FORMAT] = "word",
};

struct unit {
    const char *name;
    int64_t factor;
};
static const struct unit sizes[] = {
    { "", 1 },        { "B", 1 },         { "k", 1 << 10 },     { "KiB", 1 << 10 },
    { "m", 1 << 20 }, { "MiB", 1 << 20 }, { "g", 1 << 30 },     { "GiB", 1 << 30 },
    { "KB", 1000 },   { "MB", 1000000 },  { "GB", 1000000000 }, { NULL, 0 },
};
static const struct unit durations[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }, { NULL, 0 },
};

static bool parse_units(struct slice text, const struct unit *units, int64_t *ret)
{
    size_t digits = 0;
    uint64_t v;

    while (digits < text.n && isdigit((unsigned char)text.p[digits]))
        digits++;
    if (!slice_to_u64(slice_first(text, digits), &v) || v > INT64_MAX)
        return false;
    for (const struct unit *u = units; u->name; u++)
        if (slice_eq_nocase(slice_from(text, digits), slice_str(u->name)))
            return !__builtin_mul_overflow((int64_t)v, u->factor, ret);
    /* A bare 0 needs no unit. */
    *ret = 0;
    return v == 0 && digits == text.n;
}

static bool parse_word(enum setting_type type, struct slice text, int64_t *ret)
{
    for (int i = 0; words[type][i]; i++) {
        if (!slice_eq_nocase(text, slice_str(words[type][i])))
            continue;
        *ret = type == TYPE_BOOL ? i % 2 : type == TYPE_AUTH && i == 3 ? 2 : i;
        return true;
    }
    return false;
}

static enum rc parse(enum setting_id id, struct slice text, int64_t *ret)
{
    enum setting_type type = table[id].type;
    uint64_t u = 0;
    bool ok;

    switch (type) {
    case TYPE_STRING:
    case TYPE_SECRET:
        *ret = 0;
        return RC_OK;
    case TYPE_INT:
        ok = slice_to_u64(text, &u) && u <= INT64_MAX;
        *ret = (int64_t)u;
        break;
    case TYPE_SIZE:
        ok = parse_units(text, sizes, ret);
        break;
    case TYPE_DURATION:
        ok = parse_units(text, durations, ret);
        break;
    default:
        if (parse_word(type, text, ret))
            return RC_OK;
        return fail_rc(RC_INVALID, "STRATA_%s: \"%.*s\" is none of its words: %s", table[id].name,
                       SLICE_ARG(slice_first(text, 60)), table[id].doc);
    }
    if (!ok)
        return fail_rc(RC_INVALID, "STRATA_%s: \"%.*s\" is not a %s%s", table[id].name,
                       SLICE_ARG(slice_first(text, 60)), type_names[type],
                       type == TYPE_DURATION ? " (such as 30s, 500ms, 5m)" : "");
    if (*ret < table[id].least || *ret > table[id].most)
        return fail_rc(RC_INVALID, "STRATA_%s: \"%.*s\" is outside of %lld to %lld", table[id].name,
                       SLICE_ARG(slice_first(text, 60)), (long long)table[id].least,
                       (long long)table[id].most);
    return RC_OK;
}

static enum rc set(struct settings *s, enum setting_id id, struct slice text, unsigned rank)
{
    int64_t v = 0;
    char *copy;
    enum rc rc;

    if (s->text[id] && s->rank[id] > rank)
        return RC_OK;
    rc = parse(id, text, &v);
    if (rc)
        return rc;
    copy = strndup(text.n ? text.p : "", text.n);
    if (!copy)
        return RC_NO_MEM;
    free(s->text[id]);
    s->text[id] = copy;
    s->number[id] = v;
    s->rank[id] = (unsigned char)rank;
    return RC_OK;
}

/* True for "gc-interval", "gc_interval", "GC_INTERVAL". */
static bool same_name(const char *name, struct slice given)
{
    if (strlen(name) != given.n)
        return false;
    for (size_t i = 0; i < given.n; i++) {
        char c = given.p[i] == '-' ? '_' : (char)toupper((unsigned char)given.p[i]);

        if (c != name[i])
            return false;
    }
    return true;
}

static bool find(struct slice name, enum setting_id *ret)
{
    for (int i = 0; i < SET_COUNT; i++)
        if (same_name(table[i].name, name)) {
            *ret = (enum setting_id)i;
            return true;
        }
    return false;
}

enum rc settings_init(struct settings *s)
{
    enum rc rc = RC_OK;

    memset(s, 0, sizeof *s);
    for (int i = 0; i < SET_COUNT && !rc; i++)
        rc = set(s, (enum setting_id)i, slice_str(table[i].def), 0);
    return rc;
}

void settings_fini(struct settings *s)
{
    for (int i = 0; i < SET_COUNT; i++)
        free(s->text[i]);
    memset(s, 0, sizeof *s);
}

enum rc settings_from_env(struct settings *s, char **environ_)
{
    for (; *environ_; environ_++) {
        struct slice value, name = slice_cut(slice_str(*environ_), '=', &value);
        enum setting_id id;
        enum rc rc;

        if (!slice_starts(name, SLICE("STRATA_")))
            continue;
        if (!find(slice_from(name, 7), &id))
            return fail_rc(RC_INVALID, "unknown setting %.*s (strata server --help lists them)",
                           SLICE_ARG(name));
        rc = set(s, id, value, 2);
        if (rc)
            return rc;
    }
    return RC_OK;
}

/* One line of the file: a TOML key with a string, number or boolean; sections are not used. */
static enum rc file_line(struct settings *s, struct slice line, const char *path, int line_no)
{
    struct slice value, name;
    enum setting_id id;

    line = slice_trim(line);
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n == 0 || line.p[0] == '#')
        return RC_OK;
    name = slice_trim(slice_cut(line, '=', &value));
    value = slice_trim(value);
    if (value.n >= 2 && (value.p[0] == '"' || value.p[0] == '\'')) {
        const char *end = memchr(value.p + 1, value.p[0], value.n - 1);

        if (!end)
            return fail_rc(RC_INVALID, "%s:%d: the quote is not closed", path, line_no);
        value = slice_of(value.p + 1, (size_t)(end - value.p) - 1);
    } else {
        value = slice_trim(slice_first(value, slice_find_char(value, '#')));
    }
    if (slice_starts(name, SLICE("STRATA_")))
        name = slice_from(name, 7);
    if (!find(name, &id) || id == SET_CONFIG_FILE)
        return fail_rc(RC_INVALID, "%s:%d: unknown setting \"%.*s\"", path, line_no,
                       SLICE_ARG(slice_first(name, 60)));
    return set(s, id, value, 1);
}

enum rc settings_from_file(struct settings *s, const char *path)
{
    AUTO(free_p) char *line = NULL;
    FILE *f = fopen(path, "re");
    size_t cap = 0;
    int line_no = 0;
    enum rc rc = RC_OK;
    ssize_t n;

    if (!f)
        return fail_rc(RC_INVALID, "STRATA_CONFIG_FILE: cannot read %s: %s", path, strerror(errno));
    while (!rc && (n = getline(&line, &cap, f)) >= 0) {
        if (n && line[n - 1] == '\n')
            n--;
        rc = file_line(s, slice_of(line, (size_t)n), path, ++line_no);
    }
    fclose(f);
    return rc;
}

enum rc settings_from_args(struct settings *s, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        struct slice value, name = slice_cut(slice_str(argv[i]), '=', &value);
        enum setting_id id;
        enum rc rc;

        if (!slice_starts(name, SLICE("--")) || !find(slice_from(name, 2), &id))
            return fail_rc(RC_INVALID, "unknown option %.*s (strata server --help lists them)",
                           SLICE_ARG(slice_first(name, 80)));
        if (!value.p) {
            if (i + 1 >= argc)
                return fail_rc(RC_INVALID, "option %.*s needs a value", SLICE_ARG(name));
            value = slice_str(argv[++i]);
        }
        rc = set(s, id, value, 3);
        if (rc)
            return rc;
    }
    return RC_OK;
}

enum rc settings_check(const struct settings *s)
{
    bool embedded =
        settings_number(s, SET_META_BACKEND) == 0 || settings_number(s, SET_DATA_BACKEND) == 0;
    bool cert = *settings_text(s, SET_TLS_CERT_FILE), key = *settings_text(s, SET_TLS_KEY_FILE);
    const char *tls = settings_text(s, SET_TLS_MIN_VERSION);

    if (settings_number(s, SET_META_BACKEND) > 1)
        return fail_rc(RC_INVALID, "STRATA_META_BACKEND: %s is not part of this build",
                       settings_text(s, SET_META_BACKEND));
    if (settings_number(s, SET_DATA_BACKEND) > 1)
        return fail_rc(RC_INVALID, "STRATA_DATA_BACKEND: %s is not part of this build",
                       settings_text(s, SET_DATA_BACKEND));
    if (embedded && !*settings_text(s, SET_DATA_DIR))
        return fail_rc(RC_INVALID,
                       "STRATA_DATA_DIR is not set: where shall the embedded stores keep "
                       "their files?");
    if (cert != key)
        return fail_rc(RC_INVALID, "STRATA_TLS_CERT_FILE and STRATA_TLS_KEY_FILE go together");
    if (strcmp(tls, "TLS1.2") != 0 && strcmp(tls, "TLS1.3") != 0)
        return fail_rc(RC_INVALID, "STRATA_TLS_MIN_VERSION: \"%s\" is neither TLS1.2 nor TLS1.3",
                       tls);
    return RC_OK;
}

void settings_print(FILE *out, bool markdown)
{
    if (markdown)
        fputs("| Setting | Type | Default | Meaning |\n|---|---|---|---|\n", out);
    for (int i = 0; i < SET_COUNT; i++) {
        const char *format =
            markdown ? "| `STRATA_%s` | %s | `%s` | %s |\n" : "  STRATA_%-26s %-9s %-12s %s\n";
        const char *def = *table[i].def ? table[i].def : markdown ? "(empty)" : "-";

        fprintf(out, format, table[i].name, type_names[table[i].type], def, table[i].doc);
    }
}
