/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/vmas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void vmas_line_reads_range_protection_and_file(void **state)
{
	struct vma_item item = {0};

	(void)state;
	assert_false(vmas_line(&item, "5fe040000000-5fe04001b000 r-xs 00001000 00:1f 12494859"
				      "                   /memfd:usrdma-arena (deleted)"));
	assert_int_equal(item.start, 0x5fe040000000);
	assert_int_equal(item.end, 0x5fe04001b000);
	assert_int_equal(item.prot, PROT_READ | PROT_EXEC);
	assert_true(item.is_shared);
	assert_int_equal(item.dev_major, 0);
	assert_int_equal(item.dev_minor, 0x1f);
	assert_int_equal(item.ino, 12494859);
	assert_false(vmas_line(&item, "Size:                108 kB"));
	assert_true(vmas_line(&item, "VmFlags: rd ex sh mr mw me ms dd hg "));
	assert_true(item.is_not_dumped && item.is_huge && !item.is_never_huge);
}

static void vmas_line_flags_without_mapping_are_ignored(void **state)
{
	struct vma_item item = {0};

	(void)state;
	assert_false(vmas_line(&item, "VmFlags: rd wr mr mw me ac nh"));
	assert_false(vmas_line(&item, ""));
	assert_false(vmas_line(&item, "not a line of the file"));
	assert_int_equal(item.end, 0);
}

struct wanted {
	uintptr_t addr;
	struct vma_item found;
};

static void find_wanted(const struct vma_item *item, void *context)
{
	struct wanted *wanted = context;

	if (item->start <= wanted->addr && wanted->addr < item->end)
		wanted->found = *item;
}

static void vmas_each_finds_attributes_of_a_mapping(void **state)
{
	const size_t bytes = 4 * (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct wanted wanted = {.addr = (uintptr_t)memory + bytes / 2};

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + bytes / 4, bytes / 2, PROT_READ), 0);
	assert_int_equal(madvise(memory + bytes / 4, bytes / 2, MADV_DONTDUMP), 0);
	assert_int_equal(vmas_each(find_wanted, &wanted), 0);
	assert_int_equal(wanted.found.start, (uintptr_t)memory + bytes / 4);
	assert_int_equal(wanted.found.end, (uintptr_t)memory + bytes / 4 * 3);
	assert_int_equal(wanted.found.prot, PROT_READ);
	assert_true(wanted.found.is_shared && wanted.found.is_not_dumped);
	munmap(memory, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vmas_line_reads_range_protection_and_file),
		cmocka_unit_test(vmas_line_flags_without_mapping_are_ignored),
		cmocka_unit_test(vmas_each_finds_attributes_of_a_mapping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
