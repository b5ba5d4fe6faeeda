/* SPDX-License-Identifier: Apache-2.0 */
#include "meta/row.h"

#include "base/encode.h"
#include "meta/row.pb-c.h"

enum { OFF_HEADER_SIZE = 1, OFF_FLAGS, OFF_SUM_KIND, OFF_CLASS };
enum {
    OFF_SIZE = 8,
    OFF_MTIME = 16,
    OFF_MD5 = 24,
    OFF_PARTS = 40,
    OFF_WRITE_ID = 48,
    OFF_CLASS_NAME = 64
};
enum row_flags { FLAG_INLINE = 1, FLAG_SUM_COMPOSITE = 2 };
#define CLASS_NAMED 255u

/* Positions are the ids in rows: append only. */
static const struct slice classes[] = {
    SLICE_INIT(""),
    SLICE_INIT("REDUCED_REDUNDANCY"),
    SLICE_INIT("STANDARD_IA"),
    SLICE_INIT("ONEZONE_IA"),
    SLICE_INIT("INTELLIGENT_TIERING"),
    SLICE_INIT("GLACIER"),
    SLICE_INIT("DEEP_ARCHIVE"),
    SLICE_INIT("GLACIER_IR"),
    SLICE_INIT("OUTPOSTS"),
    SLICE_INIT("SNOW"),
    SLICE_INIT("EXPRESS_ONEZONE"),
};

static const size_t sum_sizes[] = {
    [META_SUM_NONE] = 0,      [META_SUM_CRC32] = 4, [META_SUM_CRC32C] = 4,
    [META_SUM_CRC64NVME] = 8, [META_SUM_SHA1] = 20, [META_SUM_SHA256] = 32,
};

/* ---- protobuf memory from an arena ------------------------------------------------------------
 */

struct pb_arena {
    ProtobufCAllocator base;
    struct arena *arena;
    bool exhausted; /* tells a lack of memory from malformed bytes */
};

static void *pb_alloc(void *data, size_t n)
{
    struct pb_arena *pb = data;
    void *p = arena_alloc(pb->arena, n);

    if (!p)
        pb->exhausted = true;
    return p;
}

static void pb_free(void *data, void *p)
{
    (void)data;
    (void)p; /* with the arena */
}

static void pb_init(struct pb_arena *pb, struct arena *a)
{
    *pb = (struct pb_arena){ .base = { .alloc = pb_alloc, .free = pb_free }, .arena = a };
    pb->base.allocator_data = pb;
}

static enum rc pb_failure(const struct pb_arena *pb)
{
    return pb->exhausted ? RC_NO_MEM : fail_rc(RC_CORRUPT, "malformed metadata row");
}

static ProtobufCBinaryData pb_bytes(struct slice s)
{
    return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)s.p };
}

static struct slice pb_slice(ProtobufCBinaryData d)
{
    return slice_of(d.data, d.len);
}

/* ---- extents ----------------------------------------------------------------------------------
 */

void row_pack_extents(void *out, const struct extent *e, size_t n)
{
    unsigned char *p = out;

    for (size_t i = 0; i < n; i++, p += ROW_EXTENT_SIZE) {
        memcpy(p, e[i].id, DATA_ID_SIZE);
        put_be32(p + DATA_ID_SIZE, e[i].length);
        put_be32(p + DATA_ID_SIZE + 4, e[i].crc32c);
    }
}

enum rc row_unpack_extents(struct slice packed, struct extent *ret)
{
    if (packed.n % ROW_EXTENT_SIZE)
        return fail_rc(RC_CORRUPT, "malformed manifest");
    for (const char *p = packed.p, *end = p + packed.n; p < end; p += ROW_EXTENT_SIZE, ret++) {
        memcpy(ret->id, p, DATA_ID_SIZE);
        ret->length = get_be32(p + DATA_ID_SIZE);
        ret->crc32c = get_be32(p + DATA_ID_SIZE + 4);
        if (!ret->length || ret->length > DATA_CHUNK_MAX)
            return fail_rc(RC_CORRUPT, "impossible extent in a manifest");
    }
    return RC_OK;
}

/* ---- encoding ---------------------------------------------------------------------------------
 */

