/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/prefetch.h"
#include "base/resize.h"
#include "base/syscalls.h"
#include "base/util.h"

#define RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#define LOCK_ATTEMPTS 1000
/*
 * The lines of about two records are prefetched, as many bytes in advance as a few messages write.
 */
#define PREFETCH_BYTES	  128
#define PREFETCH_DISTANCE 512

/*
 * The address of this process's ring. It is reserved when the first ring is attached and stays
 * reserved: a thread may be inside trace_emit() while the ring is detached, and then writes into
 * private memory at this address.
 */
static struct trace_ring *_Atomic own_ring;
static atomic_bool is_attached;

int trace_ring_create(void)
{
	const uint32_t ticks = trace_clock_is_usable();
	int fd = memfd_create("usrdma-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (fd < 0)
		return -errno;
	ret = resize_memory(fd, sizeof(struct trace_ring));
	if (!ret && fcntl(fd, F_ADD_SEALS, RING_SEALS))
		ret = -errno;
	if (!ret &&
	    sys_pwrite(fd, &ticks, sizeof(ticks), offsetof(struct trace_ring, has_ticks)) < 0)
		ret = -errno;
	if (!ret)
		return fd;
	sys_close(fd);
	return ret;
}

bool trace_ring_is_valid(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & RING_SEALS) == RING_SEALS && fstat(fd, &st) == 0 &&
	       (uint64_t)st.st_size == sizeof(struct trace_ring);
}

/*
 * The number of bytes up to the end of a member, and of a member that ends with `count` bytes of an
 * array.
 */
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

/* The lane of a thread, valid for one attachment of a ring. */
static __thread struct {
	uint32_t attachment;
	uint32_t lane;
} thread_lane;

/* Changes when a ring is attached or detached; never 0 while a ring is attached. */
static _Atomic uint32_t attachment;
/* Whether the records of the attached ring have the time in ticks. */
static atomic_bool has_ticks;

static bool lane_take(struct trace_lane *lane, uint32_t expected, uint32_t tid)
{
	return atomic_load(&lane->owner) == expected &&
	       atomic_compare_exchange_strong(&lane->owner, &expected, tid);
}

/*
 * A thread that has ended does not give its lane back: pthread_exit() calls no function of this
 * library.
 */
static bool is_thread_gone(uint32_t tid)
{
	return tgkill(getpid(), (pid_t)tid, 0) && errno == ESRCH;
}

/*
 * A lane for the calling thread: its own of an earlier attachment, a free lane, that of an ended
 * thread, or the shared one.
 */
static uint32_t lane_find(struct trace_ring *ring, uint32_t tid)
{
	for (uint32_t i = TRACE_LANE_SHARED + 1; i < TRACE_RING_LANES; i++) {
		if (atomic_load(&ring->lanes[i].owner) == tid || lane_take(&ring->lanes[i], 0, tid))
			return i;
	}
	for (uint32_t i = TRACE_LANE_SHARED + 1; i < TRACE_RING_LANES; i++) {
		uint32_t owner = atomic_load(&ring->lanes[i].owner);

		if (is_thread_gone(owner) && lane_take(&ring->lanes[i], owner, tid))
			return i;
	}
	return TRACE_LANE_SHARED;
}

static uint32_t lane_of_thread(struct trace_ring *ring, uint32_t tid)
{
	uint32_t current = atomic_load_explicit(&attachment, memory_order_acquire);

	if (__builtin_expect(thread_lane.attachment != current, 0)) {
		thread_lane.lane = lane_find(ring, tid);
		thread_lane.attachment = current;
	}
	return thread_lane.lane;
}

/*
 * Fetches the lines that the next records will use, because the peer waits for the stores that
 * follow them.
 */
static void prefetch_lines(uint8_t *data, uint64_t position)
{
	for (uint64_t at = position; at < position + PREFETCH_BYTES; at += 64)
		prefetch_to_write(data + at % TRACE_LANE_BYTES);
}

