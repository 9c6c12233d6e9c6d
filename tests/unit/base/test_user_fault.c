/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The handler of SIGSEGV and SIGBUS: which faults it ends, and what happens to all others. Each
 * case runs in a process of its own, once for each signal.
 */

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/user_copy.h"
#include "base/user_fault.h"
#include "base/util.h"

static int caught;    /* the signal of this case */
static uint8_t *gone; /* a page that can be accessed, then pages whose access raises the signal */
static size_t page;
static uint8_t ours[64];

/* Failures of a case end its process with this status. cmocka's assertions belong to the parent. */
#define check(condition)                                                            \
	do {                                                                        \
		if (!(condition)) {                                                 \
			print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                   \
		}                                                                   \
	} while (0)

static void open_gone(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	if (caught == SIGBUS) {
		int fd = memfd_create("cut", MFD_CLOEXEC);

		check(fd >= 0 && !ftruncate(fd, (off_t)page));
		gone = mmap(NULL, 20 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		check(gone != MAP_FAILED);
		close(fd);
		return;
	}
	gone = mmap(NULL, 20 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(gone != MAP_FAILED && !mprotect(gone + page, 19 * page, PROT_NONE));
}

typedef void case_body(void);

struct case_process {
	case_body *body;
};

/* The wait status of a process that executes the case. */
static int run_apart(case_body *body)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		/* cmocka has a handler. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		open_gone();
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void fault_case_passes(void **state)
{
	const struct case_process *process = *state;

	for (int i = 0; i < 2; i++) {
		caught = i ? SIGBUS : SIGSEGV;
		assert_int_equal(run_apart(process->body), 0);
	}
}

static void fault_case_is_killed(void **state)
{
	const struct case_process *process = *state;

	for (int i = 0; i < 2; i++) {
		int status;

		caught = i ? SIGBUS : SIGSEGV;
		status = run_apart(process->body);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), caught);
	}
}

static void fault_of_copy_ends_copy(void)
{
	check(user_fault_is_caught());
	check(!user_copy_to(gone + page, ours, sizeof(ours)));
	check(user_fault_thread.last_address == (uintptr_t)gone + page);
	check(!user_copy_from(ours, gone + page, sizeof(ours)));
	check(user_copy_to(gone, ours, sizeof(ours)));
	check(user_fault_is_caught());
}

static void access_gone(void *arg)
{
	volatile uint8_t *at = arg;

	*at = 1;
}

static void fault_of_run_ends_run(void)
{
	/* Within a page: s390x processors report the page of the address only. */
	const struct iovec ranges[] = {{ours, sizeof(ours)}, {gone + page + 5, 1}};
	sigset_t before, after;

	check(user_fault_is_caught());
	check(!pthread_sigmask(SIG_BLOCK, NULL, &before));
	for (int i = 0; i < 3; i++) {
		check(!user_fault_run(ranges, 2, access_gone, gone + page + 5));
		check(user_fault_run(ranges, 2, access_gone, gone));
	}
	/* The handler was left by siglongjmp(). */
	check(!pthread_sigmask(SIG_BLOCK, NULL, &after));
	for (int i = 1; i < SIGRTMAX; i++)
		check(sigismember(&before, i) == sigismember(&after, i));
}

/* A fault of a signal handler that interrupts the access belongs to the program. */
static void fault_of_run_outside_of_ranges_kills(void)
{
	check(user_fault_is_caught());
	(void)!user_fault_run(&(struct iovec){gone, page}, 1, access_gone, gone + page);
}

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void *volatile handled_address;

static void on_detailed(int number, siginfo_t *info, void *context)
{
	sigset_t mask;

	check(number == caught && context);
	check(!sigprocmask(SIG_BLOCK, NULL, &mask) && sigismember(&mask, SIGUSR1));
	handled++;
	handled_address = info->si_addr;
	siglongjmp(back, 1);
}

static void on_plain(int number)
{
	check(number == caught);
	handled++;
	siglongjmp(back, 1);
}

static void touch(volatile uint8_t *at)
{
	*at = 1;
}

/*
 * The program's handler gets the faults of the program, with the mask that it was installed with,
 * and no others.
 */
static void fault_of_program_calls_detailed_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_detailed, .sa_flags = SA_SIGINFO};

	sigaddset(&action.sa_mask, SIGUSR1);
	check(!sigaction(caught, &action, NULL));
	check(user_fault_is_caught());
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			touch(gone + page + 5);
		check(handled == i + 1 && handled_address == gone + page + 5);
		check(!user_copy_to(gone + page, ours, sizeof(ours)) && handled == i + 1);
	}
	/* A signal of kill(2) is not a fault. */
	if (!sigsetjmp(back, 1))
		raise(caught);
	check(handled == 4);
}

static void fault_of_program_calls_plain_handler(void)
{
	check(signal(caught, on_plain) != SIG_ERR);
	check(user_fault_is_caught());
	if (!sigsetjmp(back, 1))
		touch(gone + page);
	check(handled == 1);
	check(!user_copy_to(gone + page, ours, sizeof(ours)) && handled == 1);
}

static void fault_after_one_shot_handler_kills(void)
{
	struct sigaction action = {.sa_handler = on_plain, .sa_flags = (int)SA_RESETHAND};

	check(!sigaction(caught, &action, NULL));
	check(user_fault_is_caught());
	if (!sigsetjmp(back, 1))
		touch(gone + page);
	check(handled == 1);
	touch(gone + page);
}

