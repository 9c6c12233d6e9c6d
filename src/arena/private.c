/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/private.h"

#include <string.h>
#include <sys/sysmacros.h>

#include "arena/calls.h"
#include "arena/memfd.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

bool private_is_of_arena(const struct vma_item *item)
{
	return item->is_shared && item->ino == arena.ino &&
	       makedev(item->dev_major, item->dev_minor) == arena.dev &&
	       arena_has((void *)item->start);
}

void private_restore(const struct vma_item *item, uintptr_t addr, size_t bytes)
{
	void *memory = (void *)addr;

	if (item->is_not_dumped)
		call_madvise(memory, bytes, MADV_DONTDUMP);
	if (item->is_huge)
		call_madvise(memory, bytes, MADV_HUGEPAGE);
	if (item->is_never_huge)
		call_madvise(memory, bytes, MADV_NOHUGEPAGE);
	if (item->prot != (PROT_READ | PROT_WRITE))
		call_mprotect(memory, bytes, item->prot);
}

/* The mappings of one part, and what is done with each. */
struct replacement {
	uintptr_t addr;
	uintptr_t end;
	int (*replace)(const struct vma_item *item, uintptr_t addr, size_t bytes);
	int ret;
};

static void mapping_replace(const struct vma_item *item, void *context)
{
	struct replacement *replacement = context;
	uintptr_t start = item->start, end = item->end;

	start = start > replacement->addr ? start : replacement->addr;
	end = end < replacement->end ? end : replacement->end;
	if (start < end && !replacement->ret && private_is_of_arena(item))
		replacement->ret = replacement->replace(item, start, end - start);
}

/* A block that the program has not changed has one mapping. */
static int part_replace(const struct part *part,
			int (*replace)(const struct vma_item *, uintptr_t, size_t))
{
	const struct vma_item plain = {.prot = PROT_READ | PROT_WRITE};
	struct replacement replacement = {
		.addr = part->addr, .end = part->addr + part->bytes, .replace = replace};

	if (!part->span->is_changed && !part->span->is_replaced)
		return replace(&plain, part->addr, part->bytes);
	if (vmas_each(mapping_replace, &replacement))
		return -1;
	return replacement.ret;
}

/* From now on the kernel copies the memory in fork(), and the file does not store it. */
static void part_note(const struct part *part)
{
	struct span *span = part->span;

	if (part->bytes == arena_span_bytes(span)) {
		span->is_private = true;
		arena.private_pages += span->count;
	} else {
		span->is_replaced = true;
		span->is_changed = true;
	}
}

static int mapping_exchange(const struct vma_item *item, uintptr_t addr, size_t bytes)
{
	void *memory = (void *)addr, *copy = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
						       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return -1;
	/* The descriptor also reads memory that the program has protected. */
	if (!arena_fd_is_valid() || !memfd_read(arena.fd, copy, addr - arena.base, bytes)) {
		call_mprotect(memory, bytes, PROT_READ | PROT_WRITE);
		memcpy(copy, memory, bytes);
	}
	if (call_mremap(copy, bytes, memory) == MAP_FAILED) {
		call_munmap(copy, bytes);
		return -1;
	}
	private_restore(item, addr, bytes);
	return 0;
}

static int mapping_clear(const struct vma_item *item, uintptr_t addr, size_t bytes)
{
	if (call_mmap((void *)addr, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -1;
	private_restore(item, addr, bytes);
	return 0;
}

int private_copy(const struct part *part, bool is_untouched)
{
	if (part_replace(part, is_untouched ? mapping_clear : mapping_exchange))
		return -1;
	(void)arena_discard(part->addr, part->bytes, false);
	part_note(part);
	return 0;
}

/*
 * A private mapping of the file: the kernel copies each page at the first store, so no store of
 * another thread is lost. Then the pages with data are copied, so that the file need not store
 * them: MADV_DONTNEED must not bring the old content back. If a page cannot be copied, the file
 * keeps the data, which no process changes any more.
 */
static int mapping_detach(const struct vma_item *item, uintptr_t addr, size_t bytes)
{
	uint64_t offset = addr - arena.base, end = offset + bytes;
	bool is_copied = true;

	if (call_mmap((void *)addr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		      arena.fd, offset) == MAP_FAILED)
		return -1;
	while (offset < end) {
		size_t data;

		offset = memfd_data(arena.fd, offset, end, &data);
		if (data && call_madvise((void *)(arena.base + offset), data, MADV_POPULATE_WRITE))
			is_copied = false;
		offset += data;
	}
	if (is_copied)
		(void)arena_discard(addr, bytes, false);
	private_restore(item, addr, bytes);
	return 0;
}

void private_detach(struct span *span)
{
	const struct part part = {
		.span = span, .addr = arena_span_addr(span), .bytes = arena_span_bytes(span)};

	if (arena_fd_is_valid() && !span->is_replaced && !part_replace(&part, mapping_detach))
		part_note(&part);
}
