/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/advice.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "arena/arena.h"
#include "arena/calls.h"
#include "arena/memfd.h"
#include "arena/private.h"
#include "base/syscalls.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define THP	       "/sys/kernel/mm/transparent_hugepage/"
#define HUGE_BYTES_MIN (1u << 20)

bool advice_concerns(const void *addr, size_t bytes)
{
	return arena.bytes && (uintptr_t)addr < arena.base + arena.bytes &&
	       (uintptr_t)addr + bytes > arena.base;
}

/* Returns the next part in [*at, end) and moves *at behind it. The caller holds the lock. */
static bool part_next(uintptr_t *at, uintptr_t end, struct part *part)
{
	while (*at < end) {
		uintptr_t start = *at > arena.base ? *at : arena.base, stop;
		struct span *span = pages_find(&arena.pages,
					       (start - arena.base) / arena.page_bytes);

		if (!span)
			return false;
		stop = arena_span_addr(span) + arena_span_bytes(span);
		*at = stop;
		if (span->state != SPAN_USED || span->is_private || span->is_foreign)
			continue;
		stop = stop < end ? stop : end;
		*part = (struct part){.span = span, .addr = start, .bytes = stop - start};
		return start < stop;
	}
	return false;
}

static uintptr_t range_end(const void *addr, size_t bytes)
{
	return ((uintptr_t)addr + bytes + arena.page_bytes - 1) & ~(arena.page_bytes - 1);
}

static void range_mark(const void *addr, size_t bytes, bool is_replaced)
{
	uintptr_t at = (uintptr_t)addr;
	struct part part;

	if (arena_is_interrupted()) {
		atomic_store(&arena.is_uncertain, true);
		return;
	}
	arena_lock();
	while (part_next(&at, range_end(addr, bytes), &part)) {
		part.span->is_changed = true;
		part.span->is_replaced |= is_replaced;
	}
	arena_unlock();
}

void advice_will_change(const void *addr, size_t bytes)
{
	range_mark(addr, bytes, false);
}

void advice_will_replace(const void *addr, size_t bytes)
{
	range_mark(addr, bytes, true);
}

/*
 * MADV_DONTNEED in a signal handler that must not examine the spans: the file stores nothing for a
 * range that has become private. An address range without blocks is not affected either.
 */
static void range_zero_unexamined(const void *addr, size_t bytes)
{
	uintptr_t start = (uintptr_t)addr, end = range_end(addr, bytes);

	start = start > arena.base ? start : arena.base;
	end = end < arena.base + arena.bytes ? end : arena.base + arena.bytes;
	if (!arena_discard(start, end - start, false))
		memset((void *)start, 0, end - start);
}

/* MADV_DONTNEED of a shared mapping keeps the content. */
static void range_zero(const void *addr, size_t bytes)
{
	uintptr_t at = (uintptr_t)addr;
	struct part part;

	if (arena_is_interrupted()) {
		range_zero_unexamined(addr, bytes);
		return;
	}
	arena_lock();
	while (part_next(&at, range_end(addr, bytes), &part))
		if (!arena_discard(part.addr, part.bytes, !part.span->is_replaced) &&
		    !part.span->is_changed)
			memset((void *)part.addr, 0, part.bytes);
	arena_unlock();
}

/* Whether peers may have the file of a block in the range. */
static bool range_is_kept(const void *addr, size_t bytes)
{
	uintptr_t at = (uintptr_t)addr;
	bool is_kept = false;
	struct part part;

	if (arena_is_interrupted())
		return false;
	arena_lock();
	while (!is_kept && part_next(&at, range_end(addr, bytes), &part))
		is_kept = pages_are_kept(&arena.pages, part.span);
	arena_unlock();
	return is_kept;
}

