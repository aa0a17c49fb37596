# Functions for x86-64 without call frame information.
	.text
	.globl	pushes
	.type	pushes, @function
# Two ways out, and a loop behind the first.
pushes:	push	%rbx
	push	%rbp
	mov	%edi, %ebx
	mov	$3, %ebp
	sub	$24, %rsp
1:	mov	%ebx, %edi
	call	one
	dec	%ebp
	jnz	1b
	test	$1, %bl
	jz	2f
	add	$24, %rsp
	pop	%rbp
	pop	%rbx
	ret
2:	mov	%ebx, %edi
	call	two
	add	$24, %rsp
	pop	%rbp
	pop	%rbx
	ret
	.size	pushes, .-pushes

	.globl	aligns
	.type	aligns, @function
aligns:	push	%rbp
	mov	%rsp, %rbp
	and	$-64, %rsp
	sub	$128, %rsp
	call	one
	mov	%rbp, %rsp
	pop	%rbp
	ret
	.size	aligns, .-aligns

# The caller's stack pointer lies in a word of the frame.
	.globl	keeps
	.type	keeps, @function
keeps:	mov	%rsp, %rax
	sub	$200, %rsp
	and	$-64, %rsp
	mov	%rax, 64(%rsp)
	call	one
	mov	64(%rsp), %rsp
	ret
	.size	keeps, .-keeps

# Only a table leads to the blocks, whose frames differ.
	.globl	chooses
	.type	chooses, @function
chooses:
	sub	$24, %rsp
	lea	table(%rip), %rax
	mov	%edi, %ecx
	and	$3, %ecx
	movslq	(%rax,%rcx,4), %rcx
	add	%rax, %rcx
	jmp	*%rcx
	.p2align 4
.Lzero:	call	one
	add	$24, %rsp
	ret
	.p2align 4
.Lone:	push	%rdi
	push	%rdi
	call	two
	add	$40, %rsp
	ret
	.p2align 4
.Ltwo:	sub	$64, %rsp
	call	one
	add	$88, %rsp
	ret
	.p2align 4
.Lthree:	call	two
	lea	24(%rsp), %rsp
	ret
	.size	chooses, .-chooses

	.section .rodata
table:	.long	.Lzero-table, .Lone-table, .Ltwo-table, .Lthree-table
	.section .note.GNU-stack, "", @progbits
