/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena/arena.h"
#include "arena/inherit.h"

/*
 * The malloc functions that `usrdma run` preloads. Memory with the alignment or the size of a page
 * comes from the arena; other memory, and everything that the arena cannot serve, from the next
 * definition.
 */

/* The names of the C library that no other library replaces. Weak: only glibc has them. */
extern void __libc_free(void *memory) __attribute__((weak));
extern void *__libc_realloc(void *memory, size_t bytes) __attribute__((weak));
extern void *__libc_memalign(size_t align, size_t bytes) __attribute__((weak));
extern int __libc_start_main(void);

/* dlsym() may call the allocator, which then must not look up its functions. */
static __thread bool is_finding __attribute__((tls_model("initial-exec")));

void *preload_find(void **next, const char *name)
{
	void *found = __atomic_load_n(next, __ATOMIC_RELAXED);

	if (found || is_finding)
		return found;
	is_finding = true;
	found = dlsym(RTLD_NEXT, name);
	if (!found)
		dlerror();
	is_finding = false;
	__atomic_store_n(next, found, __ATOMIC_RELAXED);
	return found;
}

static struct {
	void *free;
	void *realloc;
	void *malloc_usable_size;
	void *memalign;
	void *posix_memalign;
	void *aligned_alloc;
	void *valloc;
	void *pvalloc;
	void *fork;
	void *clone;
	void *set_stack;
} next;

static void next_free(void *memory)
{
	void (*found)(void *) = (void (*)(void *))preload_find(&next.free, "free");

	if (found)
		found(memory);
	else if (__libc_free)
		__libc_free(memory);
}

static void *next_realloc(void *memory, size_t bytes)
{
	void *(*found)(void *, size_t) = (void *(*)(void *, size_t))preload_find(&next.realloc,
										 "realloc");

	if (found)
		return found(memory, bytes);
	if (__libc_realloc)
		return __libc_realloc(memory, bytes);
	errno = ENOMEM;
	return NULL;
}

static void *next_memalign(size_t align, size_t bytes)
{
	void *(*found)(size_t, size_t) = (void *(*)(size_t, size_t))preload_find(&next.memalign,
										 "memalign");

	if (found)
		return found(align, bytes);
	if (__libc_memalign)
		return __libc_memalign(align, bytes);
	errno = ENOMEM;
	return NULL;
}

/* NULL also for sizes and alignments that the next definition serves or rejects. */
static void *serve(size_t align, size_t bytes)
{
	size_t page_bytes = arena.page_bytes;

	if (arena.is_off || !bytes || !align || (align & (align - 1)))
		return NULL;
	if (align < page_bytes && bytes < page_bytes)
		return NULL;
	return arena_alloc(bytes, align);
}

PRELOAD_EXPORT int posix_memalign(void **to, size_t align, size_t bytes)
{
	int (*found)(void **, size_t, size_t);
	void *memory = align % sizeof(void *) ? NULL : serve(align, bytes);

	if (memory) {
		*to = memory;
		return 0;
	}
	found = (int (*)(void **, size_t, size_t))preload_find(&next.posix_memalign,
							       "posix_memalign");
	return found ? found(to, align, bytes) : ENOMEM;
}

PRELOAD_EXPORT void *memalign(size_t align, size_t bytes)
{
	void *memory = serve(align, bytes);

	return memory ? memory : next_memalign(align, bytes);
}

PRELOAD_EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
	void *(*found)(size_t, size_t);
	void *memory = serve(align, bytes);

	if (memory)
		return memory;
	found = (void *(*)(size_t, size_t))preload_find(&next.aligned_alloc, "aligned_alloc");
	return found ? found(align, bytes) : next_memalign(align, bytes);
}

PRELOAD_EXPORT void *valloc(size_t bytes)
{
	void *(*found)(size_t);
	void *memory = serve(arena.page_bytes, bytes);

	if (memory)
		return memory;
	found = (void *(*)(size_t))preload_find(&next.valloc, "valloc");
	return found ? found(bytes) : next_memalign((size_t)sysconf(_SC_PAGESIZE), bytes);
}

/* The arena rounds each size up to pages. */
PRELOAD_EXPORT void *pvalloc(size_t bytes)
{
	void *(*found)(size_t);
	void *memory = serve(arena.page_bytes, bytes);

	if (memory)
		return memory;
	found = (void *(*)(size_t))preload_find(&next.pvalloc, "pvalloc");
	if (found)
		return found(bytes);
	errno = ENOMEM;
	return NULL;
}

PRELOAD_EXPORT void free(void *memory)
{
	if (!arena_has(memory) || !arena_free(memory))
		next_free(memory);
}

/* C23. */
PRELOAD_EXPORT void free_sized(void *memory, size_t bytes);
PRELOAD_EXPORT void free_sized(void *memory, size_t bytes)
{
	(void)bytes;
	free(memory);
}

PRELOAD_EXPORT void free_aligned_sized(void *memory, size_t align, size_t bytes);
PRELOAD_EXPORT void free_aligned_sized(void *memory, size_t align, size_t bytes)
{
	(void)align;
	(void)bytes;
	free(memory);
}

PRELOAD_EXPORT size_t malloc_usable_size(void *memory)
{
	size_t (*found)(void *);
	size_t bytes = arena_has(memory) ? arena_size(memory) : 0;

	if (bytes)
		return bytes;
	found = (size_t(*)(void *))preload_find(&next.malloc_usable_size, "malloc_usable_size");
	return found ? found(memory) : 0;
}

