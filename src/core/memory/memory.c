/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/memory.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "base/syscalls.h"
#include "base/util.h"
#include "base/vma.h"

/*
 * Up to this many pages are examined one by one, which is faster than an examination of the
 * mappings.
 */
#define PAGES_PROBED 16u

static bool page_is_usable(uintptr_t page, bool is_written)
{
	/* The application passed the address as an integer. */
	void *at = (void *)page;

	return is_written ? page_is_writable(at) : page_is_readable(at);
}

static bool pages_are_usable(uintptr_t first, uintptr_t last, uintptr_t page_bytes, bool is_written)
{
	for (uintptr_t page = first;; page += page_bytes) {
		if (!page_is_usable(page, is_written))
			return false;
		if (page == last)
			return true;
	}
}

/* The examination of the mappings of a range. */
struct walk {
	/* the first page that is not examined yet; 0: the whole address space is examined */
	uintptr_t next;
	uintptr_t last;
	uintptr_t page_bytes;
	bool is_written;
	bool is_usable;
};

/*
 * The pages of a file that are behind its end are the last ones of a mapping, so that the last page
 * of the mapping in the range is examined for all of them.
 */
static bool walk_visit(const struct vma *vma, void *arg)
{
	struct walk *walk = arg;
	uintptr_t last = min_u64(vma->end - walk->page_bytes, walk->last);

	walk->is_usable = vma->start <= walk->next &&
			  (walk->is_written ? vma->is_writable : vma->is_readable) &&
			  (!vma->ino || page_is_usable(last, walk->is_written));
	walk->next = last + walk->page_bytes;
	return walk->is_usable;
}

/* Without /proc: msync(2) only fails if a page is not mapped. MS_ASYNC starts no I/O. */
static bool pages_are_mapped(uintptr_t first, uintptr_t last, uintptr_t page_bytes)
{
	return !sys_msync((void *)first, last - first + page_bytes, MS_ASYNC);
}

static bool mappings_are_usable(uintptr_t first, uintptr_t last, uintptr_t page_bytes,
				bool is_written)
{
	struct walk walk = {
		.next = first,
		.last = last,
		.page_bytes = page_bytes,
		.is_written = is_written,
	};

	if (!page_is_usable(first, is_written) || !page_is_usable(last, is_written))
		return false;
	if (vma_each(first, last - first + page_bytes, walk_visit, &walk))
		return pages_are_mapped(first, last, page_bytes);
	return walk.is_usable && walk.next == last + page_bytes &&
	       !vma_has_guard_page(first, last - first + page_bytes);
}

int memory_check(const void *addr, uint64_t length, bool is_written)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t page_mask = ~(page_bytes - 1);
	uintptr_t first = (uintptr_t)addr & page_mask;
	uintptr_t last;
	int saved = errno;
	bool is_usable;

	if (!length)
		return 0;
	if ((uintptr_t)addr + length - 1 < (uintptr_t)addr)
		return -EINVAL;
	last = ((uintptr_t)addr + length - 1) & page_mask;
	is_usable = (last - first) / page_bytes < PAGES_PROBED ?
			    pages_are_usable(first, last, page_bytes, is_written) :
			    mappings_are_usable(first, last, page_bytes, is_written);
	errno = saved;
	return is_usable ? 0 : -EFAULT;
}
