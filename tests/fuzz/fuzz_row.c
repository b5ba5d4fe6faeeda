/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from the KV: any bytes decode safely, and what decodes encodes and decodes to the same. */
#include "meta/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(struct arena *a, const struct meta_object *o)
{
    struct meta_object again;
    struct slice row;

    if (row_encode(a, o, 1, &row))
        return; /* of decoded rows, only for lack of memory */
    row_set_mtime(row, o->head.mtime_ns);
    assert(row_decode(a, row, false, &again) == RC_OK);
    assert(again.head.size == o->head.size && again.head.mtime_ns == o->head.mtime_ns);
    assert(again.extents_n == o->extents_n && again.user_n == o->user_n);
    assert(slice_eq(again.content_type, o->content_type) && slice_eq(again.body, o->body));
    /* The usual class is kept without its name. */
    assert(slice_eq(again.head.storage_class, o->head.storage_class) ||
           slice_eq(o->head.storage_class, SLICE("STANDARD")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice value = slice_of(data, size);
    struct row_bucket bucket;
    struct meta_object o;
    struct meta_head head;
    struct arena a;

    arena_init(&a, 16 << 20);
    if (!row_decode_head(slice_first(value, KV_HEAD_SIZE), &head))
        (void)row_write_id(value);
    if (!row_decode(&a, value, false, &o))
        check_again(&a, &o);
    (void)!row_decode(&a, value, true, &o);
    (void)!row_bucket_decode(&a, value, &bucket);
    arena_fini(&a);
    return 0;
}
