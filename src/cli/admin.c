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

static void print_ops(FILE *out, bool markdown)
{
    if (markdown)
        fputs("| Operation | Method | Selected by | Action | Offered |\n|---|---|---|---|---|\n",
              out);
    for (size_t i = 0; i < s3_ops_n; i++) {
        const struct s3_op *op = &s3_ops[i];
        const char *by = op->sub ? op->sub : op->header ? op->header : "";
        const char *format =
            markdown ? "| %s | %s %s | `%s` | %s | %s |\n" : "%-44s %-7s %-8s %-28s %-44s %s\n";

        fprintf(out, format, op->name, s3_method_name(op->method), s3_scope_name(op->scope), by,
                op->action ? op->action : "", op->handler ? "yes" : "no");
    }
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
        print_ops(stdout, markdown);
        return 0;
    }
    usage(stderr);
    return 2;
}
