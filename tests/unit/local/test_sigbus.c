/* SPDX-License-Identifier: BSD-2-Clause */

/* The handler of SIGBUS: which faults it ends, and what happens to all others. Each case runs in a process of its own. */

#include <errno.h>
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

#include "base/util.h"
#include "local/guarded_copy.h"
#include "local/mapped_copy.h"
#include "local/sigbus.h"

/* Calls of sigbus_check() after which a change is noticed. */
#define CALLS 1024

static _Atomic uint64_t guard_word = 7;
static struct guard guards[GUARDS];
static uint8_t *cut; /* one page that exists, then pages behind the end of the file */
static size_t page;
static uint8_t *ours;

/* Failures of a case end its process with this status. cmocka's assertions belong to the parent. */
#define check(condition)                                                            \
	do {                                                                        \
		if (!(condition)) {                                                 \
			print_error("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                   \
		}                                                                   \
	} while (0)

static void open_cut(void)
{
	int fd = memfd_create("cut", MFD_CLOEXEC);

	page = (size_t)sysconf(_SC_PAGESIZE);
	check(fd >= 0 && !ftruncate(fd, (off_t)page));
	cut = mmap(NULL, 20 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(cut != MAP_FAILED);
	close(fd);
	ours = calloc(20, page);
	check(ours);
	for (size_t i = 0; i < GUARDS; i++)
		guards[i] = (struct guard){&guard_word, 7};
}

/* The wait status of a process that executes the case. */
static int run_apart(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		/* cmocka has a handler. */
		signal(SIGBUS, SIG_DFL);
		open_cut();
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

typedef void case_body(void);

struct case_process {
	case_body *body;
};

static void sigbus_case_passes(void **state)
{
	const struct case_process *process = *state;

	assert_int_equal(run_apart(process->body), 0);
}

static void sigbus_case_is_killed(void **state)
{
	const struct case_process *process = *state;
	int status = run_apart(process->body);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

static enum guarded_outcome write_cut(size_t at, size_t bytes)
{
	enum guarded_outcome outcome;

	do
		outcome = mapped_write(guards, cut + at, ours, bytes);
	while (outcome == GUARDED_PREEMPTED);
	return outcome;
}

static enum guarded_outcome read_cut(size_t at, size_t bytes)
{
	enum guarded_outcome outcome;

	do
		outcome = mapped_read(guards, ours, cut + at, bytes);
	while (outcome == GUARDED_PREEMPTED);
	return outcome;
}

static void sigbus_behind_the_end_ends_access(void)
{
	static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 64, 191, 192, 1000, 4096, 32768};
	uint64_t *word = (uint64_t *)(void *)(cut + page), original;

	check(sigbus_install());
	for (size_t i = 0; i < COUNT(sizes); i++) {
		check(write_cut(page, sizes[i]) == GUARDED_FAULTED);
		check(read_cut(page + 1, sizes[i]) == GUARDED_FAULTED);
		check(write_cut(0, sizes[i] < page ? sizes[i] : page) == GUARDED_CALLED);
		check(read_cut(0, sizes[i] < page ? sizes[i] : page) == GUARDED_CALLED);
	}
	/* The first bytes are in the page that exists. */
	check(write_cut(page - 1, 2) == GUARDED_FAULTED);
	check(write_cut(page - 100, 4096) == GUARDED_FAULTED);
	check(read_cut(page - 7, 8) == GUARDED_FAULTED);
	while (mapped_fetch_add(guards, word, 1, &original) != GUARDED_FAULTED)
		;
	while (mapped_compare_swap(guards, word, 0, 1, &original) != GUARDED_FAULTED)
		;
	check(sigbus_install());
}

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void *volatile fault_address;

static void on_detailed(int number, siginfo_t *info, void *context)
{
	sigset_t mask;

	check(number == SIGBUS && context);
	check(!sigprocmask(SIG_BLOCK, NULL, &mask) && sigismember(&mask, SIGUSR1));
	handled++;
	fault_address = info->si_addr;
	siglongjmp(back, 1);
}

static void on_plain(int number)
{
	check(number == SIGBUS);
	handled++;
	siglongjmp(back, 1);
}

static void touch(volatile uint8_t *at)
{
	*at = 1;
}

/* The program's handler gets the faults of the program, with the mask that it was installed with, and no others. */
static void sigbus_of_program_calls_detailed_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_detailed, .sa_flags = SA_SIGINFO};

	sigaddset(&action.sa_mask, SIGUSR1);
	check(!sigaction(SIGBUS, &action, NULL));
	check(sigbus_install());
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			touch(cut + page + 5);
		check(handled == i + 1 && fault_address == cut + page + 5);
		check(write_cut(page, 64) == GUARDED_FAULTED && handled == i + 1);
	}
	/* A fault in a copy, but not in the peer's memory: the destination is behind the end of the program's own file. */
	fault_address = NULL;
	if (!sigsetjmp(back, 1)) {
		while (mapped_read(guards, cut + page, ours, 64))
			;
	}
	check(handled == 4 && fault_address == cut + page);
	/* A signal of kill(2) is not a fault. */
	if (!sigsetjmp(back, 1))
		raise(SIGBUS);
	check(handled == 5);
}

static void sigbus_of_program_calls_plain_handler(void)
{
	check(signal(SIGBUS, on_plain) != SIG_ERR);
	check(sigbus_install());
	if (!sigsetjmp(back, 1))
		touch(cut + page);
	check(handled == 1);
	check(write_cut(page, 64) == GUARDED_FAULTED && handled == 1);
}

static void sigbus_after_one_shot_handler_kills(void)
{
	struct sigaction action = {.sa_handler = on_plain, .sa_flags = (int)SA_RESETHAND};

	check(!sigaction(SIGBUS, &action, NULL));
	check(sigbus_install());
	if (!sigsetjmp(back, 1))
		touch(cut + page);
	check(handled == 1);
	touch(cut + page);
}

/* The kernel resets a one-shot handler to SIG_DFL and keeps its flags (sigaction(2), SA_RESETHAND). */
static void sigbus_install_after_one_shot_handler_kills(void)
{
	struct sigaction action = {.sa_handler = on_plain, .sa_flags = (int)SA_RESETHAND};

	check(!sigaction(SIGBUS, &action, NULL));
	if (!sigsetjmp(back, 1))
		touch(cut + page);
	check(handled == 1);
	check(!sigaction(SIGBUS, NULL, &action));
	check(action.sa_handler == SIG_DFL && action.sa_flags & (int)SA_RESETHAND);
	check(sigbus_install());
	touch(cut + page);
}

static void sigbus_of_program_kills(void)
{
	check(sigbus_install());
	touch(cut + page);
}

static void sigbus_of_kill_kills(void)
{
	check(sigbus_install());
	raise(SIGBUS);
	pause();
}

static void sigbus_install_fails_if_ignored(void)
{
	struct sigaction action;

	check(signal(SIGBUS, SIG_IGN) != SIG_ERR);
	check(!sigbus_install());
	check(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == SIG_IGN);
}

/* SA_SIGINFO has no effect on SIG_IGN. */
static void sigbus_install_fails_if_ignored_with_siginfo(void)
{
	struct sigaction action = {.sa_handler = SIG_IGN, .sa_flags = SA_SIGINFO};

	check(!sigaction(SIGBUS, &action, NULL));
	check(!sigbus_install());
	check(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == SIG_IGN);
}

static void sigbus_install_fails_with_share_off(void)
{
	struct sigaction action;

	check(!setenv("USRDMA_SHARE", "off", 1));
	check(!sigbus_install());
	check(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == SIG_DFL);
	check(!setenv("USRDMA_SHARE", "on", 1));
	check(sigbus_install());
}

static void sigbus_check_later_handler_is_detected(void)
{
	check(sigbus_install());
	check(sigbus_check(false) == SIGBUS_IS_HANDLED);
	check(signal(SIGBUS, on_plain) != SIG_ERR);
	check(!sigbus_install());
	for (int i = 1; i < CALLS; i++)
		(void)!sigbus_check(false);
	check(sigbus_check(false) == SIGBUS_IS_REPLACED);
}

static void sigbus_check_blocked_signal_is_detected(void)
{
	sigset_t bus, before;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	check(sigbus_install());
	check(!sigprocmask(SIG_BLOCK, &bus, NULL));
	check(sigbus_check(false) == SIGBUS_IS_BLOCKED);
	for (int i = 1; i < CALLS; i++)
		(void)!sigbus_check(false);
	/* The engine thread unblocks the signal. */
	check(sigbus_check(true) == SIGBUS_IS_HANDLED);
	check(!sigprocmask(SIG_BLOCK, NULL, &before) && !sigismember(&before, SIGBUS));
	check(write_cut(page, 64) == GUARDED_FAULTED);
}

int main(void)
{
#define CASE(run, case_name)                                                \
	{                                                                   \
		.name = #case_name, .test_func = run,                       \
		.initial_state = &(struct case_process){.body = case_name}, \
	}
	const struct CMUnitTest tests[] = {
		CASE(sigbus_case_passes, sigbus_behind_the_end_ends_access),
		CASE(sigbus_case_passes, sigbus_of_program_calls_detailed_handler),
		CASE(sigbus_case_passes, sigbus_of_program_calls_plain_handler),
		CASE(sigbus_case_is_killed, sigbus_after_one_shot_handler_kills),
		CASE(sigbus_case_is_killed, sigbus_install_after_one_shot_handler_kills),
		CASE(sigbus_case_is_killed, sigbus_of_program_kills),
		CASE(sigbus_case_is_killed, sigbus_of_kill_kills),
		CASE(sigbus_case_passes, sigbus_install_fails_if_ignored),
		CASE(sigbus_case_passes, sigbus_install_fails_if_ignored_with_siginfo),
		CASE(sigbus_case_passes, sigbus_install_fails_with_share_off),
		CASE(sigbus_case_passes, sigbus_check_later_handler_is_detected),
		CASE(sigbus_case_passes, sigbus_check_blocked_signal_is_detected),
	};

	unsetenv("USRDMA_SHARE");
	if (!guarded_copy_is_available()) {
		print_message("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
