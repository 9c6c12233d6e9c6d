/* SPDX-License-Identifier: BSD-2-Clause */
/* The root directory of an image, and ldconfig(8). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enable.h"

/* What `ldconfig -p` prints of libraries for this processor. */
#if defined(__x86_64__)
#define CACHE_ABI "x86-64"
#elif defined(__aarch64__)
#define CACHE_ABI "AArch64"
#else
#define CACHE_ABI ""
#endif

static int child_wait(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_FAILURE;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

int enable_in_root(const char *root, int (*function)(void *arg), void *arg)
{
	pid_t child;
	int status;

	if (!root)
		return function(arg);
	fflush(NULL);
	child = fork();
	if (child < 0) {
		fprintf(stderr, "usrdma: fork: %m\n");
		return EXIT_FAILURE;
	}
	if (child > 0)
		return child_wait(child);
	if (chdir(root) || chroot(".") || chdir("/")) {
		fprintf(stderr, "usrdma: cannot use '%s' as the root directory of an image: %m\n",
			root);
		_exit(EXIT_FAILURE);
	}
	status = function(arg);
	fflush(NULL);
	_exit(status);
}

/* Executes ldconfig of this machine: that of an image could have another purpose. */
static void ldconfig_exec(const char *root, const char *option)
{
	static const char *const paths[] = {"/sbin/ldconfig", "/usr/sbin/ldconfig"};
	char *environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	char *argv[5] = {"ldconfig"};
	int argc = 1;

	if (option)
		argv[argc++] = (char *)option;
	if (root) {
		argv[argc++] = "-r";
		argv[argc++] = (char *)root;
	}
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		execve(paths[i], argv, environment);
	_exit(127);
}

int enable_run_ldconfig(const char *root)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child == 0)
		ldconfig_exec(root, NULL);
	status = child < 0 ? EXIT_FAILURE : child_wait(child);
	if (status)
		fprintf(stderr,
			"usrdma: ldconfig failed (exit status %d), so that programs start with the "
			"libraries that they had before; run 'ldconfig' as root\n",
			status);
	return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Lines of `ldconfig -p` are "<tab>library (abi) => path"; the loader uses the first one. */
static bool cache_line(const char *line, const char *library, char path[PATH_MAX])
{
	const char *at = line + strspn(line, " \t");
	size_t len = strlen(library);
	const char *arrow;

	if (strncmp(at, library, len) != 0 || at[len] != ' ')
		return false;
	arrow = strstr(at, " => ");
	if (!arrow || !strstr(at, CACHE_ABI))
		return false;
	arrow += strlen(" => ");
	len = strcspn(arrow, "\n");
	if (len >= PATH_MAX)
		return false;
	memcpy(path, arrow, len);
	path[len] = '\0';
	return true;
}

int enable_cache_find(const char *root, const char *library, char path[PATH_MAX])
{
	bool is_found = false;
	char *line = NULL;
	size_t room = 0;
	int ends[2];
	pid_t child;
	FILE *lines;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (dup2(ends[1], STDOUT_FILENO) >= 0)
			ldconfig_exec(root, "-p");
		_exit(127);
	}
	close(ends[1]);
	lines = child < 0 ? NULL : fdopen(ends[0], "r");
	if (!lines) {
		close(ends[0]);
		return -EAGAIN;
	}
	/* All lines are read: ldconfig does not end by SIGPIPE. */
	while (getline(&line, &room, lines) >= 0) {
		if (!is_found)
			is_found = cache_line(line, library, path);
	}
	free(line);
	fclose(lines);
	if (child_wait(child))
		return -EIO;
	return is_found ? 0 : -ENOENT;
}
