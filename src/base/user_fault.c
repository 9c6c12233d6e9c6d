/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/user_fault.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

/* An access that user_fault_run() has called. */
struct user_fault_guard {
	const struct iovec *ranges;
	int count;
	sigjmp_buf env;
	uint64_t mask; /* of the thread before the fault: the signals that the kernel knows */
};

__thread struct user_fault_thread user_fault_thread;
_Atomic uint32_t user_fault_epoch;

/* A signal whose handler the library replaces. */
struct caught_signal {
	int number;
	/* the disposition before the handler; constant while the handler is installed */
	struct sigaction replaced;
	/*
	 * A handler with SA_RESETHAND was called: the disposition before the handler is SIG_DFL
	 * now.
	 */
	atomic_bool is_reset;
};

static struct caught_signal signals[] = {{.number = SIGSEGV}, {.number = SIGBUS}};
static pthread_once_t install_control = PTHREAD_ONCE_INIT;
static bool is_installed; /* constant after the call of install_control */

/* The linker defines both: the beginning and the end of the section. */
extern const struct user_fault_fixup __start_user_fault_fixups[]
	__attribute__((visibility("hidden"), weak));
extern const struct user_fault_fixup __stop_user_fault_fixups[]
	__attribute__((visibility("hidden"), weak));

#if defined(__x86_64__)

static uintptr_t saved_ip(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static void set_saved_ip(ucontext_t *context, uintptr_t ip)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)ip;
}

#elif defined(__aarch64__)

static uintptr_t saved_ip(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.pc;
}

static void set_saved_ip(ucontext_t *context, uintptr_t ip)
{
	context->uc_mcontext.pc = ip;
}

#else

/* No code of other architectures has fix-ups. */
static uintptr_t saved_ip(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static void set_saved_ip(ucontext_t *context, uintptr_t ip)
{
	(void)context;
	(void)ip;
}

#endif

static uintptr_t fixup_address(const int32_t *field)
{
	return (uintptr_t)field + (uintptr_t)(intptr_t)*field;
}

/* Where a thread continues after a fault at the instruction; 0: the instruction has no fix-up. */
static uintptr_t fixup_of(uintptr_t ip)
{
	for (const struct user_fault_fixup *entry = __start_user_fault_fixups;
	     entry < __stop_user_fault_fixups; entry++) {
		uintptr_t start = fixup_address(&entry->start);

		if (ip == fixup_address(&entry->abort) ||
		    ip - start < fixup_address(&entry->end) - start)
			return fixup_address(&entry->fixup);
	}
	return 0;
}

/* Whether an instruction raised the signal and raises it again if it is repeated. */
static bool is_synchronous(int number, const siginfo_t *info)
{
	return info->si_code > 0 && (number != SIGBUS || info->si_code != BUS_MCEERR_AO);
}

/* The kernel reports no address with SI_KERNEL (x86: the address is not canonical). */
static uintptr_t fault_address(const siginfo_t *info)
{
	return info->si_code == SI_KERNEL ? 0 : (uintptr_t)info->si_addr;
}

/* The unit of reported addresses: s390x processors report the page only. */
#if defined(__s390x__)
#define FAULT_UNIT_BYTES 4096u
#else
#define FAULT_UNIT_BYTES 1u
#endif

static bool is_in_guard(const struct user_fault_guard *guard, const siginfo_t *info)
{
	uintptr_t address = fault_address(info);

	if (info->si_code == SI_KERNEL)
		return true;
	for (int i = 0; i < guard->count; i++) {
		uintptr_t start = (uintptr_t)guard->ranges[i].iov_base;
		uintptr_t before = start % FAULT_UNIT_BYTES;

		if (address - (start - before) < before + guard->ranges[i].iov_len)
			return true;
	}
	return false;
}

/*
 * Ends the access of the library that faulted. false: the fault is another one. Does not return
 * from a guarded call.
 */
static bool end_access(int number, const siginfo_t *info, ucontext_t *context)
{
	struct user_fault_guard *guard = user_fault_thread.guard;
	uintptr_t fixup;

	if (!is_synchronous(number, info))
		return false;
	fixup = fixup_of(saved_ip(context));
	if (fixup) {
		user_fault_thread.last_address = fault_address(info);
		set_saved_ip(context, fixup);
		return true;
	}
	if (!guard || !is_in_guard(guard, info))
		return false;
	user_fault_thread.guard = NULL;
	user_fault_thread.last_address = fault_address(info);
	memcpy(&guard->mask, &context->uc_sigmask, sizeof(guard->mask));
	siglongjmp(guard->env, 1);
}

/*
 * Ends the process as without the handler. An instruction that raised the signal is repeated, so
 * that the core dump shows it. A signal of kill(2) is sent again.
 */
static void take_default_action(int number, siginfo_t *info)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(number, &action, NULL);
	if (!is_synchronous(number, info))
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, info);
}

/*
 * SIG_DFL can have SA_RESETHAND: the kernel keeps the flags of a one-shot handler that it resets.
 */
