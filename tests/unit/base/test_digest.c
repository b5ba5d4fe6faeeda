/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checksum.h"
#include "base/crc64_priv.h"
#include "base/digest.h"
#include "base/encode.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static unsigned char noise[100 * 1024];

static uint64_t next_random(void)
{
    static uint64_t s = 88172645463325252u;

    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s;
}

static int fill_noise(void **state)
{
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (unsigned char)(next_random() >> 24);
    return 0;
}

static void assert_hex(const unsigned char *got, const char *want)
{
    char hex[2 * DIGEST_SIZE_MAX + 1] = { 0 };

    hex_encode(hex, got, strlen(want) / 2);
    assert_string_equal(hex, want);
}

static void crcs_have_their_published_check_values(void **state)
{
    assert_true(crc32_ieee(0, "123456789", 9) == 0xcbf43926);
    assert_true(crc32c(0, "123456789", 9) == 0xe3069283);
    assert_true(crc64nvme(0, "123456789", 9) == UINT64_C(0xae8b14860a799888));
    assert_true(crc32_ieee(0, "", 0) == 0);
    assert_true(crc32c(0, "", 0) == 0);
    assert_true(crc64nvme(0, "", 0) == 0);
    assert_true(crc32c(5, NULL, 0) == 5);
}

static void crcs_of_zeros_match_the_nvme_specification(void **state)
{
    static unsigned char block[4096];

    /* NVM Command Set Specification, figures of CRC-64 test cases. */
    memset(block, 0, sizeof block);
    assert_true(crc64nvme(0, block, sizeof block) == UINT64_C(0x6482d367eb22b64e));
    memset(block, 0xff, sizeof block);
    assert_true(crc64nvme(0, block, sizeof block) == UINT64_C(0xc0ddba7302eca3ac));
}

static void crcs_chain_and_combine_at_any_split(void **state)
{
    for (int i = 0; i < 2000; i++) {
        size_t from = next_random() % 64, n = next_random() % (i < 1000 ? 600 : 70000);
        size_t cut = n ? next_random() % (n + 1) : 0;
        const unsigned char *p = noise + from;

        assert_true(crc32_ieee(crc32_ieee(0, p, cut), p + cut, n - cut) == crc32_ieee(0, p, n));
        assert_true(crc32c(crc32c(0, p, cut), p + cut, n - cut) == crc32c(0, p, n));
        assert_true(crc64nvme(crc64nvme(0, p, cut), p + cut, n - cut) == crc64nvme(0, p, n));
        assert_true(crc32_ieee_combine(crc32_ieee(0, p, cut), crc32_ieee(0, p + cut, n - cut),
                                       n - cut) == crc32_ieee(0, p, n));
        assert_true(crc32c_combine(crc32c(0, p, cut), crc32c(0, p + cut, n - cut), n - cut) ==
                    crc32c(0, p, n));
        assert_true(crc64nvme_combine(crc64nvme(0, p, cut), crc64nvme(0, p + cut, n - cut),
                                      n - cut) == crc64nvme(0, p, n));
    }
}

static void combining_works_for_huge_lengths(void **state)
{
    /* Zeros appended in two steps equal those appended in one. */
    uint64_t big = UINT64_C(5) << 40;
    uint64_t one = crc64nvme_combine(12345, 0, 2 * big + 3);
    uint64_t two = crc64nvme_combine(crc64nvme_combine(12345, 0, big), 0, big + 3);

    assert_true(one == two);
}

static void folding_equals_the_tables(void **state)
{
    if (!crc64_can_fold())
        skip();
    for (size_t n = 0; n < 700; n++) {
        const unsigned char *p = noise + n % 17;

        assert_true(crc64_fold(n * 77, p, n) == crc64_tables(n * 77, p, n));
    }
}

static void hash64_depends_on_every_byte_length_and_seed(void **state)
{
    unsigned char copy[80];

    for (size_t n = 0; n < sizeof copy; n++) {
        memcpy(copy, noise, sizeof copy);
        assert_true(hash64(1, copy, n) == hash64(1, noise, n));
        assert_true(hash64(1, copy, n) != hash64(2, copy, n));
        assert_true(hash64(1, copy, n) != hash64(1, copy, n + 1));
        for (size_t i = 0; i < n; i++) {
            copy[i] ^= 1;
            assert_true(hash64(1, copy, n) != hash64(1, noise, n));
            copy[i] ^= 1;
        }
    }
}

