/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/probe_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/probe.h"
#include "base/trace_ring.h"

#define WHY_BYTES 128
/*
 * Attempts to copy the rules while the daemon does not change them. It notifies the process again
 * after each change.
 */
#define COPY_ATTEMPTS 100

/*
 * Reserved when the first page is mapped. A later page is mapped at the same address: threads may
 * be reading.
 */
static struct probe_page *_Atomic page;
/* The generation that was applied last. */
static _Atomic uint32_t applied;
/* The generation for which the daemon had no trace ring for this process; an odd number: none. */
static _Atomic uint32_t refused = 1;
/*
 * The process of the thread that applies the page; 0: none. In the child of a fork(), a copy of the
 * parent's number is no lock.
 */
static _Atomic pid_t applier;

static bool copy_rules(const struct probe_page *from, char *rules, uint32_t *generation)
{
	for (int i = 0; i < COPY_ATTEMPTS; i++) {
		uint32_t bytes;

		*generation = atomic_load_explicit(&from->generation, memory_order_acquire);
		bytes = atomic_load_explicit(&from->rules_bytes, memory_order_relaxed);
		if (*generation % 2 || bytes >= PROBE_RULES_MAX)
			continue;
		memcpy(rules, from->rules, bytes);
		rules[bytes] = '\0';
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&from->generation, memory_order_relaxed) == *generation)
			return true;
	}
	return false;
}

static void apply_rules(struct probe_page *from)
{
	/*
	 * The generation of a page is no such number: a new daemon begins again. Guarded by
	 * `applier`.
	 */
	static uint64_t change;
	char *rules = malloc(PROBE_RULES_MAX), why[WHY_BYTES] = "no memory";
	uint32_t generation;

	if (rules && copy_rules(from, rules, &generation)) {
		if (fault_apply_text(rules, ++change, why, sizeof(why)))
			log_warn("the fault rules of this user are not applied: %s", why);
		atomic_store(&applied, generation);
	}
	free(rules);
}

/*
 * Whether this thread may apply the page now. If another one does, that thread sees the latest
 * page, or a notice follows.
 */
static bool become_applier(void)
{
	pid_t self = getpid(), other = atomic_load(&applier);

	return other != self && atomic_compare_exchange_strong(&applier, &other, self);
}

static void apply_flags(struct probe_page *from)
{
	uint32_t flags = atomic_load(&from->flags);

	if (!trace_ring_is_attached())
		return;
	if (flags & PROBE_PAGE_TRACE)
		trace_ring_want_packets(flags & PROBE_PAGE_PACKETS);
	else
		trace_ring_detach();
}

static void apply_page(struct probe_page *from)
{
	if (!become_applier())
		return;
	while (atomic_load(&from->generation) != atomic_load(&applied)) {
		uint32_t before = atomic_load(&applied);

		apply_rules(from);
		if (atomic_load(&applied) == before)
			break;
	}
	apply_flags(from);
	atomic_store(&applier, 0);
}

void probe_refresh(void)
{
	struct probe_page *mapped = atomic_load_explicit(&page, memory_order_relaxed);

	if (mapped && atomic_load_explicit(&mapped->generation, memory_order_relaxed) !=
			      atomic_load_explicit(&applied, memory_order_relaxed))
		apply_page(mapped);
}

bool probe_wants_ring(void)
{
	const struct probe_page *mapped = atomic_load_explicit(&page, memory_order_relaxed);

	return mapped && !trace_ring_is_attached() &&
	       (atomic_load_explicit(&mapped->flags, memory_order_relaxed) & PROBE_PAGE_TRACE) &&
	       atomic_load_explicit(&refused, memory_order_relaxed) !=
		       atomic_load_explicit(&applied, memory_order_relaxed);
}

void probe_ring_refused(void)
{
	atomic_store(&refused, atomic_load(&applied));
}

int probe_attach_ring(int fd)
{
	const struct probe_page *mapped = atomic_load(&page);
	int error = trace_ring_attach(fd);

	if (!error && mapped)
		trace_ring_want_packets(atomic_load(&mapped->flags) & PROBE_PAGE_PACKETS);
	return error;
}

int probe_attach(int fd)
{
	struct probe_page *before = atomic_load(&page), *mapped;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size == 0)
		return 0;
	if (st.st_size != sizeof(*mapped))
		return -EINVAL;
	mapped = mmap(before, sizeof(*mapped), PROT_READ | PROT_WRITE,
		      MAP_SHARED | (before ? MAP_FIXED : 0), fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	if (mapped->magic != PROBE_PAGE_MAGIC || mapped->version != PROBE_PAGE_VERSION) {
		if (!before)
			munmap(mapped, sizeof(*mapped));
		return -EINVAL;
	}
	/*
	 * No generation of a page is odd while it is not being changed: the first call of
	 * apply_page() takes the page.
	 */
	atomic_store(&applied, 1);
	atomic_store(&refused, 1);
	atomic_store(&page, mapped);
	fault_share_counters(mapped->counts);
	probe_refresh();
	return 0;
}
