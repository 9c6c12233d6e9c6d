/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_ASAN_FRAMES_H
#define USRDMA_TESTS_API_ASAN_FRAMES_H

#include <pthread.h>

/*
 * For AddressSanitizer: a cancelled thread leaves its stack frames without clearing the sanitizer's
 * marks around their variables. The next function that uses this part of the stack, such as the
 * sanitizer's own at the end of the thread, would be reported. forget_frames() is the cleanup
 * handler of the thread's first function.
 */
#define ASAN_FRAMES_BYTES 65536

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

__attribute__((no_sanitize("address"), unused)) static void forget_frames(void *arg)
{
	char *here = __builtin_frame_address(0);

	(void)arg;
	__asan_unpoison_memory_region(here - ASAN_FRAMES_BYTES, ASAN_FRAMES_BYTES);
}
#else
__attribute__((unused)) static void forget_frames(void *arg)
{
	(void)arg;
}
#endif

#endif
