/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get: the head is read with the bytes (in one call where they touch), so that a removed or foreign
 * record is told from a damaged one; parts are rounded to blocks, whose sums the head has.
 */
#include "data/local/local_priv.h"

#include "base/checksum.h"

#include <errno.h>
#include <sys/uio.h>

#define PIECES_MAX 4

struct read_job {
    int fd;
    struct iovec iov[PIECES_MAX];
    int iov_n;
    uint64_t at;
    size_t left;
    enum rc rc;
};

static void read_add(struct read_job *j, void *p, size_t n)
{
    if (!n)
        return;
    j->iov[j->iov_n++] = (struct iovec){ p, n };
    j->left += n;
}

/* Drops n bytes that have been read from the front. */
static void read_advance(struct read_job *j, size_t n)
{
    int i = 0;

    j->at += n;
    j->left -= n;
    while (i < j->iov_n && n >= j->iov[i].iov_len)
        n -= j->iov[i++].iov_len;
    j->iov_n -= i;
    memmove(j->iov, j->iov + i, (size_t)j->iov_n * sizeof j->iov[0]);
    if (j->iov_n) {
        j->iov[0].iov_base = (char *)j->iov[0].iov_base + n;
        j->iov[0].iov_len -= n;
    }
}

static void read_on_thread(void *arg)
{
    struct read_job *j = arg;

    while (j->left) {
        ssize_t got = preadv(j->fd, j->iov, j->iov_n, (off_t)j->at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            j->rc = local_errno(errno, "reading a chunk");
            return;
        }
        if (got == 0)
            return; /* the end of the file: left tells */
        read_advance(j, (size_t)got);
    }
}

/* What is cached is read at once, the rest on the pool. */
static enum rc read_run(struct read_job *j)
{
    ssize_t got = preadv2(j->fd, j->iov, j->iov_n, (off_t)j->at, RWF_NOWAIT);
    enum rc rc;

    if (got > 0)
        read_advance(j, (size_t)got);
    if (!j->left)
        return RC_OK;
    rc = offload(read_on_thread, j);
    return rc ? rc : j->rc;
}

/* ---- parts ---- */

/* A read, rounded to blocks: prefix and suffix go to scratch. */
struct part {
    uint32_t from, to; /* of the chunk, rounded */
    uint32_t prefix, suffix;
    char *scratch;
    char *out;
    uint32_t n;
};

static struct part part_of(const struct extent *e, uint32_t offset, void *out, uint32_t n,
                           bool verify)
{
    struct part p = { .from = offset, .to = offset + n, .out = out, .n = n };

    if (verify) {
        p.from = offset & ~(BLOCK - 1);
        p.to = (uint32_t)MIN((uint64_t)e->length,
                             ((uint64_t)p.to + BLOCK - 1) & ~(uint64_t)(BLOCK - 1));
    }
    p.prefix = offset - p.from;
    p.suffix = p.to - offset - n;
    return p;
}

/* Walks the three pieces of a part and compares the sum of each block. */
static bool part_matches(const struct part *p, const uint32_t *block_crc)
{
    const struct iovec pieces[3] = {
        { p->scratch, p->prefix },
        { p->out, p->n },
        { p->scratch + p->prefix, p->suffix },
    };
    uint32_t block = p->from / BLOCK, room = BLOCK, crc = 0;

    for (int i = 0; i < 3; i++) {
        const char *at = pieces[i].iov_base;
        size_t left = pieces[i].iov_len;

        while (left) {
            uint32_t step = (uint32_t)MIN(left, room);

            crc = crc32c(crc, at, step);
            at += step;
            left -= step;
            room -= step;
            if (room)
                continue;
            if (crc != block_crc[block++])
                return false;
            crc = 0;
            room = BLOCK;
        }
    }
    return room == BLOCK || crc == block_crc[block];
}

/* ---- the whole ---- */

struct get {
    struct segment *segment;
    const struct extent *extent;
    struct locus at;
    struct part part;
    union record_pages r;
};

static void read_head(struct read_job *j, struct get *g)
{
    j->at = (uint64_t)g->at.page * PAGE;
    read_add(j, g->r.bytes, (size_t)head_pages(g->at.nonce) * PAGE);
}

static void read_part(struct read_job *j, struct get *g)
{
    if (!j->iov_n)
        j->at = locus_data(&g->at) + g->part.from;
    read_add(j, g->part.scratch, g->part.prefix);
    read_add(j, g->part.out, g->part.n);
    read_add(j, g->part.scratch + g->part.prefix, g->part.suffix);
}

static enum rc judge_head(const struct get *g)
{
    if (!head_valid(&g->r, g->segment->salt, g->at.segment, g->at.page,
                    (size_t)head_pages(g->at.nonce) * PAGE))
        return fail_rc(RC_CORRUPT, "the head of a chunk is damaged");
    if (!record_is(&g->r, g->extent, &g->at) || g->r.head.state != RECORD_LIVE)
        return fail_rc(RC_NOT_FOUND, "no such chunk");
    return RC_OK;
}

static enum rc get_head(struct get *g)
{
    struct read_job j = { .fd = g->segment->fd };
    enum rc rc;

    memset(g->r.bytes, 0, PAGE);
    read_head(&j, g);
    rc = read_run(&j);
    return rc ? rc : judge_head(g);
}

static enum rc get_record(struct get *g, bool verify)
{
    struct read_job j = { .fd = g->segment->fd };
    enum rc rc;

    if (g->part.from == 0) {
        read_head(&j, g);
    } else {
        rc = get_head(g);
        if (rc)
            return rc;
    }
    read_part(&j, g);
    rc = read_run(&j);
    if (rc)
        return rc;
    if (j.left)
        return fail_rc(RC_CORRUPT, "a chunk is cut short");
    rc = judge_head(g);
    if (rc || !verify || part_matches(&g->part, g->r.head.block_crc))
        return rc;
    /* Removed since the head was read? */
    rc = get_head(g);
    return rc ? rc : fail_rc(RC_CORRUPT, "a block of a chunk fails its CRC32C");
}

enum rc local_get(struct data *d, const struct extent *e, uint32_t offset, void *out, uint32_t n)
{
    struct local *l = local_of(d);
    AUTO(free_p) char *scratch = NULL;
    struct get g = { .extent = e, .at = locus_decode(e->id) };
    bool verify = d->verify && n < e->length; /* the whole is verified by data_get */
    enum rc rc;

    g.part = part_of(e, offset, out, n, verify);
    if (g.part.prefix + g.part.suffix) {
        scratch = malloc((size_t)g.part.prefix + g.part.suffix);
        if (!scratch)
            return RC_NO_MEM;
        g.part.scratch = scratch;
    }
    g.segment = segment_find(l, g.at.segment);
    if (!g.segment)
        return fail_rc(RC_NOT_FOUND, "no such chunk");
    rc = get_record(&g, verify);
    segment_unref(g.segment);
    return rc;
}

enum rc local_stat(struct data *d, const struct extent *e)
{
    struct get g = { .extent = e, .at = locus_decode(e->id) };
    enum rc rc;

    g.segment = segment_find(local_of(d), g.at.segment);
    if (!g.segment)
        return RC_NOT_FOUND;
    rc = get_head(&g);
    segment_unref(g.segment);
    return rc;
}
