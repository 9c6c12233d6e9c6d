/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/explain.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/syscalls.h"
#include "config.h"
#include "ipc/msg.h"

enum explain_cause {
	EXPLAIN_SPAWN_ENDED,
	EXPLAIN_SPAWN_FAILED,
	EXPLAIN_UNKNOWN_USER,
	EXPLAIN_OTHER_USER,
	EXPLAIN_PROCESSES,
	EXPLAIN_OPEN_FILES,
	EXPLAIN_VERSION,
	EXPLAIN_MEMFD,
	EXPLAIN_CAUSES
};

static enum log_level explain_level(enum explain_cause cause)
{
	static atomic_bool is_explained[EXPLAIN_CAUSES];

	return atomic_exchange(&is_explained[cause], true) ? LOG_LEVEL_ERROR : LOG_LEVEL_USER;
}

void ipc_explain_spawn(int error)
{
	enum log_level level;

	if (error == -ENODEV) {
		level = explain_level(EXPLAIN_SPAWN_ENDED);
		log_at(level,
		       "no RDMA devices: usrdmad was started and exited at once; run 'usrdmad --foreground' to see why");
	} else if (error == -EAGAIN) {
		level = explain_level(EXPLAIN_SPAWN_FAILED);
		log_at(level,
		       "no RDMA devices: usrdmad cannot be started: the limit of processes (ulimit -u, or pids.max of the "
		       "container's cgroup) is reached; raise it (--pids-limit)");
	} else {
		level = explain_level(EXPLAIN_SPAWN_FAILED);
		log_at(level,
		       "no RDMA devices: usrdmad cannot be started (USRDMA_LOG=error shows the path): %s",
		       strerror(-error));
	}
}

void ipc_explain_unknown_user(const struct ucred *daemon, int errno_of_map)
{
	enum log_level level = explain_level(EXPLAIN_UNKNOWN_USER);

	if (errno_of_map)
		log_at(level,
		       "cannot check the user of the RDMA daemon (pid %ld): /proc/self/uid_map: %s; mount /proc in this root "
		       "directory, or use root's daemon",
		       (long)daemon->pid, strerror(errno_of_map));
	else
		log_at(level,
		       "the RDMA daemon of this machine (pid %ld) may belong to any user that this user "
		       "namespace does not map, shown as uid %u: map your user (unshare --map-user, "
		       "newuidmap), and root if the daemon is root's, or run the program outside of the "
		       "namespace",
		       (long)daemon->pid, (unsigned int)daemon->uid);
}

void ipc_explain_other_user(const struct ucred *daemon)
{
	enum log_level level = explain_level(EXPLAIN_OTHER_USER);

	log_at(level,
	       "the RDMA daemon of this machine (pid %ld) belongs to uid %u and serves only that user: stop that "
	       "daemon, and start one as root for all users (systemctl enable --now usrdmad.socket, if it is installed; "
	       "else usrdmad --foreground --idle-seconds 0)",
	       (long)daemon->pid, (unsigned int)daemon->uid);
}

/* The daemon has the filter of the program that started it, most often of this one. */
static bool has_memfd(void)
{
	int fd = memfd_create("usrdma-explain", MFD_CLOEXEC);

	if (fd < 0)
		return false;
	sys_close(fd);
	return true;
}

void ipc_explain_limit(int error)
{
	enum log_level level;

	if (error == -ENOSPC || error == -EDQUOT) {
		level = explain_level(EXPLAIN_PROCESSES);
		log_at(level,
		       "usrdmad does not serve this program: %s has the maximum number of processes",
		       error == -EDQUOT ? "its user" : "the daemon");
	} else if ((error == -ENOSYS || error == -EPERM) && !has_memfd()) {
		level = explain_level(EXPLAIN_MEMFD);
		log_at(level,
		       "no RDMA devices: the kernel or a seccomp filter refuses memfd_create(2), which shared memory needs; "
		       "permit it in the seccomp profile of the container");
	} else if (error == -EMFILE) {
		level = explain_level(EXPLAIN_OPEN_FILES);
		log_at(level,
		       "usrdmad does not serve this program: the daemon has reached its limit of open files; end the programs, so that it "
		       "ends, and start them with a larger limit (ulimit -Hn)");
	}
}

/* "release 0.3.0 (protocol 23)". The daemon is not trusted to terminate the string. */
static void describe_release(char *text, size_t bytes, const struct ipc_version_reply *reply)
{
	char release[IPC_RELEASE_MAX + 1] = "";
	size_t len = 0;

	if (reply->hdr.len == sizeof(*reply))
		memcpy(release, reply->release, sizeof(reply->release));
	while (isalnum((unsigned char)release[len]) ||
	       (release[len] && strchr(".-+~", release[len])))
		len++;
	release[len] = '\0';
	if (len > 0)
		snprintf(text, bytes, "release %s (protocol %u)", release, reply->version);
	else
		snprintf(text, bytes, "another release");
}

void ipc_explain_version(pid_t daemon_pid, const struct ipc_version_reply *reply)
{
	enum log_level level = explain_level(EXPLAIN_VERSION);
	char release[IPC_RELEASE_MAX + 48];

	describe_release(release, sizeof(release), reply);
	log_at(level,
	       "no RDMA devices: the running usrdmad (pid %ld) is of %s, and this program's usrdma of release %s "
	       "(protocol %d): end the programs that use the daemon, or restart it (systemctl restart usrdmad)",
	       (long)daemon_pid, release, USRDMA_VERSION, IPC_VERSION);
}
