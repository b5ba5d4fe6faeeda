/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/procstat.h"

#include <stdio.h>
#include <unistd.h>

/* The text of /proc/<pid>/<name>; false when it cannot be read. */
static bool read_proc(int pid, const char *name, char *out, size_t size)
{
    char path[64];
    size_t n;
    FILE *f;

    if (pid)
        snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    else
        snprintf(path, sizeof path, "/proc/self/%s", name);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(out, 1, size - 1, f);
    out[n] = 0;
    fclose(f);
    return n > 0;
}

double procstat_cpu_s(int pid)
{
    unsigned long user, system;
    char text[1024];
    const char *p;

    if (!read_proc(pid, "stat", text, sizeof text))
        return 0;
    p = strrchr(text, ')'); /* the name may hold anything, also parentheses */
    if (!p ||
        sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

uint64_t procstat_rss_bytes(int pid)
{
    unsigned long pages;
    char text[256];

    if (!read_proc(pid, "statm", text, sizeof text) || sscanf(text, "%*u %lu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
