/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT_BYTES 4096

/* Replaces getauxval() by a linker option: AT_SECURE is set in a set-user-ID program. */
static bool is_privileged;
unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);

unsigned long __wrap_getauxval(unsigned long type)
{
	return type == AT_SECURE ? is_privileged : __real_getauxval(type);
}

/* A shell script replaces the daemon; it writes its environment to a file. */
static char directory[64];
static char script_path[128];
static char result_path[128];
static volatile sig_atomic_t sigchld_count;

static void on_sigchld(int signo)
{
	(void)signo;
	sigchld_count++;
}

static int setup(void **state)
{
	struct sigaction action = {.sa_handler = on_sigchld};

	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/usrdma-spawn-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(script_path, sizeof(script_path), "%s/daemon", directory);
	snprintf(result_path, sizeof(result_path), "%s/result", directory);
	setenv("USRDMA_DAEMON", script_path, 1);
	sigchld_count = 0;
	return sigaction(SIGCHLD, &action, NULL);
}

static int teardown(void **state)
{
	(void)state;
	unlink(script_path);
	unlink(result_path);
	return rmdir(directory);
}

static void script_write(const char *text, mode_t mode)
{
	FILE *file = fopen(script_path, "we");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(script_path, mode), 0);
}

static void result_read(char *text)
{
	FILE *file = fopen(result_path, "re");
	size_t len;

	assert_non_null(file);
	len = fread(text, 1, TEXT_BYTES - 1, file);
	text[len] = '\0';
	fclose(file);
}

static void assert_no_child_seen(void)
{
	assert_int_equal(sigchld_count, 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | (int)__WALL), -1);
	assert_int_equal(errno, ECHILD);
}

static void ipc_daemon_spawn_leaves_no_child(void **state)
{
	(void)state;
	script_write("#!/bin/sh\nprintf '\\0' >&3\n", 0755);
	assert_int_equal(ipc_daemon_spawn(), 0);
	assert_no_child_seen();
}

/*
 * The daemon has the pipe, /dev/null three times, its arguments and our variables, and inherits
 * nothing else.
 */
static void ipc_daemon_spawn_passes_pipe_and_environment_only(void **state)
{
	int leaky = dup(STDIN_FILENO), descriptors = 0;
	char text[TEXT_BYTES], script[512];
	const char *end;

	(void)state;
	assert_true(leaky >= 0);
	setenv("LD_PRELOAD_LOOKALIKE", "secret", 1);
	setenv("USRDMA_TEST_MARK", "passed-on", 1);
	snprintf(script, sizeof(script),
		 "#!/bin/sh\nexec 4>%s\necho args $* >&4\n"
		 /*
		 * In a subshell without a pipeline, so that the shell itself has no descriptor open
		 * for it.
		 */
		 "(exec ls -lv /proc/$$/fd >&4)\necho END >&4\nenv >&4\nprintf '\\0' >&3\n",
		 result_path);
	script_write(script, 0755);
	assert_int_equal(ipc_daemon_spawn(), 0);
	close(leaky);
	result_read(text);
	assert_ptr_equal(strstr(text, "args --ready-fd 3\n"), text);
	assert_non_null(strstr(text, " 0 -> /dev/null\n"));
	assert_non_null(strstr(text, " 1 -> /dev/null\n"));
	assert_non_null(strstr(text, " 2 -> /dev/null\n"));
	assert_non_null(strstr(text, " 3 -> pipe:"));
	end = strstr(text, "END\n");
	assert_non_null(end);
	for (char *at = text; (at = strstr(at, " -> ")) && at < end; at++)
		descriptors++;
	/* Also our file, and one that some shells keep open for the script. */
	assert_in_range(descriptors, 5, 6);
	assert_non_null(strstr(text, "USRDMA_TEST_MARK=passed-on\n"));
	assert_null(strstr(text, "secret"));
}

static void ipc_daemon_spawn_privileged_process_passes_no_variables(void **state)
{
	char text[TEXT_BYTES], script[512];

	(void)state;
	setenv("USRDMA_FAULT", "packet.send:drop", 1);
	snprintf(script, sizeof(script), "#!/bin/sh\nenv >%s\nprintf '\\0' >&3\n", result_path);
	script_write(script, 0755);
	is_privileged = true;
	assert_int_equal(ipc_daemon_spawn(), 0);
	is_privileged = false;
	result_read(text);
	assert_null(strstr(text, "USRDMA_"));
	assert_int_equal(ipc_daemon_spawn(), 0);
	result_read(text);
	assert_non_null(strstr(text, "USRDMA_FAULT=packet.send:drop\n"));
	unsetenv("USRDMA_FAULT");
}

static void ipc_daemon_spawn_keeps_handlers_and_mask(void **state)
{
	sigset_t mask, before, after;

	(void)state;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_SETMASK, &mask, &before);
	script_write("#!/bin/sh\nprintf '\\0' >&3\n", 0755);
	assert_int_equal(ipc_daemon_spawn(), 0);
	sigprocmask(SIG_SETMASK, &before, &after);
	assert_true(sigismember(&after, SIGUSR1));
	assert_false(sigismember(&after, SIGTERM));
}

static void ipc_daemon_spawn_failing_daemon_is_reported(void **state)
{
	(void)state;
	script_write("#!/bin/sh\nprintf '\\1' >&3\n", 0755);
	assert_int_equal(ipc_daemon_spawn(), -ENODEV);
	script_write("#!/bin/sh\nkill -9 $$\n", 0755);
	assert_int_equal(ipc_daemon_spawn(), -ENODEV);
	assert_no_child_seen();
}

static void ipc_daemon_spawn_missing_program_fails(void **state)
{
	(void)state;
	script_write("#!/nonexistent/interpreter\n", 0755);
	assert_int_equal(ipc_daemon_spawn(), -ENOENT);
	script_write("\177garbage", 0755);
	assert_int_equal(ipc_daemon_spawn(), -ENOEXEC);
	unlink(script_path);
	assert_int_equal(ipc_daemon_spawn(), -ENOENT);
	assert_no_child_seen();
}

/*
 * In a program with closed standard streams these stay closed, and the pipe does not take their
 * numbers.
 */
static void ipc_daemon_spawn_closed_standard_streams_stay_closed(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	script_write("#!/bin/sh\nprintf '\\0' >&3\n", 0755);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (int fd = 0; fd < 10; fd++)
			close(fd);
		_exit(ipc_daemon_spawn() == 0 && fcntl(0, F_GETFD) < 0 && fcntl(3, F_GETFD) < 0 ?
			      0 :
			      1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ipc_daemon_spawn_privileged_process_passes_no_variables),
		CASE(ipc_daemon_spawn_leaves_no_child),
		CASE(ipc_daemon_spawn_passes_pipe_and_environment_only),
		CASE(ipc_daemon_spawn_keeps_handlers_and_mask),
		CASE(ipc_daemon_spawn_failing_daemon_is_reported),
		CASE(ipc_daemon_spawn_missing_program_fails),
		CASE(ipc_daemon_spawn_closed_standard_streams_stay_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
