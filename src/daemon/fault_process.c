/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_process.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/guardian.h"
#include "daemon/process_owner.h"
#include "daemon/reserve.h"
#include "daemon/users.h"

/* Linux 6.5: <asm/socket.h> of older systems does not have it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int pidfd_of_peer(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	/*
	 * With an older kernel, the PID may belong to another process already.
	 * fault_process_signal() checks the user.
	 */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		pidfd = errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (pidfd >= 0 && reserve_holds(pidfd)) {
		close(pidfd);
		pidfd = -1;
	}
	return pidfd;
}

/* Whether the process has exited; its PID may belong to another one then. */
static bool has_exited(const struct fault_process *process)
{
	struct pollfd poll_fd = {.fd = process->pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) != 0;
}

static struct fault_process *process_find(const struct user *user, pid_t pid)
{
	struct fault_process *process;

	list_for_each_entry(process, &user->processes, node) {
		if (process->pid == pid && !has_exited(process))
			return process;
	}
	return NULL;
}

struct fault_process *fault_process_get(struct user *user, int fd, pid_t pid)
{
	struct fault_process *process = process_find(user, pid);
	int pidfd;

	if (process) {
		process->refs++;
		return process;
	}
	pidfd = pid > 0 ? pidfd_of_peer(fd, pid) : -1;
	if (pidfd < 0)
		return NULL;
	process = calloc(1, sizeof(*process));
	if (!process) {
		close(pidfd);
		return NULL;
	}
	*process = (struct fault_process){.user = user, .pid = pid, .pidfd = pidfd, .refs = 1};
	list_add_tail(&process->node, &user->processes);
	return process;
}

void fault_process_put(struct fault_process *process)
{
	if (!process || --process->refs > 0)
		return;
	fault_process_release(process);
	user_walk_skip(&process->user->pass.processes, &process->node);
	list_del(&process->node);
	close(process->pidfd);
	free(process);
}

bool fault_process_may_signal(uid_t uid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (uid == geteuid())
		return true;
	return !syscall(SYS_capget, &header, data) && (data[0].effective >> CAP_KILL & 1);
}

/*
 * Between the check and the signal the process may execute a set-user-ID program of another user.
 * The kernel permits its user to send it signals then, too, until the program changes the real user
 * ID.
 */
static int send_signal(const struct fault_process *process, int number)
{
	if (!process_owner_is(process->pid, process->user->uid))
		return has_exited(process) ? -ESRCH : -EPERM;
	return syscall(SYS_pidfd_send_signal, process->pidfd, number, NULL, 0) ? -errno : 0;
}

int fault_process_signal(struct fault_process *process, int number)
{
	int error = 0;

	if (number == SIGSTOP)
		error = guardian_add(process->pidfd, process->pid, process->user->uid);
	if (!error)
		error = send_signal(process, number);
	if (number == SIGCONT || (number == SIGSTOP && error))
		guardian_remove(process->pid);
	process->has_ended |= error == -ESRCH || (number == SIGKILL && !error);
	log_debug("a fault rule: signal %d to pid %ld: %s", number, (long)process->pid,
		  strerror(-error));
	return error;
}

void fault_process_release(struct fault_process *process)
{
	if (process->is_stopped && fault_process_signal(process, SIGCONT))
		log_debug("pid %ld does not continue", (long)process->pid);
	process->is_stopped = false;
}
