/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error — results as S3 error answers.
 *
 * Owns:    nothing.
 * Errors:  none: what cannot be answered ends the connection.
 * Threads: the request's fiber.
 * Source:  AWS "Error responses", REST error responses.
 */
#ifndef STRATA_S3_ERROR_H
#define STRATA_S3_ERROR_H

#include "s3/call.h"

/* Answers rc with the noted error; cuts the connection when an answer has begun. */
void s3_error_answer(struct s3_call *c, enum rc rc);

#endif
