/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/resize.h"
#include "base/syscalls.h"

/* The size of a memfd. Pages that were never used take no memory. */
#define SLAB_BYTES (64u * 1024 * 1024)
/* Larger blocks are anonymous memory. */
#define BLOCK_BYTES_MAX (SLAB_BYTES / 8)
#define PAGE_BYTES_MIN	4096u

struct slab {
	struct list_head node; /* slabs */
	uint8_t *base;
	int fd; /* open as long as a peer may have to map the memory */
	size_t used_pages;
	bool is_used[SLAB_BYTES / PAGE_BYTES_MIN]; /* by page */
};

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list_head slabs = {&slabs, &slabs};

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t pages_of(size_t bytes)
{
	return (bytes + page_size() - 1) / page_size();
}

static struct slab *slab_new(void)
{
	struct slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return NULL;
	slab->fd = memfd_create("usrdma-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (slab->fd < 0)
		goto err_slab;
	if (resize_memory(slab->fd, SLAB_BYTES) ||
	    fcntl(slab->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		goto err_fd;
	slab->base = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			  slab->fd, 0);
	if (slab->base == MAP_FAILED)
		goto err_fd;
	list_add_tail(&slab->node, &slabs);
	return slab;

err_fd:
	sys_close(slab->fd);
err_slab:
	free(slab);
	return NULL;
}

static void slab_destroy(struct slab *slab)
{
	list_del(&slab->node);
	munmap(slab->base, SLAB_BYTES);
	sys_close(slab->fd);
	free(slab);
}

/* The first page of a run of unused pages. -1: no such run. */
static ptrdiff_t find_run(const struct slab *slab, size_t pages)
{
	size_t run = 0;

	for (size_t page = 0; page < SLAB_BYTES / page_size(); page++) {
		run = slab->is_used[page] ? 0 : run + 1;
		if (run == pages)
			return (ptrdiff_t)(page + 1 - pages);
	}
	return -1;
}

static uint8_t *slab_take(struct slab *slab, size_t pages)
{
	ptrdiff_t first = find_run(slab, pages);

	if (first < 0)
		return NULL;
	for (size_t i = 0; i < pages; i++)
		slab->is_used[(size_t)first + i] = true;
	slab->used_pages += pages;
	return slab->base + (size_t)first * page_size();
}

/* NULL: no memory from a memfd is available. ring_lock held. */
static uint8_t *take(size_t pages)
{
	struct slab *slab;
	uint8_t *memory;

	list_for_each_entry(slab, &slabs, node) {
		memory = slab_take(slab, pages);
		if (memory)
			return memory;
	}
	slab = slab_new();
	return slab ? slab_take(slab, pages) : NULL;
}

uint8_t *ring_memory_alloc(size_t bytes)
{
	uint8_t *memory = NULL;

	/* A memfd needs more of the address space than the block. */
	if (bytes <= BLOCK_BYTES_MAX && !limit_is_set(RLIMIT_AS)) {
		pthread_mutex_lock(&ring_lock);
		memory = take(pages_of(bytes));
		pthread_mutex_unlock(&ring_lock);
	}
	if (memory)
		return memory;
	memory = mmap(NULL, pages_of(bytes) * page_size(), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* ring_lock held. */
static struct slab *slab_of(const uint8_t *memory)
{
	struct slab *slab;

	list_for_each_entry(slab, &slabs, node) {
		if (memory >= slab->base && memory < slab->base + SLAB_BYTES)
			return slab;
	}
	return NULL;
}

static void slab_put(struct slab *slab, uint8_t *memory, size_t pages)
{
	size_t first = (size_t)(memory - slab->base) / page_size();

	/* Frees the pages; the next reader sees zeros. */
	madvise(memory, pages * page_size(), MADV_REMOVE);
	for (size_t i = 0; i < pages; i++)
		slab->is_used[first + i] = false;
	slab->used_pages -= pages;
	if (!slab->used_pages)
		slab_destroy(slab);
}

void ring_memory_free(uint8_t *memory, size_t bytes)
{
	int saved = errno;
	struct slab *slab;

	pthread_mutex_lock(&ring_lock);
	slab = slab_of(memory);
	if (slab)
		slab_put(slab, memory, pages_of(bytes));
	pthread_mutex_unlock(&ring_lock);
	/* Anonymous memory, or memory of the parent of this process, whose pages remain. */
	if (!slab)
		munmap(memory, pages_of(bytes) * page_size());
	errno = saved;
}

void ring_memory_after_fork(void)
{
	struct slab *slab;

	/*
	 * Another thread of the parent may have held the lock. The parent's slabs are not changed.
	 */
	pthread_mutex_init(&ring_lock, NULL);
	list_for_each_entry(slab, &slabs, node)
		sys_close(slab->fd);
	list_init(&slabs);
}
