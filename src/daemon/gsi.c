/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/gsi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/gsi_probe.h"
#include "daemon/netdev.h"

/* Limit of queued MADs; further MADs are dropped and the sender retransmits them. */
#define GSI_QUEUE_MAX 65536u

/* A MAD to an address of this host. Owned by the queue; freed after it was received. */
struct gsi_mad {
	struct list_head node;
	struct cm_path path; /* from the receiver's view: sgid is the MAD's destination */
	uint8_t bytes[MAD_BYTES];
};

void gsi_init(struct gsi *gsi)
{
	list_init(&gsi->queue);
	gsi_delay_init(&gsi->delay);
	gsi->wire = NULL;
	gsi->tag = NULL;
	gsi->queued = 0;
	gsi->looped = 0;
	gsi->dropped = 0;
}

static struct gsi_mad *gsi_take(struct gsi *gsi)
{
	struct gsi_mad *mad = list_first_entry(&gsi->queue, struct gsi_mad, node);

	list_del(&mad->node);
	gsi->queued--;
	return mad;
}

void gsi_fini(struct gsi *gsi)
{
	while (!list_is_empty(&gsi->queue))
		free(gsi_take(gsi));
	gsi_delay_fini(&gsi->delay);
	if (gsi->wire)
		gsi_wire_close(gsi->wire);
	gsi->wire = NULL;
}

bool gsi_reaches(const struct gsi *gsi, const uint8_t gid[GID_BYTES])
{
	return gsi->wire || netdev_by_gid(gid, NULL) != NULL;
}

void gsi_loop(struct gsi *gsi, const struct cm_path *path, const void *bytes)
{
	struct gsi_mad *mad = gsi->queued < GSI_QUEUE_MAX ? malloc(sizeof(*mad)) : NULL;

	if (!mad) {
		gsi->dropped++;
		return;
	}
	mad->path = *path;
	memcpy(mad->bytes, bytes, MAD_BYTES);
	list_add_tail(&mad->node, &gsi->queue);
	gsi->queued++;
}

int gsi_transmit(struct gsi *gsi, const struct cm_path *path, const void *bytes)
{
	const struct netdev *dev = netdev_by_gid_at(path->dgid, path->dev_id, NULL);
	struct cm_path received = *path;

	if (!dev && !gsi->wire)
		return -EHOSTUNREACH;
	if (!dev) {
		gsi_wire_send(gsi->wire, path, bytes);
		return 0;
	}
	received.is_local = true;
	memcpy(received.sgid, path->dgid, GID_BYTES);
	memcpy(received.dgid, path->sgid, GID_BYTES);
	received.dev_id = dev->dev_id;
	gsi_loop(gsi, &received, bytes);
	return 0;
}

int gsi_send(struct gsi *gsi, const struct cm_path *path, const void *bytes)
{
	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		return gsi_probe_send(gsi, path, bytes);
	return gsi_transmit(gsi, path, bytes);
}

bool gsi_run(struct gsi *gsi, struct cm *cm, unsigned budget, uint64_t now_ns)
{
	while (budget-- > 0 && !list_is_empty(&gsi->queue)) {
		struct gsi_mad *mad = gsi_take(gsi);

		gsi->looped++;
		gsi_receive(gsi, cm, &mad->path, mad->bytes, sizeof(mad->bytes), now_ns);
		free(mad);
	}
	return !list_is_empty(&gsi->queue);
}
