/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
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

/* Where the daemon finds its end of the pipe, as a number and as an argument. */
#define SPAWN_READY_FD	3
#define SPAWN_READY_ARG "3"

/*
 * How the daemon comes to be. clone() makes a child that shares this process's memory until it execs (a copy of a large
 * process's page tables would cost more than the daemon) and whose exit signal is 0, which keeps it out of every wait()
 * that does not ask for __WCLONE. Exec would make it an ordinary child again, so it makes another in the same way, which
 * execs the daemon program, and is gone before this thread runs on. The daemon then is an orphan, and says through a
 * pipe when it listens.
 */

/* What the children need; it lives in the parent's stack frame. They write the last two. */
struct spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	int ready_fd;	  /* the daemon's end of the pipe */
	char *exec_stack; /* the end of the second child's stack */
	int error;	  /* why there is no daemon */
	pid_t daemon_pid;
};

extern char **environ;

/* clone(2) under the name by which the thread sanitizer does not know it: it takes clone() for fork(), and would make of
 * this thread, whose memory the children share, a child that it watches no more. */
extern int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

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

/*
 * Descriptors are moved and closed by the kernel's own names: what a module is preloaded for that has the C library's (a
 * librspreload, say) notes such calls in memory, which here is still the calling program's.
 */
static void move_to(int fd, int to)
{
	syscall(SYS_dup3, fd, to, 0);
}

static void close_from(int first)
{
	long max;

	if (syscall(SYS_close_range, first, ~0u, 0) == 0)
		return;
	max = sysconf(_SC_OPEN_MAX);
	for (int fd = first; fd < max; fd++)
		syscall(SYS_close, fd);
}

/*
 * The two children run on stacks of their own, all signals blocked, while the calling thread waits: system calls only.
 * The sanitizers know nothing of those stacks.
 */
#define IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

IN_CHILD static int child_exec(void *arg)
{
	struct spawn *spawn = arg;
	int null_fd = open("/dev/null", O_RDWR);

	if (null_fd >= 0) {
		move_to(null_fd, STDIN_FILENO);
		move_to(null_fd, STDOUT_FILENO);
		move_to(null_fd, STDERR_FILENO);
	}
	move_to(spawn->ready_fd, SPAWN_READY_FD);
	close_from(SPAWN_READY_FD + 1);
	execve(spawn->path, spawn->argv, spawn->envp);
	spawn->error = errno;
	return EXIT_FAILURE;
}

IN_CHILD static int child_orphan(void *arg)
{
	struct spawn *spawn = arg;

	spawn->daemon_pid = __clone(child_exec, spawn->exec_stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
				    spawn);
	if (spawn->daemon_pid < 0)
		spawn->error = errno;
	return 0;
}

/* Makes the children and takes back the first. 0 once the second has become the daemon program. */
static int children_run(struct spawn *spawn)
{
	sigset_t all, before;
	pid_t pid;
	int error = 0;
	char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stacks == MAP_FAILED)
		return -errno;
	spawn->exec_stack = stacks + 2 * STACK_BYTES;

	/* No handler of the program may run in the children: it would run on the program's memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = __clone(child_orphan, stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK, spawn);
	if (pid < 0)
		error = -errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (pid > 0 && waitpid(pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
		;
	munmap(stacks, 2 * STACK_BYTES);
	return error ? error : -spawn->error;
}

/*
 * Waits until the daemon says how it went, or has died. A pipe alone would not tell the latter: while this ran, another
 * thread may have forked a child that keeps a copy of the other end.
 */
static int daemon_wait(int fd, pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool is_gone = pidfd < 0 && errno == ESRCH;
	struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
	unsigned char status = EXIT_FAILURE;

	while (!is_gone && poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (pidfd >= 0)
		close(pidfd);
	if (read(fd, &status, sizeof(status)) == (ssize_t)sizeof(status) && status == EXIT_SUCCESS)
		return 0;
	log_error("the daemon did not start; run usrdmad --foreground to see why");
	return -ENODEV;
}

static int spawn_and_wait(struct spawn *spawn)
{
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	/* Out of the way of the descriptors that the child gives a meaning. */
	spawn->ready_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, SPAWN_READY_FD + 1);
	error = spawn->ready_fd < 0 ? -errno : 0;
	close(ends[1]);
	if (!error) {
		error = children_run(spawn);
		close(spawn->ready_fd);
	}
	if (!error)
		error = daemon_wait(ends[0], spawn->daemon_pid);
	close(ends[0]);
	return error;
}

int ipc_daemon_spawn(void)
{
	static char *const argv[] = {(char *)DAEMON_NAME, (char *)"--ready-fd",
				     (char *)SPAWN_READY_ARG, NULL};
	char path[PATH_MAX];
	char *envp[ENV_MAX + 1];
	struct spawn spawn = {.path = path, .argv = argv, .envp = envp};
	int error;

	error = daemon_find(path);
	if (error) {
		log_error("no usrdmad program beside this library, in its prefix or at %s",
			  USRDMA_INSTALLED_DAEMON);
		return error;
	}
	daemon_environment(envp);
	log_debug("starting %s", path);
	error = spawn_and_wait(&spawn);
	if (error && error != -ENODEV) {
		errno = -error;
		log_error("cannot run %s: %m", path);
	}
	return error;
}