static void hash64_spreads_short_keys(void **state)
{
    unsigned buckets[1024] = { 0 };

    for (uint32_t i = 0; i < 1024 * 64; i++)
        buckets[hash64(0, &i, sizeof i) % 1024]++;
    for (size_t i = 0; i < 1024; i++)
        assert_in_range(buckets[i], 24, 120); /* mean 64, deviation 8 */
}

static void digests_have_their_published_values(void **state)
{
    static const struct {
        enum digest_kind kind;
        const char *empty, *abc;
    } cases[] = {
        { DIGEST_MD5, "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72" },
        { DIGEST_SHA1, "da39a3ee5e6b4b0d3255bfef95601890afd80709",
          "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { DIGEST_SHA256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        unsigned char out[DIGEST_SIZE_MAX];
        struct digest d;

        digest_once(cases[i].kind, NULL, 0, out);
        assert_hex(out, cases[i].empty);
        digest_once(cases[i].kind, "abc", 3, out);
        assert_hex(out, cases[i].abc);
        assert_int_equal(digest_init(&d, cases[i].kind), RC_OK);
        for (int round = 0; round < 2; round++) { /* ready again after the end */
            digest_update(&d, "a", 1);
            digest_update(&d, NULL, 0);
            digest_update(&d, "bc", 2);
            digest_final(&d, out);
            assert_hex(out, cases[i].abc);
        }
        digest_fini(&d);
        digest_fini(&d);
    }
}

static void hmac_matches_rfc_4231(void **state)
{
    unsigned char key[131], out[SHA256_SIZE];
    const char *what = "what do ya want for nothing?";
    const char *large = "Test Using Larger Than Block-Size Key - Hash Key First";
    struct hmac_key k;

    memset(key, 0x0b, 20);
    hmac_key_init(&k, slice_of(key, 20));
    hmac_sha256(&k, "Hi There", 8, out);
    assert_hex(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hmac_key_init(&k, SLICE("Jefe"));
    hmac_sha256(&k, what, strlen(what), out);
    assert_hex(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    hmac_key_init(&k, slice_of(key, sizeof key));
    hmac_sha256(&k, large, strlen(large), out);
    assert_hex(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void *hash_on_a_thread(void *out)
{
    digest_once(DIGEST_MD5, "abc", 3, out);
    return NULL;
}

static void one_shots_work_on_threads_that_end(void **state)
{
    for (int i = 0; i < 4; i++) {
        unsigned char out[MD5_SIZE];
        pthread_t t;

        assert_int_equal(pthread_create(&t, NULL, hash_on_a_thread, out), 0);
        pthread_join(t, NULL);
        assert_hex(out, "900150983cd24fb0d6963f7d28e17f72");
    }
}

static void random_bytes_differ(void **state)
{
    unsigned char ids[100][16], big[1000];

    for (int i = 0; i < 100; i++) {
        random_bytes(ids[i], 16);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(ids[i], ids[k], 16);
    }
    random_bytes(big, sizeof big);
    assert_memory_not_equal(big, big + 500, 500);
    assert_true(digest_equal(big, big, sizeof big));
    assert_false(digest_equal(big, big + 1, 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crcs_have_their_published_check_values),
        cmocka_unit_test(crcs_of_zeros_match_the_nvme_specification),
        cmocka_unit_test(crcs_chain_and_combine_at_any_split),
        cmocka_unit_test(combining_works_for_huge_lengths),
        cmocka_unit_test(folding_equals_the_tables),
        cmocka_unit_test(hash64_depends_on_every_byte_length_and_seed),
        cmocka_unit_test(hash64_spreads_short_keys),
        cmocka_unit_test(digests_have_their_published_values),
        cmocka_unit_test(hmac_matches_rfc_4231),
        cmocka_unit_test(one_shots_work_on_threads_that_end),
        cmocka_unit_test(random_bytes_differ),
    };
    return cmocka_run_group_tests(tests, fill_noise, NULL);
}
