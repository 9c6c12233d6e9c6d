/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_H
#define USRDMA_DAEMON_GSI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cm/tag.h"
#include "daemon/gsi_delay.h"
#include "daemon/gsi_wire.h"

/*
 * QP1, the general services interface (GSI): sends the communication manager's MADs to the owner of
 * the destination GID and delivers received MADs. A MAD for a GID of this host is queued and
 * delivered unchanged and in order, never from within gsi_send(). MADs for other hosts are sent on
 * the wire; without `wire` the result is -EHOSTUNREACH. The caller runs gsi_delay_run() at
 * gsi_delay_next().
 *
 * Owned by struct cma, in which it is embedded; used by one thread.
 */
struct gsi {
	/*
	 * Stores the process that a MAD belongs to. false: not known. NULL: MADs belong to no
	 * process.
	 */
	bool (*tag)(void *ctx, const struct cm_path *path, const struct cm_msg *msg,
		    bool is_received, struct cm_tag *tag);
	void *ctx;
	struct list_head queue;
	struct gsi_wire *wire; /* NULL: only this host can be reached */
	uint32_t queued;
	struct gsi_delay delay;
	uint64_t looped;
	uint64_t dropped;
};

void gsi_init(struct gsi *gsi);
void gsi_fini(struct gsi *gsi);

/* Whether MADs can be sent to this GID. */
bool gsi_reaches(const struct gsi *gsi, const uint8_t gid[GID_BYTES]);

/*
 * Sends a MAD through the trace and fault points. Returns 0 also if the MAD is lost; -EHOSTUNREACH.
 */
int gsi_send(struct gsi *gsi, const struct cm_path *path, const void *mad);

/* The part of gsi_send() that follows the trace and fault points (daemon/gsi_probe.h). */
int gsi_transmit(struct gsi *gsi, const struct cm_path *path, const void *mad);

/*
 * Delivers a MAD to this host's CM as if it had been received: `path` is from the receiver's view.
 */
void gsi_loop(struct gsi *gsi, const struct cm_path *path, const void *mad);

/*
 * Delivers at most `budget` queued MADs to `cm`, including those that `cm` sends in response. True
 * if MADs remain queued.
 */
bool gsi_run(struct gsi *gsi, struct cm *cm, unsigned budget, uint64_t now_ns);

#endif
