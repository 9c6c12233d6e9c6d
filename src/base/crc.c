/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc.h"

#include <isa-l/crc.h>

/*
 * ISA-L 2.30 leaves the upper halves of the vector registers in use when it used them. Until somebody clears them, every SSE
 * instruction of the thread that follows, in our code and the application's, pays for it on some processors.
 */
#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx"))) static void clear_upper_halves(void)
{
	_mm256_zeroupper();
}

static void leave_vector_code(void)
{
	if (__builtin_cpu_supports("avx"))
		clear_upper_halves();
}
#else
static void leave_vector_code(void)
{
}
#endif

uint32_t crc32_ethernet(uint32_t crc, const void *bytes, size_t len)
{
	crc = crc32_gzip_refl(crc, bytes, len);
	leave_vector_code();
	return crc;
}
