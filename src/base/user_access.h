/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_USER_ACCESS_H
#define USRDMA_BASE_USER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/user_fault.h"

/*
 * Single accesses to application memory, for user_copy.c. Each returns false if it faulted; then it
 * had no effect. With USER_ACCESS_HAS_FIXUPS, each instruction has a fix-up. Otherwise the caller
 * calls them by user_fault_run(), and they return true.
 *
 * An access of 1, 2, 4 or 8 bytes to an aligned address is one load or store. The compiler keeps
 * the order of the accesses.
 */

/* Outputs of asm goto: GCC 11, clang 11. */
#if (defined(__x86_64__) && defined(__LP64__)) || (defined(__aarch64__) && defined(__AARCH64EL__))
#if (defined(__clang__) && __clang_major__ >= 11) || (!defined(__clang__) && __GNUC__ >= 11)
#define USER_ACCESS_HAS_FIXUPS 1
#endif
#endif

/* The application owns the memory and may access it as any type. */
typedef uint16_t __attribute__((may_alias)) user_u16;
typedef uint32_t __attribute__((may_alias)) user_u32;
typedef uint64_t __attribute__((may_alias)) user_u64;

#define USER_ACCESS_INLINE static inline __attribute__((always_inline))

#ifdef USER_ACCESS_HAS_FIXUPS

/* The instructions from 1: to 2: have this fix-up. */
#define USER_ACCESS_FIXUP "2:\n" USER_FAULT_FIXUP("1b", "2b", "1b", "%l[fault]")

#define USER_ACCESS_LOAD(name, type, instruction)                            \
	USER_ACCESS_INLINE bool name(type *value, const void *from)          \
	{                                                                    \
		type loaded;                                                 \
                                                                             \
		__asm__ goto("1:	" instruction "\n" USER_ACCESS_FIXUP \
			     : [value] "=r"(loaded)                          \
			     : [at] "r"(from)                                \
			     : "memory"                                      \
			     : fault);                                       \
		*value = loaded;                                             \
		return true;                                                 \
fault:                                                                       \
		return false;                                                \
	}

#define USER_ACCESS_STORE(name, type, instruction)                           \
	USER_ACCESS_INLINE bool name(void *to, type value)                   \
	{                                                                    \
		__asm__ goto("1:	" instruction "\n" USER_ACCESS_FIXUP \
			     :                                               \
			     : [value] "r"(value), [at] "r"(to)              \
			     : "memory"                                      \
			     : fault);                                       \
		return true;                                                 \
fault:                                                                       \
		return false;                                                \
	}

#if defined(__x86_64__)

USER_ACCESS_LOAD(user_load_1, uint8_t, "movb (%[at]), %b[value]")
USER_ACCESS_LOAD(user_load_2, uint16_t, "movw (%[at]), %w[value]")
USER_ACCESS_LOAD(user_load_4, uint32_t, "movl (%[at]), %k[value]")
USER_ACCESS_LOAD(user_load_8, uint64_t, "movq (%[at]), %q[value]")
USER_ACCESS_STORE(user_store_1, uint8_t, "movb %b[value], (%[at])")
USER_ACCESS_STORE(user_store_2, uint16_t, "movw %w[value], (%[at])")
USER_ACCESS_STORE(user_store_4, uint32_t, "movl %k[value], (%[at])")
USER_ACCESS_STORE(user_store_8, uint64_t, "movq %q[value], (%[at])")

/*
 * Copies 64 bytes. An access of 16 bytes to an aligned address consists of one or two whole words
 * of at least 8 bytes on all processors.
 */
#define USER_ACCESS_BLOCK(name, load, store)                                     \
	USER_ACCESS_INLINE bool name(void *to, const void *from)                 \
	{                                                                        \
		__asm__ goto("1:	" load " (%[from]), %%xmm0\n"            \
			     "	" load " 16(%[from]), %%xmm1\n"                  \
			     "	" load " 32(%[from]), %%xmm2\n"                  \
			     "	" load " 48(%[from]), %%xmm3\n"                  \
			     "	" store " %%xmm0, (%[to])\n"                     \
			     "	" store " %%xmm1, 16(%[to])\n"                   \
			     "	" store " %%xmm2, 32(%[to])\n"                   \
			     "	" store " %%xmm3, 48(%[to])\n" USER_ACCESS_FIXUP \
			     :                                                   \
			     : [to] "r"(to), [from] "r"(from)                    \
			     : "xmm0", "xmm1", "xmm2", "xmm3", "memory"          \
			     : fault);                                           \
		return true;                                                     \
fault:                                                                           \
		return false;                                                    \
	}