/* Whether the first page is not the arena's memory. */
static bool range_is_replaced(const void *addr, size_t bytes)
{
	uintptr_t at = (uintptr_t)addr;
	struct part part;
	bool is_found;

	if (arena_is_interrupted())
		return false;
	arena_lock();
	is_found = part_next(&at, range_end(addr, bytes), &part) && part.addr == (uintptr_t)addr;
	arena_unlock();
	return !is_found || part.span->is_replaced;
}

static bool part_is_untouched(const struct part *part)
{
	uint64_t offset = part->addr - arena.base;
	size_t data;

	if (!arena_fd_is_valid() || part->span->is_replaced ||
	    pages_are_kept(&arena.pages, part->span))
		return false;
	(void)memfd_data(arena.fd, offset, offset + part->bytes, &data);
	return !data;
}

/*
 * Replaces the range by private memory, for advice that shared mappings do not support.
 * only_untouched: keeps parts that have data, because other threads may write to them.
 */
static int range_make_private(const void *addr, size_t bytes, bool only_untouched)
{
	uintptr_t at = (uintptr_t)addr;
	struct part part;
	int ret = 0;

	if (arena_is_interrupted())
		return -1;
	arena_lock();
	while (!ret && part_next(&at, range_end(addr, bytes), &part)) {
		bool is_untouched = part_is_untouched(&part);

		if (is_untouched || !only_untouched)
			ret = private_copy(&part, is_untouched);
	}
	arena_unlock();
	return ret;
}

/*
 * The mapping that mremap() moves or extends must be anonymous: a mapping of the file would have
 * the memory of other blocks behind its end, would be shared after fork(), and would keep its
 * content with MREMAP_DONTUNMAP. Registered memory keeps the file.
 */
void advice_will_move(const void *addr, size_t bytes)
{
	/* mremap() with an old size of 0 copies a shared mapping. */
	if (!range_is_kept(addr, bytes ? bytes : 1))
		(void)range_make_private(addr, bytes ? bytes : 1, false);
	advice_will_replace(addr, bytes);
}

/* The selected value of a file of THP: the one in brackets. */
static bool thp_is(const char *path, const char *value)
{
	char text[128] = "";
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (sys_read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = '\0';
	sys_close(fd);
	return strstr(text, value);
}

/* Private memory would have huge pages, but the memory of a memfd would not. */
static bool huge_pages_are_private(void)
{
	return thp_is(THP "shmem_enabled", "[never]") && !thp_is(THP "enabled", "[never]");
}

int advice_apply(void *addr, size_t bytes, int advice, int (*real)(void *, size_t, int))
{
	int ret;

	switch (advice) {
	case MADV_FREE:
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
		/*
		 * The call checks its parameters. MADV_FREE is not supported for shared mappings.
		 */
		ret = real(addr, bytes, advice == MADV_FREE ? MADV_DONTNEED : advice);
		if (!ret)
			range_zero(addr, bytes);
		return ret;
	case MADV_WIPEONFORK:
	case MADV_GUARD_INSTALL:
		/* The kernel then rejects MADV_WIPEONFORK, as for each shared mapping. */
		if (range_is_kept(addr, bytes))
			break;
		if (range_make_private(addr, bytes, false)) {
			errno = ENOMEM;
			return -1;
		}
		break;
	case MADV_HUGEPAGE:
		if (bytes >= HUGE_BYTES_MIN && huge_pages_are_private())
			(void)range_make_private(addr, bytes, true);
		advice_will_change(addr, bytes);
		break;
	case MADV_REMOVE:
		/*
		 * For files only; the program has not mapped one, unless it has replaced the
		 * memory.
		 */
		if (range_is_replaced(addr, bytes))
			break;
		errno = EINVAL;
		return -1;
	case MADV_NOHUGEPAGE:
	case MADV_DONTFORK:
	case MADV_DOFORK:
	case MADV_DONTDUMP:
	case MADV_DODUMP:
		advice_will_change(addr, bytes);
		break;
	default:
		break;
	}
	return real(addr, bytes, advice);
}
