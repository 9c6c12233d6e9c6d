/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/guarded_copy.h"

#include <stddef.h>
#include <sys/syscall.h>

/*
 * The restartable sequence. Its descriptor (struct rseq_cs of linux/rseq.h) specifies the range
 * [1:, 2:). The range begins after the store that installs the descriptor and ends after the system
 * call instruction. The kernel checks the user instruction pointer when the thread was preempted or
 * migrated, or when it delivers a signal. Inside the range it continues the thread at 5:. During
 * the system call the instruction pointer is 2:, outside the range. The word before 5: is the
 * signature with which glibc registers the area (RSEQ_SIG of sys/rseq.h).
 *
 * sequence() accesses no memory while its register variables are in use: ThreadSanitizer puts a
 * function call before each access, and the call would overwrite these registers. The operands are
 * therefore loaded into ordinary variables first, and the result is copied out of its register
 * before it is stored.
 */

#if defined(__x86_64__) && defined(__LP64__)

static enum guarded_outcome sequence(struct rseq_area *area, long number,
				     const struct guarded_call *call, ssize_t *moved)
{
	pid_t tid = call->tid;
	const struct iovec *local = call->local, *remote = call->remote;
	unsigned long local_count = call->local_count, remote_count = call->remote_count;
	register long rax __asm__("rax") = number;
	register long rdi __asm__("rdi") = tid;
	register const struct iovec *rsi __asm__("rsi") = local;
	register unsigned long rdx __asm__("rdx") = local_count;
	register const struct iovec *r10 __asm__("r10") = remote;
	register unsigned long r8 __asm__("r8") = remote_count;
	register unsigned long r9 __asm__("r9") = 0;
	unsigned int outcome = GUARDED_CALLED;
	ssize_t result;

	__asm__ volatile(
		"	.pushsection .data.rel.ro.rseq_cs, \"aw\", @progbits\n"
		"	.balign 32\n"
		"3:	.long 0, 0\n"
		"	.quad 1f, 2f - 1f, 5f\n"
		"	.popsection\n"
		"	leaq 3b(%%rip), %%rcx\n"
		"	movq %%rcx, %[cs]\n"
		"1:	movq 0(%[guards]), %%rcx\n"
		"	movq (%%rcx), %%rcx\n"
		"	cmpq %%rcx, 8(%[guards])\n"
		"	jne 4f\n"
		"	movq 16(%[guards]), %%rcx\n"
		"	movq (%%rcx), %%rcx\n"
		"	cmpq %%rcx, 24(%[guards])\n"
		"	jne 4f\n"
		"	movq 32(%[guards]), %%rcx\n"
		"	movq (%%rcx), %%rcx\n"
		"	cmpq %%rcx, 40(%[guards])\n"
		"	jne 4f\n"
		"	movq 48(%[guards]), %%rcx\n"
		"	movq (%%rcx), %%rcx\n"
		"	cmpq %%rcx, 56(%[guards])\n"
		"	jne 4f\n"
		"	syscall\n"
		"2:	jmp 6f\n"
		"4:	movl $1, %[outcome]\n"
		"	jmp 6f\n"
		"	.byte 0x0f, 0xb9, 0x3d\n" /* ud1 with the signature as its displacement */
		"	.long 0x53053053\n"
		"5:	movl $2, %[outcome]\n"
		"6:\n"
		: "+r"(rax), [outcome] "+&r"(outcome), [cs] "=m"(area->rseq_cs)
		: [guards] "r"(call->guards), "r"(rdi), "r"(rsi), "r"(rdx), "r"(r10), "r"(r8),
		  "r"(r9)
		: "rcx", "r11", "cc", "memory");
	result = rax;
	*moved = result;
	return (enum guarded_outcome)outcome;
}

#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)

/*
 * The caller's fence orders the announcement before these loads; the system call depends on their
 * values.
 */
static enum guarded_outcome sequence(struct rseq_area *area, long number,
				     const struct guarded_call *call, ssize_t *moved)
{
	pid_t tid = call->tid;
	const struct iovec *local = call->local, *remote = call->remote;
	unsigned long local_count = call->local_count, remote_count = call->remote_count;
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = tid;
	register const struct iovec *x1 __asm__("x1") = local;
	register unsigned long x2 __asm__("x2") = local_count;
	register const struct iovec *x3 __asm__("x3") = remote;
	register unsigned long x4 __asm__("x4") = remote_count;
	register unsigned long x5 __asm__("x5") = 0;
	unsigned int outcome = GUARDED_CALLED;
	ssize_t result;

	__asm__ volatile("	.pushsection .data.rel.ro.rseq_cs, \"aw\", %%progbits\n"
			 "	.balign 32\n"
			 "3:	.word 0, 0\n"
			 "	.xword 1f, 2f - 1f, 5f\n"
			 "	.popsection\n"
			 "	adrp x9, 3b\n"
			 "	add x9, x9, :lo12:3b\n"
			 "	str x9, %[cs]\n"
			 "1:	ldp x9, x10, [%[guards], #0]\n"
			 "	ldr x9, [x9]\n"
			 "	cmp x9, x10\n"
			 "	b.ne 4f\n"
			 "	ldp x9, x10, [%[guards], #16]\n"
			 "	ldr x9, [x9]\n"
			 "	cmp x9, x10\n"
			 "	b.ne 4f\n"
			 "	ldp x9, x10, [%[guards], #32]\n"
			 "	ldr x9, [x9]\n"
			 "	cmp x9, x10\n"
			 "	b.ne 4f\n"
			 "	ldp x9, x10, [%[guards], #48]\n"
			 "	ldr x9, [x9]\n"
			 "	cmp x9, x10\n"
			 "	b.ne 4f\n"
			 "	svc #0\n"
			 "2:	b 6f\n"
			 "4:	mov %w[outcome], #1\n"
			 "	b 6f\n"
			 "	.inst 0xd428bc00\n"
			 "5:	mov %w[outcome], #2\n"
			 "6:\n"
			 : "+r"(x0), [outcome] "+&r"(outcome), [cs] "=m"(area->rseq_cs)
			 : [guards] "r"(call->guards), "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4),
			   "r"(x5)
			 : "x9", "x10", "cc", "memory");
	result = x0;
	*moved = result;
	return (enum guarded_outcome)outcome;
}

#else

static enum guarded_outcome sequence(struct rseq_area *area, long number,
				     const struct guarded_call *call, ssize_t *moved)
{
	(void)area;
	(void)number;
	(void)call;
	(void)moved;
	return GUARDED_CHANGED;
}

#endif

bool guarded_copy_is_available(void)
{
	return rseq_area_of_thread() != NULL;
}

enum guarded_outcome guarded_copy(const struct guarded_call *call, ssize_t *moved)
{
	struct rseq_area *area = rseq_area_of_thread();
	enum guarded_outcome outcome;

	if (!area)
		return GUARDED_CHANGED;
	/* Orders the announcement before the loads of the sequence, as peer_access_announce(). */
	atomic_thread_fence(memory_order_seq_cst);
	outcome = sequence(area, call->is_read ? SYS_process_vm_readv : SYS_process_vm_writev, call,
			   moved);
	rseq_area_leave(area);
	return outcome;
}
