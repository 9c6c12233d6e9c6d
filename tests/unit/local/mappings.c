/* SPDX-License-Identifier: BSD-2-Clause */
#include "mappings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/vma.h"

unsigned int mappings_of(const void *at)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct vma wanted, vma;
	unsigned int count = 0;
	char line[512];

	assert_int_equal(vma_find((uintptr_t)at, 1, &wanted), 0);
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		assert_true(vma_parse(line, &vma));
		count += vma.is_shared && vma.dev == wanted.dev && vma.ino == wanted.ino;
	}
	fclose(maps);
	return count;
}
