/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_START_H
#define USRDMA_DAEMON_START_H

/*
 * Starts the daemon in the background. The process that was run waits until the daemon listens, and
 * exits with the daemon's result. So its caller does not have to poll.
 */

/*
 * Resets state inherited from the process that started the daemon, which may be any application:
 * ignored and blocked signals, the working directory, low limits of descriptors, memory, processor
 * time and file size, and the processor affinity.
 */
void start_clean(void);

/*
 * Forks the daemon into a new session. Returns in the daemon with a descriptor for start_report(),
 * or -errno in the process that was run. After a successful fork, that process waits and exits with
 * the status passed to start_report().
 */
int start_detach(void) __attribute__((warn_unused_result));

/*
 * The same for a process that has been orphaned already. ready_fd is the descriptor that its
 * starter waits on.
 */
int start_attach(int ready_fd) __attribute__((warn_unused_result));

/*
 * Passes exit_status to the process that was run, and redirects the standard streams to /dev/null.
 * fd -1: not detached, does nothing.
 */
void start_report(int fd, int exit_status);

#endif
