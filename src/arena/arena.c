/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arena/calls.h"
#include "arena/memfd.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "base/util.h"

/* The maximum of the address range. */
#define ARENA_BYTES_MAX (256ull << 30)

/* The maximum of all blocks unless USRDMA_SHARE=on: fork() copies them at once. */
#define ARENA_BYTES_DEFAULT (256u << 20)

/* The base is a multiple of this size; blocks with a larger alignment come from the C library. */
#define ARENA_ALIGN (1ull << 30)

/*
 * Free memory that remains mapped and filled for the next blocks. The C library keeps up to 64 MB
 * (M_TRIM_THRESHOLD).
 */
#define DIRTY_BYTES_MAX (16u << 20)

/* Pages between blocks with an alignment of at most this size are mapped, too. */
#define GAP_ALIGN_BYTES_MAX (2u << 20)

/*
 * Above this size, the kernel is asked for private memory of the same size first, as the C library
 * would do.
 */
#define OVERCOMMIT_CHECK_BYTES (64u << 20)

/* Address ranges that other mappings use, in one allocation. */
#define COLLISIONS_MAX 8

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct arena arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .is_off = true};

/* Set before the lock is taken, and cleared after it has been released. */
static __thread volatile bool is_locking __attribute__((tls_model("initial-exec")));

void arena_lock(void)
{
	is_locking = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_mutex_lock(&arena.lock);
}

void arena_unlock(void)
{
	pthread_mutex_unlock(&arena.lock);
	atomic_signal_fence(memory_order_seq_cst);
	is_locking = false;
}

void arena_lock_reset(bool is_released)
{
	pthread_mutex_init(&arena.lock, NULL);
	if (is_released)
		is_locking = false;
}

bool arena_is_interrupted(void)
{
	return is_locking;
}

void arena_enable(void)
{
	arena.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	arena.is_off = false;
}

uintptr_t arena_span_addr(const struct span *span)
{
	return arena.base + span->first * arena.page_bytes;
}

size_t arena_span_bytes(const struct span *span)
{
	return span->count * arena.page_bytes;
}

static uint64_t page_of(const void *memory)
{
	return ((uintptr_t)memory - arena.base) / arena.page_bytes;
}

bool arena_fd_is_valid(void)
{
	struct stat stat_;

	return arena.fd >= 0 && !fstat(arena.fd, &stat_) && stat_.st_dev == arena.dev &&
	       stat_.st_ino == arena.ino;
}

/*
 * Memory of a memfd is not subject to RLIMIT_DATA, and free blocks that remain mapped would be a
 * part of RLIMIT_AS. With these limits all memory comes from the C library, whose use of the limits
 * the program expects.
 */
static bool limits_are_set(void)
{
	return limit_is_set(RLIMIT_AS) || limit_is_set(RLIMIT_DATA);
}

/*
 * Chooses an address range: from three quarters of the address of a new mapping. The kernel places
 * mappings downward from the top, and the heap is at about two thirds, so that both meet the range
 * last. The range is not reserved.
 */
