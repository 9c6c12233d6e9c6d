/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/seal.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"

#define BYTES 4096
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* In the child: what a receiver of the descriptor may do. The exit status is the failed line. */
static int seal_check(int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *mine;
	const char *theirs;

	if (ftruncate(fd, BYTES))
		return __LINE__;
	mine = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mine == MAP_FAILED || seal_has_future_writes(fd, seals))
		return __LINE__;
	if (seal_future_writes(&fd, seals) || !seal_has_future_writes(fd, seals))
		return __LINE__;
	theirs = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (theirs == MAP_FAILED)
		return __LINE__;
	mine[1] = 'x';
	if (theirs[1] != 'x')
		return __LINE__;
	if (mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
		return __LINE__;
	if (!mprotect((void *)(uintptr_t)theirs, BYTES, PROT_READ | PROT_WRITE))
		return __LINE__;
	if (write(fd, "y", 1) >= 0 || !ftruncate(fd, 0) || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
		return __LINE__;
	return 0;
}

/* The kernel answers EINVAL to F_SEAL_FUTURE_WRITE, as before Linux 5.1. */
static int seal_old_kernel(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_ADD_SEALS, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, F_SEAL_FUTURE_WRITE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	};
	struct sock_fprog program = {.len = COUNT(code), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int seal_in_child(bool is_old, int seals)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(is_old && seal_old_kernel() ? UINT8_MAX : seal_check(seals) % UINT8_MAX);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void seal_future_writes_permits_reading_only(void **state)
{
	(void)state;
	assert_int_equal(seal_in_child(false, SEALS), 0);
	assert_int_equal(seal_in_child(false, SEALS | F_SEAL_SEAL), 0);
}

static void seal_future_writes_before_linux_5_1_permits_reading_only(void **state)
{
	(void)state;
	assert_int_equal(seal_in_child(true, SEALS), 0);
	assert_int_equal(seal_in_child(true, SEALS | F_SEAL_SEAL), 0);
}

static void seal_future_writes_fails_without_memfd(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	int same = fd;

	(void)state;
	assert_int_equal(seal_future_writes(&fd, SEALS), -EPERM);
	assert_int_equal(fd, same);
	assert_false(seal_has_future_writes(fd, SEALS));
	assert_false(seal_has_future_writes(-1, 0));
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seal_future_writes_permits_reading_only),
		cmocka_unit_test(seal_future_writes_before_linux_5_1_permits_reading_only),
		cmocka_unit_test(seal_future_writes_fails_without_memfd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
