/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/inherit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "arena/arena.h"
#include "arena/calls.h"
#include "arena/memfd.h"
#include "arena/private.h"
#include "arena/vmas.h"
#include "base/log.h"
#include "base/syscalls.h"

/* The unit of comparisons, and of copies without a descriptor. */
#define CHUNK_BYTES (64u * 1024)

/* The maximum number of comparisons with the parent's memory. */
#define PASSES_MAX 8

/* Huge pages, and the size from which parts of a block with data get them. */
#define HUGE_BYTES	((size_t)2 << 20)
#define HUGE_EXTENT_MIN ((size_t)4 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * From the prepare handler to the end of fork(). The child writes one byte to the pipe when the copy is
 * complete. If the child ends before, the parent reads end-of-file.
 */
static __thread struct {
	bool is_held;	     /* the prepare handler has taken the lock, or is_interrupted is set */
	bool is_interrupted; /* in a signal handler that has interrupted a function of the arena */
	sigset_t signals;    /* the signal mask of the thread */
	bool is_shared;	     /* the arena has blocks that the child must copy */
	bool has_threads;    /* other threads of the parent may write while the child copies */
	int ends[2];	     /* -1: no descriptor was free */
	char *staging; /* without a pipe: the parent's copy of all blocks, in the order of addresses */
	size_t staging_bytes;
} forking __attribute__((tls_model("initial-exec"))) = {.ends = {-1, -1}};

/* Used by the child, which has one thread. */
static char chunk[CHUNK_BYTES];

static bool block_is_shared(const struct span *span)
{
	return span->state == SPAN_USED && !span->is_private && !span->is_foreign;
}

static bool block_is_plain(const struct span *span)
{
	return block_is_shared(span) && !span->is_changed && !span->is_replaced;
}

static struct span *span_after(const struct span *span)
{
	return pages_at(&arena.pages, span ? span->first + span->count : 0);
}

/* The child cannot continue with memory that differs from the parent's, and fork() cannot fail any more. */
static void inherit_abort(void)
{
	for (;;)
		kill(getpid(), SIGKILL);
}

/*
 * Sets the soft limit to the hard limit, and stores the limits before. The child has one thread, which no change of a limit can
 * disturb.
 */
static bool limit_raise(int resource, struct rlimit *before)
{
	struct rlimit raised;

	if (getrlimit((__rlimit_resource_t)resource, before))
		return false;
	raised = *before;
	raised.rlim_cur = before->rlim_max;
	return !setrlimit((__rlimit_resource_t)resource, &raised);
}

