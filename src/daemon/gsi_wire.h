/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_WIRE_H
#define USRDMA_DAEMON_GSI_WIRE_H

#include <stdint.h>

#include "cm/cm.h"
#include "wire/packet.h"

/*
 * QP1 on the wire: MADs to and from other hosts, as UD packets over RoCEv2 (IBA 1.x §13.5, IBA A17). Whatever comes that is
 * not a whole MAD for QP1, under its Q_Key, in our partition and to an address of ours, is dropped and counted.
 *
 * Owned by the struct gsi it serves; one thread.
 */
struct gsi_wire;

/* What happened, by number; gsi_wire_counter_name() says it in words. */
enum gsi_wire_counter {
	GSI_WIRE_SENT,
	GSI_WIRE_RECEIVED,
	GSI_WIRE_UNSENT,	    /* no room, or no path */
	GSI_WIRE_UNDELIVERABLE,	    /* reports of such, believed or not */
	GSI_WIRE_DROPPED_MALFORMED, /* by reason in malformed */
	GSI_WIRE_DROPPED_ADDRESS,
	GSI_WIRE_DROPPED_OPCODE,
	GSI_WIRE_DROPPED_QPN,
	GSI_WIRE_DROPPED_PKEY,
	GSI_WIRE_DROPPED_QKEY,
	GSI_WIRE_DROPPED_LENGTH,
	GSI_WIRE_COUNTER_COUNT
};

struct gsi_wire_counters {
	uint64_t counts[GSI_WIRE_COUNTER_COUNT];
	uint64_t malformed[PACKET_REASON_COUNT];
};

const char *gsi_wire_counter_name(enum gsi_wire_counter counter);

/* Over the socket of slot 0, which it takes over. NULL with errno; fd is then still the caller's. */
struct gsi_wire *gsi_wire_open(int fd);
void gsi_wire_close(struct gsi_wire *wire);

/* A MAD that cannot leave now is as good as lost: its sender repeats it. */
void gsi_wire_send(struct gsi_wire *wire, const struct cm_path *path, const void *mad);

/* Hands what came to `cm`, a bounded number; true if more may wait. */
bool gsi_wire_receive(struct gsi_wire *wire, struct cm *cm, uint64_t now_ns);

/* Hands on what the network says of MADs that it could not deliver, a bounded number of them. */
void gsi_wire_errors(struct gsi_wire *wire, struct cm *cm, uint64_t now_ns);

/* Readable when one of the two has something to do. */
int gsi_wire_fd(const struct gsi_wire *wire);

const struct gsi_wire_counters *gsi_wire_counters(const struct gsi_wire *wire);

#endif
