/* SPDX-License-Identifier: Apache-2.0 */
/* Input: one byte of flags (1: signed, 2: verified, 4: a trailer is announced), one of step size,
 * one of declared length, then the body. Data given out must not exceed the declared length; the
 * end means exactly that length, and the same result whatever the steps. */
#include "auth/aws_chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum rc run(const uint8_t *data, size_t size, size_t step, size_t *ret_total)
{
    static const unsigned char seed[SHA256_SIZE];
    static struct aws_chunked c;
    struct hmac_key key;
    struct slice left = slice_of(data + 3, size - 3);
    struct aws_chunked_config cfg = {
        .chunk_signatures = data[0] & 1,
        .check = (data[0] & 3) == 3,
        .trailer = data[0] & 4 ? SLICE("x-amz-checksum-crc32") : SLICE_NONE,
        .decoded_length = data[2],
        .key = &key,
        .amz_date = "20130524T000000Z",
        .scope = "20130524/us-east-1/s3/aws4_request",
        .seed = seed,
    };

    hmac_key_init(&key, SLICE("key"));
    aws_chunked_init(&c, &cfg);
    *ret_total = 0;
    while (left.n) {
        struct slice out;
        size_t used;
        enum rc rc = aws_chunked_step(&c, slice_first(left, step), 7, &used, &out);

        *ret_total += out.n;
        if (*ret_total > cfg.decoded_length || used > left.n)
            abort();
        if (rc == RC_EOF && *ret_total != cfg.decoded_length)
            abort();
        if (rc)
            return rc;
        left = slice_from(left, used);
    }
    return RC_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t a, b;

    if (size < 4)
        return 0;
    /* An end found in the last step shows only in the next one. */
    if (run(data, size, (size_t)data[1] + 1, &a) != run(data, size, size, &b) || a != b)
        abort();
    return 0;
}
