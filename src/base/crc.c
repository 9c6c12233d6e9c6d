/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc.h"

#include <isa-l/crc.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/crc_plain.h"

/*
 * ISA-L 2.30 does not clear the upper halves of the vector registers after it used them. On some
 * processors each following SSE instruction of the thread, also of the application, is then slower
 * until they are cleared.
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

static uint32_t by_library(uint32_t crc, const void *bytes, size_t len)
{
	crc = crc32_gzip_refl(crc, bytes, len);
	leave_vector_code();
	return crc;
}

typedef uint32_t crc_fn(uint32_t crc, const void *bytes, size_t len);

#define TRIAL_BYTES 4096
#define TRIALS	    4

static uint64_t shortest_ns(crc_fn *fn)
{
	static const uint8_t zeros[TRIAL_BYTES];
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < TRIALS; i++) {
		uint64_t began_ns = clock_now_ns();
		volatile uint32_t crc = fn(0, zeros, sizeof(zeros));
		uint64_t took_ns = clock_now_ns() - began_ns;

		(void)crc;
		if (took_ns < shortest)
			shortest = took_ns;
	}
	return shortest;
}

static crc_fn choose;
static _Atomic(crc_fn *) chosen = choose;

/*
 * ISA-L selects its code by the processor's features, which do not show the speed of the
 * instructions. On an emulated processor ISA-L takes eight times as long as crc32_plain(),
 * otherwise a tenth. So both are measured once, in some microseconds.
 */
static uint32_t choose(uint32_t crc, const void *bytes, size_t len)
{
	crc_fn *fn = shortest_ns(crc32_plain) < shortest_ns(by_library) ? crc32_plain : by_library;

	atomic_store_explicit(&chosen, fn, memory_order_relaxed);
	return fn(crc, bytes, len);
}

uint32_t crc32_ethernet(uint32_t crc, const void *bytes, size_t len)
{
	return atomic_load_explicit(&chosen, memory_order_relaxed)(crc, bytes, len);
}
