/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_token — continuation tokens of listings: opaque to clients, and known when made up.
 *
 * Owns:    decoded keys live in the arena.
 * Errors:  false for what s3_list_token_encode never wrote.
 * Threads: any.
 */
#ifndef STRATA_S3_LIST_TOKEN_H
#define STRATA_S3_LIST_TOKEN_H

#include "base/arena.h"
#include "base/encode.h"

/* A common prefix may be longer than a key by nothing: both are cut from keys. */
#define S3_LIST_TOKEN_KEY_MAX 2048u
#define S3_LIST_TOKEN_MAX BASE64_SIZE(S3_LIST_TOKEN_KEY_MAX + 5u)

/* Returns the length. */
size_t s3_list_token_encode(char out[S3_LIST_TOKEN_MAX], struct slice key);
bool s3_list_token_decode(struct arena *a, struct slice token, struct slice *ret) MUST_CHECK;

#endif
