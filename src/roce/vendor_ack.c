/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/vendor_ack.h"

#include <stdlib.h>
#include <string.h>

#include "core/engine/qp_table.h"
#include "core/queue/wq.h"
#include "roce/qp.h"
#include "wire/aeth.h"

/*
 * How long the VENDOR_ACKs of a QP do not wait after one waited for VENDOR_ACK_WAIT_NS and no
 * receive was posted.
 */
#define BRIEF_NS UINT64_C(1000000000)

/*
 * A path to a sender of UD packets. Freed by vendor_acks_close(), or when VENDOR_ACK_PATHS_MAX is
 * reached.
 */
struct vendor_path {
	struct list_head node;
	struct link_path path;
	struct icrc_flow flow;
};

static void vendor_acks_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce *roce = container_of(timer, struct roce, vendor_acks.timer);

	roce->now_ns = now_ns;
	vendor_acks_send(roce);
	batch_flush(roce);
}

void vendor_acks_init(struct vendor_acks *acks)
{
	memset(acks, 0, sizeof(*acks));
	timer_init(&acks->timer, vendor_acks_timer);
	list_init(&acks->paths);
}

/* Flushes the batch first: packets in it may refer to the path. */
static void vendor_path_free(struct roce *roce, struct vendor_path *path)
{
	batch_flush(roce);
	if (roce->link)
		link_path_close(roce->link, &path->path);
	list_del(&path->node);
	roce->vendor_acks.path_count--;
	free(path);
}

void vendor_acks_close(struct roce *roce)
{
	struct vendor_acks *acks = &roce->vendor_acks;

	timer_cancel(&roce->engine->timers, &acks->timer);
	acks->count = 0;
	while (!list_is_empty(&acks->paths))
		vendor_path_free(roce, list_first_entry(&acks->paths, struct vendor_path, node));
}

static struct vendor_path *vendor_path_new(struct roce *roce, const struct vendor_ack *ack)
{
	struct vendor_acks *acks = &roce->vendor_acks;
	struct ibv_global_route route = {.hop_limit = ROCE_HOP_LIMIT_DEFAULT};
	struct vendor_path *path;

	if (acks->path_count == VENDOR_ACK_PATHS_MAX)
		vendor_path_free(roce, list_first_entry(&acks->paths, struct vendor_path, node));
	path = calloc(1, sizeof(*path));
	if (!path)
		return NULL;
	memcpy(route.dgid.raw, ack->remote_gid, GID_BYTES);
	if (path_fill_datagram(roce, ack->local_gid, ack->ifindex, &route, &path->path)) {
		free(path);
		return NULL;
	}
	path->path.remote_qpn = ack->remote_qpn;
	if (link_path_open(roce->link, &path->path)) {
		free(path);
		return NULL;
	}
	icrc_flow_init(&path->flow, path->path.local_gid, path->path.remote_gid,
		       path->path.src_port, PACKET_UDP_PORT);
	list_add_tail(&path->node, &acks->paths);
	acks->path_count++;
	return path;
}

/* Finds or opens the path to the process that sent the datagram; NULL: it cannot be opened. */
static struct vendor_path *vendor_path_find(struct roce *roce, const struct vendor_ack *ack)
{
	struct vendor_path *path;

	list_for_each_entry(path, &roce->vendor_acks.paths, node) {
		if (path->path.remote_qpn >> LINK_PEER_QPN_SHIFT !=
			    ack->remote_qpn >> LINK_PEER_QPN_SHIFT ||
		    path->path.ifindex != ack->ifindex ||
		    memcmp(path->path.remote_gid, ack->remote_gid, GID_BYTES) ||
		    memcmp(path->path.local_gid, ack->local_gid, GID_BYTES))
			continue;
		list_move_tail(&path->node, &roce->vendor_acks.paths);
		return path;
	}
	return vendor_path_new(roce, ack);
}

/*
 * Whether the receive queue has too few receives for the sender's window. An application that polls
 * an empty completion queue has posted what it intends to post.
 */
static bool vendor_ack_must_wait(struct roce *roce, const struct qp *qp,
				 const struct vendor_ack *ack)
{
	const struct recv_queue *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	uint32_t enough = rq->max_wr / 2 < PACE_WINDOW_MAX_PKTS ? rq->max_wr / 2 :
								  PACE_WINDOW_MAX_PKTS;
	uint32_t slot = ack->qpn % VENDOR_ACK_SHORT_QPNS;

	if (!ack->needs_recv || rq->head - rq->tail >= enough ||
	    run_by_replier(roce->engine->run_by))
		return false;
	if (roce->vendor_acks.brief[slot].qpn == ack->qpn &&
	    roce->now_ns < roce->vendor_acks.brief[slot].until_ns)
		return false;
	if (roce->now_ns - ack->since_ns < VENDOR_ACK_WAIT_NS)
		return true;
	roce->vendor_acks.brief[slot].qpn = ack->qpn;
	roce->vendor_acks.brief[slot].until_ns = roce->now_ns + BRIEF_NS;
	return false;
}