/* fork() of private memory is not subject to RLIMIT_DATA. */
static void *private_map_above_limit(void *addr, size_t bytes, int flags)
{
	struct rlimit before;
	void *memory;

	if (!limit_raise(RLIMIT_DATA, &before))
		return MAP_FAILED;
	memory = call_mmap(addr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	setrlimit(RLIMIT_DATA, &before);
	return memory;
}

static void *private_map(uintptr_t addr, size_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	void *memory = call_mmap((void *)addr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (memory == MAP_FAILED)
		memory = private_map_above_limit((void *)addr, bytes, flags | MAP_NORESERVE);
	if (memory == MAP_FAILED)
		inherit_abort();
	return memory;
}

/* Lets the kernel allocate pages that are about to be filled in one call, and large ones if they are filled completely. */
static void pages_prepare(uintptr_t addr, size_t bytes)
{
	uintptr_t huge = (addr + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1);

	if (bytes >= HUGE_EXTENT_MIN)
		call_madvise((void *)huge, (addr + bytes - huge) & ~(size_t)(HUGE_BYTES - 1),
			     MADV_HUGEPAGE);
	call_madvise((void *)addr, bytes, MADV_POPULATE_WRITE);
}

/* Reads from the parent's memfd. Pages that the file does not store remain untouched: they are read as 0. */
static void range_read(uintptr_t addr, size_t bytes)
{
	uint64_t offset = addr - arena.base, end = offset + bytes;

	private_map(addr, bytes);
	while (offset < end) {
		size_t data;

		offset = memfd_data(arena.fd, offset, end, &data);
		if (data)
			pages_prepare(arena.base + offset, data);
		if (data && !memfd_read(arena.fd, (void *)(arena.base + offset), offset, data))
			inherit_abort();
		offset += data;
	}
}

/* Compares private memory with the parent's and copies again what differs. Returns whether a byte was different. */
static bool range_refresh(uintptr_t addr, size_t bytes)
{
	uint64_t offset = addr - arena.base, end = offset + bytes;
	bool is_different = false;

	while (offset < end) {
		size_t data, part;

		offset = memfd_data(arena.fd, offset, end, &data);
		for (; data; offset += part, data -= part) {
			void *memory = (void *)(arena.base + offset);

			part = data < sizeof(chunk) ? data : sizeof(chunk);
			if (!memfd_read(arena.fd, chunk, offset, part))
				inherit_abort();
			if (!memcmp(memory, chunk, part))
				continue;
			memcpy(memory, chunk, part);
			is_different = true;
		}
	}
	return is_different;
}

/* Whether a copy can contain values of different times. Without a descriptor, the parent's memory cannot be read again. */
static bool copy_can_differ(void)
{
	return forking.has_threads && !forking.staging && arena_fd_is_valid();
}

/* The program has closed the descriptor: the content is read through the mapping. */
static void range_copy(uintptr_t addr, size_t bytes)
{
	while (bytes) {
		size_t part = bytes < sizeof(chunk) ? bytes : sizeof(chunk);

		memcpy(chunk, (void *)addr, part);
		memcpy(private_map(addr, part), chunk, part);
		addr += part;
		bytes -= part;
	}
}

/* The parent's copy of a range. All blocks that are shared follow each other in the copy. */
static void range_unstage(uintptr_t addr, size_t bytes)
{
	const struct span *span,
		*end = pages_find(&arena.pages, (addr - arena.base) / arena.page_bytes);
	const char *from = forking.staging;

	for (span = span_after(NULL); span && span != end; span = span_after(span))
		from += block_is_shared(span) ? arena_span_bytes(span) : 0;
	if (span)
		memcpy(private_map(addr, bytes), from + (addr - arena_span_addr(span)), bytes);
}

static void range_take(uintptr_t addr, size_t bytes)
{
	if (forking.staging)
		range_unstage(addr, bytes);
	else if (arena_fd_is_valid())
		range_read(addr, bytes);
	else
		range_copy(addr, bytes);
}

/*
 * A double collect (Afek et al., Atomic Snapshots of Shared Memory, 1993, §3): if two successive collects find the same values,
 * memory had these values at an instant between them, unless a value changed and changed back. `collect` returns whether a value
 * was different from the one before. A thread that writes all the time prevents the end, so the number of passes is limited.
 */
static void collect_until_equal(bool (*collect)(const void *), const void *context)
{
	for (int i = 0; i < PASSES_MAX; i++)
		if (!collect(context))
			return;
	log_debug("fork: copied memory that other threads wrote during %d passes", PASSES_MAX);
}

struct range {
	uintptr_t addr;
	size_t bytes;
};

static bool part_collect(const void *context)
{
	const struct range *range = context;

	return range_refresh(range->addr, range->bytes);
}

static void part_settle(uintptr_t addr, size_t bytes)
{
	const struct range range = {.addr = addr, .bytes = bytes};

	collect_until_equal(part_collect, &range);
}

/* Takes a part of a block, and gives the private mapping the attributes that the shared one had. */
static void part_take(const struct vma_item *item, uintptr_t start, uintptr_t end)
{
	void *memory = (void *)start;
	size_t bytes = end - start;

	/* range_copy() reads through the mapping. */
	call_mprotect(memory, bytes, PROT_READ | PROT_WRITE);
	range_take(start, bytes);
	if (copy_can_differ())
		part_settle(start, bytes);
	private_restore(item, start, bytes);
}

/* A mapping of the memfd: takes its part of each block with attributes of its own. */
static void mapping_take(const struct vma_item *item, void *context)
{
	uintptr_t at = item->start;

	(void)context;
	if (!private_is_of_arena(item))
		return;
	while (at < item->end) {
		const struct span *span = pages_find(&arena.pages,
						     (at - arena.base) / arena.page_bytes);
		uintptr_t end;

		if (!span)
			return;
		end = arena_span_addr(span) + arena_span_bytes(span);
		end = end < item->end ? end : item->end;
		if (block_is_shared(span) && !block_is_plain(span))
			part_take(item, at, end);
		at = end;
	}
}

/* If the attributes cannot be read, the copy has none. But the memory that replaces a part of a block is not found then. */
static void blocks_take_plainly(void)
{
	for (struct span *span = span_after(NULL); span; span = span_after(span)) {
		if (!block_is_shared(span) || block_is_plain(span))
			continue;
		if (span->is_replaced)
			inherit_abort();
		range_take(arena_span_addr(span), arena_span_bytes(span));
	}
}

/* vmas_each() needs a descriptor number. The staging was made because no number was free. */
static int others_take(void)
{
	struct rlimit before;
	int ret = vmas_each(mapping_take, NULL);

	if (ret != -EMFILE || !limit_raise(RLIMIT_NOFILE, &before))
		return ret;
	ret = vmas_each(mapping_take, NULL);
	setrlimit(RLIMIT_NOFILE, &before);
	return ret;
}

/* Finds the next range of adjacent blocks whose mappings have no attributes of their own, and moves *at behind it. */
static bool plain_next(const struct span **at, struct range *range)
{
	range->bytes = 0;
	for (; *at; *at = span_after(*at)) {
		if (block_is_plain(*at)) {
			if (!range->bytes)
				range->addr = arena_span_addr(*at);
			range->bytes += arena_span_bytes(*at);
		} else if (range->bytes) {
			break;
		}
	}
	return range->bytes;
}

static bool blocks_collect(const void *context)
{
	const struct span *at = span_after(NULL);
	bool is_different = false;
	struct range range;

	(void)context;
	while (plain_next(&at, &range))
		is_different |= range_refresh(range.addr, range.bytes);
	return is_different;
}

static bool blocks_have_attributes(void)
{
	for (const struct span *span = span_after(NULL); span; span = span_after(span))
		if (block_is_shared(span) && !block_is_plain(span))
			return true;
	return false;
}

static void blocks_take(void)
{
	const struct span *at = span_after(NULL);
	struct range range;

	while (plain_next(&at, &range))
		range_take(range.addr, range.bytes);
	if (copy_can_differ())
		collect_until_equal(blocks_collect, NULL);
	if (blocks_have_attributes() && others_take())
		blocks_take_plainly();
}

/*
 * Free pages belong to the parent's file and are unmapped, so that the copies of blocks cannot split a mapping. Small free spans
 * among copied blocks become blocks that no pointer refers to: if they were unmapped, each block would be a mapping of its own, and the kernel limits
 * the number of mappings (vm.max_map_count).
 */
static void free_pages_forget(void)
{
	struct span *span = span_after(NULL);

	for (; span; span = span_after(span)) {
		if (span->state != SPAN_DIRTY && span->state != SPAN_CLEAN)
			continue;
		if (forking.is_shared && arena_span_bytes(span) < ARENA_UNMAP_BYTES_MIN) {
			pages_use(&arena.pages, span);
		} else {
			call_munmap((void *)arena_span_addr(span), arena_span_bytes(span));
			span = pages_free(&arena.pages, span, SPAN_UNMAPPED);
		}
	}
}

/* All blocks belong to this process now. */
static void blocks_own(void)
{
	arena.private_pages = 0;
	for (struct span *span = span_after(NULL); span; span = span_after(span)) {
		if (span->state != SPAN_USED || span->is_foreign)
			continue;
		span->is_private = true;
		arena.private_pages += span->count;
	}
}

/*
 * Without a pipe the parent copies all blocks before the fork, for the child to copy them again. The descriptor also reads
 * memory that the program has protected.
 */
static void blocks_stage(void)
{
	size_t bytes = 0;
	char *to;

	for (struct span *span = span_after(NULL); span; span = span_after(span))
		bytes += block_is_shared(span) ? arena_span_bytes(span) : 0;
	to = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (to == MAP_FAILED)
		return;
	forking.staging = to;
	forking.staging_bytes = bytes;
	for (struct span *span = span_after(NULL); span; span = span_after(span)) {
		uintptr_t addr = arena_span_addr(span);

		if (!block_is_shared(span))
			continue;
		bytes = arena_span_bytes(span);
		if (!arena_fd_is_valid() || !memfd_read(arena.fd, to, addr - arena.base, bytes))
			memcpy(to, (void *)addr, bytes);
		to += bytes;
	}
}

static void inherit_close(int *end)
{
	if (*end >= 0)
		sys_close(*end);
	*end = -1;
}

/* The directory has one subdirectory for each thread, also for threads that the C library did not create. */
static bool process_has_threads(void)
{
	struct stat stat_;

	return stat("/proc/self/task", &stat_) || stat_.st_nlink != 3;
}

void inherit_detach(const void *address)
{
	struct span *span;

	if (!arena_has(address))
		return;
	span = pages_find(&arena.pages, ((uintptr_t)address - arena.base) / arena.page_bytes);
	if (span && block_is_shared(span) && !span->is_found)
		private_detach(span);
}

/*
 * The stack of this thread may be in a block: that of a coroutine. Parent and child change it before the child's copy is complete.
 * A stack of pthread_attr_setstack() is private already.
 */
static void stack_detach(void)
{
	char here;

	inherit_detach(&here);
}

void inherit_before_fork(void)
{
	sigset_t all, before;

	/* The program's signal handlers must not change memory while the child copies it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	forking.is_interrupted = arena_is_interrupted();
	forking.is_held = true;
	forking.signals = before;
	if (!forking.is_interrupted) {
		arena_lock();
		stack_detach();
	}
	forking.is_shared = arena.bytes && (forking.is_interrupted ||
					    arena.pages.count[SPAN_USED] > arena.private_pages);
	forking.has_threads = forking.is_shared && process_has_threads();
	if (forking.is_shared && pipe2(forking.ends, O_CLOEXEC)) {
		forking.ends[0] = -1;
		forking.ends[1] = -1;
		if (!forking.is_interrupted)
			blocks_stage();
	}
}

static void staging_free(void)
{
	if (forking.staging)
		call_munmap(forking.staging, forking.staging_bytes);
	forking.staging = NULL;
}

void inherit_after_fork_in_parent(void)
{
	const sigset_t signals = forking.signals;
	int saved = errno;
	char byte;

	if (!forking.is_held)
		return;
	forking.is_held = false;
	inherit_close(&forking.ends[1]);
	while (forking.ends[0] >= 0 && sys_read(forking.ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	inherit_close(&forking.ends[0]);
	staging_free();
	if (!forking.is_interrupted)
		arena_unlock();
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
	errno = saved;
}

/* Closes the parent's memfd. */
static void memfd_forget(void)
{
	if (arena_fd_is_valid())
		sys_close(arena.fd);
	arena.fd = -1;
}

/* A mapping of the memfd, whose spans are not known. */
static void mapping_take_whole(const struct vma_item *item, void *context)
{
	(void)context;
	if (private_is_of_arena(item))
		part_take(item, item->start, item->end);
}

/*
 * The child of a signal handler that has interrupted a function of the arena: the spans may be inconsistent. The child copies all
 * mappings, and allocates no further blocks. If its handler returns, the interrupted function fails or returns private memory.
 */
static void file_take(void)
{
	if (vmas_each(mapping_take_whole, NULL))
		inherit_abort();
	arena.is_off = true;
}

/* The program may have changed or replaced the mapping of each block: all are found by their mappings. */
static void blocks_doubt(void)
{
	for (struct span *span = span_after(NULL); span; span = span_after(span)) {
		if (!block_is_shared(span))
			continue;
		span->is_changed = true;
		span->is_replaced = true;
	}
}

void inherit_after_fork_in_child(void)
{
	const char byte = 1;
	int saved = errno;

	if (!forking.is_held)
		return;
	forking.is_held = false;
	if (arena.bytes) {
		if (forking.is_interrupted) {
			file_take();
		} else {
			free_pages_forget();
			if (atomic_exchange(&arena.is_uncertain, false))
				blocks_doubt();
			if (forking.is_shared)
				blocks_take();
			blocks_own();
		}
		memfd_forget();
	}
	/* The read end is open until then: if the parent has ended, write() would raise SIGPIPE. */
	while (forking.ends[1] >= 0 && sys_write(forking.ends[1], &byte, 1) < 0 && errno == EINTR)
		;
	inherit_close(&forking.ends[0]);
	inherit_close(&forking.ends[1]);
	staging_free();
	arena_lock_reset(!forking.is_interrupted);
	pthread_sigmask(SIG_SETMASK, &forking.signals, NULL);
	errno = saved;
}

void inherit_register(void)
{
	pthread_atfork(inherit_before_fork, inherit_after_fork_in_parent,
		       inherit_after_fork_in_child);
}
