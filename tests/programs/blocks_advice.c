/* SPDX-License-Identifier: BSD-2-Clause */

/* madvise(), mprotect() and foreign mappings in blocks. */
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "blocks.h"

static bool is_present(char *memory)
{
	unsigned char state;

	return !mincore(memory, PAGE, &state);
}

void advice(void)
{
	char *memory = memalign(PAGE, BLOCK);
	char *fresh = memalign(PAGE, 8 * MEGA), *huge;
	pid_t child;

	memset(memory, 1, BLOCK);
	CHECK(!madvise(memory + PAGE, 2 * PAGE, MADV_DONTNEED));
	CHECK(is_filled(memory, 1, PAGE) && is_filled(memory + PAGE, 0, 2 * PAGE));
	CHECK(is_filled(memory + 3 * PAGE, 1, BLOCK - 3 * PAGE));
	CHECK(madvise(memory + 1, PAGE, MADV_DONTNEED) && errno == EINVAL);
	CHECK(madvise(memory, PAGE, MADV_REMOVE) && errno == EINVAL);
	CHECK(!madvise(memory, BLOCK, MADV_DONTDUMP) && !madvise(memory, BLOCK, MADV_DODUMP));
	CHECK(!madvise(memory, BLOCK, MADV_WILLNEED) && !madvise(memory, BLOCK, MADV_NORMAL));
	CHECK(!madvise(memory, PAGE, MADV_FREE));
	memset(memory, 2, BLOCK);
	CHECK(is_filled(memory, 2, BLOCK));
	if (!mlock(memory, PAGE)) {
		CHECK(madvise(memory, PAGE, MADV_DONTNEED) && errno == EINVAL);
		CHECK(memory[0] == 2 && !munlock(memory, PAGE));
	}
	CHECK(!madvise(memory + PAGE, PAGE, MADV_DONTFORK));
	CHECK(!madvise(memory + 3 * PAGE, PAGE, MADV_WIPEONFORK));
	CHECK(memory[3 * PAGE] == 2);
	child = fork();
	if (!child) {
		CHECK(is_present(memory) && !is_present(memory + PAGE));
		CHECK(is_filled(memory, 2, PAGE) && is_filled(memory + 2 * PAGE, 2, PAGE));
		CHECK(is_filled(memory + 3 * PAGE, 0, PAGE));
		CHECK(is_filled(memory + 4 * PAGE, 2, BLOCK - 4 * PAGE));
		free(memory);
		_exit(0);
	}
	CHECK(child_status(child) == 0 && is_filled(memory, 2, BLOCK));
	free(memory);
	/* Freed attributes do not come back. */
	memory = block_new(BLOCK);
	memset(memory, 3, BLOCK);
	child = fork();
	if (!child)
		_exit(!is_filled(memory, 3, BLOCK));
	CHECK(child_status(child) == 0);
	free(memory);
	huge = fresh + 2 * MEGA - (uintptr_t)fresh % (2 * MEGA);
	fresh[0] = 1;
	CHECK(!madvise(huge, 4 * MEGA, MADV_HUGEPAGE));
	memset(huge, 4, 4 * MEGA);
	child = fork();
	if (!child) {
		memset(huge, 5, 4 * MEGA);
		_exit(fresh[0] != 1);
	}
	CHECK(child_status(child) == 0);
	CHECK(fresh[0] == 1 && is_filled(huge, 4, 4 * MEGA));
	free(fresh);
}

/* A block whose file a peer may have keeps it. */
void registered(void)
{
	char *memory = block_new(BLOCK), *next = block_new(BLOCK), *huge = block_new(8 * MEGA);
	void *kept[] = {keep(memory, BLOCK), keep(huge, 8 * MEGA)};

	if (has_arena && next == memory + BLOCK)
		CHECK(is_shared(memory, 2 * BLOCK, true));
	CHECK(!madvise(huge, 8 * MEGA, MADV_HUGEPAGE) && is_shared(huge, 8 * MEGA, true));
	CHECK(!madvise(memory, BLOCK, MADV_DONTDUMP) && is_shared(memory, BLOCK, true));
	CHECK(!mprotect(memory, PAGE, PROT_READ) && is_shared(memory, BLOCK, true));
	CHECK(!mprotect(memory, PAGE, PROT_READ | PROT_WRITE));
	free(next);
	CHECK(!is_shared(memory, 2 * BLOCK, false));
	free(memory);
	free(huge);
	unkeep(kept[0]);
	unkeep(kept[1]);
}

/*
 * A program may keep a region registered while it frees the block, and use it for the next block at
 * the address.
 */
void stale(void)
{
	char *memory = block_new(8 * MEGA), *again;
	void *kept = keep(memory + MEGA, PAGE);
	pid_t child;

	free(memory);
	again = block_new(8 * MEGA);
	if (has_arena) {
		CHECK(kept && again == memory);
		CHECK(madvise(again, 8 * MEGA, MADV_WIPEONFORK) && errno == EINVAL);
		CHECK(!madvise(again, 8 * MEGA, MADV_HUGEPAGE));
		CHECK(is_shared(again, 8 * MEGA, true));
	}
	/* The child's memory is not that of the region. */
	child = fork();
	if (!child) {
		free(again);
		again = block_new(8 * MEGA);
		_exit(madvise(again, 8 * MEGA, MADV_WIPEONFORK) != 0);
	}
	CHECK(child_status(child) == 0);
	unkeep(kept);
	CHECK(!madvise(again, 8 * MEGA, MADV_WIPEONFORK));
	CHECK(!is_shared(again, 8 * MEGA, false));
	free(again);
}

