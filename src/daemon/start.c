/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"

static void signals_reset(void)
{
	sigset_t none;

	for (int signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	/*
	 * Ignored: a write beyond RLIMIT_FSIZE then fails with EFBIG and does not end the daemon.
	 */
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * The daemon inherits the CPU affinity of the program that started it, but serves all processes. It
 * therefore requests all CPUs; the kernel reduces the set to the permitted ones.
 */
static void processors_reset(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	if (sched_setaffinity(0, sizeof(all), &all) < 0)
		log_debug("cannot reset the CPU affinity: %m");
}

/*
 * The daemon inherits the soft limits of the program that started it. It raises them to the hard
 * limits, because it serves other processes, too.
 */
static void limits_reset(void)
{
	static const unsigned int resources[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS,
						 RLIMIT_DATA};

	for (size_t i = 0; i < COUNT(resources); i++) {
		struct rlimit limit;

		if (getrlimit(resources[i], &limit) < 0)
			continue;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(resources[i], &limit) < 0)
			log_debug("cannot raise limit %u: %m", resources[i]);
	}
}

void start_clean(void)
{
	signals_reset();
	processors_reset();
	umask(077);
	if (chdir("/") < 0)
		log_debug("cannot change the working directory to /: %m");
	limits_reset();
}

/* Waits for the daemon's exit status in the pipe and exits with it. EOF: the daemon failed. */
static void wait_and_exit(int fd)
{
	unsigned char status;
	ssize_t len;

	do {
		len = read(fd, &status, sizeof(status));
	} while (len < 0 && errno == EINTR);
	_exit(len == (ssize_t)sizeof(status) ? status : EXIT_FAILURE);
}

int start_detach(void)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		int error = -errno;

		close(ends[0]);
		close(ends[1]);
		return error;
	}
	if (pid > 0) {
		close(ends[1]);
		wait_and_exit(ends[0]);
	}
	close(ends[0]);
	setsid();
	return ends[1];
}

int start_attach(int ready_fd)
{
	if (fcntl(ready_fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	setsid();
	return ready_fd;
}

void start_report(int fd, int exit_status)
{
	unsigned char status = (unsigned char)exit_status;
	int null_fd;

	if (fd < 0)
		return;
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd >= 0) {
		dup2(null_fd, STDIN_FILENO);
		dup2(null_fd, STDOUT_FILENO);
		dup2(null_fd, STDERR_FILENO);
		if (null_fd > STDERR_FILENO)
			close(null_fd);
	}
	if (write(fd, &status, sizeof(status)) < 0)
		log_debug("the process that started the daemon has exited");
	close(fd);
}
