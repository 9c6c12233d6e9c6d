/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of USRDMA_CM_TIMEOUT: it is read once, so each value is tested in a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "rdmacm/cm_timeout.h"

static const struct {
	const char *text;
	uint32_t ms;
} values[] = {
	{NULL, 0},	 {"", 0},    {"1", 1000}, {"60", 60000},
	{"300", 300000}, {"0", 0},   {"301", 0},  {"99999999999999999999", 0},
	{"-1", 0},	 {"1.5", 0}, {"10s", 0},  {"soon", 0},
};

static void rcm_cm_timeout_ms_invalid_value_is_default(void **state)
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
			/* A second call returns the same value. */
			_exit(rcm_cm_timeout_ms() != values[i].ms ||
			      rcm_cm_timeout_ms() != values[i].ms);
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
		cmocka_unit_test(rcm_cm_timeout_ms_invalid_value_is_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
