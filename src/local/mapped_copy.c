/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/mapped_copy.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/user_copy.h"
#include "base/user_fault.h"

/*
 * The restartable sequences. As in guarded_copy.c, the descriptor at 3: specifies the range [1:,
 * 2:) and the abort address 5:, which follows the signature. A sequence compares the guards, copies
 * the body, and executes its last instruction (the commit), with which the range ends: a thread
 * that is interrupted after the commit is not continued at 5:. The commit therefore takes effect
 * once.
 *
 * The body is not copied by a string instruction: its stores become visible in any order, and on
 * processors with fast short string moves they were seen to divide aligned words and to store bytes
 * twice. x86 processors make other stores visible in program order, so the commit is the last one.
 *
 * Each sequence has a fix-up (base/user_fault.h). The kernel sets the saved instruction pointer of
 * a signal that interrupts the range to the abort address (Linux, kernel/rseq.c,
 * rseq_signal_deliver()). The handler finds the sequence by this address, or by an address in the
 * range if the kernel left it unchanged, and continues the thread at 13:.
 */

/* What a sequence reads and changes. */
struct operands {
	const struct guard *guards;
	void *to;
	const void *from;
	size_t body_bytes; /* copied before the commit */
	/* the commit stores, adds or compares it; afterwards: the original value of an atomic */
	uint64_t value;
	uint64_t swap;
	const void *mapped; /* the part of the operands that is in the peer's memory */
	size_t mapped_bytes;
};

/* The variables of a sequence, which the compiler keeps in registers. */
#define LOAD_OPERANDS(operands)                                      \
	const struct guard *guards = (operands)->guards;             \
	void *to = (operands)->to;                                   \
	const void *from = (operands)->from;                         \
	size_t left = (operands)->body_bytes;                        \
	uint64_t value = (operands)->value, swap = (operands)->swap; \
	unsigned int outcome = GUARDED_CALLED

/* 13: sets GUARDED_FAULTED. */
#define SEQUENCE_FIXUP USER_FAULT_FIXUP("1b", "2b", "5b", "13b")

#if defined(__x86_64__) && defined(__LP64__)

#define HAS_SEQUENCES true

/*
 * Copies the body in aligned words of the destination (base/user_copy.h): words of 1, 2 and 4 bytes
 * up to a multiple of 8, blocks of 64 bytes at multiples of 16, words of 8 bytes, and words of 4, 2
 * and 1 bytes.
 */
#define COPY_BODY                      \
	"	testb $1, %%dil\n"           \
	"	jz 21f\n"                    \
	"	subq $1, %%rcx\n"            \
	"	jb 11f\n"                    \
	"	movb (%%rsi), %%r10b\n"      \
	"	movb %%r10b, (%%rdi)\n"      \
	"	addq $1, %%rsi\n"            \
	"	addq $1, %%rdi\n"            \
	"21:	testb $2, %%dil\n"        \
	"	jz 22f\n"                    \
	"	cmpq $2, %%rcx\n"            \
	"	jb 27f\n"                    \
	"	subq $2, %%rcx\n"            \
	"	movw (%%rsi), %%r10w\n"      \
	"	movw %%r10w, (%%rdi)\n"      \
	"	addq $2, %%rsi\n"            \
	"	addq $2, %%rdi\n"            \
	"22:	testb $4, %%dil\n"        \
	"	jz 23f\n"                    \
	"	cmpq $4, %%rcx\n"            \
	"	jb 26f\n"                    \
	"	subq $4, %%rcx\n"            \
	"	movl (%%rsi), %%r10d\n"      \
	"	movl %%r10d, (%%rdi)\n"      \
	"	addq $4, %%rsi\n"            \
	"	addq $4, %%rdi\n"            \
	"23:	cmpq $72, %%rcx\n"        \
	"	jb 25f\n"                    \
	"	testb $8, %%dil\n"           \
	"	jz 24f\n"                    \
	"	subq $8, %%rcx\n"            \
	"	movq (%%rsi), %%r10\n"       \
	"	movq %%r10, (%%rdi)\n"       \
	"	addq $8, %%rsi\n"            \
	"	addq $8, %%rdi\n"            \
	"24:	movdqu (%%rsi), %%xmm0\n" \
	"	movdqu 16(%%rsi), %%xmm1\n"  \
	"	movdqu 32(%%rsi), %%xmm2\n"  \
	"	movdqu 48(%%rsi), %%xmm3\n"  \
	"	movdqa %%xmm0, (%%rdi)\n"    \
	"	movdqa %%xmm1, 16(%%rdi)\n"  \
	"	movdqa %%xmm2, 32(%%rdi)\n"  \
	"	movdqa %%xmm3, 48(%%rdi)\n"  \
	"	addq $64, %%rsi\n"           \
	"	addq $64, %%rdi\n"           \
	"	subq $64, %%rcx\n"           \
	"	cmpq $64, %%rcx\n"           \
	"	jae 24b\n"                   \
	"25:	cmpq $8, %%rcx\n"         \
	"	jb 26f\n"                    \
	"	subq $8, %%rcx\n"            \
	"	movq (%%rsi), %%r10\n"       \
	"	movq %%r10, (%%rdi)\n"       \
	"	addq $8, %%rsi\n"            \
	"	addq $8, %%rdi\n"            \
	"	jmp 25b\n"                   \
	"26:	testb $4, %%cl\n"         \
	"	jz 28f\n"                    \
	"	movl (%%rsi), %%r10d\n"      \
	"	movl %%r10d, (%%rdi)\n"      \
	"	addq $4, %%rsi\n"            \
	"	addq $4, %%rdi\n"            \
	"28:	testb $2, %%cl\n"         \
	"	jz 27f\n"                    \
	"	movw (%%rsi), %%r10w\n"      \
	"	movw %%r10w, (%%rdi)\n"      \
	"	addq $2, %%rsi\n"            \
	"	addq $2, %%rdi\n"            \
	"27:	testb $1, %%cl\n"         \
	"	jz 11f\n"                    \
	"	movb (%%rsi), %%r10b\n"      \
	"	movb %%r10b, (%%rdi)\n"      \
	"	addq $1, %%rdi\n"

