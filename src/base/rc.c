/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rc.h"

static const struct {
    const char *name;
    bool retryable;
} table[RC_COUNT] = {
    [RC_OK] = { "OK", false },
    [RC_NOT_FOUND] = { "NOT_FOUND", false },
    [RC_EXISTS] = { "EXISTS", false },
    [RC_CONFLICT] = { "CONFLICT", true },
    [RC_PRECONDITION] = { "PRECONDITION", false },
    [RC_INVALID] = { "INVALID", false },
    [RC_TOO_LARGE] = { "TOO_LARGE", false },
    [RC_DENIED] = { "DENIED", false },
    [RC_UNSUPPORTED] = { "UNSUPPORTED", false },
    [RC_NO_MEM] = { "NO_MEM", true },
    [RC_NO_SPACE] = { "NO_SPACE", true },
    [RC_TIMEOUT] = { "TIMEOUT", true },
    [RC_CANCELLED] = { "CANCELLED", false },
    [RC_UNAVAILABLE] = { "UNAVAILABLE", true },
    [RC_CORRUPT] = { "CORRUPT", false },
    [RC_EOF] = { "EOF", false },
    [RC_INTERNAL] = { "INTERNAL", false },
};

const char *rc_name(enum rc rc)
{
    return (unsigned)rc < RC_COUNT ? table[rc].name : "?";
}

bool rc_retryable(enum rc rc)
{
    return (unsigned)rc < RC_COUNT && table[rc].retryable;
}
