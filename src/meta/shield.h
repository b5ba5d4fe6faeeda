/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shield — lets a cancelled or late fiber finish what must not be left half done, and keeps its
 * error note.
 *
 * Owns:    nothing; begin and end pair up on one fiber.
 * Threads: on fibers only.
 */
#ifndef STRATA_META_SHIELD_H
#define STRATA_META_SHIELD_H

#include "rt/rt.h"

struct shield {
    int64_t deadline_ns;
    bool cancelled;
    struct note note;
};

/* Waits until shield_end are not cancelled by what came before, and have allow_ms in all. */
void shield_begin(struct shield *s, int64_t allow_ms);
/* Puts back deadline, cancellation and note. */
void shield_end(struct shield *s);

#endif