static enum rc tail_pairs(struct arena *a, const struct meta_pair *pairs, size_t n,
                          Row__Pair ***ret)
{
    Row__Pair **list;
    Row__Pair *made;

    if (!n)
        return RC_OK;
    list = arena_alloc(a, n * sizeof *list);
    made = arena_alloc(a, n * sizeof *made);
    if (!list || !made)
        return RC_NO_MEM;
    for (size_t i = 0; i < n; i++) {
        row__pair__init(&made[i]);
        made[i].name = pb_bytes(pairs[i].name);
        made[i].value = pb_bytes(pairs[i].value);
        list[i] = &made[i];
    }
    *ret = list;
    return RC_OK;
}

static enum rc tail_build(struct arena *a, const struct meta_object *o, Row__Tail *t)
{
    enum rc rc;

    t->content_type = pb_bytes(o->content_type);
    t->n_headers = o->headers_n;
    t->n_user = o->user_n;
    rc = tail_pairs(a, o->headers, o->headers_n, &t->headers);
    if (!rc)
        rc = tail_pairs(a, o->user, o->user_n, &t->user);
    if (rc)
        return rc;
    t->sum = pb_bytes(slice_of(o->sum, sum_sizes[o->head.sum_kind]));
    if (o->extents_n && !o->is_inline) {
        size_t size = o->extents_n * ROW_EXTENT_SIZE;
        char *packed = arena_alloc(a, size);

        if (!packed)
            return RC_NO_MEM;
        row_pack_extents(packed, o->extents, o->extents_n);
        t->extents = pb_bytes(slice_of(packed, size));
    }
    return RC_OK;
}

static unsigned class_id(struct slice name)
{
    if (slice_eq(name, SLICE("STANDARD")))
        return 0;
    for (unsigned i = 0; i < ARRAY_LEN(classes); i++)
        if (slice_eq(name, classes[i]))
            return i;
    return CLASS_NAMED;
}

static void header_write(unsigned char *p, size_t header_size, const struct meta_object *o,
                         uint64_t write_id)
{
    const struct meta_head *h = &o->head;

    memset(p, 0, header_size);
    p[0] = ROW_FORMAT;
    p[OFF_HEADER_SIZE] = (unsigned char)header_size;
    p[OFF_FLAGS] = (unsigned char)((o->is_inline ? FLAG_INLINE : 0) |
                                   (h->sum_composite ? FLAG_SUM_COMPOSITE : 0));
    p[OFF_SUM_KIND] = h->sum_kind;
    p[OFF_CLASS] = (unsigned char)class_id(h->storage_class);
    put_be64(p + OFF_SIZE, h->size);
    put_be64(p + OFF_MTIME, (uint64_t)h->mtime_ns);
    memcpy(p + OFF_MD5, h->md5, sizeof h->md5);
    put_be32(p + OFF_PARTS, h->parts);
    put_be64(p + OFF_WRITE_ID, write_id);
    if (p[OFF_CLASS] == CLASS_NAMED) {
        p[OFF_CLASS_NAME] = (unsigned char)h->storage_class.n;
        memcpy(p + OFF_CLASS_NAME + 1, h->storage_class.p, h->storage_class.n);
    }
}

enum rc row_encode(struct arena *a, const struct meta_object *o, uint64_t write_id,
                   struct slice *ret)
{
    bool named = class_id(o->head.storage_class) == CLASS_NAMED;
    size_t header_size = named ? ROW_HEADER_SIZE_MAX : ROW_HEADER_SIZE;
    size_t tail_size, total;
    Row__Tail tail = ROW__TAIL__INIT;
    unsigned char *p;
    enum rc rc;

    assert(o->head.sum_kind < ARRAY_LEN(sum_sizes));
    if (named && o->head.storage_class.n > ROW_CLASS_NAME_MAX)
        return fail_s3(S3E_INVALID_STORAGE_CLASS, NULL);
    if (o->extents_n > ROW_EXTENTS_MAX)
        return RC_TOO_LARGE;
    rc = tail_build(a, o, &tail);
    if (rc)
        return rc;
    tail_size = row__tail__get_packed_size(&tail);
    total = header_size + 4 + tail_size + (o->is_inline ? o->body.n : 0);
    if (total > KV_VALUE_MAX)
        return RC_TOO_LARGE;
    p = arena_alloc(a, total);
    if (!p)
        return RC_NO_MEM;
    header_write(p, header_size, o, write_id);
    put_be32(p + header_size, (uint32_t)tail_size);
    row__tail__pack(&tail, p + header_size + 4);
    if (o->is_inline && o->body.n)
        memcpy(p + header_size + 4 + tail_size, o->body.p, o->body.n);
    *ret = slice_of(p, total);
    return RC_OK;
}

