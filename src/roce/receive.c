/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "core/engine/qp_table.h"
#include "core/queue/failure_drop.h"
#include "roce/probe.h"

/*
 * A received datagram: its checks that do not depend on the state of the QP, and the part of the
 * transport that processes it.
 */

/* ECN field, RFC 3168: CE, a router marked the packet. */
#define ECN_MARKED 0x03
/* Minimum time between two CNPs of a QP (IBA A17). */
#define CNP_INTERVAL_NS 50000u
/* The destination QPN in the BTH. */
#define DEST_QPN_AT    5
#define DEST_QPN_BYTES 3

/* Whether the packet's addresses are those of the QP's peer and of the QP. */
static bool roce_is_from_peer(const struct roce_qp *rqp, const struct link_rx *rx)
{
	return !memcmp(rx->remote_gid, rqp->path.remote_gid, GID_BYTES) &&
	       !memcmp(rx->local_gid, rqp->path.local_gid, GID_BYTES);
}

/* Finds the QP that a packet is for. NULL: the packet is dropped, and the cause is counted. */
static struct roce_qp *find_recipient(struct roce *roce, const struct link_rx *rx,
				      const struct packet *packet)
{
	struct qp *qp = qp_find(roce->engine, packet->dest_qpn);
	struct roce_qp *rqp;
	enum roce_counter why;
	uint16_t ip_id;

	if (!qp || qp->transport != &roce_transport) {
		if (!qp)
			failure_unknown_qpn(roce->engine, packet->dest_qpn, rx->remote_gid);
		roce_count(roce, qp && qp->type == IBV_QPT_UD ? ROCE_DROPPED_OPCODE :
								ROCE_DROPPED_UNKNOWN_QPN);
		return NULL;
	}
	rqp = roce_qp_of(qp);
	if (!roce_is_from_peer(rqp, rx)) {
		failure_drop_packet(qp, IPC_REASON_DROP_ADDRESS, 0, 0);
		why = ROCE_DROPPED_ADDRESS;
	} else if (!inflow_is_whole(&rqp->inflow, &roce->solver, rx, &ip_id)) {
		failure_drop_packet(qp, IPC_REASON_DROP_ICRC, 0, 0);
		roce->unparsable[PACKET_ICRC]++;
		why = ROCE_DROPPED_UNPARSABLE;
	} else if ((packet->pkey & ROCE_PKEY_MASK) != ROCE_PKEY_MASK) {
		failure_drop_packet(qp, IPC_REASON_DROP_PKEY, packet->pkey, 0);
		roce_drop_partition(roce);
		return NULL;
	} else {
		return rqp;
	}
	roce_count(roce, why);
	return NULL;
}

/*
 * A packet has the CE mark: a CNP to the peer's QP becomes pending, unless one was sent recently
 * (IBA A17). The window of the requester limits the READ responses in flight, so their marks also
 * reduce this window. A responder of this project does not pace them; a NIC may do so after the
 * CNP.
 */
static void take_mark(struct roce_qp *rqp, const struct opcode_info *info)
{
	struct roce *roce = rqp->roce;

	roce_count(roce, ROCE_CONGESTION_MARKS);
	if (info->is_read && !info->is_request && is_reliable(rqp))
		recovery_on_ecn(rqp);
	if (rqp->rx.cnp_ns && roce->now_ns - rqp->rx.cnp_ns < CNP_INTERVAL_NS)
		return;
	rqp->rx.cnp_ns = roce->now_ns;
	rqp->rx.cnp_pending = true;
	response_set_pending(rqp);
}

static void roce_dispatch(struct roce_qp *rqp, const struct packet *packet)
{
	/* An XRC send QP receives no requests, and an XRC receive QP receives no responses. */
	enum ibv_qp_type other_type = packet->info->is_request ? IBV_QPT_XRC_SEND :
								 IBV_QPT_XRC_RECV;

	if (packet->info->transport == OPCODE_TRANSPORT_CNP) {
		roce_count(rqp->roce, ROCE_CONGESTION_NOTICES);
		recovery_on_ecn(rqp);
	} else if (packet->info->transport == OPCODE_TRANSPORT_VENDOR && !is_reliable(rqp)) {
		roce_requester_on_vendor_ack(rqp, packet);
	} else if (packet->info->transport != service_of(rqp) || rqp->qp->type == other_type) {
		roce_count(rqp->roce, ROCE_DROPPED_OPCODE);
	} else if (packet->info->is_request) {
		roce_responder_request(rqp, packet);
	} else {
		roce_completer_response(rqp, packet);
	}
}

static bool roce_is_datagram_qpn(const struct roce *roce, uint32_t qpn)
{
	const struct qp *qp = qp_find(roce->engine, qpn);

	return qp && qp->type == IBV_QPT_UD;
}

void roce_receive(struct roce *roce, const struct link_rx *rx)
{
	struct packet packet;
	enum packet_reason reason = packet_parse(&packet, rx->bytes, rx->len);
	struct roce_qp *rqp;

	roce_count(roce, ROCE_PACKETS_RECEIVED);
	if (reason != PACKET_OK) {
		roce->unparsable[reason]++;
		roce_count(roce, ROCE_DROPPED_UNPARSABLE);
		return;
	}
	if (packet.info->transport == OPCODE_TRANSPORT_UD) {
		roce_datagram_receive(roce, rx, &packet);
		return;
	}
	if (packet.info->transport == OPCODE_TRANSPORT_VENDOR &&
	    roce_is_datagram_qpn(roce, packet.dest_qpn)) {
		roce_datagram_on_vendor_ack(roce, rx, &packet);
		return;
	}
	rqp = find_recipient(roce, rx, &packet);
	if (!rqp)
		return;
	if ((rx->traffic_class & ROCE_ECN_MASK) == ECN_MARKED)
		take_mark(rqp, packet.info);
	roce_dispatch(rqp, &packet);
}

static bool roce_has_same_qp(const struct link_rx *a, const struct link_rx *b)
{
	return !memcmp(a->bytes + DEST_QPN_AT, b->bytes + DEST_QPN_AT, DEST_QPN_BYTES);
}

/* Whether the packet is an RC request to the QP of the ACK: the two have no order. */
static bool roce_may_follow(const struct link_rx *rx, const struct link_rx *ack)
{
	const struct opcode_info *info = rx->len < PACKET_MIN ? NULL : opcode_info(rx->bytes[0]);

	return info && info->is_request && info->transport == OPCODE_TRANSPORT_RC &&
	       roce_has_same_qp(rx, ack);
}

/*
 * An ACK that waited for the application's reply is sent behind it, because it is shorter
 * (lanes.c). The program that receives both expects the completion of its SEND before the reply, as
 * with a NIC, which sends the ACK first.
 */
void roce_acks_first(struct link_rx *rx, int n)
{
	for (int i = 1; i < n; i++) {
		struct link_rx ack = rx[i];
		int at = i;

		if (ack.len < PACKET_MIN || ack.bytes[0] != OPCODE(RC, ACK))
			continue;
		for (; at && roce_may_follow(&rx[at - 1], &ack); at--)
			rx[at] = rx[at - 1];
		rx[at] = ack;
	}
}
