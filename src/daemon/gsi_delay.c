/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/gsi_delay.h"

#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "daemon/gsi.h"
#include "daemon/gsi_probe.h"

/* Owned by the queue; freed after it was delivered. */
struct delayed_mad {
	struct list_head node;
	uint64_t due_ns;
	struct cm_path path;
	uid_t uid;
	bool is_received;
	uint8_t bytes[MAD_BYTES];
};

void gsi_delay_init(struct gsi_delay *delay)
{
	list_init(&delay->queue);
}

static struct delayed_mad *delayed_mad_take(struct gsi_delay *delay)
{
	struct delayed_mad *mad = list_first_entry(&delay->queue, struct delayed_mad, node);

	list_del(&mad->node);
	return mad;
}

void gsi_delay_fini(struct gsi_delay *delay)
{
	while (!list_is_empty(&delay->queue))
		free(delayed_mad_take(delay));
}

/* MADs of the same time keep their order. */
static void delayed_mad_insert(struct gsi_delay *delay, struct delayed_mad *mad)
{
	struct delayed_mad *other;

	list_for_each_entry(other, &delay->queue, node) {
		if (other->due_ns > mad->due_ns)
			break;
	}
	list_add_tail(&mad->node, &other->node);
}

static bool delay_has_room(const struct gsi_delay *delay, uid_t uid)
{
	const struct delayed_mad *mad;
	uint32_t count = 0;

	list_for_each_entry(mad, &delay->queue, node)
		count += mad->uid == uid;
	return count < GSI_DELAYED_MAX;
}

void gsi_delay_add(struct gsi_delay *delay, const struct cm_path *path, const void *bytes,
		   bool is_received, uid_t uid, uint64_t due_ns)
{
	struct delayed_mad *mad = delay_has_room(delay, uid) ? malloc(sizeof(*mad)) : NULL;

	if (!mad)
		return;
	mad->due_ns = due_ns;
	mad->path = *path;
	mad->is_received = is_received;
	mad->uid = uid;
	memcpy(mad->bytes, bytes, MAD_BYTES);
	delayed_mad_insert(delay, mad);
}

uint64_t gsi_delay_next(const struct gsi_delay *delay)
{
	if (list_is_empty(&delay->queue))
		return TIMER_NEVER_NS;
	return list_first_entry(&delay->queue, struct delayed_mad, node)->due_ns;
}

void gsi_delay_run(struct gsi *gsi, struct cm *cm, uint64_t now_ns)
{
	while (gsi_delay_next(&gsi->delay) <= now_ns) {
		struct delayed_mad *mad = delayed_mad_take(&gsi->delay);

		if (mad->is_received)
			cm_receive(cm, &mad->path, mad->bytes, MAD_BYTES, now_ns);
		else
			gsi_probe_send_late(gsi, &mad->path, mad->bytes);
		free(mad);
	}
}
