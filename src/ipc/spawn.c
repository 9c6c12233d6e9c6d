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
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "config.h"

#define DAEMON_NAME    "usrdmad"
#define ENV_MAX	       32
#define STACK_BYTES    (64u << 10)
#define LIBEXEC_LEVELS 4

/* Descriptor number of the daemon's end of the pipe, also as an argument of the program. */
#define SPAWN_READY_FD	3
#define SPAWN_READY_ARG "3"

/*
 * How the daemon is started. clone() creates a first child that shares this process's memory,
 * because copying the page tables of a large process is expensive. Its exit signal is 0, so only a
 * wait() with __WCLONE reports it. execve() would reset the exit signal to SIGCHLD. The first child
 * therefore creates a second child, which executes the daemon program. The first child exits before
 * the calling thread continues. The daemon is then an orphan. It reports through a pipe that it
 * listens.
 */

/*
 * The parameters of both children, in the parent's stack frame. The children write the last two
 * members.
 */
struct spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	int ready_fd;	  /* the daemon's end of the pipe */
	char *exec_stack; /* the end of the second child's stack */
	int error;	  /* errno of clone() or execve() in a child; 0: none */
	pid_t daemon_pid;
};

extern char **environ;

/*
 * clone(2) under a name that ThreadSanitizer does not intercept. ThreadSanitizer treats clone() as
 * fork(). Because the children share this process's memory, it would then treat this thread as a
 * forked child and stop checking it.
 */
extern int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);

static bool is_program(const char *path)
{
	return access(path, X_OK) == 0;
}

/*
 * Stores in `dir` (PATH_MAX bytes) the directory of the library or program that contains this code.
 */
static int own_directory(char *dir)
{
	Dl_info info;
	char *slash;

	/* For a program dladdr() returns argv[0], which is not always a path. */
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
 * Search order: the path in USRDMA_DAEMON; the directory of this code or its parent, for a build
 * tree (build/usrdma, build/src/lib*.so, build/lib/lib*.so); libexec/usrdma in the directories
 * above, for a relocated installation; the configured path.
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

/*
 * The daemon inherits the variables of this project and of the sanitizers, but not those of the
 * application (LD_PRELOAD, ...).
 */
static bool is_passed_on(const char *variable)
{
	static const char *const prefixes[] = {
		"USRDMA_", "ASAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};

	for (size_t i = 0; i < COUNT(prefixes); i++) {
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	}
	return false;
}

/*
 * The user of a set-user-ID program chose its environment, so the daemon gets none of it: the
 * daemon itself may not be able to detect that, because the program may have set its real user ID
 * before.
 */
static void daemon_environment(char **envp)
{
	bool is_privileged = getauxval(AT_SECURE);
	int count = 0;

	for (char **variable = environ; !is_privileged && variable && *variable && count < ENV_MAX;
	     variable++) {
		if (is_passed_on(*variable))
			envp[count++] = *variable;
	}
	envp[count] = NULL;
}

/*
 * Descriptors are moved and closed by direct system calls. A preloaded library (such as
 * librspreload) may replace dup2() and close() of the C library and record the calls in memory,
 * which the children share with the application.
 */
static void spawn_move_to(int fd, int to)
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
 * For the functions of the children: they run on separate stacks, which the sanitizers do not
 * support, with all signals blocked, while the calling thread waits. They may only make system
 * calls.
 */
#define IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

IN_CHILD static int child_exec(void *arg)
{
	struct spawn *spawn = arg;
	int null_fd = open("/dev/null", O_RDWR);

	if (null_fd >= 0) {
		spawn_move_to(null_fd, STDIN_FILENO);
		spawn_move_to(null_fd, STDOUT_FILENO);
		spawn_move_to(null_fd, STDERR_FILENO);
	}
	spawn_move_to(spawn->ready_fd, SPAWN_READY_FD);
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

/*
 * Creates the children and reaps the first. 0: the second child executes the daemon program; or
 * -errno.
 */
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

	/*
	 * A signal handler of the application must not run in a child: it would modify the
	 * application's memory.
	 */
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
 * Waits until the daemon reports its status through the pipe or has exited. EOF of the pipe does
 * not reliably indicate the exit: another thread may have forked a child, which then has a copy of
 * the write end. The pidfd does.
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
	/* A number above the descriptors that the child replaces. */
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