void row_set_mtime(struct slice row, int64_t mtime_ns)
{
    put_be64((char *)row.p + OFF_MTIME, (uint64_t)mtime_ns);
}

/* ---- decoding ---------------------------------------------------------------------------------
 */

enum rc row_decode_head(struct slice value, struct meta_head *ret)
{
    const unsigned char *p = (const unsigned char *)value.p;
    struct slice class_name;

    if (value.n < ROW_HEADER_SIZE || p[0] != ROW_FORMAT || p[OFF_HEADER_SIZE] < ROW_HEADER_SIZE ||
        p[OFF_HEADER_SIZE] > value.n || p[OFF_SUM_KIND] >= ARRAY_LEN(sum_sizes))
        return fail_rc(RC_CORRUPT, "malformed metadata row");
    if (p[OFF_CLASS] < ARRAY_LEN(classes)) {
        class_name = classes[p[OFF_CLASS]];
    } else {
        if (p[OFF_CLASS] != CLASS_NAMED || p[OFF_HEADER_SIZE] < ROW_HEADER_SIZE_MAX ||
            p[OFF_CLASS_NAME] > ROW_CLASS_NAME_MAX)
            return fail_rc(RC_CORRUPT, "malformed storage class in a metadata row");
        class_name = slice_of(p + OFF_CLASS_NAME + 1, p[OFF_CLASS_NAME]);
    }
    *ret = (struct meta_head){
        .size = get_be64(p + OFF_SIZE),
        .mtime_ns = (int64_t)get_be64(p + OFF_MTIME),
        .parts = get_be32(p + OFF_PARTS),
        .sum_kind = p[OFF_SUM_KIND],
        .sum_composite = (p[OFF_FLAGS] & FLAG_SUM_COMPOSITE) != 0,
        .storage_class = class_name,
    };
    memcpy(ret->md5, p + OFF_MD5, sizeof ret->md5);
    return RC_OK;
}

uint64_t row_write_id(struct slice value)
{
    return get_be64(value.p + OFF_WRITE_ID);
}

bool row_is_inline(struct slice value)
{
    return (value.p[OFF_FLAGS] & FLAG_INLINE) != 0;
}

static enum rc take_pairs(struct arena *a, Row__Pair **list, size_t n, struct meta_pair **ret)
{
    struct meta_pair *pairs;

    if (!n)
        return RC_OK;
    pairs = arena_alloc(a, n * sizeof *pairs);
    if (!pairs)
        return RC_NO_MEM;
    for (size_t i = 0; i < n; i++)
        pairs[i] = (struct meta_pair){ pb_slice(list[i]->name), pb_slice(list[i]->value) };
    *ret = pairs;
    return RC_OK;
}

static enum rc take_extents(struct arena *a, struct slice packed, struct meta_object *o)
{
    size_t n = packed.n / ROW_EXTENT_SIZE;
    uint64_t sum = 0;
    enum rc rc;

    if (n > ROW_EXTENTS_MAX)
        return fail_rc(RC_CORRUPT, "manifest too long");
    if (packed.n) {
        o->extents = arena_alloc(a, (n + 1) * sizeof *o->extents);
        if (!o->extents)
            return RC_NO_MEM;
        rc = row_unpack_extents(packed, o->extents);
        if (rc)
            return rc;
    }
    o->extents_n = n;
    for (size_t i = 0; i < n; i++)
        sum += o->extents[i].length;
    return sum == o->head.size ? RC_OK : fail_rc(RC_CORRUPT, "manifest and size differ");
}

static enum rc tail_decode(struct arena *a, struct slice tail, bool head_only,
                           struct meta_object *o)
{
    struct pb_arena pb;
    Row__Tail *t;
    enum rc rc;

