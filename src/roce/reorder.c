/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "roce/qp.h"

/*
 * The reorder buffer: requests that arrived after a gap. A NIC drops such requests, because the
 * requester retransmits them after the sequence NAK. Here they are buffered, and executed in order
 * when the gap is filled. A later copy is a duplicate and is acknowledged as one. The requester
 * receives an ACK for more than it has retransmitted. This is valid: it also occurs if earlier ACKs
 * were lost (IBA 1.x §9.7.5.1).
 */

/*
 * Without a reorder buffer, an attacker's packet must have the expected PSN: a guess succeeds with
 * probability 2^-24 (IBA 1.x §9.7.2). A buffer for 2^9 PSNs alone would make that 2^-15. So a
 * packet is buffered only if it has the UDP source port of the last in-sequence request, and if
 * that port cannot be computed from the QPNs. Senders of this project choose one of 2^14 ports at
 * random for each peer process, so a guess succeeds with probability 2^-29. Other users of the
 * sender's host cannot send from this port, because it is bound to the sender's socket. rxe, and
 * drivers that use the kernel's rdma_get_udp_sport() without a flow label, compute the port from
 * the QPNs: their packets are not buffered.
 */
#define PORT_FIRST 0xc000u
#define PORT_BITS  14
#define PORT_MASK  ((1u << PORT_BITS) - 1)

/* The source port of rxe: the upper bits of a multiplicative hash of the sender's QPN. */
static uint32_t reorder_port_by_hash(uint32_t qpn)
{
	return PORT_FIRST + ((qpn * 0x61c88647u) >> (32 - PORT_BITS));
}

/*
 * The source port of rdma_get_udp_sport(): a flow label of 20 bits from both QPNs, folded to 14
 * bits.
 */
static uint32_t reorder_port_by_label(uint32_t qpn, uint32_t other_qpn)
{
	uint64_t label = (uint64_t)qpn * other_qpn;

	label ^= label >> 20;
	label ^= label >> 40;
	label &= 0xfffff;
	return PORT_FIRST | (((uint32_t)label & PORT_MASK) ^ ((uint32_t)label >> PORT_BITS));
}

bool reorder_is_flow(const struct roce_qp *rqp, uint16_t port)
{
	uint32_t remote_qpn = rqp->path.remote_qpn;

	return port > PORT_FIRST && port == rqp->inflow.src_port &&
	       port != reorder_port_by_hash(remote_qpn) &&
	       port != reorder_port_by_label(remote_qpn, rqp->qp->qpn);
}

bool reorder_may_buffer(const struct roce_qp *rqp)
{
	return reorder_is_flow(rqp, rqp->rx.flow_port);
}

/* Memory limit of the reorder buffers of all QPs of the process together. */
#define REORDER_BYTES_MAX ((size_t)16 << 20)

static size_t reorder_bytes_of(const struct packet *packet)
{
	return sizeof(struct reorder_packet) + packet->payload_bytes;
}

/*
 * XRC requests may wait for another process: their buffer has other rules (xrc_forward.h). If a
 * peer fills the memory, the others send in order, and need none.
 */
bool reorder_takes_ahead(const struct roce_qp *rqp)
{
	return rqp->qp->type == IBV_QPT_RC && rqp->roce->reorder_bytes <= REORDER_BYTES_MAX / 2 &&
	       reorder_may_buffer(rqp);
}

bool reorder_is_ahead(const struct roce_qp *rqp, const struct packet *packet)
{
	return packet->is_ahead && rqp->qp->type == IBV_QPT_RC && reorder_may_buffer(rqp) &&
	       rqp->roce->reorder_bytes + reorder_bytes_of(packet) <= REORDER_BYTES_MAX;
}

static struct reorder_packet **reorder_slot(const struct roce_qp *rqp, uint32_t psn)
{
	return &rqp->rx.reorder_buffer[psn % REORDER_PSNS];
}

void reorder_free(struct roce_qp *rqp, struct reorder_packet *buffered)
{
	rqp->roce->reorder_bytes -= reorder_bytes_of(&buffered->packet);
	free(buffered);
}

