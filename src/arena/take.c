/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/take.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arena/arena.h"
#include "arena/calls.h"
#include "arena/memfd.h"
#include "arena/private.h"
#include "arena/vmas.h"
#include "base/log.h"

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

/* Used by the child, which has one thread. */
static char chunk[CHUNK_BYTES];
static struct take_source source;

static bool block_is_plain(const struct span *span)
{
	return arena_block_is_shared(span) && !span->is_changed && !span->is_replaced;
}

void take_abort(void)
{
	for (;;)
		kill(getpid(), SIGKILL);
}

/*
 * Sets the soft limit to the hard limit, and stores the limits before. The child has one thread,
 * which no change of a limit can disturb.
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
		take_abort();
	return memory;
}

/*
 * Lets the kernel allocate pages that are about to be filled in one call, and large ones if they
 * are filled completely.
 */
static void pages_prepare(uintptr_t addr, size_t bytes)
{
	uintptr_t huge = (addr + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1);

	if (bytes >= HUGE_EXTENT_MIN)
		call_madvise((void *)huge, (addr + bytes - huge) & ~(size_t)(HUGE_BYTES - 1),
			     MADV_HUGEPAGE);
	call_madvise((void *)addr, bytes, MADV_POPULATE_WRITE);
}

/*
 * Reads from the parent's memfd. Pages that the file does not store remain untouched: they are read
 * as 0.
 */
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
			take_abort();
		offset += data;
	}
}

/*
 * Compares private memory with the parent's and copies again what differs. Returns whether a byte
 * was different.
 */
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
				take_abort();
			if (!memcmp(memory, chunk, part))
				continue;
			memcpy(memory, chunk, part);
			is_different = true;
		}
	}
	return is_different;
}

/*
 * Whether a copy can contain values of different times. Without a descriptor, the parent's memory
 * cannot be read again.
 */
static bool copy_can_differ(void)
{
	return source.has_threads && !source.staging && arena_fd_is_valid();
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
	const char *from = source.staging;

	for (span = arena_span_after(NULL); span && span != end; span = arena_span_after(span))
		from += arena_block_is_shared(span) ? arena_span_bytes(span) : 0;
	if (span)
		memcpy(private_map(addr, bytes), from + (addr - arena_span_addr(span)), bytes);
}

static void range_take(uintptr_t addr, size_t bytes)
{
	if (source.staging)
		range_unstage(addr, bytes);
	else if (arena_fd_is_valid())
		range_read(addr, bytes);
	else
		range_copy(addr, bytes);
}

/*
 * A double collect (Afek et al., Atomic Snapshots of Shared Memory, 1993, §3): if two successive
 * collects find the same values, memory had these values at an instant between them, unless a value
 * changed and changed back. `collect` returns whether a value was different from the one before. A
 * thread that writes all the time prevents the end, so the number of passes is limited.
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
		if (arena_block_is_shared(span) && !block_is_plain(span))
			part_take(item, at, end);
		at = end;
	}
}

/*
 * If the attributes cannot be read, the copy has none. But the memory that replaces a part of a
 * block is not found then.
 */
static void blocks_take_plainly(void)
{
	for (struct span *span = arena_span_after(NULL); span; span = arena_span_after(span)) {
		if (!arena_block_is_shared(span) || block_is_plain(span))
			continue;
		if (span->is_replaced)
			take_abort();
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

/*
 * Finds the next range of adjacent blocks whose mappings have no attributes of their own, and moves
 * *at behind it.
 */
static bool plain_next(const struct span **at, struct range *range)
{
	range->bytes = 0;
	for (; *at; *at = arena_span_after(*at)) {
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
	const struct span *at = arena_span_after(NULL);
	bool is_different = false;
	struct range range;

	(void)context;
	while (plain_next(&at, &range))
		is_different |= range_refresh(range.addr, range.bytes);
	return is_different;
}

static bool blocks_have_attributes(void)
{
	for (const struct span *span = arena_span_after(NULL); span; span = arena_span_after(span))
		if (arena_block_is_shared(span) && !block_is_plain(span))
			return true;
	return false;
}

void take_blocks(const struct take_source *from)
{
	const struct span *at = arena_span_after(NULL);
	struct range range;

	source = *from;
	while (plain_next(&at, &range))
		range_take(range.addr, range.bytes);
	if (copy_can_differ())
		collect_until_equal(blocks_collect, NULL);
	if (blocks_have_attributes() && others_take())
		blocks_take_plainly();
}

/* A mapping of the memfd, whose spans are not known. */
static void mapping_take_whole(const struct vma_item *item, void *context)
{
	(void)context;
	if (private_is_of_arena(item))
		part_take(item, item->start, item->end);
}

void take_mappings(const struct take_source *from)
{
	source = *from;
	if (vmas_each(mapping_take_whole, NULL))
		take_abort();
}
