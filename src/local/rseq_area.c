/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/rseq_area.h"

/* Defined by glibc 2.35 and later (sys/rseq.h). */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#if defined(__x86_64__) && defined(__LP64__)

static char *thread_pointer(void)
{
	char *pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)

static char *thread_pointer(void)
{
	char *pointer;

	__asm__("mrs %0, tpidr_el0" : "=r"(pointer));
	return pointer;
}

#else

static char *thread_pointer(void)
{
	return NULL;
}

#endif

struct rseq_area *rseq_area_of_thread(void)
{
	char *pointer = thread_pointer();
	struct rseq_area *area;

	if (!pointer || !&__rseq_size || !&__rseq_offset || !__rseq_size)
		return NULL;
	area = (struct rseq_area *)(void *)(pointer + __rseq_offset);
	return area->cpu_id >= 0 ? area : NULL;
}
