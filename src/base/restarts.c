/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/restarts.h"

#include <signal.h>
#include <stddef.h>

/* Signals that a thread causes itself; their handlers do not interrupt a wait. */
static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

/* Stores the action of a signal; false: the process has no handler of it that interrupts a wait. */
static bool has_handler(int number, struct sigaction *action)
{
	return !is_fault(number) && !sigaction(number, NULL, action) &&
	       action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

bool wait_restarts(void)
{
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (has_handler(number, &action) && !(action.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

bool wait_has_handler(void)
{
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (has_handler(number, &action))
			return true;
	}
	return false;
}
