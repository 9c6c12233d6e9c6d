/* SPDX-License-Identifier: BSD-2-Clause */

/* Processes that fork in unusual states. */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

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
