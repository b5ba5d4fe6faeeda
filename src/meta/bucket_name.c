/* SPDX-License-Identifier: Apache-2.0 */
/* Source: AWS "General purpose bucket naming rules" (bucketnamingrules.html). */
#include "meta/meta.h"

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Four groups of one to three digits. */
static bool is_ipv4_form(struct slice name)
{
    for (unsigned groups = 0;; groups++) {
        struct slice rest, group = slice_cut(name, '.', &rest);

        if (!group.n || group.n > 3 || groups == 4)
            return false;
        for (size_t i = 0; i < group.n; i++)
            if (group.p[i] < '0' || group.p[i] > '9')
                return false;
        if (!rest.p)
            return groups == 3;
        name = rest;
    }
}

static bool is_reserved(struct slice name)
{
    static const struct slice names[] = {
        SLICE_INIT("console"), SLICE_INIT("admin"),  SLICE_INIT("metrics"),
        SLICE_INIT("healthz"), SLICE_INIT("readyz"), SLICE_INIT(".well-known"),
    };
    static const struct slice prefixes[] = {
        SLICE_INIT("xn--"),
        SLICE_INIT("sthree-"),
        SLICE_INIT("amzn-s3-demo-"),
    };
    static const struct slice suffixes[] = {
        SLICE_INIT("-s3alias"), SLICE_INIT("--ol-s3"),    SLICE_INIT(".mrap"),
        SLICE_INIT("--x-s3"),   SLICE_INIT("--table-s3"),
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq(name, names[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (slice_starts(name, prefixes[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (slice_ends(name, suffixes[i]))
            return true;
    return false;
}

bool meta_bucket_name_valid(struct slice name)
{
    if (name.n < 3 || name.n > 63 || !is_alnum(name.p[0]) || !is_alnum(name.p[name.n - 1]))
        return false;
    for (size_t i = 1; i < name.n; i++) {
        char c = name.p[i], before = name.p[i - 1];

        if (!is_alnum(c) && c != '.' && c != '-')
            return false;
        if ((c == '.' && !is_alnum(before)) || (c == '-' && before == '.'))
            return false;
    }
    return !is_ipv4_form(name) && !is_reserved(name);
}
