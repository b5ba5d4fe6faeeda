/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials — the root account of a data directory: made on the first start, kept in
 * <data dir>/root-credentials with mode 0600.
 *
 * Errors:  RC_UNAVAILABLE, RC_INVALID with one line as the note; never the secret.
 * Threads: start-up only.
 */
#ifndef STRATA_CLI_CREDENTIALS_H
#define STRATA_CLI_CREDENTIALS_H

#include "base/fail.h"

struct root_credentials {
    char access_key[64];
    char secret_key[128];
    bool created; /* by this call */
};

enum rc credentials_root(const char *data_dir, struct root_credentials *ret) MUST_CHECK;
/* Random ones that are kept nowhere. */
void credentials_generate(struct root_credentials *ret);

#endif
