/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_SIGNALS_H
#define USRDMA_BASE_SIGNALS_H

#include <pthread.h>
#include <signal.h>

#include "base/util.h"

/*
 * Blocks signals for the calling thread, so that no signal handler of the application runs while
 * the thread holds a lock: the handler may leave the library by siglongjmp(). Synchronous signals,
 * which an instruction of the thread raises, are not blocked, because the kernel kills a process
 * that blocks them.
 */
static inline void signals_block(sigset_t *before)
{
	static const int synchronous[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
					  SIGTRAP, SIGABRT, SIGSYS};
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < COUNT(synchronous); i++)
		sigdelset(&all, synchronous[i]);
	pthread_sigmask(SIG_BLOCK, &all, before);
}

static inline void signals_restore(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
