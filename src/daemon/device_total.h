/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_DEVICE_TOTAL_H
#define USRDMA_DAEMON_DEVICE_TOTAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "ipc/segment.h"

/*
 * What the QPs of each device have transferred since the daemon started. Processes count in their
 * segments (ipc/segment.h). The daemon adds the numbers up when a client asks, and keeps those of
 * processes that have ended. A sum does not become smaller while processes end. A process can
 * falsify only its own numbers. One thread.
 */
struct session;
struct slots;

/* Maximum number of incomplete sums that the clients of one uid have requested. */
#define DEVICE_SUMS_UID_MAX 64

struct device_total {
	uint32_t dev_id;
	struct ipc_usage total;
};

/* At most one item for each device. All zero: empty. */
struct device_totals {
	struct device_total *items;
	uint32_t count;
};

/* Part of struct server: the numbers of ended processes, and the sums that are not complete. */
struct device_ended {
	struct device_totals totals;
	struct list_head sums;
};

/*
 * A sum over all processes, which is computed in steps. Owned by the session or report that wants
 * it.
 */
struct device_sum {
	struct list_head node; /* device_ended.sums */
	const struct slots *slots;
	/* of the process that is read; the numbers of those before it are in `sum` */
	uint32_t slot;
	struct device_reading {
		uint32_t next; /* QP entry */
		uint32_t qps_end;
		uint32_t changes; /* segment_devices.changes at the beginning */
		unsigned int repeats;
		struct device_totals totals;
	} reading; /* of this process */
	struct device_totals sum;
};

void device_ended_init(struct device_ended *ended);
void device_ended_free(struct device_ended *ended);

/* To be called while the segment of a session that ends is open. */
void device_ended_add(struct device_ended *ended, const struct session *session);

/* Begins a sum over the processes of these slots. */
void device_sum_begin(struct device_sum *sum, struct device_ended *ended,
		      const struct slots *slots);

/* Reads a limited number of entries. Returns whether the sum is complete. */
bool device_sum_step(struct device_sum *sum);

/* The device's numbers; zeros if it has none. */
struct ipc_usage device_sum_of(const struct device_sum *sum, uint32_t dev_id);

/* Also for a sum that is all zero. */
void device_sum_end(struct device_sum *sum);

#endif