USER_ACCESS_BLOCK(user_store_block, "movups", "movaps")
USER_ACCESS_BLOCK(user_load_block, "movaps", "movups")

USER_ACCESS_INLINE bool user_store_release_8(void *to, uint64_t value)
{
	return user_store_8(to, value);
}

USER_ACCESS_INLINE bool user_store_release_4(void *to, uint32_t value)
{
	return user_store_4(to, value);
}

USER_ACCESS_INLINE bool user_store_release_2(void *to, uint16_t value)
{
	return user_store_2(to, value);
}

USER_ACCESS_INLINE bool user_store_release_1(void *to, uint8_t value)
{
	return user_store_1(to, value);
}

USER_ACCESS_INLINE bool user_atomic_exchange(uint64_t *word, uint64_t value, uint64_t *original)
{
	__asm__ goto("1:	xchgq %[value], (%[at])\n" USER_ACCESS_FIXUP
		     : [value] "+r"(value)
		     : [at] "r"(word)
		     : "memory"
		     : fault);
	*original = value;
	return true;
fault:
	return false;
}

USER_ACCESS_INLINE bool user_atomic_add(uint64_t *word, uint64_t value, uint64_t *original)
{
	__asm__ goto("1:	lock xaddq %[value], (%[at])\n" USER_ACCESS_FIXUP
		     : [value] "+r"(value)
		     : [at] "r"(word)
		     : "memory", "cc"
		     : fault);
	*original = value;
	return true;
fault:
	return false;
}

USER_ACCESS_INLINE bool user_atomic_swap_if(uint64_t *word, uint64_t compare, uint64_t swap,
					    uint64_t *original)
{
	__asm__ goto("1:	lock cmpxchgq %[swap], (%[at])\n" USER_ACCESS_FIXUP
		     : "+a"(compare)
		     : [at] "r"(word), [swap] "r"(swap)
		     : "memory", "cc"
		     : fault);
	*original = compare;
	return true;
fault:
	return false;
}

#else /* __aarch64__ */

USER_ACCESS_LOAD(user_load_1, uint8_t, "ldrb %w[value], [%[at]]")
USER_ACCESS_LOAD(user_load_2, uint16_t, "ldrh %w[value], [%[at]]")
USER_ACCESS_LOAD(user_load_4, uint32_t, "ldr %w[value], [%[at]]")
USER_ACCESS_LOAD(user_load_8, uint64_t, "ldr %x[value], [%[at]]")
USER_ACCESS_STORE(user_store_1, uint8_t, "strb %w[value], [%[at]]")
USER_ACCESS_STORE(user_store_2, uint16_t, "strh %w[value], [%[at]]")
USER_ACCESS_STORE(user_store_4, uint32_t, "str %w[value], [%[at]]")
USER_ACCESS_STORE(user_store_8, uint64_t, "str %x[value], [%[at]]")
USER_ACCESS_STORE(user_store_release_1, uint8_t, "stlrb %w[value], [%[at]]")
USER_ACCESS_STORE(user_store_release_2, uint16_t, "stlrh %w[value], [%[at]]")
USER_ACCESS_STORE(user_store_release_4, uint32_t, "stlr %w[value], [%[at]]")
USER_ACCESS_STORE(user_store_release_8, uint64_t, "stlr %x[value], [%[at]]")

/*
 * As for x86_64. ldp and stp access two words of 8 bytes, each of which is whole if it is aligned.
 */
#define USER_ACCESS_BLOCK(name)                                                                \
	USER_ACCESS_INLINE bool name(void *to, const void *from)                               \
	{                                                                                      \
		__asm__ goto("1:	ldp x9, x10, [%[from]]\n"                                     \
			     "	ldp x11, x12, [%[from], #16]\n"                                 \
			     "	ldp x13, x14, [%[from], #32]\n"                                 \
			     "	ldp x15, x17, [%[from], #48]\n"                                 \
			     "	stp x9, x10, [%[to]]\n"                                         \
			     "	stp x11, x12, [%[to], #16]\n"                                   \
			     "	stp x13, x14, [%[to], #32]\n"                                   \
			     "	stp x15, x17, [%[to], #48]\n" USER_ACCESS_FIXUP                \
			     :                                                                 \
			     : [to] "r"(to), [from] "r"(from)                                  \
			     : "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x17", "memory" \
			     : fault);                                                         \
		return true;                                                                   \
fault:                                                                                         \
		return false;                                                                  \
	}