#define SEQUENCE(name, commit)                                                                     \
	static enum guarded_outcome name(struct rseq_area *area, struct operands *operands)        \
	{                                                                                          \
		LOAD_OPERANDS(operands);                                                           \
                                                                                                   \
		__asm__ volatile("	.pushsection .data.rel.ro.rseq_cs, \"aw\", @progbits\n"         \
				 "	.balign 32\n"                                                   \
				 "3:	.long 0, 0\n"                                                 \
				 "	.quad 1f, 2f - 1f, 5f\n"                                        \
				 "	.popsection\n"                                                  \
				 "	leaq 3b(%%rip), %%r10\n"                                        \
				 "	movq %%r10, %[cs]\n"                                            \
				 "1:	movq 0(%[guards]), %%r10\n"                                   \
				 "	movq (%%r10), %%r10\n"                                          \
				 "	cmpq %%r10, 8(%[guards])\n"                                     \
				 "	jne 4f\n"                                                       \
				 "	movq 16(%[guards]), %%r10\n"                                    \
				 "	movq (%%r10), %%r10\n"                                          \
				 "	cmpq %%r10, 24(%[guards])\n"                                    \
				 "	jne 4f\n"                                                       \
				 "	movq 32(%[guards]), %%r10\n"                                    \
				 "	movq (%%r10), %%r10\n"                                          \
				 "	cmpq %%r10, 40(%[guards])\n"                                    \
				 "	jne 4f\n"                                                       \
				 "	movq 48(%[guards]), %%r10\n"                                    \
				 "	movq (%%r10), %%r10\n"                                          \
				 "	cmpq %%r10, 56(%[guards])\n"                                    \
				 "	jne 4f\n" COPY_BODY "11:	" commit "\n"              \
				 "2:	jmp 6f\n"                                                     \
				 "4:	movl $1, %[outcome]\n"                                        \
				 "	jmp 6f\n"                                                       \
				 "	.byte 0x0f, 0xb9, 0x3d\n" /* ud1: the signature */         \
				 "	.long 0x53053053\n"                                             \
				 "5:	movl $2, %[outcome]\n"                                        \
				 "	jmp 6f\n"                                                       \
				 "13:	movl $3, %[outcome]\n"                                       \
				 "6:\n" SEQUENCE_FIXUP                                             \
				 : "+D"(to), "+S"(from), "+c"(left),                               \
				   "+a"(value), [outcome] "+&r"(outcome), [cs] "=m"(area->rseq_cs) \
				 : [guards] "r"(guards), [swap] "r"(swap), "d"(operands)           \
				 : "r10", "xmm0", "xmm1", "xmm2", "xmm3", "cc", "memory");         \
		operands->value = value;                                                           \
		return (enum guarded_outcome)outcome;                                              \
	}

SEQUENCE(store_64, "movq %%rax, (%%rdi)")
SEQUENCE(store_32, "movl %%eax, (%%rdi)")
SEQUENCE(store_16, "movw %%ax, (%%rdi)")
SEQUENCE(store_8, "movb %%al, (%%rdi)")
SEQUENCE(copy_only, "nop")
SEQUENCE(fetch_add, "lock xaddq %%rax, (%%rdi)")
SEQUENCE(compare_swap, "lock cmpxchgq %[swap], (%%rdi)")

#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)

#define HAS_SEQUENCES true

/*
 * As for x86_64. Each half of a pair of registers is a single-copy atomic access if its address is
 * a multiple of 8.
 */
