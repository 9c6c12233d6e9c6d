/* SPDX-License-Identifier: BSD-2-Clause */

/* Processes that fork in unusual states. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "blocks.h"

static int orphan_pipe[2];

/* Forks a process that reports that it lives. */
static void *orphan_fork(void *unused)
{
	(void)unused;
	if (!fork()) {
		CHECK(write(orphan_pipe[1], "x", 1) == 1);
		_exit(0);
	}
	return NULL;
}

static bool has_children(void)
{
	char path[64], line[16];
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	CHECK(tasks);
	while ((entry = readdir(tasks))) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%.16s/children", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		found |= fd >= 0 && read(fd, line, sizeof(line)) > 0;
		if (fd >= 0)
			close(fd);
	}
	closedir(tasks);
	return found;
}

/* The child lives on if its parent ends while the child copies the blocks. */
void orphan(void)
{
	char *memory = block_new(64 * MEGA), byte;
	pthread_t id;
	pid_t parent;
	int status;

	memset(memory, 1, 64 * MEGA);
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1) && !pipe(orphan_pipe));
	parent = fork();
	if (!parent) {
		memory = block_new(64 * MEGA);
		memset(memory, 1, 64 * MEGA);
		CHECK(!pthread_create(&id, NULL, orphan_fork, NULL));
		while (!has_children())
			sched_yield();
		_exit(0);
	}
	close(orphan_pipe[1]);
	CHECK(child_status(parent) == 0);
	CHECK(read(orphan_pipe[0], &byte, 1) == 1);
	CHECK(wait(&status) > 0 && status == 0);
	free(memory);
}

/* Blocks between which there are free pages: the kernel has no mapping for each of them. */
#define FRAGMENTS 65000u

void fragments(void)
{
	char **memory = malloc(FRAGMENTS * sizeof(*memory));
	pid_t child;

	for (size_t align = PAGE; align <= 2 * (size_t)PAGE; align *= 2) {
		for (size_t i = 0; i < FRAGMENTS; i++) {
			CHECK((memory[i] = memalign(align, PAGE)));
			memory[i][0] = (char)i;
		}
		CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		      MAP_FAILED);
		for (size_t i = 0; align == PAGE && i < FRAGMENTS; i += 2) {
			free(memory[i]);
			memory[i] = NULL;
		}
		child = fork();
		if (!child) {
			for (size_t i = 0; i < FRAGMENTS; i++) {
				CHECK(!memory[i] || memory[i][0] == (char)i);
				free(memory[i]);
			}
			memset(block_new(MEGA), 1, MEGA);
			_exit(0);
		}
		CHECK(child_status(child) == 0);
		for (size_t i = 0; i < FRAGMENTS; i++)
			free(memory[i]);
	}
	free(memory);
}

/* Forks with a stack in a block. Parent and child have their own stacks. */
static void stack_use(void)
{
	for (int i = 0; i < 20; i++) {
		volatile char local[3 * PAGE];
		pid_t child;

		memset((char *)local, 1, sizeof(local));
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			memset((char *)local, 2, sizeof(local));
			free(malloc(100));
			_exit(local[PAGE] != 2);
		}
		CHECK(child_status(child) == 0);
		CHECK(is_filled((char *)local, 1, sizeof(local)));
		CHECK(!pthread_kill(pthread_self(), 0));
	}
}

static void *stack_thread(void *mutex)
{
	/* The C library stores the thread's id in the memory of the stack. */
	CHECK(!pthread_mutex_lock(mutex));
	stack_use();
	CHECK(!pthread_mutex_lock(mutex) && !pthread_mutex_unlock(mutex));
	CHECK(!pthread_mutex_unlock(mutex));
	return NULL;
}

static void stacks_of_threads(void)
{
	static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	pthread_attr_t attr;
	pthread_t id;

	/* With and without a page that detects overflow. */
	for (int i = 0; i < 2; i++) {
		char *memory = valloc(MEGA);

		CHECK(!i || !mprotect(memory, PAGE, PROT_NONE));
		CHECK(!pthread_attr_init(&attr) &&
		      !pthread_attr_setstack(&attr, memory + PAGE, MEGA - PAGE));
		CHECK(!pthread_create(&id, &attr, stack_thread, &mutex));
		CHECK(!pthread_join(id, NULL));
		CHECK(!madvise(memory + PAGE, BLOCK, MADV_DONTNEED));
		CHECK(is_filled(memory + PAGE, 0, BLOCK));
		free(memory);
	}
}

