/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/device_total.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util.h"
#include "daemon/netdev.h"
#include "daemon/session.h"
#include "daemon/slots.h"

/*
 * QP entries that one system call reads, and that one step reads. A process counts as PROCESS_COST
 * of them.
 */
#define TOTAL_BATCH  128u
#define STEP_ENTRIES 4096u
#define PROCESS_COST 64u

/* How often a process is read again because it revoked a QP while it was read. */
#define REPEATS_MAX 8u

static struct ipc_usage *totals_find(const struct device_totals *totals, uint32_t dev_id)
{
	for (uint32_t i = 0; i < totals->count; i++) {
		if (totals->items[i].dev_id == dev_id)
			return &totals->items[i].total;
	}
	return NULL;
}

/*
 * Adds to the device's item, which is created if it does not exist. Without memory, the numbers are
 * lost.
 */
static void totals_add(struct device_totals *totals, uint32_t dev_id, const struct ipc_usage *more)
{
	struct ipc_usage *total = totals_find(totals, dev_id);
	struct device_total *grown;

	if (total) {
		ipc_usage_add(total, more);
		return;
	}
	grown = realloc(totals->items, (totals->count + 1) * sizeof(*grown));
	if (!grown)
		return;
	totals->items = grown;
	grown[totals->count++] = (struct device_total){.dev_id = dev_id, .total = *more};
}

static void totals_add_all(struct device_totals *to, const struct device_totals *from)
{
	for (uint32_t i = 0; i < from->count; i++)
		totals_add(to, from->items[i].dev_id, &from->items[i].total);
}

static void totals_drop_unknown(struct device_totals *totals)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < totals->count; i++) {
		if (netdev_by_id(totals->items[i].dev_id))
			totals->items[kept++] = totals->items[i];
	}
	totals->count = kept;
}

static void totals_clear(struct device_totals *totals)
{
	free(totals->items);
	*totals = (struct device_totals){0};
}

static bool total_read_at(int fd, void *to, size_t len, uint64_t offset)
{
	return pread(fd, to, len, (off_t)offset) == (ssize_t)len;
}

/*
 * A system call is not a fence. The first fence orders preceding reads of the entries before this
 * one, the second one later reads after it. Pairs with devices_change_begin() and
 * devices_change_end() of local/segment.c.
 */
static uint32_t changes_of(int fd)
{
	uint32_t changes = 0;

	atomic_thread_fence(memory_order_acquire);
	(void)total_read_at(fd, &changes, sizeof(changes),
			    offsetof(struct segment, devices.changes));
	atomic_thread_fence(memory_order_acquire);
	return changes;
}

/* Reads the entries of the devices. Returns whether the process has any. */
static bool reading_begin(struct device_reading *reading, const struct published *published)
{
	static struct segment_hdr hdr;
	static struct segment_devices devices;
	int fd = published->segment_fd;
	uint32_t end;

	totals_clear(&reading->totals);
	reading->next = 0;
	if (fd < 0 || published->segment_bytes < SEGMENT_BYTES ||
	    !total_read_at(fd, &hdr, sizeof(hdr), 0) || hdr.magic != SEGMENT_MAGIC ||
	    hdr.version != SEGMENT_VERSION)
		return false;
	reading->changes = changes_of(fd);
	if (!total_read_at(fd, &devices, sizeof(devices), offsetof(struct segment, devices)))
		return false;
	end = atomic_load_explicit(&devices.end, memory_order_relaxed);
	for (uint32_t i = 0; i < end && i < SEGMENT_DEVICES; i++) {
		uint32_t dev_id = devices.entries[i].dev_id;

		/* A process can write any number. */
		if (netdev_by_id(dev_id))
			totals_add(&reading->totals, dev_id, &devices.entries[i].total);
	}
	reading->qps_end = atomic_load_explicit(&hdr.qps_end, memory_order_relaxed);
	if (reading->qps_end > SEGMENT_QPS)
		reading->qps_end = SEGMENT_QPS;
	return reading->totals.count;
}

/* Skips holes of the memfd: a process can store a wrong number of used entries. */
static void reading_skip_hole(struct device_reading *reading, int fd)
{
	const uint64_t usage = offsetof(struct segment, qp_usage);
	off_t data = lseek(fd, (off_t)(usage + reading->next * sizeof(struct segment_qp_usage)),
			   SEEK_DATA);
	uint64_t next = data < 0 ? SEGMENT_QPS :
				   ((uint64_t)data - usage) / sizeof(struct segment_qp_usage);

	if (next > reading->next)
		reading->next = next < reading->qps_end ? (uint32_t)next : reading->qps_end;
}

