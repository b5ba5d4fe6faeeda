/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/settings.h"
#include "s3/ops.h"

#include <stdio.h>

static void usage(FILE *out)
{
    fputs("usage: strata admin WHAT [--markdown]\n\n"
          "  settings  every setting with its default\n"
          "  ops       every S3 operation and whether it is offered\n",
          out);
}

int admin_command(int argc, char **argv)
{
    bool markdown = argc == 2 && !strcmp(argv[1], "--markdown");

    if (argc == 1 && !strcmp(argv[0], "--help")) {
        usage(stdout);
        return 0;
    }
    if (argc < 1 || (argc > 1 && !markdown)) {
        usage(stderr);
        return 2;
    }
    if (!strcmp(argv[0], "settings")) {
        settings_print(stdout, markdown);
        return 0;
    }
    if (!strcmp(argv[0], "ops")) {
        s3_ops_print(stdout, markdown);
        return 0;
    }
    usage(stderr);
    return 2;
}
