/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/syscalls.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

#define PATH_BYTES 64

/*
 * ThreadSanitizer has one table of the descriptors of all threads, and so has librspreload. They
 * must not see this call.
 */
static void close_own(int fd)
{
	syscall(SYS_close, fd);
}

struct mapping_job {
	const struct peer_file *file;
	uint8_t *base;
	bool can_shrink;
	_Atomic uint32_t is_done;
};

static bool is_file(const struct stat *st, const struct peer_file *file)
{
	return st->st_dev == file->dev && st->st_ino == file->ino;
}

/* O_NONBLOCK: opening another file must not wait. -1: not that file. */
static int open_path(const struct peer_file *file, const char *path)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !is_file(&st, file))
		return -1;
	return sys_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* A dma-buf cannot be opened by a path. */
static int duplicate(const struct peer_file *file)
{
	int process = (int)syscall(SYS_pidfd_open, file->pid, 0);
	int fd;

	if (process < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, process, file->fd, 0);
	close_own(process);
	return fd;
}

static int open_descriptor(const struct peer_file *file)
{
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", file->tid, file->fd);
	fd = open_path(file, path);
	return fd < 0 ? duplicate(file) : fd;
}

/*
 * The link leads to the file also if the file has no name any more, but only processes with
 * CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE may follow it (proc_pid_map_files(5)). Other processes
 * read the name.
 */
static int open_mapping(const struct peer_file *file)
{
	char link[PATH_BYTES], path[PATH_MAX];
	ssize_t bytes;
	int fd;

	snprintf(link, sizeof(link), "/proc/%d/map_files/%llx-%llx", file->tid,
		 (unsigned long long)file->start, (unsigned long long)file->end);
	fd = open_path(file, link);
	if (fd >= 0)
		return fd;
	bytes = readlink(link, path, sizeof(path) - 1);
	if (bytes <= 0)
		return -1;
	path[bytes] = '\0';
	return open_path(file, path);
}

/* A dma-buf has a fixed size. Huge pages raise SIGBUS if the kernel has too few of them. */
static bool fd_can_shrink(int fd, long type)
{
	int seals = (int)syscall(SYS_fcntl, fd, F_GET_SEALS);

	if (type == DMA_BUF_MAGIC)
		return false;
	return type == HUGETLBFS_MAGIC || seals < 0 || !(seals & F_SEAL_SHRINK);
}

/* A mapping contains the whole last page of a file. */
static uint64_t whole_pages(uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

	return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* librspreload replaces fstat(3) and would look up the number in the table of the process. */
static int stat_own(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH);
}

/* mmap(2) maps whole huge pages, but munmap(2) of a part of a huge page fails. */
static bool can_unmap(uint64_t bytes, const struct statfs *fs)
{
	return fs->f_type != HUGETLBFS_MAGIC || !(bytes % (uint64_t)fs->f_bsize);
}

/* Files of sysfs are memory of devices. */
static void map_descriptor(struct mapping_job *job, int fd)
{
	const struct peer_file *file = job->file;
	struct stat st;
	struct statfs fs;
	void *base;

	if (stat_own(fd, &st) || fstatfs(fd, &fs) || !is_file(&st, file) ||
	    fs.f_type == SYSFS_MAGIC || (!S_ISREG(st.st_mode) && fs.f_type != DMA_BUF_MAGIC) ||
	    whole_pages((uint64_t)st.st_size) < file->bytes || !can_unmap(file->bytes, &fs))
		return;
	base = mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base == MAP_FAILED)
		return;
	job->base = base;
	job->can_shrink = fd_can_shrink(fd, fs.f_type);
}

/* Gives the calling thread an empty descriptor table of its own. */
static bool leave_descriptors(void)
{
	return !syscall(SYS_close_range, 0u, UINT_MAX, CLOSE_RANGE_UNSHARE) ||
	       !unshare(CLONE_FILES);
}

static void *mapping_thread(void *argument)
{
	struct mapping_job *job = argument;
	int fd = -1;

	if (leave_descriptors())
		fd = job->file->fd >= 0 ? open_descriptor(job->file) : open_mapping(job->file);
	if (fd >= 0) {
		map_descriptor(job, fd);
		close_own(fd);
	}
	/* The job can be gone then. A wake-up of another word is harmless. */
	atomic_store(&job->is_done, 1);
	futex_wake_all(&job->is_done);
	return NULL;
}

uint8_t *peer_file_map(const struct peer_file *file, bool *can_shrink)
{
	struct mapping_job job = {.file = file};
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, mapping_thread, &job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error) {
		pthread_detach(thread);
		while (!atomic_load(&job.is_done))
			futex_wait(&job.is_done, 0, 0);
	}
	*can_shrink = job.can_shrink;
	return job.base;
}
