/* SPDX-License-Identifier: Apache-2.0 */
#include "rt/rt_priv.h"

#if !defined(RT_UCONTEXT) && defined(__x86_64__)

void ctx_init(struct ctx *c, void *stack_lo, void *stack_top, void (*entry)(void))
{
    void **sp = (void **)((uintptr_t)stack_top & ~(uintptr_t)15);

    *--sp = NULL; /* where entry would return to: ends backtraces */
    *--sp = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    c->sp = sp;
}

#elif !defined(RT_UCONTEXT) && defined(__aarch64__)

void ctx_init(struct ctx *c, void *stack_lo, void *stack_top, void (*entry)(void))
{
    void **sp = (void **)(((uintptr_t)stack_top & ~(uintptr_t)15) - 160);

    memset(sp, 0, 160);
    sp[11] = (void *)(uintptr_t)entry; /* x30 */
    c->sp = sp;
}

#else

void ctx_init(struct ctx *c, void *stack_lo, void *stack_top, void (*entry)(void))
{
    int err = getcontext(&c->uc);

    assert(err == 0);
    c->uc.uc_stack.ss_sp = stack_lo;
    c->uc.uc_stack.ss_size = (size_t)((char *)stack_top - (char *)stack_lo);
    c->uc.uc_link = NULL;
    makecontext(&c->uc, entry, 0);
    c->sp = (char *)stack_top - 4096;
}

void ctx_switch(struct ctx *from, struct ctx *to)
{
    int err;

    /* swapcontext keeps its state in the struct; a page covers its frames. */
    from->sp = (char *)__builtin_frame_address(0) - 4096;
    err = swapcontext(&from->uc, &to->uc);
    assert(err == 0);
}

#endif
