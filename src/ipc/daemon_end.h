/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_DAEMON_END_H
#define USRDMA_IPC_DAEMON_END_H

#include <stdbool.h>
#include <sys/types.h>

#include "ipc/client.h"
#include "ipc/msg_failure.h"

/*
 * Whether the process with this id, as SO_PEERCRED reports it, is in another PID namespace than the
 * caller, so that it ends with other processes, for example with those of another container. false
 * if that cannot be determined.
 */
bool ipc_is_in_other_pid_namespace(pid_t pid);

/* The above for the text of a /proc/PID/status of the caller's procfs. */
bool ipc_status_shows_namespace(const char *status);

/*
 * Waits for the end of the daemon for at most that time. false: it still runs, or has no id in the
 * caller's PID namespace.
 */
bool ipc_daemon_ends(pid_t pid, int timeout_ms);

/*
 * Reports to the user why the daemon of the connection `lost` ended, if it was in another PID
 * namespace: the successor ends, too, if it is in the container of this process, and this process
 * exits.
 */
void ipc_explain_daemon_end(const struct ipc_client *lost);

/* Failures that a process has reported. */
struct ipc_failures {
	const struct ipc_failure *failures;
	uint32_t count;
};

/*
 * Reports the end of the daemon of the connection `lost` to its successor, which is started if no
 * daemon runs. Only if the daemon was in another PID namespace and had the caller's uid: in other
 * cases another process restarts the daemon, or the user has ended it. The failures `earlier`,
 * which the lost daemon had stored, are reported again before. The caller sets id, event and device
 * of the failure. This call sets the other members, opens and closes `successor`, and blocks until
 * the successor has started. The child of a fork() at that time has to call ipc_client_forget() for
 * `successor`. 0: the reports were sent; -ENOTSUP: one of the other cases; or -errno.
 */
int ipc_report_daemon_end(const struct ipc_client *lost, const struct ipc_failures *earlier,
			  struct ipc_failure *failure, struct ipc_client *successor)
	__attribute__((warn_unused_result));

#endif
