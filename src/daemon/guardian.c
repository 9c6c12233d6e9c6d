/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "base/util.h"
#include "daemon/process_owner.h"
#include "ipc/msg.h"

#define GUARDIAN_FD   3
#define FIRST_CLOSED  (GUARDIAN_FD + 1)
#define CLOSED_BEFORE 1024 /* without close_range(2), which is older than pidfds of sockets */
/* Each stopped process has a slot. */
#define GUARDED_MAX IPC_SLOTS

/* From the daemon to the guardian; with a pidfd if the process is about to be stopped. */
struct guardian_message {
	int32_t pid;
	uint32_t uid;
};

/* The daemon's side. */
static int guardian_fd = -1;
static pid_t guardian_pid;

/* The guardian's side. */
static struct guarded {
	pid_t pid;
	uid_t uid;
	int pidfd;
} guarded[GUARDED_MAX];
static int guarded_count;

static void guarded_remove(pid_t pid)
{
	for (int i = 0; i < guarded_count; i++) {
		if (guarded[i].pid != pid)
			continue;
		close(guarded[i].pidfd);
		guarded[i] = guarded[--guarded_count];
		return;
	}
}

static void guarded_add(const struct guardian_message *message, int pidfd)
{
	guarded_remove(message->pid);
	if (guarded_count == GUARDED_MAX) {
		close(pidfd);
		return;
	}
	guarded[guarded_count++] = (struct guarded){message->pid, message->uid, pidfd};
}

static void continue_all(void)
{
	for (int i = 0; i < guarded_count; i++) {
		if (process_owner_is(guarded[i].pid, guarded[i].uid))
			syscall(SYS_pidfd_send_signal, guarded[i].pidfd, SIGCONT, NULL, 0);
	}
}

static void guardian_run(int fd)
{
	for (;;) {
		struct guardian_message message;
		int pidfd, nfds;
		ssize_t len = fdpass_recv(fd, &message, sizeof(message), &pidfd, 1, &nfds, 0);

		if (len == -EINTR)
			continue;
		/*
		 * After FDPASS_LOST the daemon detects the end of the guardian, and the processes
		 * continue.
		 */
		if (len != (ssize_t)sizeof(message) || nfds < 0)
			break;
		if (nfds > 0)
			guarded_add(&message, pidfd);
		else
			guarded_remove(message.pid);
	}
	continue_all();
	_exit(0);
}

/*
 * Only the end of the stream ends the guardian: a service manager sends SIGTERM to all processes of
 * the service.
 */
static void guardian_ignore_signals(void)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};

	for (size_t i = 0; i < COUNT(numbers); i++)
		signal(numbers[i], SIG_IGN);
}

static void guardian_keep_only(int fd)
{
	int null_fd;

	/*
	 * First: the daemon may have been started without standard descriptors, and `fd` may have
	 * one of their numbers.
	 */
	if (fd != GUARDIAN_FD)
		dup2(fd, GUARDIAN_FD);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int standard = 0; null_fd >= 0 && standard <= STDERR_FILENO; standard++)
		dup2(null_fd, standard);
	if (syscall(SYS_close_range, FIRST_CLOSED, ~0u, 0)) {
		for (int other = FIRST_CLOSED; other < CLOSED_BEFORE; other++)
			close(other);
	}
}

int guardian_start(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	guardian_pid = fork();
	if (guardian_pid < 0) {
		int error = -errno;

		close(ends[0]);
		close(ends[1]);
		return error;
	}
	if (guardian_pid == 0) {
		setsid();
		prctl(PR_SET_NAME, "usrdmad-guard");
		guardian_ignore_signals();
		guardian_keep_only(ends[1]);
		guardian_run(GUARDIAN_FD);
	}
	close(ends[1]);
	guardian_fd = ends[0];
	return 0;
}

void guardian_stop(void)
{
	if (guardian_fd < 0)
		return;
	close(guardian_fd);
	guardian_fd = -1;
	while (waitpid(guardian_pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int guardian_send(const struct guardian_message *message, const int *pidfd)
{
	if (guardian_fd < 0)
		return -EPIPE;
	return fdpass_send(guardian_fd, message, sizeof(*message), pidfd, pidfd ? 1 : 0,
			   MSG_DONTWAIT);
}

int guardian_add(int pidfd, pid_t pid, uid_t uid)
{
	const struct guardian_message message = {(int32_t)pid, (uint32_t)uid};

	return guardian_send(&message, &pidfd);
}

void guardian_remove(pid_t pid)
{
	const struct guardian_message message = {.pid = (int32_t)pid};

	/* If the message is lost, the guardian sends the process one SIGCONT too many. */
	if (guardian_send(&message, NULL))
		log_debug("the guardian did not receive that pid %ld runs", (long)pid);
}

bool guardian_is_alive(void)
{
	char byte;

	return guardian_fd >= 0 &&
	       recv(guardian_fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       errno == EAGAIN;
}
