/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_WIRE_H
#define USRDMA_DAEMON_GSI_WIRE_H

#include <stdint.h>

#include "cm/cm.h"

/*
 * QP1 on the wire: MADs to and from other hosts, as UD packets over RoCEv2 (IBA 1.x §13.5, IBA A17). Whatever comes that is
 * not a whole MAD for QP1, under its Q_Key, in our partition and to an address of ours, is dropped and counted.
 *
 * Owned by the struct gsi it serves; one thread.
 */
struct gsi_wire;

struct gsi_wire_counters {
	uint64_t sent;
	uint64_t received;
	uint64_t unsent; /* no room, or no path */
	uint64_t unparsable;
	uint64_t wrong_icrc;
	uint64_t wrong_packet; /* opcode, QPN, Q_Key, P_Key, length or address */
};

/* Over the socket of slot 0, which it takes over. NULL with errno; fd is then still the caller's. */
struct gsi_wire *gsi_wire_open(int fd);
void gsi_wire_close(struct gsi_wire *wire);

/* A MAD that cannot leave now is as good as lost: its sender repeats it. */
void gsi_wire_send(struct gsi_wire *wire, const struct cm_path *path, const void *mad);

/* Hands what came to `cm`, a bounded number; true if more may wait. */
bool gsi_wire_receive(struct gsi_wire *wire, struct cm *cm, uint64_t now_ns);

const struct gsi_wire_counters *gsi_wire_counters(const struct gsi_wire *wire);

#endif
