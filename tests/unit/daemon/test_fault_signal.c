/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals of fault rules: only the process that opened the session gets them, and only while it has the session's user. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/fault_signal.h"
#include "daemon/fault_tick.h"
#include "daemon/session.h"

/* A process that connects to `listener`, or to none, and waits for a signal. */
static pid_t start_process(int listener)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct sockaddr_storage addr;
		socklen_t len = sizeof(addr);
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (listener >= 0 && (getsockname(listener, (struct sockaddr *)&addr, &len) ||
				      connect(fd, (struct sockaddr *)&addr, len)))
			_exit(1);
		for (;;)
			pause();
	}
	return pid;
}

/* A session of a new process. Returns its PID. */
static pid_t open_session(struct session *session)
{
	struct sockaddr_storage addr = {.ss_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t pid;

	/* The kernel chooses the name. */
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listener, 1), 0);
	pid = start_process(listener);
	*session = (struct session){.cred = {.pid = pid, .uid = getuid()}};
	session->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(session->fd >= 0);
	session->pidfd = fault_signal_open(session->fd, pid);
	assert_true(session->pidfd >= 0);
	close(listener);
	return pid;
}

static void close_session(struct session *session)
{
	close(session->pidfd);
	close(session->fd);
}

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void expect_alive(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(end_of(pid), SIGTERM);
}

static void fault_signal_send_process_of_session_gets_signal(void **state)
{
	struct session session;
	pid_t pid = open_session(&session);

	(void)state;
	fault_signal_send(&session, "test", SIGKILL);
	assert_int_equal(end_of(pid), SIGKILL);
	close_session(&session);
}

static void fault_signal_send_pid_of_another_process_gets_no_signal(void **state)
{
	struct session session;
	pid_t pid = open_session(&session), other;

	(void)state;
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(end_of(pid), SIGTERM);
	/* As if the process had the PID of the one that has ended. */
	other = start_process(-1);
	session.cred.pid = other;
	fault_signal_send(&session, "test", SIGKILL);
	expect_alive(other);
	close_session(&session);
}

static void fault_signal_send_process_of_another_user_gets_no_signal(void **state)
{
	struct session session;
	pid_t pid = open_session(&session);

	(void)state;
	session.cred.uid = getuid() + 1;
	fault_signal_send(&session, "test", SIGKILL);
	expect_alive(pid);
	close_session(&session);
}

static void fault_tick_forget_stopped_process_continues(void **state)
{
	struct session session;
	pid_t pid = open_session(&session);
	int status;

	(void)state;
	fault_signal_send(&session, "test", SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	session.is_stopped = true;
	fault_tick_forget(&session);
	assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
	assert_true(WIFCONTINUED(status));
	assert_false(session.is_stopped);
	expect_alive(pid);
	close_session(&session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_signal_send_process_of_session_gets_signal),
		cmocka_unit_test(fault_signal_send_pid_of_another_process_gets_no_signal),
		cmocka_unit_test(fault_signal_send_process_of_another_user_gets_no_signal),
		cmocka_unit_test(fault_tick_forget_stopped_process_continues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
