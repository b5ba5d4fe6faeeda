/* SPDX-License-Identifier: Apache-2.0 */
#include "base/encode.h"
#include "object/object_priv.h"

#define WANTS(want, kind) (((want) & (1u << (kind))) != 0)

enum rc sums_init(struct sums *s, unsigned want)
{
    enum rc rc;

    *s = (struct sums){ .want = want };
    rc = digest_init(&s->md5, DIGEST_MD5);
    if (!rc && WANTS(want, META_SUM_SHA1))
        rc = digest_init(&s->sha1, DIGEST_SHA1);
    if (!rc && WANTS(want, META_SUM_SHA256))
        rc = digest_init(&s->sha256, DIGEST_SHA256);
    if (rc)
        sums_fini(s);
    return rc;
}

static void update_crcs(struct sums *s, const void *p, size_t n)
{
    if (WANTS(s->want, META_SUM_CRC32))
        s->crc32 = crc32_ieee(s->crc32, p, n);
    if (WANTS(s->want, META_SUM_CRC32C))
        s->crc32c = crc32c(s->crc32c, p, n);
    if (WANTS(s->want, META_SUM_CRC64NVME))
        s->crc64nvme = crc64nvme(s->crc64nvme, p, n);
}

void sums_update(struct sums *s, const void *p, size_t n)
{
    s->size += n;
    digest_update(&s->md5, p, n);
    if (WANTS(s->want, META_SUM_SHA1))
        digest_update(&s->sha1, p, n);
    if (WANTS(s->want, META_SUM_SHA256))
        digest_update(&s->sha256, p, n);
    update_crcs(s, p, n);
}

static void give_crcs(const struct sums *s, struct object_sums *ret)
{
    put_be32(ret->sum[META_SUM_CRC32], s->crc32);
    put_be32(ret->sum[META_SUM_CRC32C], s->crc32c);
    put_be64(ret->sum[META_SUM_CRC64NVME], s->crc64nvme);
}

void sums_final(struct sums *s, struct object_sums *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->size = s->size;
    digest_final(&s->md5, ret->md5);
    if (WANTS(s->want, META_SUM_SHA1))
        digest_final(&s->sha1, ret->sum[META_SUM_SHA1]);
    if (WANTS(s->want, META_SUM_SHA256))
        digest_final(&s->sha256, ret->sum[META_SUM_SHA256]);
    give_crcs(s, ret);
}

void sums_fini(struct sums *s)
{
    digest_fini(&s->md5);
    digest_fini(&s->sha1);
    digest_fini(&s->sha256);
}

void sums_once(unsigned want, const void *p, size_t n, struct object_sums *ret)
{
    struct sums crcs = { .want = want };

    memset(ret, 0, sizeof *ret);
    ret->size = n;
    digest_once(DIGEST_MD5, p, n, ret->md5);
    if (WANTS(want, META_SUM_SHA1))
        digest_once(DIGEST_SHA1, p, n, ret->sum[META_SUM_SHA1]);
    if (WANTS(want, META_SUM_SHA256))
        digest_once(DIGEST_SHA256, p, n, ret->sum[META_SUM_SHA256]);
    update_crcs(&crcs, p, n);
    give_crcs(&crcs, ret);
}
