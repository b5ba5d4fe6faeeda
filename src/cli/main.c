/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *doc;
} commands[] = {
    { "server", server_command, "run the gateway" },
    { "admin", admin_command, "print what is known about settings and operations" },
    { "bench", bench_command, "generate load on an S3 endpoint and measure" },
    { "version", version_command, "print the version" },
};

static void usage(FILE *out)
{
    fputs("usage: strata COMMAND [options]\n\n", out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].doc);
    fputs("\nstrata COMMAND --help tells more.\n", out);
}

int version_command(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("strata " STRATA_VERSION);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 2)
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (!strcmp(argv[1], commands[i].name))
                return commands[i].run(argc - 2, argv + 2);
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))) {
        usage(stdout);
        return 0;
    }
    if (argc >= 2)
        fprintf(stderr, "strata: unknown command \"%s\"\n", argv[1]);
    usage(stderr);
    return 2;
}