#define COPY_BODY                          \
	"	tbz %[to], #0, 21f\n"            \
	"	cbz %[left], 11f\n"              \
	"	ldrb w9, [%[from]], #1\n"        \
	"	strb w9, [%[to]], #1\n"          \
	"	sub %[left], %[left], #1\n"      \
	"21:	tbz %[to], #1, 22f\n"         \
	"	cmp %[left], #2\n"               \
	"	b.lo 28f\n"                      \
	"	ldrh w9, [%[from]], #2\n"        \
	"	strh w9, [%[to]], #2\n"          \
	"	sub %[left], %[left], #2\n"      \
	"22:	tbz %[to], #2, 23f\n"         \
	"	cmp %[left], #4\n"               \
	"	b.lo 26f\n"                      \
	"	ldr w9, [%[from]], #4\n"         \
	"	str w9, [%[to]], #4\n"           \
	"	sub %[left], %[left], #4\n"      \
	"23:	subs %[left], %[left], #16\n" \
	"	b.lo 24f\n"                      \
	"	ldp x9, x10, [%[from]], #16\n"   \
	"	stp x9, x10, [%[to]], #16\n"     \
	"	b 23b\n"                         \
	"24:	add %[left], %[left], #16\n"  \
	"	tbz %[left], #3, 26f\n"          \
	"	ldr x9, [%[from]], #8\n"         \
	"	str x9, [%[to]], #8\n"           \
	"26:	tbz %[left], #2, 27f\n"       \
	"	ldr w9, [%[from]], #4\n"         \
	"	str w9, [%[to]], #4\n"           \
	"27:	tbz %[left], #1, 28f\n"       \
	"	ldrh w9, [%[from]], #2\n"        \
	"	strh w9, [%[to]], #2\n"          \
	"28:	tbz %[left], #0, 11f\n"       \
	"	ldrb w9, [%[from]], #1\n"        \
	"	strb w9, [%[to]], #1\n"

/*
 * The result of an exclusive store is tested after the end of the range: if the store failed, the
 * sequence begins again at 12: and installs its descriptor again. DMB ISHLD orders the loads of the
 * guards before the body, of which a processor may otherwise perform the loads first. DMB ISH
 * orders the body before the commit.
 */
#define SEQUENCE(name, commit)                                                                 \
	static enum guarded_outcome name(struct rseq_area *area, struct operands *operands)    \
	{                                                                                      \
		LOAD_OPERANDS(operands);                                                       \
		uint64_t original = 0;                                                         \
		register const struct operands *in __asm__("x12") = operands;                  \
                                                                                               \
		__asm__ volatile("	.pushsection .data.rel.ro.rseq_cs, \"aw\", %%progbits\n"    \
				 "	.balign 32\n"                                               \
				 "3:	.word 0, 0\n"                                             \
				 "	.xword 1f, 2f - 1f, 5f\n"                                   \
				 "	.popsection\n"                                              \
				 "12:	adrp x9, 3b\n"                                           \
				 "	add x9, x9, :lo12:3b\n"                                     \
				 "	str x9, %[cs]\n"                                            \
				 "1:	ldp x9, x10, [%[guards], #0]\n"                           \
				 "	ldr x9, [x9]\n"                                             \
				 "	cmp x9, x10\n"                                              \
				 "	b.ne 4f\n"                                                  \
				 "	ldp x9, x10, [%[guards], #16]\n"                            \
				 "	ldr x9, [x9]\n"                                             \
				 "	cmp x9, x10\n"                                              \
				 "	b.ne 4f\n"                                                  \
				 "	ldp x9, x10, [%[guards], #32]\n"                            \
				 "	ldr x9, [x9]\n"                                             \
				 "	cmp x9, x10\n"                                              \
				 "	b.ne 4f\n"                                                  \
				 "	ldp x9, x10, [%[guards], #48]\n"                            \
				 "	ldr x9, [x9]\n"                                             \
				 "	cmp x9, x10\n"                                              \
				 "	b.ne 4f\n"                                                  \
				 "	dmb ishld\n" COPY_BODY "11:	dmb ish\n"                 \
				 "	" commit "\n"                                          \
				 "	b 6f\n"                                                     \
				 "4:	mov %w[outcome], #1\n"                                    \
				 "	b 6f\n"                                                     \
				 "	.inst 0xd428bc00\n"                                         \
				 "5:	mov %w[outcome], #2\n"                                    \
				 "	b 6f\n"                                                     \
				 "13:	mov %w[outcome], #3\n"                                   \
				 "6:\n" SEQUENCE_FIXUP                                         \
				 : [to] "+&r"(to), [from] "+&r"(from), [left] "+&r"(left),     \
				   [original] "+&r"(original), [outcome] "+&r"(outcome),       \
				   [cs] "=m"(area->rseq_cs)                                    \
				 : [guards] "r"(guards), [value] "r"(value), [swap] "r"(swap), \
				   "r"(in)                                                     \
				 : "x9", "x10", "x11", "cc", "memory");                        \
		operands->value = original;                                                    \
		return (enum guarded_outcome)outcome;                                          \
	}

