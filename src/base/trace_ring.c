/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/resize.h"
#include "base/syscalls.h"
#include "base/util.h"

#define RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/*
 * The address of this process's ring. It is reserved when the first ring is attached and stays reserved: a thread may be
 * inside trace_emit() while the ring is detached, and then writes into private memory at this address.
 */
static struct trace_ring *_Atomic own_ring;
static atomic_bool is_attached;

int trace_ring_create(void)
{
	int fd = memfd_create("usrdma-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (fd < 0)
		return -errno;
	ret = resize_memory(fd, sizeof(struct trace_ring));
	if (!ret && fcntl(fd, F_ADD_SEALS, RING_SEALS))
		ret = -errno;
	if (!ret)
		return fd;
	sys_close(fd);
	return ret;
}

static bool is_trace_ring(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & RING_SEALS) == RING_SEALS && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == sizeof(struct trace_ring);
}

/* The number of bytes up to the end of a member, and of a member that ends with `count` bytes of an array. */
#define USED(member) \
	(offsetof(struct trace_event, member) + sizeof(((struct trace_event *)0)->member))
#define USED_OF(array, count)                  \
	(offsetof(struct trace_event, array) + \
	 min_u32(count, sizeof(((struct trace_event *)0)->array)))

/* The number of bytes that an event of this type uses. The event may have any contents. */
static size_t event_used_bytes(const struct trace_event *event)
{
	switch ((enum trace_type)event->type) {
	case TRACE_WR_POSTED:
	case TRACE_RECV_POSTED:
		return USED(wr);
	case TRACE_CQE:
		return USED(cqe);
	case TRACE_FIFO_SENT:
	case TRACE_FIFO_RECEIVED:
		return USED_OF(fifo.payload, event->fifo.payload_bytes);
	case TRACE_ONE_SIDED:
		return USED_OF(one_sided.payload, event->one_sided.payload_bytes);
	case TRACE_RETRANSMIT:
	case TRACE_WINDOW:
		return USED(window);
	case TRACE_QP_STATE:
	case TRACE_RECOVERY_STATE:
		return USED(state);
	default:
		return sizeof(*event);
	}
}

void trace_ring_put(struct trace_ring *ring, const struct trace_event *event)
{
	uint64_t n = atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed);
	struct trace_ring_slot *slot = &ring->slots[n % TRACE_RING_SLOTS];
	uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);

	/* An odd number: a thread has not finished this slot since the ring was last full. Two writers would mix two events. */
	if (seq % 2 || !atomic_compare_exchange_strong(&slot->seq, &seq, 2 * n + 1)) {
		atomic_fetch_add_explicit(&ring->busy, 1, memory_order_relaxed);
		return;
	}
	memcpy(&slot->event, event, event_used_bytes(event));
	atomic_store_explicit(&slot->seq, 2 * n + 2, memory_order_release);
}

static void own_ring_put(const struct trace_point *point, const struct trace_event *event)
{
	(void)point;
	trace_ring_put(atomic_load_explicit(&own_ring, memory_order_acquire), event);
}

static const struct trace_sink ring_sink = {.put = own_ring_put};

/* Maps `fd`, or private memory if it is -1, at the address of the ring. */
static int map_own(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
	struct trace_ring *before = atomic_load(&own_ring);
	void *ring = mmap(before, sizeof(*before), PROT_READ | PROT_WRITE,
			  flags | (before ? MAP_FIXED : 0), fd, 0);

	if (ring == MAP_FAILED)
		return -errno;
	atomic_store(&own_ring, ring);
	return 0;
}

static void ring_introduce(struct trace_ring *ring)
{
	ring->version = TRACE_RING_VERSION;
	ring->pid = getpid();
	strncpy(ring->program, program_invocation_short_name, sizeof(ring->program) - 1);
	atomic_store_explicit(&ring->magic, TRACE_RING_MAGIC, memory_order_release);
}

int trace_ring_attach(int fd)
{
	int ret;

	if (!is_trace_ring(fd))
		return -EINVAL;
	ret = map_own(fd);
	if (ret)
		return ret;
	ring_introduce(atomic_load(&own_ring));
	if (atomic_exchange(&is_attached, true))
		return 0;
	ret = trace_sink_add(&ring_sink);
	if (ret)
		atomic_store(&is_attached, false);
	return ret;
}

void trace_ring_detach(void)
{
	if (!atomic_exchange(&is_attached, false))
		return;
	trace_sink_remove(&ring_sink);
	/* If this fails, the memory stays in use until the next ring is attached. */
	(void)!map_own(-1);
}

bool trace_ring_is_attached(void)
{
	return atomic_load_explicit(&is_attached, memory_order_relaxed);
}

void trace_ring_want_packets(bool is_wanted)
{
	trace_sink_want_packets(&ring_sink, is_wanted);
}

int trace_ring_open(struct trace_ring_reader *reader, int fd)
{
	struct trace_ring *ring;

	if (!is_trace_ring(fd))
		return -EINVAL;
	ring = mmap(NULL, sizeof(*ring), PROT_READ, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return -errno;
	*reader = (struct trace_ring_reader){.ring = ring};
	return 0;
}

void trace_ring_close(struct trace_ring_reader *reader)
{
	if (reader->ring)
		munmap((void *)(uintptr_t)reader->ring, sizeof(*reader->ring));
	reader->ring = NULL;
}

/* The seq of a record that is complete. */
static uint64_t seq_of(uint64_t n)
{
	return 2 * n + 2;
}

static void clear_unused(struct trace_event *event)
{
	size_t used = event_used_bytes(event);

	memset((uint8_t *)event + used, 0, sizeof(*event) - used);
}

/* A record that is not complete counts as lost when this many later records have been started. */
#define UNFINISHED_MAX 256

/* Skips the records that the writer has replaced, with a margin for those that it replaces now. */
static void skip_replaced(struct trace_ring_reader *reader, uint64_t end)
{
	const uint64_t margin = 64;
	uint64_t oldest = end > TRACE_RING_SLOTS - margin ? end - (TRACE_RING_SLOTS - margin) : 0;

	if (reader->next >= oldest)
		return;
	reader->lost += oldest - reader->next;
	reader->next = oldest;
}

bool trace_ring_next(struct trace_ring_reader *reader, struct trace_event *event)
{
	const struct trace_ring *ring = reader->ring;
	const struct trace_ring_slot *slot;
	uint64_t end, seq;

	/* The number of attempts is limited because the process may increment `next` without writing records. */
	for (uint32_t i = 0; i < TRACE_RING_SLOTS; i++) {
		end = atomic_load_explicit(&ring->next, memory_order_acquire);
		if (end <= reader->next)
			return false;
		skip_replaced(reader, end);
		slot = &ring->slots[reader->next % TRACE_RING_SLOTS];
		seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
		/* Either a thread still writes it, or it was dropped. */
		if (seq < seq_of(reader->next) && end - reader->next < UNFINISHED_MAX)
			return false;
		*event = slot->event;
		clear_unused(event);
		atomic_thread_fence(memory_order_acquire);
		if (seq == seq_of(reader->next) &&
		    atomic_load_explicit(&slot->seq, memory_order_relaxed) == seq) {
			reader->next++;
			if (event->version == TRACE_VERSION && event->bytes == TRACE_EVENT_BYTES)
				return true;
			continue;
		}
		reader->lost++;
		reader->next++;
	}
	return false;
}
