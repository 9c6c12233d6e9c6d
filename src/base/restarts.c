/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/restarts.h"

#include <signal.h>

/* Signals that a thread causes itself; their handlers do not interrupt a wait. */
static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

bool wait_restarts(void)
{
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (is_fault(number) || sigaction(number, NULL, &action))
			continue;
		if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
			continue;
		if (!(action.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}