USER_ACCESS_BLOCK(user_store_block)
USER_ACCESS_BLOCK(user_load_block)

/* The loop is a part of the range with the fix-up: an exclusive store that faults has no effect. */
#define USER_ACCESS_ATOMIC(name, compute)                                           \
	USER_ACCESS_INLINE bool name(uint64_t *word, uint64_t value, uint64_t swap, \
				     uint64_t *original)                            \
	{                                                                           \
		uint64_t before;                                                    \
                                                                                    \
		__asm__ goto("1:	ldaxr %[before], [%[at]]\n" compute         \
			     "	stlxr w9, x10, [%[at]]\n"                            \
			     "	cbnz w9, 1b\n"                                       \
			     "3:	dmb ish\n" USER_ACCESS_FIXUP                \
			     : [before] "=&r"(before)                               \
			     : [at] "r"(word), [value] "r"(value), [swap] "r"(swap) \
			     : "x9", "x10", "cc", "memory"                          \
			     : fault);                                              \
		*original = before;                                                 \
		return true;                                                        \
fault:                                                                              \
		return false;                                                       \
	}

USER_ACCESS_ATOMIC(user_atomic_loop_exchange, "	mov x10, %[value]\n")
USER_ACCESS_ATOMIC(user_atomic_loop_add, "	add x10, %[before], %[value]\n")
USER_ACCESS_ATOMIC(user_atomic_swap_if, "	cmp %[before], %[value]\n"
					"	b.ne 3f\n"
					"	mov x10, %[swap]\n")

USER_ACCESS_INLINE bool user_atomic_exchange(uint64_t *word, uint64_t value, uint64_t *original)
{
	return user_atomic_loop_exchange(word, value, 0, original);
}

USER_ACCESS_INLINE bool user_atomic_add(uint64_t *word, uint64_t value, uint64_t *original)
{
	return user_atomic_loop_add(word, value, 0, original);
}

#endif

#else /* USER_ACCESS_HAS_FIXUPS */

#define USER_ACCESS_PLAIN(bytes, type, alias)                                    \
	USER_ACCESS_INLINE bool user_load_##bytes(type *value, const void *from) \
	{                                                                        \
		*value = __atomic_load_n((const alias *)from, __ATOMIC_RELAXED); \
		return true;                                                     \
	}                                                                        \
	USER_ACCESS_INLINE bool user_store_##bytes(void *to, type value)         \
	{                                                                        \
		__atomic_store_n((alias *)to, value, __ATOMIC_RELAXED);          \
		return true;                                                     \
	}                                                                        \
	USER_ACCESS_INLINE bool user_store_release_##bytes(void *to, type value) \
	{                                                                        \
		__atomic_store_n((alias *)to, value, __ATOMIC_RELEASE);          \
		return true;                                                     \
	}

USER_ACCESS_PLAIN(1, uint8_t, uint8_t)
USER_ACCESS_PLAIN(2, uint16_t, user_u16)
USER_ACCESS_PLAIN(4, uint32_t, user_u32)
USER_ACCESS_PLAIN(8, uint64_t, user_u64)

USER_ACCESS_INLINE bool user_store_block(void *to, const void *from)
{
	for (size_t at = 0; at < 64; at += 8) {
		uint64_t word;

		memcpy(&word, (const uint8_t *)from + at, sizeof(word));
		(void)user_store_8((uint8_t *)to + at, word);
	}
	return true;
}

USER_ACCESS_INLINE bool user_load_block(void *to, const void *from)
{
	for (size_t at = 0; at < 64; at += 8) {
		uint64_t word;

		(void)user_load_8(&word, (const uint8_t *)from + at);
		memcpy((uint8_t *)to + at, &word, sizeof(word));
	}
	return true;
}

USER_ACCESS_INLINE bool user_atomic_exchange(uint64_t *word, uint64_t value, uint64_t *original)
{
	*original = __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
	return true;
}

USER_ACCESS_INLINE bool user_atomic_add(uint64_t *word, uint64_t value, uint64_t *original)
{
	*original = __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
	return true;
}

USER_ACCESS_INLINE bool user_atomic_swap_if(uint64_t *word, uint64_t compare, uint64_t swap,
					    uint64_t *original)
{
	__atomic_compare_exchange_n(word, &compare, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	*original = compare;
	return true;
}

#endif

#endif
