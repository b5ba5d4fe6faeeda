/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/shield.h"

#include "base/clock.h"

void shield_begin(struct shield *s, int64_t allow_ms)
{
    s->cancelled = fiber_uncancel();
    s->deadline_ns = fiber_set_deadline(clock_mono_ns() + allow_ms * NS_PER_MS);
    if (note_slot)
        s->note = *note_slot;
}

void shield_end(struct shield *s)
{
    (void)fiber_set_deadline(s->deadline_ns);
    if (s->cancelled)
        fiber_cancel(fiber_current());
    if (note_slot)
        *note_slot = s->note;
}
