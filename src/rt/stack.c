/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of fibers. One mapping each, from low to high: guard, stack, struct fiber. The struct's
 * place varies by a few cache lines from one to the next, else all hot stacks would share the same
 * sets of the cache.
 */
#include "rt/rt_priv.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(lo, hi) 0
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif
#ifdef RT_TSAN
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
#endif

#define GUARD_SIZE 16384
#define COLOURS 31
#define COLOUR_SIZE 128
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13: a guard that splits no mapping */
#endif

static size_t page_size(void)
{
    static size_t size; /* the same from every thread */
    size_t s = __atomic_load_n(&size, __ATOMIC_RELAXED);

    if (s == 0) {
        s = (size_t)sysconf(_SC_PAGESIZE);
        __atomic_store_n(&size, s, __ATOMIC_RELAXED);
    }
    return s;
}

static enum rc map_stack(size_t size, size_t guard, char **ret)
{
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED)
        return RC_NO_MEM;
    /* Huge pages would make every small stack cost 2 MiB where mappings merge. */
    (void)madvise(map, size, MADV_NOHUGEPAGE);
    if (madvise(map, guard, MADV_GUARD_INSTALL) != 0 && mprotect(map, guard, PROT_NONE) != 0) {
        munmap(map, size);
        return RC_NO_MEM;
    }
    *ret = map;
    return RC_OK;
}

enum rc stack_new(size_t stack_size, struct fiber **ret)
{
    static unsigned sequence;
    size_t page = page_size();
    size_t guard = (GUARD_SIZE + page - 1) & ~(page - 1);
    size_t size = (stack_size + guard + page - 1) & ~(page - 1);
    size_t colour = __atomic_fetch_add(&sequence, 1, __ATOMIC_RELAXED) % COLOURS * COLOUR_SIZE;
    struct fiber *f;
    char *map;
    enum rc rc = map_stack(size, guard, &map);

    if (rc != RC_OK)
        return rc;
    f = (struct fiber *)(((uintptr_t)map + size - colour - sizeof *f) & ~(uintptr_t)63);
    f->map = map;
    f->map_size = size;
    f->guard_size = guard;
    f->valgrind_id = VALGRIND_STACK_REGISTER(map + guard, (char *)f);
#ifdef RT_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    *ret = f;
    return RC_OK;
}

void stack_free(struct fiber *f)
{
    char *map = f->map;
    size_t size = f->map_size;

#ifdef RT_TSAN
    __tsan_destroy_fiber(f->tsan);
#endif
    VALGRIND_STACK_DEREGISTER(f->valgrind_id);
    munmap(map, size);
}

/* A stack grows down without holes, but for arrays that are never written: count from the lowest.
 */
size_t stack_resident(const struct fiber *f)
{
    unsigned char seen[256];
    size_t page = page_size();
    const char *p = f->map + f->guard_size, *end = f->map + f->map_size;

    while (p < end) {
        size_t n = MIN((size_t)(end - p) / page, sizeof seen);

        if (n == 0 || mincore((void *)(uintptr_t)p, n * page, seen) != 0)
            return 0;
        for (size_t i = 0; i < n; i++)
            if (seen[i] & 1)
                return (size_t)(end - p) - i * page;
        p += n * page;
    }
    return 0;
}

void stack_trim(struct fiber *f)
{
    char *lo = f->map + f->guard_size;
    uintptr_t hi = (uintptr_t)f->ctx.sp & ~(uintptr_t)(page_size() - 1);

    if (hi > (uintptr_t)lo)
        (void)madvise(lo, hi - (uintptr_t)lo, MADV_DONTNEED);
}

/* ---- overflow -------------------------------------------------------------------------------- */

#define SIGNAL_STACK_SIZE 65536

static struct sigaction old_segv;

/* The fault repeats when the handler returns and then meets the action that was set before. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    static const char text[] = "strata: fatal: stack overflow of a fiber\n";
    const struct fiber *f = loop_self ? loop_self->running : NULL;
    const char *at = info->si_addr;

    if (f && at >= f->map && at < f->map + f->guard_size) {
        ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);

        (void)n;
        signal(sig, SIG_DFL);
        return;
    }
    sigaction(sig, &old_segv, NULL);
}

void stack_guard_install(void)
{
    struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    sigemptyset(&sa.sa_mask);
    sigaction(SIGSEGV, &sa, &old_segv);
}

void stack_guard_restore(void)
{
    sigaction(SIGSEGV, &old_segv, NULL);
}

void *stack_signal_enter(void)
{
    stack_t old, ss = { .ss_size = SIGNAL_STACK_SIZE };

    if (sigaltstack(NULL, &old) != 0 || !(old.ss_flags & SS_DISABLE))
        return NULL; /* a sanitizer has set its own */
    ss.ss_sp = malloc(SIGNAL_STACK_SIZE);
    if (ss.ss_sp && sigaltstack(&ss, NULL) != 0) {
        free(ss.ss_sp);
        return NULL;
    }
    return ss.ss_sp;
}

void stack_signal_leave(void *stack)
{
    stack_t off = { .ss_flags = SS_DISABLE };

    if (!stack)
        return;
    sigaltstack(&off, NULL);
    free(stack);
}
