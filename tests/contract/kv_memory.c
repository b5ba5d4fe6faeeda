/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_suite.h"

#include "kv/memory.h"
#include "kv/wrap.h"

#define STORE_MAX ((size_t)1 << 30)

static enum rc open_bare(void *arg, struct kv **ret)
{
    return kv_memory_open(STORE_MAX, ret);
}

static enum rc open_faulty(void *arg, struct kv **ret)
{
    struct kv *inner = NULL;
    enum rc rc = kv_memory_open(STORE_MAX, &inner);

    if (rc)
        return rc;
    rc = kv_faulty_open(inner, ret);
    if (rc)
        kv_close(inner);
    else
        kv_faulty_arm(*ret,
                      &(struct kv_fault){ .mode = KV_FAULT_CALL, .rc = RC_UNAVAILABLE, .nth = -1 });
    return rc;
}

static enum rc open_slow(void *arg, struct kv **ret)
{
    struct kv *inner = NULL;
    enum rc rc = kv_memory_open(STORE_MAX, &inner);

    if (rc)
        return rc;
    rc = kv_slow_open(inner, 0, 2000, ret);
    if (rc)
        kv_close(inner);
    return rc;
}

static enum rc open_trace(void *arg, struct kv **ret)
{
    struct kv *inner = NULL;
    enum rc rc = kv_memory_open(STORE_MAX, &inner);

    if (rc)
        return rc;
    rc = kv_trace_open(inner, 1 << 16, ret);
    if (rc)
        kv_close(inner);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct kv_suite suites[] = {
        { .name = "memory",
          .modes = KV_SUITE_THREADS | KV_SUITE_FIBERS,
          .effort = 100,
          .open = open_bare },
        { .name = "faulty memory", .modes = KV_SUITE_FIBERS, .effort = 20, .open = open_faulty },
        { .name = "traced memory", .modes = KV_SUITE_FIBERS, .effort = 20, .open = open_trace },
        { .name = "slow memory", .modes = KV_SUITE_FIBERS, .effort = 3, .open = open_slow },
    };
    int failed = 0;

    for (size_t i = 0; i < ARRAY_LEN(suites); i++)
        failed += kv_suite_run(&suites[i]);
    return failed;
}
