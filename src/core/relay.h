/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_RELAY_H
#define USRDMA_CORE_RELAY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/objects.h"
#include "wire/packet.h"

/*
 * XRC across the processes of a host (IBA A14; ADR 0020). The process that made an XRC receive QP is its home: it gets the
 * QP's packets and keeps their order. A request that names the SRQ of another process, its owner, is passed on there; the
 * owner executes it with what its SRQ lends, answers the requester itself, and reports to the home. One transport carries
 * these messages between two processes, another sends and takes them; this is what lies between the two.
 *
 * A run is what a home passes on to one owner until all of it is reported; it has a number, and so has each request.
 */
enum relay_kind {
	/* home to owner */
	RELAY_ATTACH = 1, /* what the QP is, a struct relay_attach follows; again: it has changed */
	RELAY_REQUEST, /* the next request of a run, the packet follows; msn: what was done before it */
	RELAY_REPLAY, /* one that was executed already, to be answered again; the packet follows */
	RELAY_DETACH, /* the QP is no more */
	/* owner to home */
	RELAY_REPORT, /* what became of the run's requests up to serial */
	/* from names of the QP to its home, and back (xrc_far.h) */
	RELAY_ASK,
	RELAY_ANSWER,
	RELAY_EVENT,
	RELAY_KIND_COUNT
};

/* As it lies in the memory of a pair. Not trusted: the reader has a copy and bounds all of it. */
struct relay_msg {
	uint32_t kind;
	uint32_t qpn; /* the home's */
	uint32_t run;
	uint32_t serial;
	uint32_t psn; /* REPORT: the next that is expected; REQUEST: the packet's */
	uint32_t msn;
	uint32_t verdict; /* REPORT: enum verdict on the request `serial`: accepted, not ready, or fatal */
	uint8_t is_inside; /* REPORT: the message under way is not complete */
	uint8_t reserved[3];
};

struct relay_attach {
	uint64_t domain_id;
	uint32_t dev_id;
	uint32_t remote_qpn;
	uint32_t path_mtu; /* enum ibv_mtu */
	uint32_t access;
	uint32_t max_dest_rd_atomic;
	uint32_t min_rnr_timer;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved[2];
	uint8_t local_gid[16];
	uint8_t remote_gid[16];
};

static_assert(sizeof(struct relay_msg) == 32, "no padding goes out");
static_assert(sizeof(struct relay_attach) == 72, "no padding goes out");

/* What may follow a message, and with it. */
#define RELAY_BYTES_MAX (sizeof(struct relay_msg) + PACKET_MAX)

#define RELAY_SLOTS IPC_SLOTS

/* Which process's a QPN or an SRQ's number is. */
static inline uint32_t relay_slot_of(uint32_t number)
{
	return number >> IPC_SLOT_SHIFT & (IPC_SLOTS - 1);
}

/*
 * Sends msg and `count` pieces after it to the engine of a slot, which it may have to be introduced to. -EAGAIN: no room,
 * and relay_room() will be called when there is; any other -errno: nobody is there. engine.lock held, as for all below.
 */
int relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
	       const struct iovec *pieces, int count) __attribute__((warn_unused_result));

/* One came from that slot, len bytes after it. */
void relay_take(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		const uint8_t *bytes, uint32_t len);

/* There is room again for messages to that slot. */
void relay_room(struct engine *engine, uint32_t slot);

/* The process of that slot is gone; what it had sent was taken. */
void relay_gone(struct engine *engine, uint32_t slot);

/* This process closes the domain: it owns nothing more in it. */
void relay_domain_closed(struct engine *engine, const struct xrc_domain *domain);

#endif
