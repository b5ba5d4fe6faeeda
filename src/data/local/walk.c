/* SPDX-License-Identifier: Apache-2.0 */
#include "data/local/local_priv.h"

#include <errno.h>
#include <unistd.h>

enum rc record_load(struct segment *s, uint32_t page, union record_pages *r, bool *ret_valid)
{
    uint64_t at = (uint64_t)page * PAGE;
    size_t got, more = 0;
    enum rc rc = local_read_at(s->fd, r, PAGE, at, &got);

    if (!rc && got == PAGE && head_wants_more(r))
        rc = local_read_at(s->fd, r->bytes + PAGE, PAGE, at + PAGE, &more);
    if (rc)
        return rc;
    *ret_valid = head_valid(r, s->salt, s->number, page, got + more);
    return RC_OK;
}

/* The next page that is no hole. */
static uint64_t skip_hole(int fd, uint64_t at, uint64_t end)
{
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);

    if (data < 0)
        return errno == ENXIO ? end : at;
    return MAX(at, (uint64_t)data & ~(uint64_t)(PAGE - 1));
}

enum rc walk_next(struct walk *w)
{
    bool valid = false;

    while (w->at < w->end) {
        enum rc rc = record_load(w->segment, (uint32_t)(w->at / PAGE), &w->record, &valid);

        if (rc)
            return rc;
        w->record_at = w->at;
        if (valid) {
            const struct record_head *h = &w->record.head;

            w->at += page_up((uint64_t)head_pages(h->nonce) * PAGE + h->length);
            return RC_OK;
        }
        w->at = skip_hole(w->segment->fd, w->at + PAGE, w->end);
    }
    return RC_NOT_FOUND;
}

struct extent walk_extent(const struct walk *w)
{
    const struct record_head *h = &w->record.head;
    struct extent e = { .length = h->length, .crc32c = h->crc32c };

    locus_encode(e.id, &(struct locus){ h->segment, h->page, h->nonce });
    return e;
}

uint64_t walk_data(const struct walk *w)
{
    return w->record_at + (uint64_t)head_pages(w->record.head.nonce) * PAGE;
}

bool record_is(const union record_pages *r, const struct extent *e, const struct locus *at)
{
    return r->head.nonce == at->nonce && r->head.length == e->length;
}
