/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_LOCK_DEATH_H
#define USRDMA_TESTS_LOCK_DEATH_H

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Calls fn(arg) in a child process. Asserts that the child dies of a lock check
 * (base/checks.h), whose message contains `function` and `rule`. Without checks in this build,
 * the test is skipped.
 */
static inline void expect_lock_check(void (*fn)(void *arg), void *arg, const char *function,
				     const char *rule)
{
	const struct rlimit no_core = {0, 0};
	char message[512] = "";
	size_t bytes = 0;
	int status, ends[2];
	ssize_t len;
	pid_t pid;

#ifndef USRDMA_CHECKS
	skip();
#endif
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		dup2(ends[1], STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	close(ends[1]);
	while ((len = read(ends[0], message + bytes, sizeof(message) - 1 - bytes)) > 0)
		bytes += (size_t)len;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(message, "check failed"));
	assert_non_null(strstr(message, function));
	assert_non_null(strstr(message, rule));
}

#endif
