/* SPDX-License-Identifier: Apache-2.0 */
/* ctx_switch for the System V ABI of x86-64. Nobody here changes MXCSR or the x87 control word. */
#if defined(__x86_64__) && !defined(RT_UCONTEXT)
	.text
	.globl ctx_switch
	.type ctx_switch, @function
	.p2align 4
ctx_switch:
	.cfi_startproc
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq (%rsi), %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	popq %rcx
	/* Not ret: the return predictor is on the other stack anyway. */
	jmpq *%rcx
	.cfi_endproc
	.size ctx_switch, .-ctx_switch
#endif
	.section .note.GNU-stack, "", %progbits
