/* SPDX-License-Identifier: BSD-2-Clause */

/* Memory after fork(). */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blocks.h"

extern char **environ;

static char *atfork_memory;

/* A fork handler of the program writes to the child's memory. */
static void handler_in_child(void)
{
	if (atfork_memory)
		atfork_memory[0]++;
}

__attribute__((constructor)) static void handler_register(void)
{
	pthread_atfork(NULL, NULL, handler_in_child);
}

/* Each process writes after the fork and finds its own values only. */
static void own_values(char *memory, size_t bytes, int depth, pid_t (*fork_now)(void))
{
	int to_child[2], to_parent[2];
	char byte = 1;
	pid_t child;

	CHECK(!pipe(to_child) && !pipe(to_parent));
	memset(memory, depth, bytes);
	atfork_memory = memory + bytes - PAGE;
	child = fork_now();
	CHECK(child >= 0);
	if (!child) {
		CHECK(is_filled(memory, (char)depth, bytes - PAGE));
		CHECK(atfork_memory[0] == depth + (fork_now == fork));
		memset(memory, 100 + depth, bytes);
		CHECK(write(to_parent[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1);
		CHECK(is_filled(memory, (char)(100 + depth), bytes));
		if (depth < 3)
			own_values(memory, bytes, depth + 1, fork_now);
		CHECK(depth < 3 || is_filled(memory, (char)(100 + depth), bytes));
		free(memory);
		memory = block_new(bytes);
		memset(memory, 1, bytes);
		free(memory);
		_exit(0);
	}
	atfork_memory = NULL;
	CHECK(read(to_parent[0], &byte, 1) == 1);
	CHECK(is_filled(memory, (char)depth, bytes));
	memset(memory, 50, bytes);
	CHECK(is_shared(memory, bytes, true) || depth > 1);
	CHECK(write(to_child[1], &byte, 1) == 1);
	CHECK(child_status(child) == 0);
	CHECK(is_filled(memory, 50, bytes));
	close(to_child[0]);
	close(to_child[1]);
	close(to_parent[0]);
	close(to_parent[1]);
}

void forks(void)
{
	char *untouched = block_new(100 * MEGA), *memory = block_new(BLOCK);
	posix_spawn_file_actions_t *none = NULL;
	char *argv[] = {"true", NULL};
	pid_t child;

	untouched[50 * MEGA] = 1;
	own_values(memory, BLOCK, 1, fork);
#if __GLIBC_PREREQ(2, 34)
	own_values(memory, BLOCK, 1, _Fork);
#endif
	CHECK(is_filled(untouched, 0, 50 * MEGA) && untouched[50 * MEGA] == 1);
	CHECK(!posix_spawnp(&child, "true", none, NULL, argv, environ));
	CHECK(child_status(child) == 0);
	child = vfork();
	if (!child) {
		execlp("sh", "sh", "-c", "! ls -l /proc/$$/fd | grep -q arena", NULL);
		_exit(3);
	}
	CHECK(child_status(child) == 0);
	free(memory);
	free(untouched);
}

static atomic_bool is_ending;

/* Writes one block all the time. */
static void *scribble(void *memory)
{
	for (unsigned char i = 0; !atomic_load(&is_ending); i++)
		memset(memory, i, BLOCK);
	return NULL;
}

/* The child's memory does not change while a thread of the parent writes its own. */
void writers(void)
{
	char *memory = block_new(BLOCK), *copy = malloc(BLOCK);
	pthread_t id;

	CHECK(!pthread_create(&id, NULL, scribble, memory));
	for (int i = 0; i < 15; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			memcpy(copy, memory, BLOCK);
			for (int j = 0; j < 5; j++) {
				sched_yield();
				CHECK(!memcmp(copy, memory, BLOCK));
			}
			_exit(0);
		}
		CHECK(child_status(child) == 0);
	}
	atomic_store(&is_ending, true);
	pthread_join(id, NULL);
	free(memory);
}

/* Bytes of a block that a thread writes in the order of their addresses. */
#define MARKS	   128u
#define MARK_BYTES (16u * PAGE)

/*
 * The thread changes all marks once for each fork(), however slow the copy is: a thread that writes
 * again during each comparison prevents a copy of one instant. It begins after different times, so
 * that it often does so during the copy.
 */
static atomic_uint changes_wanted, changes_done;

static void *mark(void *memory)
{
	for (unsigned int i = 1; !atomic_load(&is_ending); i++) {
		const struct timespec pause = {.tv_nsec = (long)(i % 20) * 250000};

		while (atomic_load(&changes_wanted) < i && !atomic_load(&is_ending))
			sched_yield();
		nanosleep(&pause, NULL);
		for (size_t at = 0; at < MARKS; at++)
			__atomic_store_n((unsigned char *)memory + at * MARK_BYTES,
					 (unsigned char)i, __ATOMIC_RELEASE);
		atomic_store(&changes_done, i);
	}
	return NULL;
}

/*
 * The child has the state of one instant: if a mark is older than a later one, the copy mixes two
 * states.
 */
void snapshot(void)
{
	char *memory = block_new(MARKS * MARK_BYTES);
	pthread_t id;

	memset(memory, 0, MARKS * MARK_BYTES);
	CHECK(!pthread_create(&id, NULL, mark, memory));
	for (unsigned int i = 1; i <= 40; i++) {
		pid_t child;

		atomic_store(&changes_wanted, i);
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			unsigned char first = (unsigned char)memory[0], before = 0;

			for (size_t at = 0; at < MARKS; at++) {
				unsigned char age =
					(unsigned char)(first - memory[at * MARK_BYTES]);

				CHECK(age <= 1 && age >= before);
				before = age;
			}
			_exit(0);
		}
		CHECK(child_status(child) == 0);
		while (atomic_load(&changes_done) < i)
			sched_yield();
	}
	atomic_store(&is_ending, true);
	pthread_join(id, NULL);
	free(memory);
}
