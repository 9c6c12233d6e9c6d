/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_FAULT_SIGNAL_H
#define USRDMA_DAEMON_FAULT_SIGNAL_H

#include <sys/types.h>

struct session;

/*
 * Signals of fault rules to the processes of sessions. They are sent through a pidfd: a session may outlive the process that opened
 * it, because a child can hold its socket, and another process may have the PID then.
 */

/* A pidfd of the process that connected this socket. -1: it has ended, the kernel has no pidfds, or no descriptor is free. */
int fault_signal_open(int fd, pid_t pid);

/* Sends the signal unless the process has ended or has another user than the session. */
void fault_signal_send(const struct session *session, const char *program, int number);

#endif
