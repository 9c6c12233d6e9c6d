/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_SPAWN_H
#define USRDMA_IPC_SPAWN_H

/*
 * Starts the daemon from the application's process and waits until a daemon listens: the started
 * one, or one that another process started at the same time. The application is not affected: it
 * gets no SIGCHLD, its wait() reports no child, no zombie remains, and the daemon inherits no
 * descriptor and only the environment variables that configure it. Returns 0: a daemon listens;
 * -ENOENT: the program was not found; -ENODEV: the daemon did not start (logged); or -errno of
 * creating a process.
 */
int ipc_daemon_spawn(void) __attribute__((warn_unused_result));

#endif