/* Adds the usage of the next QP entries. Returns their number; 0 after the last. */
static uint32_t reading_step(struct device_reading *reading, int fd)
{
	static struct segment_qp qps[TOTAL_BATCH];
	static struct segment_qp_usage usage[TOTAL_BATCH];
	uint32_t left, wanted;

	reading_skip_hole(reading, fd);
	left = reading->qps_end - reading->next;
	wanted = left < TOTAL_BATCH ? left : TOTAL_BATCH;
	if (!wanted ||
	    !total_read_at(fd, qps, wanted * sizeof(qps[0]),
			   offsetof(struct segment, qps) + reading->next * sizeof(qps[0])) ||
	    !total_read_at(fd, usage, wanted * sizeof(usage[0]),
			   offsetof(struct segment, qp_usage) + reading->next * sizeof(usage[0])))
		return 0;
	for (uint32_t i = 0; i < wanted; i++) {
		struct ipc_usage *total = totals_find(&reading->totals, qps[i].dev_id);
		const struct ipc_usage more = segment_qp_total(&usage[i]);

		if (total)
			ipc_usage_add(total, &more);
	}
	reading->next += wanted;
	return wanted;
}

/*
 * Reads a process; at most *room entries, which it reduces. Returns whether the process has been
 * read to the end. If it moved numbers in this time, it is read again.
 */
static bool reading_run(struct device_reading *reading, const struct published *published,
			uint32_t *room)
{
	uint32_t done;

	for (;;) {
		if (!reading->next && !reading_begin(reading, published))
			return true;
		do {
			done = reading_step(reading, published->segment_fd);
			*room -= done < *room ? done : *room;
		} while (done && *room);
		if (done && reading->next < reading->qps_end)
			return false;
		if ((!(reading->changes & 1) &&
		     changes_of(published->segment_fd) == reading->changes) ||
		    reading->repeats++ == REPEATS_MAX)
			return true;
		reading->next = 0;
	}
}

static void reading_end(struct device_reading *reading)
{
	totals_clear(&reading->totals);
	*reading = (struct device_reading){0};
}

void device_ended_init(struct device_ended *ended)
{
	*ended = (struct device_ended){0};
	list_init(&ended->sums);
}

void device_ended_free(struct device_ended *ended)
{
	totals_clear(&ended->totals);
}

void device_ended_add(struct device_ended *ended, const struct session *session)
{
	/*
	 * The process has ended and changes nothing any more. If its last change is not complete,
	 * reading again would not help.
	 */
	struct device_reading reading = {.repeats = REPEATS_MAX};
	struct device_sum *sum;
	uint32_t room = UINT32_MAX;

	(void)reading_run(&reading, &session->published, &room);
	totals_drop_unknown(&ended->totals);
	totals_add_all(&ended->totals, &reading.totals);
	list_for_each_entry(sum, &ended->sums, node) {
		if (sum->slot > session->slot)
			continue;
		totals_add_all(&sum->sum, &reading.totals);
		if (sum->slot == session->slot)
			reading_end(&sum->reading);
	}
	reading_end(&reading);
}

void device_sum_begin(struct device_sum *sum, struct device_ended *ended, const struct slots *slots)
{
	*sum = (struct device_sum){.slots = slots};
	totals_add_all(&sum->sum, &ended->totals);
	list_add_tail(&sum->node, &ended->sums);
}

bool device_sum_step(struct device_sum *sum)
{
	uint32_t room = STEP_ENTRIES;

	for (; sum->slot < IPC_SLOTS && room; sum->slot++) {
		const struct session *session = slots_owner(sum->slots, sum->slot);

		if (!session)
			continue;
		room -= room < PROCESS_COST ? room : PROCESS_COST;
		if (!reading_run(&sum->reading, &session->published, &room))
			return false;
		totals_add_all(&sum->sum, &sum->reading.totals);
		reading_end(&sum->reading);
	}
	return sum->slot == IPC_SLOTS;
}

struct ipc_usage device_sum_of(const struct device_sum *sum, uint32_t dev_id)
{
	const struct ipc_usage *total = totals_find(&sum->sum, dev_id);

	return total ? *total : (struct ipc_usage){0};
}

void device_sum_end(struct device_sum *sum)
{
	if (!sum->slots)
		return;
	list_del(&sum->node);
	reading_end(&sum->reading);
	totals_clear(&sum->sum);
	*sum = (struct device_sum){0};
}