static void write_one(char *memory)
{
	*(volatile char *)memory = 1;
	_exit(0);
}

/* Protection and foreign mappings remain in the child, and end with free(). */
void protection(void)
{
	char *memory = block_new(BLOCK), path[] = "/tmp/blocks.XXXXXX";
	int fd = mkstemp(path);
	pid_t child;

	memset(memory, 1, BLOCK);
	CHECK(!mprotect(memory + PAGE, PAGE, PROT_READ));
	CHECK(!mprotect(memory + 2 * PAGE, PAGE, PROT_NONE));
	CHECK(!unlink(path) && !ftruncate(fd, PAGE) && pwrite(fd, "file", 4, 0) == 4);
	CHECK(mmap(memory + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		   0) == memory + 3 * PAGE);
	CHECK(!is_shared(memory, BLOCK, false));
	for (unsigned int i = 0; i < 6; i++) {
		child = fork();
		if (!child) {
			CHECK(is_filled(memory, 1, 2 * PAGE));
			CHECK(!memcmp(memory + 3 * PAGE, i < 4 ? "file" : "\1ile", 4));
			CHECK(is_filled(memory + 4 * PAGE, 1, BLOCK - 4 * PAGE));
			write_one(memory + i * PAGE);
		}
		CHECK(child_status(child) == (i == 1 || i == 2 ? 256 + SIGSEGV : 0));
	}
	/* A shared file of the program remains shared. */
	CHECK(memory[3 * PAGE] == 1 && is_filled(memory + 4 * PAGE, 1, BLOCK - 4 * PAGE));
	CHECK(!mprotect(memory, 3 * PAGE, PROT_READ | PROT_WRITE));
	CHECK(is_filled(memory, 1, 3 * PAGE));
	if (has_arena) {
		char byte;

		free(memory);
		for (int i = 0; i < 10; i++)
			memset(block_new(BLOCK), 9, BLOCK);
		CHECK(pread(fd, &byte, 1, 0) == 1 && byte == 1);
		CHECK(pread(fd, &byte, 1, PAGE - 1) == 1 && byte == 0);
	}
	close(fd);
}

/* mremap() finds private anonymous memory. */
void remap(void)
{
	char *memory = memalign(PAGE, BLOCK), *next = memalign(PAGE, BLOCK), *to;
	pid_t child;

	memset(memory, 1, BLOCK);
	memset(next, 2, BLOCK);
	CHECK(mremap(memory, 0, BLOCK, MREMAP_MAYMOVE) == MAP_FAILED);
	to = mmap(NULL, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mremap(memory, BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	child = fork();
	if (!child) {
		memset(to, 3, BLOCK);
		_exit(0);
	}
	CHECK(child_status(child) == 0 && is_filled(to, 1, BLOCK));
	memory = memalign(PAGE, BLOCK);
	memset(memory, 4, BLOCK);
	CHECK(!mprotect(memory, PAGE, PROT_NONE));
	to = mremap(memory + PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	CHECK(to != MAP_FAILED && is_filled(to, 4, PAGE) && is_filled(to + PAGE, 0, 2 * PAGE));
	CHECK(is_filled(memory + 2 * PAGE, 4, BLOCK - 2 * PAGE));
	to = mremap(memory + 3 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
	if (to != MAP_FAILED)
		CHECK(is_filled(to, 4, PAGE) && is_filled(memory + 3 * PAGE, 0, PAGE));
	CHECK(is_filled(next, 2, BLOCK));
	free(next);
}

/* Replaces a block that has a protected page by private memory. */
void wiped(void)
{
	char *memory = memalign(PAGE, BLOCK);
	pid_t child;

	memset(memory, 1, BLOCK);
	CHECK(!mprotect(memory, PAGE, PROT_NONE));
	CHECK(!madvise(memory, BLOCK, MADV_WIPEONFORK));
	CHECK(is_filled(memory + PAGE, 1, BLOCK - PAGE));
	for (unsigned int i = 0; i < 2; i++) {
		child = fork();
		if (!child) {
			CHECK(is_filled(memory + PAGE, 0, BLOCK - PAGE));
			write_one(memory + i * PAGE);
		}
		CHECK(child_status(child) == (i ? 0 : 256 + SIGSEGV));
	}
	CHECK(!mprotect(memory, PAGE, PROT_READ | PROT_WRITE) && is_filled(memory, 1, BLOCK));
	free(memory);
}

/* The child of a fork() in a root directory without /proc. */
void rooted(void)
{
	char *memory = memalign(2 * MEGA, 4 * MEGA);
	pid_t child;

	CHECK(!madvise(memory, 4 * MEGA, MADV_HUGEPAGE));
	memset(memory, 1, 4 * MEGA);
	/* The right to call chroot(). If the system denies it, /proc remains. */
	(void)!unshare(CLONE_NEWUSER);
	if (!chroot("/var/empty") || !chroot("/mnt"))
		CHECK(!chdir("/"));
	child = fork();
	if (!child)
		_exit(!is_filled(memory, 1, 4 * MEGA));
	CHECK(child_status(child) == 0);
	free(memory);
}
