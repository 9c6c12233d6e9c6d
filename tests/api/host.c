/* SPDX-License-Identifier: BSD-2-Clause */
#include "host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS 40000

void host_needed(void)
{
	if (!getenv("USRDMA_TEST_IP"))
		skip();
}

/*
 * Sends a line to the socket of run.py that this variable names, and waits until run.py has
 * processed the line.
 */
static void ask_runner(const char *variable, const char *line)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char response[64] = "";

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", getenv(variable));
	assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	assert_true(send(fd, line, strlen(line), 0) > 0);
	assert_true(recv(fd, response, sizeof(response) - 1, 0) > 0);
	assert_string_equal(response, "done");
	close(fd);
}

void host_ip(const char *arguments)
{
	ask_runner("USRDMA_TEST_IP", arguments);
}

/* Connects to the daemon, as every client does. */
static int call_daemon(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0usrdmad"};
	socklen_t name_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + 7);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&name, name_bytes), 0);
	return fd;
}

static pid_t pid_of(int fd)
{
	socklen_t bytes = sizeof(struct ucred);
	struct ucred cred;

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes), 0);
	assert_true(cred.pid > 1);
	return cred.pid;
}

pid_t host_daemon_pid(void)
{
	int fd = call_daemon();
	pid_t pid = pid_of(fd);

	close(fd);
	return pid;
}

static void signal_daemon(int number, const char *name)
{
	if (getenv("USRDMA_TEST_SIGNAL"))
		ask_runner("USRDMA_TEST_SIGNAL", name);
	else
		assert_int_equal(kill(host_daemon_pid(), number), 0);
}

void host_stop_daemon(void)
{
	signal_daemon(SIGSTOP, "SIGSTOP");
}

void host_continue_daemon(void)
{
	signal_daemon(SIGCONT, "SIGCONT");
}

void host_kill_daemon(void)
{
	int fd = call_daemon();
	pid_t pid = pid_of(fd);
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	assert_true(end.fd >= 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	/* A process that has ended has closed its sockets, and so freed its name. */
	while (poll(&end, 1, -1) < 0)
		assert_int_equal(errno, EINTR);
	close(end.fd);
	close(fd);
}

static struct ibv_context *try_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	assert_non_null(list);
	for (int i = 0; list[i] && !ctx; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	return ctx;
}

struct ibv_context *host_open(const char *name)
{
	struct ibv_context *ctx = try_open(name);

	for (int waited_ms = 0; !ctx && waited_ms < PATIENCE_MS; waited_ms += 10) {
		poll(NULL, 0, 10);
		ctx = try_open(name);
	}
	assert_non_null(ctx);
	return ctx;
}
