/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Which memory object backs an address: lines of /proc/<pid>/maps, and the mappings of this
 * process.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/vma.h"

static void vma_parse_reads_all_fields(void **state)
{
	struct vma vma;

	(void)state;
	assert_true(vma_parse(
		"7f0000001000-7f0000003000 rw-s 00005000 00:1f 4711       /memfd:a b (deleted)\n",
		&vma));
	assert_int_equal(vma.start, 0x7f0000001000);
	assert_int_equal(vma.end, 0x7f0000003000);
	assert_int_equal(vma.offset, 0x5000);
	assert_int_equal(vma.dev, makedev(0, 0x1f));
	assert_int_equal(vma.ino, 4711);
	assert_true(vma.is_shared);
	assert_string_equal(vma.name, "/memfd:a b (deleted)");
	assert_true(vma_parse("1000-2000 r--p 00000000 00:00 0", &vma));
	assert_false(vma.is_shared);
	assert_string_equal(vma.name, "");
}

static void vma_parse_refuses_malformed_lines(void **state)
{
	static const char *const lines[] = {
		"",
		"1000",
		"1000-2000",
		"2000-1000 rw-s 00000000 00:01 1 x",
		"1000-1000 rw-s 00000000 00:01 1 x",
		"1000-2000 rws 00000000 00:01 1 x",
		"1000-2000 rw-s zz 00:01 1 x",
		"x000-2000 rw-s 00000000 00:01 1 x",
	};
	struct vma vma;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_false(vma_parse(lines[i], &vma));
}

static void vma_parse_cuts_long_names(void **state)
{
	char line[256] = "1000-2000 rw-s 00000000 00:01 1 /";
	struct vma vma;

	(void)state;
	memset(line + strlen(line), 'n', 200);
	assert_true(vma_parse(line, &vma));
	assert_int_equal(strlen(vma.name), VMA_NAME_BYTES - 1);
}

static void vma_find_reports_private_memory(void **state)
{
	int here = 0;
	struct vma vma;

	(void)state;
	assert_int_equal(vma_find((uintptr_t)&here, sizeof(here), &vma), 0);
	assert_false(vma.is_shared);
	assert_int_equal(vma_find(16, 1, &vma), -ENOENT);
}

/* One object, whose mapping mprotect() splits, and which a mapping of another object follows. */
static void vma_find_joins_parts_of_one_object(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("vma", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
	struct vma vma;
	struct stat st;
	uint8_t *at;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)(8 * page)), 0);
	assert_int_equal(ftruncate(other, (off_t)page), 0);
	assert_int_equal(fstat(fd, &st), 0);
	at = mmap(NULL, 5 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(2 * page));
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_ptr_equal(mmap(at + 4 * page, page, PROT_READ, MAP_SHARED | MAP_FIXED, other, 0),
			 at + 4 * page);
	assert_int_equal(mprotect(at + page, page, PROT_READ), 0);

	assert_int_equal(vma_find((uintptr_t)at + 100, 3 * page, &vma), 0);
	assert_true(vma.is_shared);
	assert_int_equal(vma.dev, st.st_dev);
	assert_int_equal(vma.ino, st.st_ino);
	assert_int_equal(vma.offset, 2 * page);
	assert_int_equal(vma.start, (uintptr_t)at);
	assert_int_equal(vma_find((uintptr_t)at + 2 * page, 2 * page, &vma), 0);
	assert_int_equal(vma.offset + (uintptr_t)at + 2 * page - vma.start, 4 * page);
	assert_int_equal(vma_find((uintptr_t)at, 4 * page + 1, &vma), -ENOENT);

	munmap(at + page, page);
	assert_int_equal(vma_find((uintptr_t)at, page, &vma), 0);
	assert_int_equal(vma_find((uintptr_t)at, page + 1, &vma), -ENOENT);
	assert_int_equal(vma_find((uintptr_t)at + page, 1, &vma), -ENOENT);
	munmap(at, 5 * page);
	close(fd);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vma_parse_reads_all_fields),
		cmocka_unit_test(vma_parse_refuses_malformed_lines),
		cmocka_unit_test(vma_parse_cuts_long_names),
		cmocka_unit_test(vma_find_reports_private_memory),
		cmocka_unit_test(vma_find_joins_parts_of_one_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
