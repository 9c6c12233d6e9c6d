/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAULT_PROCESS_H
#define USRDMA_DAEMON_FAULT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

struct user;

/*
 * A process with queue pairs, to which fault rules send signals. All sessions that it opened share
 * it. Signals are sent through a pidfd: a session may outlive the process that opened it, because a
 * child can hold its socket, and another process may have the PID then. Freed with the last
 * session; a stopped process continues then. One thread.
 */
struct fault_process {
	struct list_head node; /* user.processes */
	struct user *user;
	pid_t pid;
	int pidfd;
	unsigned int refs;
	bool is_stopped; /* a rule has stopped it */
	bool has_ended;	 /* it got SIGKILL, or did not exist any more */
};

/*
 * The process that connected this socket, with one more reference. NULL: it has ended, the kernel
 * has no pidfds, or no descriptor or memory is free; rules then send it no signals.
 */
struct fault_process *fault_process_get(struct user *user, int fd, pid_t pid);

/* NULL is ignored. */
void fault_process_put(struct fault_process *process);

/*
 * Whether the daemon may send signals to processes of this user: it is the daemon's user, or the
 * daemon has CAP_KILL. The kernel decides on each signal.
 */
bool fault_process_may_signal(uid_t uid);

/*
 * Sends a signal. SIGSTOP: the process is added to the guardian (guardian.h) first, and it is not
 * stopped without a guardian. 0; -EPERM: the kernel refuses it, or the process has other user IDs
 * than its user, because it executes a set-user-ID program; -ESRCH: it has ended; or another
 * -errno.
 */
int fault_process_signal(struct fault_process *process, int number)
	__attribute__((warn_unused_result));

/* A stopped process continues. */
void fault_process_release(struct fault_process *process);

#endif
