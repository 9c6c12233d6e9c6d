/* SPDX-License-Identifier: BSD-2-Clause */

/* For the thread sanitizer: a fork()ed child starts an engine of its own, and nobody waits a second for each process of a
 * test to end. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
	return "die_after_fork=0:atexit_sleep_ms=0";
}