/* Adds the VENDOR_ACK to the batch. false: back-pressure of the link. */
static bool vendor_ack_send(struct roce *roce, const struct qp *qp, const struct vendor_ack *ack)
{
	struct packet packet = {
		.opcode = OPCODE(VENDOR, ACK),
		.psn = ack->psn,
		.dest_qpn = ack->remote_qpn,
		.src_qpn = ack->qpn,
		.syndrome = aeth_make(AETH_KIND_ACK, AETH_CREDITS_UNLIMITED),
	};
	struct vendor_path *path = NULL;

	if (qp->type == IBV_QPT_UD) {
		path = vendor_path_find(roce, ack);
		if (!path)
			return true;
	}
	if (!batch_reserve(roce))
		return false;
	if (path)
		batch_commit_to(roce, &path->path, &path->flow, &packet, 0);
	else
		batch_commit(roce_qp_of(qp), &packet, 0);
	roce_count(roce, ROCE_VENDOR_ACKS_SENT);
	return true;
}

/* The QP of a pending VENDOR_ACK; NULL: it was destroyed or reset. */
static const struct qp *vendor_ack_qp(struct roce *roce, const struct vendor_ack *ack)
{
	const struct qp *qp = qp_find(roce->engine, ack->qpn);

	if (!qp || qp->type == IBV_QPT_UD)
		return qp;
	return qp->type == IBV_QPT_UC && qp->transport == &roce_transport &&
			       roce_qp_of(qp)->path.remote_qpn == ack->remote_qpn ?
		       qp :
		       NULL;
}

void vendor_acks_send(struct roce *roce)
{
	struct vendor_acks *acks = &roce->vendor_acks;
	uint32_t kept = 0;
	bool is_blocked = !roce->link;

	if (!acks->count)
		return;
	for (uint32_t i = 0; i < acks->count; i++) {
		const struct vendor_ack ack = acks->pending[i];
		const struct qp *qp = vendor_ack_qp(roce, &ack);

		if (!qp)
			continue;
		if (!is_blocked && !vendor_ack_must_wait(roce, qp, &ack)) {
			if (vendor_ack_send(roce, qp, &ack))
				continue;
			is_blocked = true;
		}
		acks->pending[kept++] = ack;
	}
	acks->count = kept;
	if (kept && !acks->timer.is_pending)
		roce_timer_add(roce, &acks->timer, roce->now_ns + VENDOR_ACK_CHECK_NS);
}

/*
 * A later packet of the same sender replaces an earlier one. If the table is full, no ACK is sent,
 * and the sender goes on after its timeout.
 */
static void vendor_acks_add(struct roce *roce, const struct vendor_ack *ack)
{
	struct vendor_acks *acks = &roce->vendor_acks;

	for (uint32_t i = 0; i < acks->count; i++) {
		struct vendor_ack *old = &acks->pending[i];

		if (old->qpn == ack->qpn && old->remote_qpn == ack->remote_qpn &&
		    !memcmp(old->remote_gid, ack->remote_gid, GID_BYTES)) {
			old->psn = ack->psn;
			return;
		}
	}
	if (acks->count == VENDOR_ACKS)
		vendor_acks_send(roce);
	if (acks->count < VENDOR_ACKS)
		acks->pending[acks->count++] = *ack;
}

bool vendor_ack_is_requested(const struct packet *packet)
{
	return packet->wants_ack && packet->is_migrated;
}

void vendor_ack_pend(struct roce_qp *rqp, uint32_t psn)
{
	struct vendor_ack ack = {
		.qpn = rqp->qp->qpn,
		.remote_qpn = rqp->path.remote_qpn,
		.psn = psn,
		.needs_recv = rqp->rx.has_taken_recv,
		.since_ns = rqp->roce->now_ns,
	};

	memcpy(ack.remote_gid, rqp->path.remote_gid, GID_BYTES);
	vendor_acks_add(rqp->roce, &ack);
}

void vendor_ack_pend_datagram(struct roce *roce, const struct link_rx *rx,
			      const struct packet *packet)
{
	struct vendor_ack ack = {
		.qpn = packet->dest_qpn,
		.remote_qpn = packet->src_qpn,
		.psn = packet->psn,
		.ifindex = rx->ifindex,
		.needs_recv = true,
		.since_ns = roce->now_ns,
	};

	memcpy(ack.local_gid, rx->local_gid, GID_BYTES);
	memcpy(ack.remote_gid, rx->remote_gid, GID_BYTES);
	vendor_acks_add(roce, &ack);
}
