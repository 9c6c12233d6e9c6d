/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "config.h"

#define DAEMON_NAME    "usrdmad"
#define ENV_MAX	       32
#define STACK_BYTES    (64u << 10)
#define LIBEXEC_LEVELS 4

/*
 * How the daemon comes to be. clone() makes a child that shares this process's memory until it execs (a copy of a large
 * process's page tables would cost more than the daemon) and whose exit signal is 0, which keeps it out of every wait()
 * that does not ask for __WCLONE. The child execs the daemon program; that forks the daemon proper, waits until it
 * listens, and exits with the outcome, which is what this process waits for. The daemon itself is an orphan by then.
 */

/* What the child needs; it lives in the parent's stack frame, the child writes only exec_errno. */
struct spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	int exec_errno;
};

extern char **environ;

static bool is_program(const char *path)
{
	return access(path, X_OK) == 0;
}

/* Writes the directory that holds this code's file, a library or a program, into `dir` of PATH_MAX. */
static int own_directory(char *dir)
{
	Dl_info info;
	char *slash;

	/* Of a program, dladdr knows argv[0], which need not be a path. */
	if (!dladdr((const void *)ipc_daemon_spawn, &info) || !info.dli_fname ||
	    !strchr(info.dli_fname, '/') || !realpath(info.dli_fname, dir)) {
		if (!realpath("/proc/self/exe", dir))
			return -errno;
	}
	slash = strrchr(dir, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

static bool candidate(char *path, const char *dir, const char *below)
{
	int len = snprintf(path, PATH_MAX, "%s/%s", dir, below);

	return len > 0 && len < PATH_MAX && is_program(path);
}

/*
 * USRDMA_DAEMON; beside this code in the build tree (build/usrdma, build/src/lib*.so, build/lib/lib*.so); under the
 * prefix that this code is installed in, wherever it was moved to; where it was configured to be.
 */
static int daemon_find(char *path)
{
	const char *named = secure_getenv("USRDMA_DAEMON");
	char dir[PATH_MAX];

	if (named) {
		if (strlen(named) >= PATH_MAX || !is_program(named))
			return -ENOENT;
		memcpy(path, named, strlen(named) + 1);
		return 0;
	}
	if (own_directory(dir) == 0) {
		if (candidate(path, dir, DAEMON_NAME) || candidate(path, dir, "../" DAEMON_NAME))
			return 0;
		for (int level = 0; level < LIBEXEC_LEVELS; level++) {
			char *slash = strrchr(dir, '/');

			if (!slash || slash == dir)
				break;
			*slash = '\0';
			if (candidate(path, dir, "libexec/usrdma/" DAEMON_NAME))
				return 0;
		}
	}
	return candidate(path, "", USRDMA_INSTALLED_DAEMON) ? 0 : -ENOENT;
}

/* The daemon gets our own settings and the sanitizers', nothing that was meant for the program (LD_PRELOAD, ...). */
static bool is_passed_on(const char *variable)
{
	static const char *const prefixes[] = {
		"USRDMA_", "ASAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	}
	return false;
}

static void daemon_environment(char **envp)
{
	int count = 0;

	for (char **variable = environ; variable && *variable && count < ENV_MAX; variable++) {
		if (is_passed_on(*variable))
			envp[count++] = *variable;
	}
	envp[count] = NULL;
}

static void close_from(int first)
{
	long max;

	if (syscall(SYS_close_range, first, ~0u, 0) == 0)
		return;
	max = sysconf(_SC_OPEN_MAX);
	for (int fd = first; fd < max; fd++)
		close(fd);
}

/*
 * Runs in the child on a stack of its own, all signals blocked, while the calling thread waits: system calls only. The
 * sanitizers know nothing of that stack.
 */
__attribute__((no_sanitize("address", "thread"))) static int child_exec(void *arg)
{
	struct spawn *spawn = arg;
	int null_fd = open("/dev/null", O_RDWR);

	if (null_fd >= 0) {
		dup2(null_fd, STDIN_FILENO);
		dup2(null_fd, STDOUT_FILENO);
		dup2(null_fd, STDERR_FILENO);
	}
	close_from(STDERR_FILENO + 1);
	execve(spawn->path, spawn->argv, spawn->envp);
	spawn->exec_errno = errno;
	return 127;
}

/* Makes the child and waits for its exec. Returns its pid or -errno. */
static pid_t child_start(struct spawn *spawn)
{
	sigset_t all, before;
	pid_t pid;
	char *stack;

	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -errno;

	/* No handler of the program may run in the child: it would run on the program's memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = clone(child_exec, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK, spawn);
	if (pid < 0)
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_BYTES);
	return pid;
}

static int child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, (int)__WCLONE) < 0) {
		/* A program that waits with __WALL can take it from us; then the caller's connect tells. */
		if (errno != EINTR)
			return 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	log_error(
		"the daemon did not start (wait status 0x%x); run it with --foreground to see why",
		(unsigned int)status);
	return -ENODEV;
}

int ipc_daemon_spawn(void)
{
	char path[PATH_MAX];
	char *envp[ENV_MAX + 1];
	char *argv[] = {(char *)DAEMON_NAME, NULL};
	struct spawn spawn = {.path = path, .argv = argv, .envp = envp};
	pid_t pid;
	int error;

	error = daemon_find(path);
	if (error) {
		log_error("no usrdmad program beside this library, in its prefix or at %s",
			  USRDMA_INSTALLED_DAEMON);
		return error;
	}
	daemon_environment(envp);
	log_debug("starting %s", path);
	pid = child_start(&spawn);
	if (pid < 0)
		return (int)pid;
	error = child_wait(pid);
	if (spawn.exec_errno) {
		errno = spawn.exec_errno;
		log_error("cannot run %s: %m", path);
		return -spawn.exec_errno;
	}
	return error;
}
