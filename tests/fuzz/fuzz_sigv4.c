/* SPDX-License-Identifier: Apache-2.0 */
/* Input: "METHOD target\nname: value\n…", as in tests/unit/auth/vectors.txt. */
#include "unit/auth/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct auth *auths[3];
    struct slice lines, target, text = slice_of(data, size);
    struct slice method = slice_cut(slice_cut(text, '\n', &lines), ' ', &target);
    struct auth_identity id;
    struct fake_req f;

    for (int mode = AUTH_REQUIRED; mode <= AUTH_OFF && !auths[mode]; mode++) {
        struct auth_config cfg = { .mode = (enum auth_mode)mode,
                                   .region = SLICE("us-east-1"),
                                   .check_region = true,
                                   .skew_s = 900,
                                   .now_ns = test_now };

        if (auth_new(&cfg, &auths[mode]) ||
            auth_add_static(auths[mode], SLICE(TEST_ACCESS_KEY ":" TEST_SECRET_KEY)))
            abort();
    }
    for (int mode = AUTH_REQUIRED; mode <= AUTH_OFF; mode++) {
        enum rc rc;

        fake_req_init(&f, method, target);
        fake_req_headers(&f, lines);
        rc = auth_request(auths[mode], &f.req, &id);
        if (rc && (id.account.id.n || id.check_chunks))
            abort();
        fake_req_fini(&f);
    }
    return 0;
}
