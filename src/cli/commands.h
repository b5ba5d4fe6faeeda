/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands — the subcommands of the binary. Each gets the arguments behind its name and returns the
 * exit status: 0 done, 1 failed, 2 wrong usage.
 */
#ifndef STRATA_CLI_COMMANDS_H
#define STRATA_CLI_COMMANDS_H

int server_command(int argc, char **argv);
int admin_command(int argc, char **argv);
int bench_command(int argc, char **argv);
int version_command(int argc, char **argv);

#endif
