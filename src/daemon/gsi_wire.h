/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_WIRE_H
#define USRDMA_DAEMON_GSI_WIRE_H

#include <stdint.h>

#include "cm/cm.h"
#include "wire/packet.h"

/*
 * QP1 on the wire: MADs to and from other hosts, as UD packets over RoCEv2 (IBA 1.x §13.5, IBA
 * A17). Received packets are dropped and counted unless they are a complete MAD for QP1, with its
 * Q_Key and our P_Key, to an address of this host.
 *
 * Owned by the struct gsi that uses it; one thread.
 */
struct gsi_wire;
struct gsi;

/* gsi_wire_counter_name() returns the text for a counter. */
enum gsi_wire_counter {
	GSI_WIRE_SENT,
	GSI_WIRE_RECEIVED,
	GSI_WIRE_UNSENT,	    /* the socket was full, or no path */
	GSI_WIRE_UNDELIVERABLE,	    /* ICMP errors received, whether accepted or not */
	GSI_WIRE_DROPPED_MALFORMED, /* sum of all reasons in `malformed` */
	GSI_WIRE_DROPPED_ADDRESS,
	/* source is an address of this host, whose MADs are not sent by UDP */
	GSI_WIRE_DROPPED_LOCAL,
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

/*
 * Uses the socket of slot 0 and takes ownership of it. NULL with errno: the caller still owns fd.
 */
struct gsi_wire *gsi_wire_open(int fd);
void gsi_wire_close(struct gsi_wire *wire);

/* Sends a MAD. If it cannot be sent now, it is dropped: the CM repeats it. */
void gsi_wire_send(struct gsi_wire *wire, const struct cm_path *path, const void *mad);

/*
 * Delivers a limited number of MADs that gsi->wire received to `cm`; true if more may be waiting.
 */
bool gsi_wire_receive(struct gsi *gsi, struct cm *cm, uint64_t now_ns);

/* Delivers a limited number of ICMP errors about sent MADs to `cm`. */
void gsi_wire_errors(struct gsi_wire *wire, struct cm *cm, uint64_t now_ns);

/* Readable when gsi_wire_receive() or gsi_wire_errors() has work. */
int gsi_wire_fd(const struct gsi_wire *wire);

const struct gsi_wire_counters *gsi_wire_counters(const struct gsi_wire *wire);

#endif
