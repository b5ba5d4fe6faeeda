/* SPDX-License-Identifier: Apache-2.0 */
/* procstat — CPU time and memory of processes, from /proc (Linux, proc(5)). */
#ifndef STRATA_CLI_BENCH_PROCSTAT_H
#define STRATA_CLI_BENCH_PROCSTAT_H

#include "base/base.h"

/* User and system seconds so far, all threads; 0 when there is no such process. pid 0 is ourselves.
 */
double procstat_cpu_s(int pid);
/* Resident memory in bytes; 0 when there is no such process. */
uint64_t procstat_rss_bytes(int pid);

#endif
