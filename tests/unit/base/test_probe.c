/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"

#define CAPTURE_BYTES 4096

/*
 * Replaces secure_getenv() by a linker option: a process of a set-user-ID program sees no
 * environment.
 */
static bool is_privileged;
char *__wrap_secure_getenv(const char *name);

char *__wrap_secure_getenv(const char *name)
{
	return is_privileged ? NULL : getenv(name);
}

/*
 * Runs probe_init() with these values in a process of its own. Returns its probe_mask, and its
 * output in `out`.
 */
static uint32_t mask_of(const char *log, const char *fault, char *out)
{
	size_t len = 0;
	int ends[2], status;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		setenv("USRDMA_LOG", log, 1);
		setenv("USRDMA_FAULT", fault, 1);
		probe_init();
		_exit((int)probe_mask);
	}
	close(ends[1]);
	while ((got = read(ends[0], out + len, CAPTURE_BYTES - 1 - len)) > 0)
		len += (size_t)got;
	out[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return (uint32_t)WEXITSTATUS(status);
}

static void probe_environment_switches_probes_on(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	assert_int_equal(mask_of("", "", out), 0);
	assert_string_equal(out, "");
	assert_int_equal(mask_of("debug", "", out), 0);
	assert_int_equal(mask_of("trace", "", out), PROBE_TRACE | PROBE_PACKETS);
	assert_int_equal(mask_of("", "packet.send:drop:p=0.5", out), PROBE_FAULT);
	assert_string_equal(out, "");
	assert_int_equal(mask_of("info", "packet.send:drop:p=0.5", out), PROBE_FAULT);
	assert_non_null(strstr(out, "info: fault injection is on: packet.send:drop:p=0.5\n"));
}

/* As mask_of(), with the rules in a file. */
static uint32_t mask_of_file(const char *log, const char *text, char *out)
{
	char path[] = "/tmp/usrdma-rules-XXXXXX";
	int fd = mkstemp(path);
	uint32_t mask;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("USRDMA_FAULTS", path, 1);
	mask = mask_of(log, "", out);
	unsetenv("USRDMA_FAULTS");
	unlink(path);
	return mask;
}

static void probe_rules_file_switches_faults_on(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	assert_int_equal(mask_of_file("", "# loss\npacket.send:drop:p=0.5\n", out), PROBE_FAULT);
	assert_string_equal(out, "");
	assert_int_equal(mask_of_file("", "# loss\n", out), 0);
	assert_string_equal(out, "");
	assert_int_equal(mask_of_file("", "nonsense\n", out), 0);
	assert_non_null(strstr(out, "invalid USRDMA_FAULTS '/tmp/usrdma-rules-"));
	assert_non_null(strstr(out, "'nonsense': unknown fault point; no fault is injected\n"));
}

static void probe_rules_file_missing_is_reported(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	setenv("USRDMA_FAULTS", "/nonexistent/rules", 1);
	assert_int_equal(mask_of("", "", out), 0);
	assert_string_equal(
		out, "usrdma: cannot read USRDMA_FAULTS '/nonexistent/rules': No such file or "
		     "directory; no fault is injected\n");
	assert_int_equal(mask_of("", "packet.send:drop", out), PROBE_FAULT);
	assert_string_equal(out, "");
	unsetenv("USRDMA_FAULTS");
}

static void probe_invalid_rules_are_reported_and_inject_nothing(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	assert_int_equal(mask_of("", "packet.send:drop;nonsense", out), 0);
	assert_string_equal(out,
			    "usrdma: invalid USRDMA_FAULT 'packet.send:drop;nonsense': 'nonsense': "
			    "unknown fault point; no fault is injected\n");
}

static void probe_privileged_process_ignores_environment(void **state)
{
	char out[CAPTURE_BYTES];

	(void)state;
	is_privileged = true;
	assert_int_equal(mask_of("trace", "packet.send:drop", out), 0);
	assert_string_equal(out, "");
	is_privileged = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_environment_switches_probes_on),
		cmocka_unit_test(probe_rules_file_switches_faults_on),
		cmocka_unit_test(probe_rules_file_missing_is_reported),
		cmocka_unit_test(probe_invalid_rules_are_reported_and_inject_nothing),
		cmocka_unit_test(probe_privileged_process_ignores_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
