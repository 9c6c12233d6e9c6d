/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_START_H
#define USRDMA_DAEMON_START_H

/*
 * Going into the background. Whoever ran the program waits until the daemon listens, and gets the outcome as the exit
 * status, so that nobody needs to poll for it.
 */

/*
 * Undoes what a stranger's process may have left to its children: ignored and blocked signals, the working directory,
 * low limits of descriptors, memory, processor time and file sizes, the processors that it is bound to.
 */
void start_clean(void);

/*
 * Forks the daemon, in a session of its own. Returns in the daemon, with a descriptor for start_report, or -errno in the
 * process that was run. That process otherwise ends here, with what start_report was given.
 */
int start_detach(void) __attribute__((warn_unused_result));

/* The same for a process that is an orphan already: ready_fd is what its starter waits on. */
int start_attach(int ready_fd) __attribute__((warn_unused_result));

/* Tells the process that was run how it went and lets go of its standard streams. fd -1: not detached, does nothing. */
void start_report(int fd, int exit_status);

#endif
