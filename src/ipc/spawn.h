/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_SPAWN_H
#define USRDMA_IPC_SPAWN_H

/*
 * Starts the daemon from inside a stranger's process and waits until one listens, this one or another that was faster.
 * Nothing of it shows: no SIGCHLD, no child in the process's wait(), no zombie, no descriptor or environment of the
 * process in the daemon. Returns 0 once a daemon listens, -ENOENT if the program cannot be found, -ENODEV if it could
 * not start (the log says why), or what creating a process failed with.
 */
int ipc_daemon_spawn(void) __attribute__((warn_unused_result));

#endif
