/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_SIGBUS_H
#define USRDMA_LOCAL_SIGBUS_H

#include <stdbool.h>

/*
 * The handler of SIGBUS (ADR 0050). A process that maps a file which can shrink gets SIGBUS at an access behind the end of the
 * file. The handler ends such an access in the restartable sequences of mapped_copy.c. It passes every other SIGBUS to the
 * disposition that it replaced.
 */

/*
 * Installs the handler, or checks that it is still installed. false: files that can shrink must not be mapped, because
 * USRDMA_SHARE is "off", the program ignores SIGBUS, or the program has replaced the handler. engine.lock held.
 */
bool sigbus_install(void) __attribute__((warn_unused_result));

enum sigbus_state {
	SIGBUS_IS_HANDLED,
	SIGBUS_IS_BLOCKED,  /* the thread blocks the signal: the kernel would kill the process */
	SIGBUS_IS_REPLACED, /* the program has replaced the handler */
};

/*
 * Called before each access to a mapped file that can shrink. Reads the mask of the calling thread and the disposition of the
 * signal at the first and every 1024th call of the thread, so that a call costs no system call otherwise. The engine thread
 * blocks all signals; it unblocks SIGBUS.
 */
enum sigbus_state sigbus_check(bool is_engine_thread) __attribute__((warn_unused_result));

#endif