static bool default_is_due(struct caught_signal *caught)
{
	return caught->replaced.sa_handler == SIG_DFL ||
	       (caught->replaced.sa_flags & (int)SA_RESETHAND &&
		atomic_exchange(&caught->is_reset, true));
}

static struct caught_signal *caught_signal_of(int number)
{
	return number == signals[0].number ? &signals[0] : &signals[1];
}

/*
 * The kernel applied sa_mask and the flags of the replaced disposition, which are also those of
 * this handler.
 */
static void pass_to_replaced(int number, siginfo_t *info, void *context)
{
	struct caught_signal *caught = caught_signal_of(number);

	if (default_is_due(caught))
		take_default_action(number, info);
	else if (caught->replaced.sa_flags & SA_SIGINFO)
		caught->replaced.sa_sigaction(number, info, context);
	else
		caught->replaced.sa_handler(number);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	if (!end_access(number, info, context))
		pass_to_replaced(number, info, context);
	errno = saved;
}

static bool handler_is_in_place(const struct caught_signal *caught)
{
	struct sigaction current;

	return !sigaction(caught->number, NULL, &current) && current.sa_flags & SA_SIGINFO &&
	       current.sa_sigaction == on_fault;
}

static bool handler_is_permitted(void)
{
	const char *value = secure_getenv("USRDMA_FAULT_HANDLER");

	return !value || strcmp(value, "off");
}

/*
 * The flags with which the kernel calls the replaced handler. With SIG_DFL, the handler runs on an
 * alternate signal stack, if the thread has one.
 */
static int flags_for(const struct sigaction *action)
{
	if (action->sa_handler == SIG_DFL)
		return SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	return SA_SIGINFO | (action->sa_flags & (SA_ONSTACK | SA_RESTART | (int)SA_NODEFER));
}

/*
 * A program that ignores the signal keeps this disposition, which its children inherit also through
 * exec().
 */
static bool replace_disposition(struct caught_signal *caught)
{
	struct sigaction action = {.sa_sigaction = on_fault};

	if (sigaction(caught->number, NULL, &caught->replaced) ||
	    caught->replaced.sa_handler == SIG_IGN)
		return false;
	action.sa_mask = caught->replaced.sa_mask;
	action.sa_flags = flags_for(&caught->replaced);
	return !sigaction(caught->number, &action, NULL);
}

static void restore_disposition(const struct caught_signal *caught)
{
	if (handler_is_in_place(caught))
		sigaction(caught->number, &caught->replaced, NULL);
}

/* Both signals or none. */
static void install_handler(void)
{
	if (!handler_is_permitted() || !replace_disposition(&signals[0]))
		return;
	is_installed = replace_disposition(&signals[1]);
	if (!is_installed)
		restore_disposition(&signals[0]);
}

static bool thread_blocks_signals(void)
{
	sigset_t mask;

	if (pthread_sigmask(SIG_BLOCK, NULL, &mask))
		return true;
	for (size_t i = 0; i < COUNT(signals); i++) {
		if (sigismember(&mask, signals[i].number))
			return true;
	}
	return false;
}

static bool faults_are_caught(void)
{
	if (pthread_once(&install_control, install_handler) || !is_installed ||
	    thread_blocks_signals())
		return false;
	for (size_t i = 0; i < COUNT(signals); i++) {
		if (!handler_is_in_place(&signals[i]))
			return false;
	}
	return true;
}

void user_fault_renew(void)
{
	static _Atomic uint64_t renewed_ns;
	struct timespec now;
	uint64_t now_ns;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (atomic_exchange_explicit(&renewed_ns, now_ns, memory_order_relaxed) != now_ns)
		atomic_fetch_add_explicit(&user_fault_epoch, 1, memory_order_relaxed);
}

bool user_fault_examine(void)
{
	/* Before the examination: a later change begins a later epoch. */
	user_fault_thread.epoch = atomic_load(&user_fault_epoch);
	user_fault_thread.is_caught = faults_are_caught();
	user_fault_thread.accesses_left = USER_FAULT_INTERVAL - 1;
	return user_fault_thread.is_caught;
}

void user_fault_adopt_thread(void)
{
	sigset_t caught;

	sigemptyset(&caught);
	for (size_t i = 0; i < COUNT(signals); i++)
		sigaddset(&caught, signals[i].number);
	pthread_sigmask(SIG_UNBLOCK, &caught, NULL);
}

bool user_fault_run(const struct iovec *ranges, int count, void (*access)(void *arg), void *arg)
{
	struct user_fault_guard guard;

	guard.ranges = ranges;
	guard.count = count;
	/* The mask is not saved here, which would be a system call for each access. */
	if (sigsetjmp(guard.env, 0)) {
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &guard.mask, NULL, sizeof(guard.mask));
		return false;
	}
	atomic_signal_fence(memory_order_seq_cst);
	user_fault_thread.guard = &guard;
	atomic_signal_fence(memory_order_seq_cst);
	access(arg);
	atomic_signal_fence(memory_order_seq_cst);
	user_fault_thread.guard = NULL;
	return true;
}
