/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Options of ThreadSanitizer: a fork()ed child may start threads, for its own engine, and a process
 * exits without a delay of one second.
 */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "die_after_fork=0:atexit_sleep_ms=0";
}
