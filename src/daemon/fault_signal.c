/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_signal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/reserve.h"
#include "daemon/session.h"

/* Linux 6.5: <asm/socket.h> of older systems does not have it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int fault_signal_open(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	/* With an older kernel, the PID may belong to another process already. fault_signal_send() checks the user. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		pidfd = errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (pidfd >= 0 && reserve_holds(pidfd)) {
		close(pidfd);
		pidfd = -1;
	}
	return pidfd;
}

/* Whether the process still has the session's user: it may have executed a set-user-ID program. */
static bool is_users_process(const struct session *session)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%ld", (long)session->cred.pid);
	return stat(path, &st) == 0 && st.st_uid == session->cred.uid;
}

void fault_signal_send(const struct session *session, const char *program, int number)
{
	if (session->pidfd < 0 || !is_users_process(session))
		return;
	if (!syscall(SYS_pidfd_send_signal, session->pidfd, number, NULL, 0))
		log_info("a fault rule: signal %d to %s (pid %ld)", number, program,
			 (long)session->cred.pid);
	else if (errno != ESRCH)
		log_warn("a fault rule: signal %d to %s (pid %ld): %m", number, program,
			 (long)session->cred.pid);
}
