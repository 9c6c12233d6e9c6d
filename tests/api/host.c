/* SPDX-License-Identifier: BSD-2-Clause */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void host_needed(void)
{
	if (!getenv("USRDMA_TEST_IP"))
		skip();
}

void host_ip(const char *arguments)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char answer[64] = "";

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", getenv("USRDMA_TEST_IP"));
	assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	assert_true(send(fd, arguments, strlen(arguments), 0) > 0);
	assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
	assert_string_equal(answer, "done");
	close(fd);
}

/* A connection to it, found as every client finds it. */
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

void host_kill_daemon(void)
{
	int fd = call_daemon();
	char byte;

	assert_int_equal(kill(pid_of(fd), SIGKILL), 0);
	/* Whatever it still said: what the kernel closes is closed in the end. */
	while (recv(fd, &byte, sizeof(byte), 0) > 0)
		;
	close(fd);
}
