/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals of fault rules: only the process that opened the session gets them, and only while it has
 * the session's user.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/fault_process.h"
#include "daemon/guardian.h"
#include "daemon/users.h"

static struct users users;

static int open_users(void **state)
{
	(void)state;
	return users_open(&users) || guardian_start();
}

static int close_users(void **state)
{
	(void)state;
	guardian_stop();
	users_close(&users);
	return 0;
}

/* A process that connects twice to `listener`, or not at all, and waits for a signal. */
static pid_t start_process(int listener)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct sockaddr_storage addr;
		socklen_t len = sizeof(addr);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The guardian must observe the end of its stream. */
		for (int fd = STDERR_FILENO + 1; fd < 64; fd++) {
			if (fd != listener)
				close(fd);
		}
		for (int i = 0; listener >= 0 && i < 2; i++) {
			int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

			if (getsockname(listener, (struct sockaddr *)&addr, &len) ||
			    connect(fd, (struct sockaddr *)&addr, len))
				_exit(1);
		}
		for (;;)
			pause();
	}
	return pid;
}

/* A process with two sessions. */
struct client {
	struct user *user;
	int fds[2];
	struct fault_process *process;
	pid_t pid;
};

static void open_client(struct client *client, uid_t uid)
{
	struct sockaddr_storage addr = {.ss_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	/* The kernel chooses the name. */
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listener, 2), 0);
	client->pid = start_process(listener);
	client->user = users_get(&users, uid);
	for (int i = 0; i < 2; i++) {
		client->fds[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(client->fds[i] >= 0);
	}
	client->process = fault_process_get(client->user, client->fds[0], client->pid);
	assert_non_null(client->process);
	close(listener);
}

static void close_client(struct client *client)
{
	fault_process_put(client->process);
	users_put(&users, client->user);
	close(client->fds[0]);
	close(client->fds[1]);
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

static void fault_process_signal_process_of_session_gets_signal(void **state)
{
	struct client client;

	(void)state;
	open_client(&client, getuid());
	assert_int_equal(fault_process_signal(client.process, SIGKILL), 0);
	assert_true(client.process->has_ended);
	assert_int_equal(end_of(client.pid), SIGKILL);
	close_client(&client);
}

static void fault_process_signal_pid_of_another_process_gets_no_signal(void **state)
{
	struct client client;
	pid_t other;

	(void)state;
	open_client(&client, getuid());
	assert_int_equal(kill(client.pid, SIGTERM), 0);
	assert_int_equal(end_of(client.pid), SIGTERM);
	/* As if the process had the PID of the one that has ended. */
	other = start_process(-1);
	client.process->pid = other;
	assert_int_equal(fault_process_signal(client.process, SIGKILL), -ESRCH);
	expect_alive(other);
	close_client(&client);
}

static void fault_process_signal_process_of_another_user_gets_no_signal(void **state)
{
	struct client client;

	(void)state;
	open_client(&client, getuid() + 1);
	assert_int_equal(fault_process_signal(client.process, SIGKILL), -EPERM);
	assert_false(client.process->has_ended);
	expect_alive(client.pid);
	close_client(&client);
}

static void fault_process_get_sessions_of_one_process_share_it(void **state)
{
	struct client client;

	(void)state;
	open_client(&client, getuid());
	assert_ptr_equal(fault_process_get(client.user, client.fds[1], client.pid), client.process);
	assert_int_equal(client.process->refs, 2);
	fault_process_put(client.process);
	assert_false(list_is_empty(&client.user->processes));
	expect_alive(client.pid);
	close_client(&client);
}

static void fault_process_get_pid_of_an_ended_process_is_another_process(void **state)
{
	struct client client, second;

	(void)state;
	open_client(&client, getuid());
	assert_int_equal(kill(client.pid, SIGTERM), 0);
	assert_int_equal(end_of(client.pid), SIGTERM);
	open_client(&second, getuid());
	client.process->pid = second.pid;
	assert_ptr_equal(fault_process_get(second.user, second.fds[1], second.pid), second.process);
	fault_process_put(second.process);
	expect_alive(second.pid);
	close_client(&second);
	close_client(&client);
}

static void stop(struct client *client)
{
	int status;

	assert_int_equal(fault_process_signal(client->process, SIGSTOP), 0);
	client->process->is_stopped = true;
	assert_int_equal(waitpid(client->pid, &status, WUNTRACED), client->pid);
	assert_true(WIFSTOPPED(status));
}

static void expect_continued(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
	assert_true(WIFCONTINUED(status));
	expect_alive(pid);
}

static void fault_process_put_stopped_process_continues(void **state)
{
	struct client client;

	(void)state;
	open_client(&client, getuid());
	stop(&client);
	close_client(&client);
	expect_continued(client.pid);
}

/* The end of the stream is what the guardian observes when the daemon is killed. */
static void guardian_stop_stopped_process_continues(void **state)
{
	struct client client;

	(void)state;
	open_client(&client, getuid());
	stop(&client);
	assert_true(guardian_is_alive());
	guardian_stop();
	expect_continued(client.pid);
	assert_false(guardian_is_alive());
	assert_int_equal(guardian_start(), 0);
	close_client(&client);
}

static void fault_process_signal_without_guardian_stops_no_process(void **state)
{
	struct client client;

	(void)state;
	open_client(&client, getuid());
	guardian_stop();
	assert_int_equal(fault_process_signal(client.process, SIGSTOP), -EPIPE);
	assert_int_equal(waitpid(client.pid, NULL, WNOHANG | WUNTRACED), 0);
	assert_int_equal(guardian_start(), 0);
	expect_alive(client.pid);
	close_client(&client);
}

static void fault_process_may_signal_own_user_is_allowed(void **state)
{
	(void)state;
	assert_true(fault_process_may_signal(geteuid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_process_signal_process_of_session_gets_signal),
		cmocka_unit_test(fault_process_signal_pid_of_another_process_gets_no_signal),
		cmocka_unit_test(fault_process_signal_process_of_another_user_gets_no_signal),
		cmocka_unit_test(fault_process_get_sessions_of_one_process_share_it),
		cmocka_unit_test(fault_process_get_pid_of_an_ended_process_is_another_process),
		cmocka_unit_test(fault_process_put_stopped_process_continues),
		cmocka_unit_test(guardian_stop_stopped_process_continues),
		cmocka_unit_test(fault_process_signal_without_guardian_stops_no_process),
		cmocka_unit_test(fault_process_may_signal_own_user_is_allowed),
	};

	return cmocka_run_group_tests(tests, open_users, close_users);
}
