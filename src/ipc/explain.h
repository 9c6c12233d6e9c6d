/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_EXPLAIN_H
#define USRDMA_IPC_EXPLAIN_H

#include <sys/socket.h>
#include <sys/types.h>

struct ipc_version_reply;

/*
 * Reports to the user why this process is not served: the application itself can only report that
 * no device was found. Several calls of an application try to reach the daemon. Each cause is
 * therefore reported to the user once for each process; repetitions are logged with
 * USRDMA_LOG=error.
 */

/* `error` is that of ipc_daemon_spawn(). */
void ipc_explain_spawn(int error);

/*
 * The process of the daemon has the user of this process, but that may be any user that the user
 * namespace does not map. `errno_of_map`: why /proc/self/uid_map cannot be read, or 0.
 */
void ipc_explain_unknown_user(const struct ucred *daemon, int errno_of_map);

/* The daemon belongs to another user. */
void ipc_explain_other_user(const struct ucred *daemon);

/*
 * `error` is the status of the HELLO reply or that of receiving it. Reports limits; other errors
 * are ignored.
 */
void ipc_explain_limit(int error);

/*
 * The daemon has another protocol version and other clients. `reply` is its reply to HELLO, of
 * which only the header is present if hdr.len is sizeof(struct ipc_hdr).
 */
void ipc_explain_version(pid_t daemon_pid, const struct ipc_version_reply *reply);

#endif
