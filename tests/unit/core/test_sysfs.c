/* SPDX-License-Identifier: BSD-2-Clause */

/* ibv_read_sysfs_file() with files of the test; ibv_get_sysfs_path() with the environment. */

#include <errno.h>
#include <limits.h>
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

#include "core/compat.h"

static char dir[] = "/tmp/usrdma-sysfs-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[PATH_MAX];

	(void)state;
	snprintf(path, sizeof(path), "%s/file", dir);
	unlink(path);
	return rmdir(dir);
}

static void write_file(const char *content, size_t length)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/file", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(content, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static void ibv_read_sysfs_file_removes_one_newline(void **state)
{
	char buf[16];

	(void)state;
	write_file("board\n", 6);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 5);
	assert_string_equal(buf, "board");
	write_file("a\n\n", 3);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 2);
	assert_string_equal(buf, "a\n");
	write_file("plain", 5);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 5);
	assert_string_equal(buf, "plain");
}

static void ibv_read_sysfs_file_empty_file_returns_empty_string(void **state)
{
	char buf[4] = "xyz";

	(void)state;
	write_file("", 0);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	write_file("\n", 1);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
}

/* Four bytes hold three characters and the NUL; a trailing newline is replaced. */
static void ibv_read_sysfs_file_short_buffer_is_not_overrun(void **state)
{
	char buf[6];

	(void)state;
	memset(buf, '#', sizeof(buf));
	write_file("abc\n", 4);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, 4), 3);
	assert_string_equal(buf, "abc");
	write_file("abcd", 4);
	errno = 0;
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, 4), -1);
	assert_int_equal(errno, EOVERFLOW);
	write_file("abcdefgh\n", 9);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, 4), -1);
	assert_int_equal(errno, EOVERFLOW);
	assert_memory_equal(buf + 4, "##", 2);
}

static void ibv_read_sysfs_file_missing_file_fails_with_errno(void **state)
{
	char long_name[PATH_MAX + 1];
	char buf[4];

	(void)state;
	errno = 0;
	assert_int_equal(ibv_read_sysfs_file(dir, "absent", buf, sizeof(buf)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_read_sysfs_file(dir, ".", buf, sizeof(buf)), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, 0), -1);
	assert_int_equal(errno, EINVAL);
	memset(long_name, 'n', PATH_MAX);
	long_name[PATH_MAX] = '\0';
	assert_int_equal(ibv_read_sysfs_file(dir, long_name, buf, sizeof(buf)), -1);
	assert_int_equal(errno, ENAMETOOLONG);
}

/* The path is determined once in a process, so each case runs in a child. */
static int path_equals(const char *set_to, const char *expected)
{
	pid_t pid;
	int status;

	pid = fork();
	if (pid == 0) {
		if (set_to)
			setenv("SYSFS_PATH", set_to, 1);
		else
			unsetenv("SYSFS_PATH");
		_exit(strcmp(ibv_get_sysfs_path(), expected) ? 1 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void ibv_get_sysfs_path_reads_environment(void **state)
{
	char too_long[1024];

	(void)state;
	memset(too_long, 'p', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	assert_true(path_equals(NULL, "/sys"));
	assert_true(path_equals("/srv/sysfs", "/srv/sysfs"));
	assert_true(path_equals("/srv/sysfs//", "/srv/sysfs"));
	assert_true(path_equals("", "/sys"));
	assert_true(path_equals("///", "/sys"));
	assert_true(path_equals(too_long, "/sys"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_read_sysfs_file_removes_one_newline),
		cmocka_unit_test(ibv_read_sysfs_file_empty_file_returns_empty_string),
		cmocka_unit_test(ibv_read_sysfs_file_short_buffer_is_not_overrun),
		cmocka_unit_test(ibv_read_sysfs_file_missing_file_fails_with_errno),
		cmocka_unit_test(ibv_get_sysfs_path_reads_environment),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