    pb_init(&pb, a);
    t = row__tail__unpack(&pb.base, tail.n, (const uint8_t *)tail.p);
    if (!t)
        return pb_failure(&pb);
    o->content_type = pb_slice(t->content_type);
    o->headers_n = t->n_headers;
    o->user_n = t->n_user;
    rc = take_pairs(a, t->headers, t->n_headers, &o->headers);
    if (!rc)
        rc = take_pairs(a, t->user, t->n_user, &o->user);
    if (rc)
        return rc;
    if (t->sum.len != sum_sizes[o->head.sum_kind])
        return fail_rc(RC_CORRUPT, "malformed checksum in a metadata row");
    if (t->sum.len)
        memcpy(o->sum, t->sum.data, t->sum.len);
    if (o->is_inline || head_only)
        return RC_OK;
    return take_extents(a, pb_slice(t->extents), o);
}

enum rc row_decode(struct arena *a, struct slice value, bool head_only, struct meta_object *ret)
{
    struct meta_object o = { 0 };
    size_t header_size, tail_size;
    struct slice rest;
    enum rc rc = row_decode_head(value, &o.head);

    if (rc)
        return rc;
    header_size = (unsigned char)value.p[OFF_HEADER_SIZE];
    o.is_inline = row_is_inline(value);
    rest = slice_from(value, header_size);
    if (rest.n < 4)
        return fail_rc(RC_CORRUPT, "metadata row cut short");
    tail_size = get_be32(rest.p);
    rest = slice_from(rest, 4);
    if (tail_size > rest.n)
        return fail_rc(RC_CORRUPT, "metadata row cut short");
    rc = tail_decode(a, slice_first(rest, tail_size), head_only, &o);
    if (rc)
        return rc;
    rest = slice_from(rest, tail_size);
    if (rest.n != (o.is_inline ? o.head.size : 0))
        return fail_rc(RC_CORRUPT, "inline body and size differ");
    if (o.is_inline && !head_only)
        o.body = rest;
    *ret = o;
    return RC_OK;
}

/* ---- buckets ----------------------------------------------------------------------------------
 */

enum rc row_bucket_encode(struct arena *a, const struct row_bucket *b, struct slice *ret)
{
    Row__Bucket pb = ROW__BUCKET__INIT;
    size_t n;
    uint8_t *p;

    pb.id = pb_bytes(slice_of(b->bucket.id, META_BUCKET_ID_SIZE));
    pb.name = pb_bytes(b->bucket.name);
    pb.owner = pb_bytes(b->bucket.owner);
    pb.region = pb_bytes(b->bucket.region);
    pb.created_ns = b->bucket.created_ns;
    pb.index_shards = b->bucket.index_shards;
    pb.closing_token = b->closing_token;
    pb.closing_since_ms = b->closing_since_ms;
    n = row__bucket__get_packed_size(&pb);
    p = arena_alloc(a, n);
    if (!p)
        return RC_NO_MEM;
    row__bucket__pack(&pb, p);
    *ret = slice_of(p, n);
    return RC_OK;
}

enum rc row_bucket_decode(struct arena *a, struct slice value, struct row_bucket *ret)
{
    struct pb_arena pb;
    Row__Bucket *b;

    pb_init(&pb, a);
    b = row__bucket__unpack(&pb.base, value.n, (const uint8_t *)value.p);
    if (!b)
        return pb_failure(&pb);
    if (b->id.len != META_BUCKET_ID_SIZE || !b->name.len || b->name.len >= KV_PARTITION_MAX ||
        b->owner.len >= KV_PARTITION_MAX || !b->index_shards || b->index_shards > UINT16_MAX)
        return fail_rc(RC_CORRUPT, "malformed bucket row");
    *ret = (struct row_bucket){
        .bucket = { .name = pb_slice(b->name),
                    .owner = pb_slice(b->owner),
                    .region = pb_slice(b->region),
                    .created_ns = b->created_ns,
                    .index_shards = b->index_shards },
        .closing_token = b->closing_token,
        .closing_since_ms = b->closing_since_ms,
    };
    memcpy(ret->bucket.id, b->id.data, META_BUCKET_ID_SIZE);
    return RC_OK;
}