static void *block_resize(void *memory, size_t had, size_t bytes)
{
	void *moved;

	if (bytes <= had) {
		arena_shrink(memory, bytes);
		return memory;
	}
	moved = serve(arena.page_bytes, bytes);
	if (!moved)
		moved = malloc(bytes);
	if (!moved)
		return NULL;
	memcpy(moved, memory, had);
	(void)arena_free(memory);
	return moved;
}

PRELOAD_EXPORT void *realloc(void *memory, size_t bytes)
{
	size_t had = arena_has(memory) ? arena_size(memory) : 0;

	if (!had)
		return next_realloc(memory, bytes);
	if (bytes)
		return block_resize(memory, had, bytes);
	/* As the C library does. */
	(void)arena_free(memory);
	return NULL;
}

PRELOAD_EXPORT void *reallocarray(void *memory, size_t count, size_t bytes)
{
	size_t total;

	if (__builtin_mul_overflow(count, bytes, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(memory, total);
}

/* fork() without fork handlers. */
PRELOAD_EXPORT pid_t _Fork(void)
{
	pid_t (*found)(void) = (pid_t(*)(void))preload_find(&next.fork, "_Fork");
	pid_t child;

	if (!found) {
		errno = ENOSYS;
		return -1;
	}
	inherit_before_fork();
	child = found();
	if (child)
		inherit_after_fork_in_parent();
	else
		inherit_after_fork_in_child();
	return child;
}

/* The function of a process that clone() creates without CLONE_VM. */
struct cloned {
	int (*run)(void *);
	void *argument;
};

static int cloned_start(void *context)
{
	const struct cloned *cloned = context;

	inherit_after_fork_in_child();
	return cloned->run(cloned->argument);
}

/*
 * Without CLONE_VM this is fork() without fork handlers. With CLONE_FILES the processes have one
 * descriptor table, in which the child must not close the descriptors of its parent. With
 * CLONE_SETTLS the child has other thread-local variables.
 */
PRELOAD_EXPORT int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
	int (*found)(int (*)(void *), void *, int, void *, ...) = (int (*)(
		int (*)(void *), void *, int, void *, ...))preload_find(&next.clone, "clone");
	struct cloned cloned = {.run = run, .argument = argument};
	void *parent_tid, *tls, *child_tid;
	va_list args;
	int child;

	va_start(args, argument);
	parent_tid = va_arg(args, void *);
	tls = va_arg(args, void *);
	child_tid = va_arg(args, void *);
	va_end(args);
	if (!found) {
		errno = ENOSYS;
		return -1;
	}
	if (!run || !stack || (flags & (CLONE_VM | CLONE_FILES | CLONE_SETTLS)) || arena.is_off)
		return found(run, stack, flags, argument, parent_tid, tls, child_tid);
	if (!arena_is_interrupted()) {
		arena_lock();
		inherit_detach((const char *)stack - 1);
		arena_unlock();
	}
	inherit_before_fork();
	child = found(cloned_start, stack, flags, &cloned, parent_tid, tls, child_tid);
	inherit_after_fork_in_parent();
	return child;
}

/*
 * The stack of a thread cannot become private later: pthread_join() waits for a futex in it, whose
 * identity depends on the kind of the mapping, so that a thread that waits already would never
 * return.
 */
PRELOAD_EXPORT int pthread_attr_setstack(pthread_attr_t *attr, void *stack, size_t bytes)
{
	int (*found)(pthread_attr_t *, void *, size_t) =
		(int (*)(pthread_attr_t *, void *, size_t))preload_find(&next.set_stack,
									"pthread_attr_setstack");

	if (!found)
		return ENOSYS;
	if (bytes && !arena_is_interrupted()) {
		arena_lock();
		inherit_detach(stack);
		inherit_detach((const char *)stack + bytes - 1);
		arena_unlock();
	}
	return found(attr, stack, bytes);
}

static const void *object_of(const void *function)
{
	Dl_info info;

	return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

/*
 * Whether the program calls this function by this name: the program, or a library before this one,
 * may have its own.
 */
static bool is_in_use(const char *name, const void *function)
{
	return dlsym(RTLD_DEFAULT, name) == function;
}

/*
 * The arena is used only if it gets each pointer back. That is not the case if the program has its
 * own allocator: pointers could reach functions of that allocator which have other names. A
 * sanitizer is such an allocator, too.
 */
static bool arena_is_possible(void)
{
	const void *libc = object_of((const void *)__libc_start_main);
	const char *names[] = {"malloc", "calloc", "free", "realloc", "memalign"};

	if (!is_in_use("free", (const void *)free) ||
	    !is_in_use("realloc", (const void *)realloc) ||
	    !is_in_use("malloc_usable_size", (const void *)malloc_usable_size))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!libc || object_of(dlsym(RTLD_NEXT, names[i])) != libc)
			return false;
	return object_of(dlsym(RTLD_DEFAULT, "malloc")) == libc;
}

/*
 * The link option -z initfirst lets this constructor run before those of all other libraries. Its
 * fork handlers are therefore the first ones that run in the child: no other handler sees memory
 * that still belongs to the parent.
 */
__attribute__((constructor)) static void preload_start(void)
{
	next_free(NULL);
	(void)preload_find(&next.realloc, "realloc");
	(void)preload_find(&next.memalign, "memalign");
	(void)preload_find(&next.posix_memalign, "posix_memalign");
	(void)preload_find(&next.aligned_alloc, "aligned_alloc");
	(void)preload_find(&next.malloc_usable_size, "malloc_usable_size");
	(void)preload_find(&next.fork, "_Fork");
	(void)preload_find(&next.clone, "clone");
	(void)preload_find(&next.set_stack, "pthread_attr_setstack");
	if (!arena_is_possible())
		return;
	inherit_register();
	arena_enable();
}