SEQUENCE(store_64, "str %[value], [%[to]]\n2:")
SEQUENCE(store_32, "str %w[value], [%[to]]\n2:")
SEQUENCE(store_16, "strh %w[value], [%[to]]\n2:")
SEQUENCE(store_8, "strb %w[value], [%[to]]\n2:")
SEQUENCE(copy_only, "nop\n2:")
SEQUENCE(fetch_add, "ldaxr %[original], [%[to]]\n"
		    "	add x10, %[original], %[value]\n"
		    "	stlxr w11, x10, [%[to]]\n"
		    "2:	cbnz w11, 12b\n"
		    "	dmb ish")
SEQUENCE(compare_swap, "ldaxr %[original], [%[to]]\n"
		       "	cmp %[original], %[value]\n"
		       "	b.ne 6f\n"
		       "	stlxr w11, %[swap], [%[to]]\n"
		       "2:	cbnz w11, 12b\n"
		       "	dmb ish")

#else

#define HAS_SEQUENCES false

static enum guarded_outcome no_sequence(struct rseq_area *area, struct operands *operands)
{
	(void)area;
	(void)operands;
	return GUARDED_CHANGED;
}

#define store_64     no_sequence
#define store_32     no_sequence
#define store_16     no_sequence
#define store_8	     no_sequence
#define copy_only    no_sequence
#define fetch_add    no_sequence
#define compare_swap no_sequence

#endif

static enum guarded_outcome run_sequence(enum guarded_outcome (*sequence)(struct rseq_area *,
									  struct operands *),
					 struct operands *operands)
{
	struct rseq_area *area = HAS_SEQUENCES ? rseq_area_of_thread() : NULL;
	enum guarded_outcome outcome;

	if (!area)
		return GUARDED_CHANGED;
	outcome = sequence(area, operands);
	rseq_area_leave(area);
	if (__builtin_expect(outcome == GUARDED_FAULTED, 0) &&
	    user_fault_thread.last_address - (uintptr_t)operands->mapped >= operands->mapped_bytes)
		return GUARDED_FAULTED_OURS;
	return outcome;
}

enum guarded_outcome mapped_write(const struct guard guards[GUARDS], void *to, const void *from,
				  size_t bytes)
{
	size_t last_bytes = user_last_word_bytes((uintptr_t)to + bytes, bytes);
	struct operands operands = {
		.guards = guards,
		.to = to,
		.from = from,
		.body_bytes = bytes - last_bytes,
		.mapped = to,
		.mapped_bytes = bytes,
	};
	union {
		uint64_t word64;
		uint32_t word32;
		uint16_t word16;
		uint8_t word8;
	} last;

	if (!user_copy_from(&last, (const uint8_t *)from + operands.body_bytes, last_bytes))
		return GUARDED_FAULTED_OURS;
	switch (last_bytes) {
	case sizeof(last.word64):
		operands.value = last.word64;
		return run_sequence(store_64, &operands);
	case sizeof(last.word32):
		operands.value = last.word32;
		return run_sequence(store_32, &operands);
	case sizeof(last.word16):
		operands.value = last.word16;
		return run_sequence(store_16, &operands);
	default:
		operands.value = last.word8;
		return run_sequence(store_8, &operands);
	}
}

enum guarded_outcome mapped_read(const struct guard guards[GUARDS], void *to, const void *from,
				 size_t bytes)
{
	struct operands operands = {
		.guards = guards,
		.to = to,
		.from = from,
		.body_bytes = bytes,
		.mapped = from,
		.mapped_bytes = bytes,
	};

	return run_sequence(copy_only, &operands);
}

enum guarded_outcome mapped_fetch_add(const struct guard guards[GUARDS], uint64_t *word,
				      uint64_t add, uint64_t *original)
{
	struct operands operands = {.guards = guards,
				    .to = word,
				    .value = add,
				    .mapped = word,
				    .mapped_bytes = sizeof(*word)};
	enum guarded_outcome outcome = run_sequence(fetch_add, &operands);

	*original = operands.value;
	return outcome;
}

enum guarded_outcome mapped_compare_swap(const struct guard guards[GUARDS], uint64_t *word,
					 uint64_t compare, uint64_t swap, uint64_t *original)
{
	struct operands operands = {.guards = guards,
				    .to = word,
				    .value = compare,
				    .swap = swap,
				    .mapped = word,
				    .mapped_bytes = sizeof(*word)};
	enum guarded_outcome outcome = run_sequence(compare_swap, &operands);

	*original = operands.value;
	return outcome;
}
