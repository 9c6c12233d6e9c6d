/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Faults in the accesses to a peer's memory that this process has mapped. Each case runs in a
 * process of its own.
 */

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

#include "base/user_fault.h"
#include "base/util.h"
#include "local/guarded_copy.h"
#include "local/mapped_copy.h"

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
		signal(SIGSEGV, SIG_DFL);
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

static void fault_case_passes(void **state)
{
	const struct case_process *process = *state;

	assert_int_equal(run_apart(process->body), 0);
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

static void mapped_copy_behind_the_end_ends(void)
{
	static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 64, 191, 192, 1000, 4096, 32768};
	uint64_t *word = (uint64_t *)(void *)(cut + page), original;

	check(user_fault_is_caught());
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
	check(user_fault_is_caught());
}

/* The memory of this process is protected or not mapped; the peer's memory is there. */
static void mapped_copy_of_protected_memory_ends(void)
{
	static const size_t sizes[] = {1, 2, 4, 8, 9, 191, 192, 4096};
	uint8_t *none = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	check(none != MAP_FAILED && !mprotect(none + page, page, PROT_NONE));
	check(user_fault_is_caught());
	ours = none + page;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		check(write_cut(0, sizes[i] < page ? sizes[i] : page) == GUARDED_FAULTED_OURS);
		check(read_cut(0, sizes[i] < page ? sizes[i] : page) == GUARDED_FAULTED_OURS);
	}
	/* Only the last byte is in the protected page. */
	ours = none + page - 99;
	check(write_cut(0, 100) == GUARDED_FAULTED_OURS);
	check(read_cut(0, 100) == GUARDED_FAULTED_OURS);
	check(write_cut(0, 99) == GUARDED_CALLED);
	check(!munmap(none + page, page));
	check(write_cut(0, 100) == GUARDED_FAULTED_OURS);
}

int main(void)
{
#define CASE(run, case_name)                                                \
	{                                                                   \
		.name = #case_name, .test_func = run,                       \
		.initial_state = &(struct case_process){.body = case_name}, \
	}
	const struct CMUnitTest tests[] = {
		CASE(fault_case_passes, mapped_copy_behind_the_end_ends),
		CASE(fault_case_passes, mapped_copy_of_protected_memory_ends),
	};

	if (!guarded_copy_is_available()) {
		print_message("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
