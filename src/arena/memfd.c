/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/memfd.h"

#include <errno.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/syscalls.h"

#define MEMFD_NAME "usrdma-arena"

#define MEMFD_BYTES_MIN (16u << 20)

/* Descriptor numbers below are for the program. */
#define FD_MIN 512

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* Moves the descriptor to a number of at least FD_MIN, or near to the maximum of this process. */
static int fd_move_up(int fd)
{
	struct rlimit limit;
	int min = FD_MIN, moved;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur <= FD_MIN)
		min = (int)limit.rlim_cur / 2;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, min);
	if (moved < 0)
		return fd;
	sys_close(fd);
	return moved;
}

int memfd_open(void)
{
	int fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	/* MFD_NOEXEC_SEAL: since Linux 6.3. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)) {
		int error = errno;

		sys_close(fd);
		return -error;
	}
	return fd_move_up(fd);
}

int memfd_grow(int fd, uint64_t *bytes, uint64_t needed)
{
	uint64_t size = *bytes ? *bytes : MEMFD_BYTES_MIN;
	struct rlimit limit;

	if (needed <= *bytes)
		return 0;
	while (size < needed)
		size *= 2;
	/* ftruncate() beyond this limit sends SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < size)
		return -EFBIG;
	if (ftruncate(fd, (off_t)size))
		return -errno;
	*bytes = size;
	return 0;
}

/* fallocate() of the C library is a cancellation point. */
bool memfd_discard(int fd, uint64_t offset, size_t bytes)
{
	int ret;

	do {
		ret = (int)syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)offset, (off_t)bytes);
	} while (ret < 0 && errno == EINTR);
	return !ret;
}

uint64_t memfd_data(int fd, uint64_t offset, uint64_t end, size_t *bytes)
{
	off_t first = lseek(fd, (off_t)offset, SEEK_DATA);
	off_t last;

	*bytes = 0;
	if (first < 0 || (uint64_t)first >= end)
		return end;
	last = lseek(fd, first, SEEK_HOLE);
	if (last < 0 || (uint64_t)last > end)
		last = (off_t)end;
	*bytes = (size_t)(last - first);
	return (uint64_t)first;
}

bool memfd_read(int fd, void *to, uint64_t offset, size_t bytes)
{
	while (bytes) {
		ssize_t got = syscall(SYS_pread64, fd, to, bytes, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		to = (char *)to + got;
		offset += (uint64_t)got;
		bytes -= (size_t)got;
	}
	return true;
}

bool memory_is_not_overcommitted(void)
{
	char setting = '2';
	int fd = sys_open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return true;
	if (sys_read(fd, &setting, 1) != 1)
		setting = '2';
	sys_close(fd);
	return setting != '0' && setting != '1';
}