/*
 * The kernel resets a one-shot handler to SIG_DFL and keeps its flags (sigaction(2), SA_RESETHAND).
 */
static void fault_with_handler_installed_after_one_shot_handler_kills(void)
{
	struct sigaction action = {.sa_handler = on_plain, .sa_flags = (int)SA_RESETHAND};

	check(!sigaction(caught, &action, NULL));
	if (!sigsetjmp(back, 1))
		touch(gone + page);
	check(handled == 1);
	check(!sigaction(caught, NULL, &action));
	check(action.sa_handler == SIG_DFL && action.sa_flags & (int)SA_RESETHAND);
	check(user_fault_is_caught());
	touch(gone + page);
}

static void fault_of_program_kills(void)
{
	check(user_fault_is_caught());
	touch(gone + page);
}

static void signal_of_kill_kills(void)
{
	check(user_fault_is_caught());
	raise(caught);
	pause();
}

/* Without the handler, a copy is a system call. */
static void check_copies_without_handler(void)
{
	uint64_t original;

	check(!user_fault_is_caught());
	check(!user_copy_to(gone + page - 8, ours, sizeof(ours)));
	check(!user_copy_to_ordered(gone + page, ours, sizeof(ours)));
	check(!user_copy_from(ours, gone + page - 8, sizeof(ours)));
	check(!user_fetch_add((uint64_t *)(void *)(gone + page), 1, &original));
	check(user_copy_to(gone, ours, sizeof(ours)));
}

static void fault_of_copy_ends_copy_if_ignored(void)
{
	struct sigaction action;

	check(signal(caught, SIG_IGN) != SIG_ERR);
	check_copies_without_handler();
	check(!sigaction(caught, NULL, &action) && action.sa_handler == SIG_IGN);
	check(!sigaction(caught == SIGBUS ? SIGSEGV : SIGBUS, NULL, &action) &&
	      action.sa_handler == SIG_DFL);
}

/* SA_SIGINFO has no effect on SIG_IGN. */
static void fault_of_copy_ends_copy_if_ignored_with_siginfo(void)
{
	struct sigaction action = {.sa_handler = SIG_IGN, .sa_flags = SA_SIGINFO};

	check(!sigaction(caught, &action, NULL));
	check_copies_without_handler();
	check(!sigaction(caught, NULL, &action) && action.sa_handler == SIG_IGN);
}

static void fault_of_copy_ends_copy_with_handler_off(void)
{
	struct sigaction action;

	check(!setenv("USRDMA_FAULT_HANDLER", "off", 1));
	check_copies_without_handler();
	check(!sigaction(caught, NULL, &action) && action.sa_handler == SIG_DFL);
}

static void call_until_examined(void)
{
	for (int i = 0; i < USER_FAULT_INTERVAL; i++)
		(void)user_fault_is_caught();
}

static void fault_of_copy_ends_copy_after_later_handler(void)
{
	check(user_fault_is_caught());
	check(signal(caught, on_plain) != SIG_ERR);
	call_until_examined();
	check_copies_without_handler();
	check(!handled);
}

static void fault_of_copy_ends_copy_if_blocked(void)
{
	sigset_t blocked, now;

	sigemptyset(&blocked);
	sigaddset(&blocked, caught);
	check(!sigprocmask(SIG_BLOCK, &blocked, NULL));
	check_copies_without_handler();
	/* The thread of the library unblocks the signal. */
	user_fault_adopt_thread();
	call_until_examined();
	check(!sigprocmask(SIG_BLOCK, NULL, &now) && !sigismember(&now, caught));
	check(user_fault_is_caught());
	check(!user_copy_to(gone + page, ours, sizeof(ours)));
}

int main(void)
{
#define CASE(run, case_name)                                                \
	{                                                                   \
		.name = #case_name, .test_func = run,                       \
		.initial_state = &(struct case_process){.body = case_name}, \
	}
	const struct CMUnitTest tests[] = {
		CASE(fault_case_passes, fault_of_copy_ends_copy),
		CASE(fault_case_passes, fault_of_run_ends_run),
		CASE(fault_case_is_killed, fault_of_run_outside_of_ranges_kills),
		CASE(fault_case_passes, fault_of_program_calls_detailed_handler),
		CASE(fault_case_passes, fault_of_program_calls_plain_handler),
		CASE(fault_case_is_killed, fault_after_one_shot_handler_kills),
		CASE(fault_case_is_killed,
		     fault_with_handler_installed_after_one_shot_handler_kills),
		CASE(fault_case_is_killed, fault_of_program_kills),
		CASE(fault_case_is_killed, signal_of_kill_kills),
		CASE(fault_case_passes, fault_of_copy_ends_copy_if_ignored),
		CASE(fault_case_passes, fault_of_copy_ends_copy_if_ignored_with_siginfo),
		CASE(fault_case_passes, fault_of_copy_ends_copy_with_handler_off),
		CASE(fault_case_passes, fault_of_copy_ends_copy_after_later_handler),
		CASE(fault_case_passes, fault_of_copy_ends_copy_if_blocked),
	};

	unsetenv("USRDMA_FAULT_HANDLER");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
