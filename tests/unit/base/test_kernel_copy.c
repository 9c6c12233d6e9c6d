/* SPDX-License-Identifier: BSD-2-Clause */

/* Which words the kernel's copy function keeps whole, by processor and kernel. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/kernel_copy.h"
#include "base/util.h"

static const struct {
	const char *name;
	struct kernel_copy_x86 x86;
	enum kernel_words words;
} rows[] = {
	{"Zen 4, Linux 6.18", {true, true, true, 25, 17, 6, 18}, KERNEL_WORDS_ALL},
	{"Zen 4, Linux 5.17", {true, true, true, 25, 17, 5, 17}, KERNEL_WORDS_ALL},
	{"Zen 4, Linux 5.16", {true, true, true, 25, 17, 5, 16}, KERNEL_WORDS_LONG},
	{"Zen 4, Linux 6.1", {true, true, true, 25, 17, 6, 1}, KERNEL_WORDS_ALL},
	{"Zen 4, Linux 7.3", {true, true, true, 25, 17, 7, 3}, KERNEL_WORDS_ALL},
	{"Zen 4, FSRM hidden by a hypervisor",
	 {true, false, true, 25, 17, 6, 18},
	 KERNEL_WORDS_LONG},
	{"Zen 3, Linux 6.18", {true, true, true, 25, 1, 6, 18}, KERNEL_WORDS_NONE},
	{"Zen 3, FSRM hidden by a hypervisor", {true, false, true, 25, 1, 6, 18}, KERNEL_WORDS_NONE},
	{"another vendor with the same numbers",
	 {true, true, false, 25, 17, 6, 18},
	 KERNEL_WORDS_NONE},
	{"ERMS, not measured", {true, false, false, 6, 85, 6, 18}, KERNEL_WORDS_NONE},
	{"neither ERMS nor FSRM", {false, false, false, 6, 42, 6, 18}, KERNEL_WORDS_LONG},
	{"neither, kernel unknown", {false, false, false, 6, 42, 0, 0}, KERNEL_WORDS_LONG},
};

static void kernel_copy_x86_words_follows_processor_and_kernel(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		enum kernel_words words = kernel_copy_x86_words(&rows[i].x86);

		if (words != rows[i].words)
			fail_msg("%s: %d", rows[i].name, (int)words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_copy_x86_words_follows_processor_and_kernel),
	};

	return cmocka_run_group_tests_name("kernel_copy", tests, NULL, NULL);
}
