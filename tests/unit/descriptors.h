/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_DESCRIPTORS_H
#define TESTS_UNIT_DESCRIPTORS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* To compare: the number of open descriptors of this process, and a few more, always the same. */
static inline int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	assert_int_equal(closedir(dir), 0);
	return count;
}

#endif