/* The time of a record in the lane. Elements of FIFOs need the order of sending and receiving. */
static uint64_t record_time(uint16_t *flags)
{
	if (!atomic_load_explicit(&has_ticks, memory_order_relaxed))
		return clock_now_ns();
	*flags = TRACE_RECORD_TICKS;
	return trace_packets_are_on() ? trace_clock_ticks_ordered() : trace_clock_ticks();
}

/*
 * Appends a record. The calling thread is the only writer of the lane. The position comes from
 * shared memory: any value of it leads to a place in the lane.
 */
static void lane_append(struct trace_lane *lane, uint8_t *data, const struct trace_event *event)
{
	uint64_t position = atomic_load_explicit(&lane->committed, memory_order_relaxed) &
			    ~UINT64_C(7);
	size_t used = event_used_bytes(event);
	struct trace_record_header header = {.bytes = (uint16_t)(sizeof(header) + used)};
	uint64_t left = TRACE_BLOCK_BYTES - position % TRACE_BLOCK_BYTES, time_ns = event->time_ns;
	uint8_t *to = data + position % TRACE_LANE_BYTES;

	/*
	 * A reader that finds bytes of this record in place of an old record also finds the
	 * `committed` of the previous one.
	 */
	atomic_thread_fence(memory_order_release);
	if (left < header.bytes) {
		const struct trace_record_header fill = {.bytes = (uint16_t)left,
							 .flags = TRACE_RECORD_FILL};

		memcpy(to, &fill, sizeof(fill));
		position += left;
		to = data + position % TRACE_LANE_BYTES;
	}
	if (!time_ns)
		time_ns = record_time(&header.flags);
	header.number = lane->next_number++;
	memcpy(to, &header, sizeof(header));
	memcpy(to + sizeof(header), event, used);
	memcpy(to + sizeof(header) + offsetof(struct trace_event, time_ns), &time_ns,
	       sizeof(time_ns));
	position += (header.bytes + 7u) & ~7u;
	atomic_store_explicit(&lane->committed, position, memory_order_release);
	prefetch_lines(data, position + PREFETCH_DISTANCE);
}

static bool lane_lock(struct trace_lane *lane)
{
	for (int i = 0; i < LOCK_ATTEMPTS; i++) {
		if (!atomic_exchange_explicit(&lane->is_locked, 1, memory_order_acquire))
			return true;
	}
	return false;
}

static void own_ring_put(const struct trace_point *point, const struct trace_event *event)
{
	struct trace_ring *ring = atomic_load_explicit(&own_ring, memory_order_acquire);
	uint32_t index = lane_of_thread(ring, event->tid);
	struct trace_lane *lane = &ring->lanes[index];

	(void)point;
	if (index != TRACE_LANE_SHARED) {
		lane_append(lane, ring->data[index], event);
		return;
	}
	/* Another thread may not run now: this thread does not wait for it. */
	if (!lane_lock(lane)) {
		atomic_fetch_add_explicit(&lane->dropped, 1, memory_order_relaxed);
		return;
	}
	lane_append(lane, ring->data[index], event);
	atomic_store_explicit(&lane->is_locked, 0, memory_order_release);
}

static const struct trace_sink ring_sink = {.put = own_ring_put, .sets_time = true};

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
	/* Skips 0, the number of threads without a lane. */
	if (atomic_fetch_add(&attachment, 1) == UINT32_MAX)
		atomic_fetch_add(&attachment, 1);
	return 0;
}

static void ring_introduce(struct trace_ring *ring)
{
	ring->version = TRACE_RING_VERSION;
	ring->pid = getpid();
	atomic_store(&has_ticks, ring->has_ticks != 0);
	strncpy(ring->program, program_invocation_short_name, sizeof(ring->program) - 1);
	atomic_store_explicit(&ring->magic, TRACE_RING_MAGIC, memory_order_release);
}

int trace_ring_attach(int fd)
{
	int ret;

	if (!trace_ring_is_valid(fd))
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
