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
#include "arena/take.h"
#include "base/log.h"
#include "base/syscalls.h"

/*
 * From the prepare handler to the end of fork(). The child writes one byte to the pipe when the
 * copy is complete. If the child ends before, the parent reads end-of-file.
 */
static __thread struct {
	bool is_held;	     /* the prepare handler has taken the lock, or is_interrupted is set */
	bool is_interrupted; /* in a signal handler that has interrupted a function of the arena */
	sigset_t signals;    /* the signal mask of the thread */
	bool is_shared;	     /* the arena has blocks that the child must copy */
	struct take_source source;
	int ends[2];	      /* -1: no descriptor was free */
	size_t staging_bytes; /* of source.staging */
} forking __attribute__((tls_model("initial-exec"))) = {.ends = {-1, -1}};

/*
 * Free pages belong to the parent's file and are unmapped, so that the copies of blocks cannot
 * split a mapping. Small free spans among copied blocks become blocks that no pointer refers to. If
 * they were unmapped, each block would be a mapping of its own, and the kernel limits the number of
 * mappings (vm.max_map_count).
 */
static void free_pages_forget(void)
{
	struct span *span = arena_span_after(NULL);

	for (; span; span = arena_span_after(span)) {
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
	pages_forget_kept(&arena.pages);
	for (struct span *span = arena_span_after(NULL); span; span = arena_span_after(span)) {
		if (span->state != SPAN_USED || span->is_foreign)
			continue;
		span->is_private = true;
		arena.private_pages += span->count;
	}
}

/*
 * Without a pipe the parent copies all blocks before the fork, for the child to copy them again.
 * The descriptor also reads memory that the program has protected.
 */
static void blocks_stage(void)
{
	size_t bytes = 0;
	char *to;

	for (struct span *span = arena_span_after(NULL); span; span = arena_span_after(span))
		bytes += arena_block_is_shared(span) ? arena_span_bytes(span) : 0;
	to = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (to == MAP_FAILED)
		return;
	forking.source.staging = to;
	forking.staging_bytes = bytes;
	for (struct span *span = arena_span_after(NULL); span; span = arena_span_after(span)) {
		uintptr_t addr = arena_span_addr(span);

		if (!arena_block_is_shared(span))
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

/*
 * The directory has one subdirectory for each thread, also for threads that the C library did not
 * create.
 */
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
	if (span && arena_block_is_shared(span) && !pages_are_kept(&arena.pages, span))
		private_detach(span);
}

/*
 * The stack of this thread may be in a block: that of a coroutine. Parent and child change it
 * before the child's copy is complete. A stack of pthread_attr_setstack() is private already.
 */
static void stack_detach(void)
{
	inherit_detach(__builtin_frame_address(0));
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
	forking.source.has_threads = forking.is_shared && process_has_threads();
	if (forking.is_shared && pipe2(forking.ends, O_CLOEXEC)) {
		forking.ends[0] = -1;
		forking.ends[1] = -1;
		if (!forking.is_interrupted)
			blocks_stage();
	}
}

static void staging_free(void)
{
	if (forking.source.staging)
		call_munmap(forking.source.staging, forking.staging_bytes);
	forking.source.staging = NULL;
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

/*
 * The program may have changed or replaced the mapping of each block: all are found by their
 * mappings.
 */
static void blocks_doubt(void)
{
	for (struct span *span = arena_span_after(NULL); span; span = arena_span_after(span)) {
		if (!arena_block_is_shared(span))
			continue;
		span->is_changed = true;
		span->is_replaced = true;
	}
}

static void blocks_inherit(void)
{
	free_pages_forget();
	if (atomic_exchange(&arena.is_uncertain, false))
		blocks_doubt();
	if (forking.is_shared)
		take_blocks(&forking.source);
	blocks_own();
}

/*
 * In a signal handler that has interrupted a function of the arena, the spans may be inconsistent.
 * The child allocates no further blocks. If the handler returns, the interrupted function fails or
 * returns private memory.
 */
static void interrupted_inherit(void)
{
	take_mappings(&forking.source);
	arena.is_off = true;
}

void inherit_after_fork_in_child(void)
{
	const char byte = 1;
	int saved = errno;

	if (!forking.is_held)
		return;
	forking.is_held = false;
	if (arena.bytes) {
		if (forking.is_interrupted)
			interrupted_inherit();
		else
			blocks_inherit();
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
