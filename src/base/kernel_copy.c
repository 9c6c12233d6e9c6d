/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/kernel_copy.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#endif

/*
 * No manual specifies the units in which REP MOVSB stores. On AMD family 25 model 1 (Zen 3), words
 * of 8 bytes were divided, also in pieces of 8 bytes. On model 17 (Zen 4), no divided word was
 * found.
 */
static bool string_moves_keep_words(const struct kernel_copy_x86 *x86)
{
	return x86->is_amd && x86->family == 25 && x86->model == 17;
}

/*
 * copy_user_generic() of arch/x86: with FSRM, REP MOVSB for all lengths since Linux 5.17; otherwise
 * words of 8 bytes, then single bytes, but REP MOVSB for 64 bytes and more with ERMS.
 */
enum kernel_words kernel_copy_x86_words(const struct kernel_copy_x86 *x86)
{
	bool is_5_17 = x86->kernel_major > 5 || (x86->kernel_major == 5 && x86->kernel_minor >= 17);

	if ((x86->has_erms || x86->has_fsrm) && !string_moves_keep_words(x86))
		return KERNEL_WORDS_NONE;
	return x86->has_fsrm && is_5_17 ? KERNEL_WORDS_ALL : KERNEL_WORDS_LONG;
}

#if defined(__x86_64__)

static void read_processor(struct kernel_copy_x86 *x86)
{
	/*
	 * CPUID leaf 1: with this family, the extended family is added, and the extended model is
	 * the high half of the model.
	 */
	enum { EXTENDED = 15 };
	unsigned int eax, ebx, ecx, edx;

	if (__get_cpuid(0, &eax, &ebx, &ecx, &edx))
		x86->is_amd = ebx == signature_AMD_ebx && ecx == signature_AMD_ecx &&
			      edx == signature_AMD_edx;
	if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
		x86->family = eax >> 8 & 0xf;
		x86->model = eax >> 4 & 0xf;
		if (x86->family == EXTENDED) {
			x86->family += eax >> 20 & 0xff;
			x86->model |= (eax >> 16 & 0xf) << 4;
		}
	}
	if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
		x86->has_erms = ebx & 1u << 9;
		x86->has_fsrm = edx & 1u << 4;
	}
}

static void read_kernel(struct kernel_copy_x86 *x86)
{
	struct utsname name;
	char *end;

	if (uname(&name))
		return;
	x86->kernel_major = (unsigned int)strtoul(name.release, &end, 10);
	x86->kernel_minor = *end == '.' ? (unsigned int)strtoul(end + 1, NULL, 10) : 0;
}

static enum kernel_words find_words(void)
{
	struct kernel_copy_x86 x86 = {0};

	read_processor(&x86);
	read_kernel(&x86);
	return kernel_copy_x86_words(&x86);
}

#else

/*
 * The copy function of aarch64 decomposes a short piece into accesses of 8, 4, 2 and 1 bytes
 * (arch/arm64/lib/copy_template.S).
 */
static enum kernel_words find_words(void)
{
	return KERNEL_WORDS_ALL;
}

#endif

enum kernel_words kernel_copy_words(void)
{
	enum { UNKNOWN = -1 };
	static atomic_int known = UNKNOWN;
	int now = atomic_load_explicit(&known, memory_order_relaxed);

	if (now == UNKNOWN) {
		now = (int)find_words();
		atomic_store_explicit(&known, now, memory_order_relaxed);
	}
	return (enum kernel_words)now;
}
