/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/daemon_end.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void ipc_status_shows_namespace_for_several_ids_only(void **state)
{
	(void)state;
	assert_true(ipc_status_shows_namespace("Name:\tx\nNSpid:\t4711\t9\nNSpgid:\t1\t1\n"));
	assert_true(ipc_status_shows_namespace("Name:\tx\nNSpid:\t4711\t9\t1"));
	assert_false(ipc_status_shows_namespace("Name:\tx\nNSpid:\t4711\nNSpgid:\t1\t1\n"));
	assert_false(ipc_status_shows_namespace("Name:\tx\nNSpid:\t4711"));
	assert_false(ipc_status_shows_namespace("Name:\tx\nNSpid:"));
	assert_false(ipc_status_shows_namespace("Name:\tx\nNStgid:\t1\t2\n"));
	assert_false(ipc_status_shows_namespace(""));
}

static void ipc_is_in_other_pid_namespace_for_pid_0_only(void **state)
{
	(void)state;
	assert_true(ipc_is_in_other_pid_namespace(0));
	assert_false(ipc_is_in_other_pid_namespace(getpid()));
}

static void ipc_report_daemon_end_ignores_daemon_of_this_namespace_and_other_user(void **state)
{
	struct ipc_client lost = {.daemon_pid = getpid(), .daemon_uid = geteuid()}, successor;
	const struct ipc_failures none = {0};
	struct ipc_failure failure = {0};

	(void)state;
	assert_int_equal(ipc_report_daemon_end(&lost, &none, &failure, &successor), -ENOTSUP);
	lost.is_daemon_elsewhere = true;
	lost.daemon_uid = geteuid() + 1;
	assert_int_equal(ipc_report_daemon_end(&lost, &none, &failure, &successor), -ENOTSUP);
}

static void ipc_daemon_ends_detects_end_and_timeout(void **state)
{
	pid_t pid = fork();
	int ends[2];

	(void)state;
	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_true(ipc_daemon_ends(pid, -1));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(ipc_daemon_ends(pid, -1));
	assert_false(ipc_daemon_ends(0, -1));

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	assert_false(ipc_daemon_ends(pid, 1));
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipc_status_shows_namespace_for_several_ids_only),
		cmocka_unit_test(ipc_is_in_other_pid_namespace_for_pid_0_only),
		cmocka_unit_test(
			ipc_report_daemon_end_ignores_daemon_of_this_namespace_and_other_user),
		cmocka_unit_test(ipc_daemon_ends_detects_end_and_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