static struct reorder_packet *reorder_take(struct roce_qp *rqp, uint32_t psn)
{
	struct reorder_packet *buffered = *reorder_slot(rqp, psn);

	*reorder_slot(rqp, psn) = NULL;
	rqp->rx.reorder_count--;
	rqp->rx.reorder_late_count -= !buffered->packet.is_ahead;
	return buffered;
}

/*
 * Drops a buffered packet whose PSN is before the expected one, because a READ used the PSN for its
 * responses.
 */
static void reorder_drop_passed(struct roce_qp *rqp, uint32_t psn)
{
	const struct reorder_packet *buffered = *reorder_slot(rqp, psn);

	if (buffered && psn_is_before(buffered->packet.psn, rqp->rx.psn))
		reorder_free(rqp, reorder_take(rqp, psn));
}

void reorder_pass(struct roce_qp *rqp, uint32_t psns)
{
	for (uint32_t i = 1; i <= psns && i <= REORDER_PSNS && rqp->rx.reorder_count; i++)
		reorder_drop_passed(rqp, psn_sub(rqp->rx.psn, i));
}

/* A copy that was not sent ahead shows that packets before it are missing. */
static void reorder_note_copy(struct roce_qp *rqp, struct reorder_packet *buffered,
			      const struct packet *packet)
{
	if (!buffered->packet.is_ahead || packet->is_ahead || buffered->packet.psn != packet->psn)
		return;
	buffered->packet.is_ahead = false;
	rqp->rx.reorder_late_count++;
}

static bool reorder_has_room(struct roce_qp *rqp, const struct packet *packet)
{
	struct reorder_packet *buffered;

	if (psn_sub(packet->psn, rqp->rx.psn) >= REORDER_PSNS ||
	    rqp->roce->reorder_bytes + reorder_bytes_of(packet) > REORDER_BYTES_MAX)
		return false;
	if (!rqp->rx.reorder_buffer)
		rqp->rx.reorder_buffer = calloc(REORDER_PSNS, sizeof(struct reorder_packet *));
	if (!rqp->rx.reorder_buffer)
		return false;
	reorder_drop_passed(rqp, packet->psn);
	buffered = *reorder_slot(rqp, packet->psn);
	if (buffered)
		reorder_note_copy(rqp, buffered, packet);
	return !buffered;
}

void reorder_add(struct roce_qp *rqp, const struct packet *packet)
{
	bool is_ahead = reorder_is_ahead(rqp, packet);
	struct reorder_packet *buffered;

	if (!reorder_has_room(rqp, packet))
		return;
	buffered = malloc(reorder_bytes_of(packet));
	if (!buffered)
		return;
	buffered->packet = *packet;
	buffered->packet.is_ahead = is_ahead;
	buffered->packet.payload = buffered->payload;
	if (packet->payload_bytes)
		memcpy(buffered->payload, packet->payload, packet->payload_bytes);
	*reorder_slot(rqp, packet->psn) = buffered;
	rqp->rx.reorder_count++;
	rqp->rx.reorder_late_count += !is_ahead;
	rqp->roce->reorder_bytes += reorder_bytes_of(packet);
	roce_count(rqp->roce, is_ahead ? ROCE_RECEIVED_AHEAD : ROCE_OUT_OF_ORDER);
}

struct reorder_packet *reorder_dequeue(struct roce_qp *rqp)
{
	const struct reorder_packet *buffered;

	if (!rqp->rx.reorder_count)
		return NULL;
	buffered = *reorder_slot(rqp, rqp->rx.psn);
	return buffered && buffered->packet.psn == rqp->rx.psn ? reorder_take(rqp, rqp->rx.psn) :
								 NULL;
}

bool reorder_has_gap(struct roce_qp *rqp)
{
	for (uint32_t i = 0; i < REORDER_PSNS && rqp->rx.reorder_late_count; i++)
		reorder_drop_passed(rqp, i);
	return rqp->rx.reorder_late_count > 0;
}

void reorder_drop_all(struct roce_qp *rqp)
{
	for (uint32_t i = 0; i < REORDER_PSNS && rqp->rx.reorder_count; i++) {
		if (*reorder_slot(rqp, i))
			reorder_free(rqp, reorder_take(rqp, i));
	}
}
