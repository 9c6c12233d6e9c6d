/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_H
#define USRDMA_DAEMON_GSI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cm/cm.h"
#include "daemon/gsi_wire.h"

/*
 * QP1, the general services interface: takes MADs from the communication manager to whoever owns the GID they are for,
 * and brings back what arrives. A GID of this machine gets the very bytes back through a queue, in order and never from
 * within gsi_send(). Other machines' GIDs go over the wire, where there is one; else they are -EHOSTUNREACH.
 *
 * Owned by the struct cma it is embedded in; one thread.
 */
struct gsi {
	struct list_head queue;
	struct gsi_wire *wire; /* NULL: this host only */
	uint32_t queued;
	uint64_t looped;
	uint64_t dropped;
};

void gsi_init(struct gsi *gsi);
void gsi_fini(struct gsi *gsi);

/* Whether MADs for this GID can be sent at all. */
bool gsi_reaches(const struct gsi *gsi, const uint8_t gid[GID_BYTES]);

/* 0 also when the MAD was lost on the way; -EHOSTUNREACH. */
int gsi_send(struct gsi *gsi, const struct cm_path *path, const void *mad);

/* Hands at most `budget` waiting MADs to `cm`, those included that they cause. True if some still wait. */
bool gsi_run(struct gsi *gsi, struct cm *cm, unsigned budget, uint64_t now_ns);

#endif
