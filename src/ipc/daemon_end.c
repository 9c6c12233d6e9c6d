/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/daemon_end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/syscalls.h"

#define STATUS_BYTES 4096

bool ipc_status_shows_namespace(const char *status)
{
	static const char field[] = "\nNSpid:";
	const char *line = strstr(status, field);
	const char *end;
	int ids = 0;

	if (!line)
		return false;
	line += sizeof(field) - 1;
	end = line + strcspn(line, "\n");
	while (line < end) {
		line += strspn(line, " \t");
		if (line < end)
			ids++;
		line += strcspn(line, " \t\n");
	}
	/* One id for each namespace from that of the procfs to that of the process. */
	return ids > 1;
}

/* A process of a namespace below that of the caller has an id here. */
static bool is_in_namespace_below(pid_t pid)
{
	char path[64], status[STATUS_BYTES];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = sys_read(fd, status, sizeof(status) - 1);
	sys_close(fd);
	if (len <= 0)
		return false;
	status[len] = '\0';
	return ipc_status_shows_namespace(status);
}

bool ipc_is_in_other_pid_namespace(pid_t pid)
{
	/* The kernel reports 0 for a process that has no id in the caller's namespace. */
	return pid == 0 || is_in_namespace_below(pid);
}

bool ipc_daemon_ends(pid_t pid, int timeout_ms)
{
	struct pollfd ended = {.fd = -1, .events = POLLIN};
	int ready;

	if (pid <= 0)
		return false;
	ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (ended.fd < 0)
		return errno == ESRCH;
	do {
		ready = poll(&ended, 1, timeout_ms);
	} while (ready < 0 && errno == EINTR);
	sys_close(ended.fd);
	return ready > 0;
}

static uint64_t daemon_end_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

void ipc_explain_daemon_end(const struct ipc_client *lost)
{
	if (lost->is_daemon_elsewhere)
		log_user(
			"all RDMA devices and connections of this process fail: the RDMA daemon ended, which ran in another PID "
			"namespace, that of the container whose program started it; run 'usrdmad --foreground --idle-seconds "
			"0' in a container that runs longer than the others (usrdmad(8), Containers)");
}

int ipc_report_daemon_end(const struct ipc_client *lost, const struct ipc_failures *earlier,
			  struct ipc_failure *failure, struct ipc_client *successor)
{
	size_t bytes = strnlen(program_invocation_short_name, sizeof(failure->program) - 1);
	int error;

	if (!lost->is_daemon_elsewhere || lost->daemon_uid != geteuid())
		return -ENOTSUP;
	/* Before the successor is started, so that the time is that of the end. */
	failure->hdr.type = IPC_FAILURE;
	failure->time_ns = daemon_end_wall_ns();
	failure->kind = IPC_FAILURE_EVENT;
	failure->reason = IPC_REASON_DAEMON_ENDED;
	memcpy(failure->program, program_invocation_short_name, bytes);
	failure->numbers[0] = (uint64_t)lost->daemon_pid;
	error = ipc_client_open(successor, IPC_ROLE_CM);
	if (error)
		return error;
	for (uint32_t i = 0; i < earlier->count && !error; i++) {
		struct ipc_failure again = earlier->failures[i];

		error = ipc_send_request(successor, &again, sizeof(again));
	}
	if (!error)
		error = ipc_send_request(successor, failure, sizeof(*failure));
	ipc_client_close(successor);
	return error;
}
