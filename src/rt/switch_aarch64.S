/* SPDX-License-Identifier: Apache-2.0 */
/* ctx_switch for AAPCS64: x19-x30, d8-d15 and sp are kept over calls. */
#if defined(__aarch64__) && !defined(RT_UCONTEXT)
	.text
	.globl ctx_switch
	.type ctx_switch, %function
	.p2align 4
ctx_switch:
	.cfi_startproc
	sub sp, sp, #160
	stp x19, x20, [sp, #0]
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	ldr x9, [x1]
	mov sp, x9
	ldp x19, x20, [sp, #0]
	ldp x21, x22, [sp, #16]
	ldp x23, x24, [sp, #32]
	ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]
	ldp x29, x30, [sp, #80]
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	add sp, sp, #160
	ret
	.cfi_endproc
	.size ctx_switch, .-ctx_switch
#endif
	.section .note.GNU-stack, "", %progbits