static int arena_place(void)
{
	const size_t page_bytes = arena.page_bytes;
	void *probe = call_mmap(NULL, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t top = (uintptr_t)probe, base = (top / 4 * 3) & ~(ARENA_ALIGN - 1);
	uint64_t bytes = min_u64(ARENA_BYTES_MAX, (top - base) / 2);
	int ret;

	if (probe == MAP_FAILED)
		return -ENOMEM;
	call_munmap(probe, page_bytes);
	ret = pages_init(&arena.pages, bytes / page_bytes);
	if (ret)
		return ret;
	arena.base = base;
	/* Other threads compare pointers with `base` as soon as `bytes` is set. */
	__atomic_store_n(&arena.bytes, (uintptr_t)bytes, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Makes what the first block needs. After a failure the process has no arena, because most causes
 * are permanent.
 */
static int arena_prepare(void)
{
	const char *value;
	struct stat stat_;

	if (arena.is_off)
		return -ENOSYS;
	if (arena.fd >= 0)
		return 0;
	value = getenv("USRDMA_SHARE");
	if ((value && !strcmp(value, "off")) || memory_is_not_overcommitted() ||
	    (!arena.bytes && arena_place()) || (arena.fd = memfd_open()) < 0) {
		arena.is_off = true;
		return -ENOSYS;
	}
	if (fstat(arena.fd, &stat_))
		return -errno;
	arena.limit_bytes = value && !strcmp(value, "on") ? ARENA_BYTES_MAX : ARENA_BYTES_DEFAULT;
	arena.file_bytes = 0;
	arena.dev = stat_.st_dev;
	arena.ino = stat_.st_ino;
	return 0;
}

/* A memfd is not subject to the check of one large request by vm.overcommit_memory. */
static bool kernel_has(size_t bytes)
{
	void *memory;

	if (bytes < OVERCOMMIT_CHECK_BYTES)
		return true;
	memory = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	call_munmap(memory, bytes);
	return true;
}

/* Maps an unmapped span. -EEXIST: another mapping is there. */
static int span_map(const struct span *span)
{
	void *want = (void *)arena_span_addr(span), *memory;
	size_t bytes = arena_span_bytes(span);
	int ret = memfd_grow(arena.fd, &arena.file_bytes,
			     arena_span_addr(span) - arena.base + bytes);

	if (ret)
		return ret;
	memory = call_mmap(want, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
			   arena.fd, span->first * arena.page_bytes);

	if (memory == want)
		return 0;
	if (memory == MAP_FAILED)
		return -errno;
	/* A kernel before 4.17 has chosen another address. */
	call_munmap(memory, bytes);
	return -EEXIST;
}

bool arena_discard(uintptr_t addr, size_t bytes, bool is_mapped)
{
	if (arena_fd_is_valid())
		return memfd_discard(arena.fd, addr - arena.base, bytes);
	/*
	 * If the program has replaced the mapping by a file of its own, MADV_REMOVE would delete
	 * that file's data.
	 */
	return is_mapped && !call_madvise((void *)addr, bytes, MADV_REMOVE);
}

/* Frees mapping and memory of a span. */
static void span_unmap(struct span *span)
{
	uintptr_t addr = arena_span_addr(span);
	size_t bytes = arena_span_bytes(span);

	if (span->is_private)
		arena.private_pages -= span->count;
	(void)arena_discard(addr, bytes, !span->is_private && !span->is_replaced);
	call_munmap((void *)addr, bytes);
	pages_free(&arena.pages, span, SPAN_UNMAPPED);
}

/* Returns free memory to the kernel, largest spans first, until half of the maximum is left. */
static void dirty_release(void)
{
	uint64_t keep = DIRTY_BYTES_MAX / 2 / arena.page_bytes;
	struct span *span;

	while (arena.pages.count[SPAN_DIRTY] > keep &&
	       (span = pages_largest(&arena.pages, SPAN_DIRTY))) {
		(void)arena_discard(arena_span_addr(span), arena_span_bytes(span), true);
		span = pages_free(&arena.pages, span, SPAN_CLEAN);
		if (arena_span_bytes(span) >= ARENA_UNMAP_BYTES_MIN)
			span_unmap(span);
	}
}

static void span_release(struct span *span)
{
	if (span->is_private || span->is_changed || span->is_replaced ||
	    atomic_load(&arena.is_uncertain)) {
		span_unmap(span);
		return;
	}
	pages_free(&arena.pages, span, SPAN_DIRTY);
	if (arena.pages.count[SPAN_DIRTY] * arena.page_bytes > DIRTY_BYTES_MAX)
		dirty_release();
}

/*
 * Replaces an unmapped span by one that extends to the next multiple of the alignment. Without the
 * pages in between, each block would be a mapping of its own, and the kernel limits the number of
 * mappings (vm.max_map_count).
 */
static struct span *span_pad(struct span *span, uint64_t align, enum span_state *before)
{
	uint64_t count = span->count, padded = (count + align - 1) & ~(align - 1);
	struct span *wide;

	if (padded == count || align * arena.page_bytes > GAP_ALIGN_BYTES_MAX)
		return span;
	pages_free(&arena.pages, span, SPAN_UNMAPPED);
	wide = pages_alloc(&arena.pages, padded, align, before);
	return wide ? wide : pages_alloc(&arena.pages, count, align, before);
}

/* Frees the pages of a span that are not part of the block. */
static void span_trim(struct span *span, uint64_t count, enum span_state state)
{
	struct span *rest = span->count > count ? pages_split(&arena.pages, span, count) : NULL;

	if (rest)
		pages_free(&arena.pages, rest, state);
}

/* An address range with a foreign mapping remains a used span that no pointer refers to. */
static struct span *span_get(uint64_t count, uint64_t align)
{
	for (int i = 0; i < COLLISIONS_MAX; i++) {
		enum span_state before;
		struct span *span = pages_alloc(&arena.pages, count, align, &before);
		int ret;

		/*
		 * Free pages that are mapped need no descriptor, and no system call to examine it.
		 */
		if (span && before == SPAN_UNMAPPED && !arena_fd_is_valid()) {
			pages_free(&arena.pages, span, SPAN_UNMAPPED);
			return NULL;
		}
		if (span && before == SPAN_UNMAPPED)
			span = span_pad(span, align, &before);
		if (!span)
			return NULL;
		if (before != SPAN_UNMAPPED) {
			span_trim(span, count, before);
			return span;
		}
		ret = limits_are_set() || !kernel_has(arena_span_bytes(span)) ? -ENOMEM :
										span_map(span);
		if (!ret) {
			span_trim(span, count, SPAN_CLEAN);
			return span;
		}
		if (ret != -EEXIST) {
			pages_free(&arena.pages, span, SPAN_UNMAPPED);
			return NULL;
		}
		span->is_foreign = true;
	}
	return NULL;
}

void *arena_alloc(size_t bytes, size_t align)
{
	int saved = errno;
	void *memory = NULL;
	struct span *span = NULL;
	uint64_t count;

	if (arena.is_off || bytes > ARENA_BYTES_MAX || align > ARENA_ALIGN)
		return NULL;
	arena_lock();
	if (!arena_prepare()) {
		count = (bytes + arena.page_bytes - 1) / arena.page_bytes;
		if (align < arena.page_bytes)
			align = arena.page_bytes;
		if ((arena.pages.count[SPAN_USED] + count) * arena.page_bytes <= arena.limit_bytes)
			span = span_get(count ? count : 1, align / arena.page_bytes);
		if (span)
			memory = (void *)arena_span_addr(span);
	}
	arena_unlock();
	errno = saved;
	return memory;
}

/* Returns the block that begins here. The caller holds the lock. */
static struct span *block_at(const void *memory)
{
	struct span *span = NULL;

	if (arena_has(memory) && !((uintptr_t)memory % arena.page_bytes))
		span = pages_at(&arena.pages, page_of(memory));
	return span && span->state == SPAN_USED && !span->is_foreign ? span : NULL;
}

size_t arena_size(const void *memory)
{
	struct span *span;
	size_t bytes;

	arena_lock();
	span = block_at(memory);
	bytes = span ? arena_span_bytes(span) : 0;
	arena_unlock();
	return bytes;
}

bool arena_free(void *memory)
{
	int saved = errno;
	struct span *span;

	arena_lock();
	span = block_at(memory);
	if (span)
		span_release(span);
	arena_unlock();
	errno = saved;
	return span;
}

void arena_shrink(void *memory, size_t bytes)
{
	int saved = errno;
	struct span *span, *rest = NULL;
	uint64_t count;

	arena_lock();
	span = block_at(memory);
	count = (bytes + arena.page_bytes - 1) / arena.page_bytes;
	if (span && count && count < span->count)
		rest = pages_split(&arena.pages, span, count);
	if (rest)
		span_release(rest);
	arena_unlock();
	errno = saved;
}

/* Whether all pages of the range belong to blocks in the file. */
static bool range_is_shared(uint64_t first, uint64_t last)
{
	while (first <= last) {
		const struct span *span = pages_find(&arena.pages, first);

		if (!span || span->state != SPAN_USED || span->is_foreign || span->is_private ||
		    span->is_replaced)
			return false;
		first = span->first + span->count;
	}
	return true;
}

__attribute__((visibility("default"))) void *usrdma_arena_keep(const void *address, size_t length,
							       int *fd, uint64_t *offset)
{
	uint64_t at = (uintptr_t)address - arena.base, first, last;
	struct span *kept = NULL;

	if (!arena_has(address) || !length || length > arena.bytes - at)
		return NULL;
	first = at / arena.page_bytes;
	last = (at + length - 1) / arena.page_bytes;
	arena_lock();
	if (!atomic_load(&arena.is_uncertain) && range_is_shared(first, last) &&
	    arena_fd_is_valid())
		kept = pages_keep(&arena.pages, first, last - first + 1);
	*fd = arena.fd;
	*offset = at;
	arena_unlock();
	return kept;
}

__attribute__((visibility("default"))) void usrdma_arena_unkeep(void *kept)
{
	arena_lock();
	pages_unkeep(&arena.pages, kept);
	arena_unlock();
}