void stacks(void)
{
	static ucontext_t here, coroutine;
	char *memory = valloc(BLOCK);

	stacks_of_threads();
	CHECK(!mprotect(memory, PAGE, PROT_NONE) && !getcontext(&coroutine));
	coroutine.uc_stack.ss_sp = memory + PAGE;
	coroutine.uc_stack.ss_size = BLOCK - PAGE;
	coroutine.uc_link = &here;
	makecontext(&coroutine, stack_use, 0);
	CHECK(!swapcontext(&here, &coroutine));
	free(memory);
}

static int cloned_process(void *memory)
{
	if (!is_filled(memory, 1, BLOCK))
		return 1;
	memset(memory, 2, BLOCK);
	free(memory);
	memset(block_new(BLOCK), 3, BLOCK);
	return 0;
}

/*
 * clone() without CLONE_VM is fork() without fork handlers. The stack of the child may be a block,
 * too.
 */
void cloned(void)
{
	char *memory = block_new(BLOCK), *stack = valloc(BLOCK), *other = malloc(BLOCK);

	memset(memory, 1, BLOCK);
	for (int i = 0; i < 6; i++) {
		char *top = (i % 2 ? stack : other) + BLOCK;
		pid_t child = clone(cloned_process, top - (uintptr_t)top % 16, SIGCHLD, memory);

		CHECK(child > 0 && child_status(child) == 0);
		CHECK(is_filled(memory, 1, BLOCK) && is_shared(memory, BLOCK, true));
	}
	free(memory);
	free(stack);
	free(other);
}

static char *handled;
static pid_t (*handler_forks)(void);
static volatile sig_atomic_t handler_runs;

static void handler_of_alarm(int unused)
{
	const int saved = errno;

	(void)unused;
	CHECK(!mprotect(handled, PAGE, PROT_READ) &&
	      !mprotect(handled, PAGE, PROT_READ | PROT_WRITE));
	CHECK(!madvise(handled + BLOCK, PAGE, MADV_DONTNEED) && !handled[BLOCK]);
	handled[BLOCK] = 1;
	if (handler_forks) {
		pid_t child = handler_forks();

		CHECK(child >= 0);
		if (!child) {
			memset(handled, 2, BLOCK);
			_exit(0);
		}
		CHECK(child_status(child) == 0 && is_filled(handled, 1, BLOCK));
	}
	handler_runs++;
	errno = saved;
}

#define RUNS 100

/*
 * A signal handler forks and changes mappings while it interrupts the functions of the allocator.
 */
void handlers(void)
{
	pid_t (*const forks_by[])(void) = {
		NULL,
#if __GLIBC_PREREQ(2, 34)
		_Fork,
#endif
		fork
	};

	handled = block_new(2 * BLOCK);
	memset(handled, 1, 2 * BLOCK);
	CHECK(signal(SIGALRM, handler_of_alarm) != SIG_ERR);
	for (size_t i = 0; i < sizeof(forks_by) / sizeof(forks_by[0]); i++) {
		handler_forks = forks_by[i];
		handler_runs = 0;
		for (int set_at = -1; handler_runs < RUNS;) {
			char *large, *small;

			/*
			 * One signal at a time: with an interval, a handler that takes longer than
			 * the interval would run again and again, and this loop never.
			 */
			if (set_at != handler_runs) {
				const struct itimerval soon = {{0, 0}, {0, 100 + rand() % 2000}};

				set_at = handler_runs;
				CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
			}
			large = memalign(PAGE, 40 * MEGA);
			small = memalign(PAGE, PAGE);
			large[0] = small[0] = 1;
			free(large);
			free(small);
		}
	}
	CHECK(is_filled(handled, 1, BLOCK + 1));
	memset(memalign(PAGE, BLOCK), 1, BLOCK);
}
