/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory_kind.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

static void require(bool is_true, const char *what)
{
	if (is_true)
		return;
	perror(what);
	_exit(2);
}

static int open_tmpfs(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/late-%d", getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	unlink(path);
	return fd;
}

static int open_file(const char *kind)
{
	if (!strcmp(kind, "sealed"))
		return memfd_create(kind, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (!strcmp(kind, "unsealed"))
		return memfd_create(kind, MFD_CLOEXEC);
	if (!strcmp(kind, "huge"))
		return memfd_create(kind, MFD_CLOEXEC | MFD_HUGETLB);
	require(!strcmp(kind, "tmpfs"), kind);
	return open_tmpfs();
}

static uint8_t *map_file(const char *kind, void *at, size_t bytes, int *fd)
{
	*fd = open_file(kind);
	require(*fd >= 0 && !ftruncate(*fd, (off_t)bytes), kind);
	if (!strcmp(kind, "sealed"))
		require(!fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK), "F_ADD_SEALS");
	return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0),
		    *fd, 0);
}

static uint8_t *attach_sysv(void *at, size_t bytes)
{
	int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	uint8_t *memory;

	require(id >= 0, "shmget");
	memory = shmat(id, at, 0);
	require(!shmctl(id, IPC_RMID, NULL), "IPC_RMID");
	return memory;
}

uint8_t *memory_of_kind(const char *kind, void *at, size_t bytes, int *fd)
{
	uint8_t *memory;
	int unused;

	if (!fd)
		fd = &unused;
	*fd = -1;
	if (!kind || !strcmp(kind, "private"))
		memory = mmap(at, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	else if (!strcmp(kind, "sysv"))
		memory = attach_sysv(at, bytes);
	else
		memory = map_file(kind, at, bytes, fd);
	require(memory != MAP_FAILED, "cannot map the memory");
	return memory;
}
