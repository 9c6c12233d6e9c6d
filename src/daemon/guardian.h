/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GUARDIAN_H
#define USRDMA_DAEMON_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The guardian: a child process of the daemon that lets stopped processes continue if the daemon is
 * killed (ADR 0069). It has a pidfd of each process that a fault rule has stopped, and one socket,
 * whose other end the daemon holds. At the end of the stream it sends SIGCONT to these processes
 * and exits. It ignores the signals that end a daemon, and its name is "usrdmad-guard".
 *
 * It is started before the daemon has descriptors of clients: closing its copy of such a descriptor
 * could block.
 */

/* Starts the guardian; single-threaded. 0 or -errno: rules stop no processes. */
int guardian_start(void) __attribute__((warn_unused_result));

/* Ends the guardian, when no process is stopped, and waits for its end. */
void guardian_stop(void);

/* To be called before the process is stopped. 0; -EPIPE: there is no guardian; -EAGAIN, -EMFILE. */
int guardian_add(int pidfd, pid_t pid, uid_t uid) __attribute__((warn_unused_result));

/* The process runs. No effect if it was not added. */
void guardian_remove(pid_t pid);

/* Whether the guardian runs; if not, the stopped processes must continue. */
bool guardian_is_alive(void);

#endif
