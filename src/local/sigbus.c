/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/sigbus.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "local/mapped_copy.h"

/* Calls of sigbus_check() of a thread between two examinations, a power of two. */
#define CHECK_INTERVAL 1024

/* The disposition before the handler. Constant while the handler is installed. */
static struct sigaction replaced;
/* A handler with SA_RESETHAND was called: the disposition before the handler is SIG_DFL now. */
static atomic_bool is_reset;
static bool is_installed;

static __thread struct {
	uint32_t calls;
	enum sigbus_state state;
} checked;

/* Whether the instruction raised the signal and raises it again if it is repeated. */
static bool is_synchronous(const siginfo_t *info)
{
	return info->si_code > 0 && info->si_code != BUS_MCEERR_AO;
}

/*
 * Ends the process as without the handler. An instruction that raised the signal is repeated, so that the core dump shows it. A
 * signal of kill(2) is sent again.
 */
static void take_default_action(int number, siginfo_t *info)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(number, &action, NULL);
	if (!is_synchronous(info))
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, info);
}

/* SIG_DFL can have SA_RESETHAND: the kernel keeps the flags of a one-shot handler that it resets. */
static bool default_is_due(void)
{
	return replaced.sa_handler == SIG_DFL ||
	       (replaced.sa_flags & (int)SA_RESETHAND && atomic_exchange(&is_reset, true));
}

/* The kernel applied sa_mask and the flags of the replaced disposition, which are also those of this handler. */
static void pass_to_replaced(int number, siginfo_t *info, void *context)
{
	if (default_is_due())
		take_default_action(number, info);
	else if (replaced.sa_flags & SA_SIGINFO)
		replaced.sa_sigaction(number, info, context);
	else
		replaced.sa_handler(number);
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	if (info->si_code != BUS_ADRERR || !mapped_copy_end_fault(context, info->si_addr))
		pass_to_replaced(number, info, context);
	errno = saved;
}

static bool is_ours(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_sigbus;
}

static bool handler_is_in_place(void)
{
	struct sigaction current;

	return !sigaction(SIGBUS, NULL, &current) && is_ours(&current);
}

static bool handler_is_permitted(void)
{
	const char *value = secure_getenv("USRDMA_SHARE");

	return !value || strcmp(value, "off");
}

/* A program that ignores SIGBUS keeps this disposition, which its children inherit also through exec(). */
static bool may_replace(const struct sigaction *action)
{
	return action->sa_handler != SIG_IGN;
}

/*
 * The flags with which the kernel calls the replaced handler. With SIG_DFL, the handler runs on an alternate signal stack, if the
 * thread has one.
 */
static int flags_for(const struct sigaction *action)
{
	if (action->sa_handler == SIG_DFL)
		return SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	return SA_SIGINFO | (action->sa_flags & (SA_ONSTACK | SA_RESTART | (int)SA_NODEFER));
}

bool sigbus_install(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus};

	if (is_installed)
		return handler_is_in_place();
	if (!handler_is_permitted() || sigaction(SIGBUS, NULL, &replaced) ||
	    !may_replace(&replaced))
		return false;
	action.sa_mask = replaced.sa_mask;
	action.sa_flags = flags_for(&replaced);
	if (sigaction(SIGBUS, &action, NULL))
		return false;
	is_installed = true;
	log_debug(
		"installed a handler of SIGBUS, because a peer's memory is a file that can shrink");
	return true;
}

static enum sigbus_state examine(bool is_engine_thread)
{
	sigset_t mask, bus;

	if (!handler_is_in_place())
		return SIGBUS_IS_REPLACED;
	if (pthread_sigmask(SIG_BLOCK, NULL, &mask) || !sigismember(&mask, SIGBUS))
		return SIGBUS_IS_HANDLED;
	if (!is_engine_thread)
		return SIGBUS_IS_BLOCKED;
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
	return SIGBUS_IS_HANDLED;
}

enum sigbus_state sigbus_check(bool is_engine_thread)
{
	if (!(checked.calls++ % CHECK_INTERVAL))
		checked.state = examine(is_engine_thread);
	return checked.state;
}
