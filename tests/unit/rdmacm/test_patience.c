/* SPDX-License-Identifier: BSD-2-Clause */
/* What USRDMA_CM_TIMEOUT may say: it is read once, so each value has a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "rdmacm/patience.h"

static const struct {
	const char *text;
	uint32_t ms;
} values[] = {
	{NULL, 0},	 {"", 0},    {"1", 1000}, {"60", 60000},
	{"300", 300000}, {"0", 0},   {"301", 0},  {"99999999999999999999", 0},
	{"-1", 0},	 {"1.5", 0}, {"10s", 0},  {"soon", 0},
};

static void only_seconds_count(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			if (values[i].text)
				setenv("USRDMA_CM_TIMEOUT", values[i].text, 1);
			else
				unsetenv("USRDMA_CM_TIMEOUT");
			/* The second answer is the first. */
			_exit(rcm_patience_ms() != values[i].ms ||
			      rcm_patience_ms() != values[i].ms);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status)
			print_error("\"%s\"\n", values[i].text ? values[i].text : "");
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_seconds_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
