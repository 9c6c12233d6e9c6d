/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/queue/datagram.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/user_copy.h"
#include "base/util.h"
#include "core/device/ah.h"
#include "core/engine/lock_check.h"
#include "roce/qp.h"

/*
 * UD packets (IBA 1.x §9.8.3). They are sent to the destination of the address handle and the WR.
 * Received packets with a correct ICRC and P_Key are passed to the core. PSNs of UD packets are not
 * checked.
 *
 * Datagrams of one address handle may go to several processes of the destination host, each with
 * its own path (link_path.src_port). Each path uses a socket, so all address handles together have
 * at most PATHS_MAX paths. The least recently used path is closed for a new one.
 */
#define PATHS_MAX 256

/*
 * A path of an address handle, which owns it. Freed with the address handle, or when PATHS_MAX is
 * reached.
 */
struct ah_path {
	struct list_head node;	   /* roce_ah.paths */
	struct list_head all_node; /* roce_datagrams.paths */
	struct link_path path;
	struct icrc_flow flow;
	struct pace pace;
};

/*
 * The transport's part of an address handle. Allocated by roce_ah_open(), freed by roce_ah_close().
 */
struct roce_ah {
	struct link_path path; /* template without remote_qpn */
	struct list_head paths;
};

static const enum roce_counter counters[] = {
	[DATAGRAM_UNKNOWN_QPN] = ROCE_DROPPED_UNKNOWN_QPN,
	[DATAGRAM_NOT_UD] = ROCE_DROPPED_OPCODE,
	[DATAGRAM_QP_STATE] = ROCE_DROPPED_QP_STATE,
	[DATAGRAM_QKEY] = ROCE_DROPPED_QKEY,
	[DATAGRAM_NO_RECV] = ROCE_DROPPED_NO_RECV,
	[DATAGRAM_RECV_TOO_SHORT] = ROCE_DROPPED_RECV_TOO_SHORT,
	[DATAGRAM_BAD_RECV] = ROCE_DROPPED_BAD_RECV,
};
static_assert(COUNT(counters) == DATAGRAM_RESULT_COUNT, "every drop is counted");

int roce_ah_open(struct ah *ah)
{
	struct roce *roce = roce_of(ah->engine);
	struct roce_ah *rah;
	int ret;

	engine_assert_all_locked(to_context(ah->pub.context)->engine);
	if (!roce || !roce->link)
		return -EOPNOTSUPP;
	rah = calloc(1, sizeof(*rah));
	if (!rah)
		return -ENOMEM;
	list_init(&rah->paths);
	ret = path_fill_datagram(roce, ah->local_gid, ah->ifindex, &ah->attr.grh, &rah->path);
	if (ret) {
		free(rah);
		return ret;
	}
	ah->transport_ah = rah;
	return 0;
}

/*
 * Flushes the batch first, so that no packet in it refers to the path: packets that the link does
 * not accept are copied.
 */
static void path_free(struct roce *roce, struct ah_path *path)
{
	batch_flush(roce);
	if (roce->link)
		link_path_close(roce->link, &path->path);
	list_del(&path->node);
	list_del(&path->all_node);
	roce->datagrams.path_count--;
	free(path);
}

void roce_ah_close(struct ah *ah)
{
	struct roce *roce = roce_of(ah->engine);
	struct roce_ah *rah = ah->transport_ah;

	engine_assert_locked(to_context(ah->pub.context)->engine);
	roce_look_at_clock(roce);
	while (!list_is_empty(&rah->paths))
		path_free(roce, list_first_entry(&rah->paths, struct ah_path, node));
	free(rah);
	ah->transport_ah = NULL;
}

static struct ah_path *path_new(struct roce *roce, struct roce_ah *rah, uint32_t qpn)
{
	struct roce_datagrams *datagrams = &roce->datagrams;
	struct ah_path *path;

	if (datagrams->path_count == PATHS_MAX)
		path_free(roce, list_first_entry(&datagrams->paths, struct ah_path, all_node));
	path = calloc(1, sizeof(*path));
	if (!path)
		return NULL;
	path->path = rah->path;
	path->path.remote_qpn = qpn;
	if (link_path_open(roce->link, &path->path)) {
		free(path);
		return NULL;
	}
	icrc_flow_init(&path->flow, path->path.local_gid, path->path.remote_gid,
		       path->path.src_port, PACKET_UDP_PORT);
	pace_init(&path->pace, cc_max_cwnd_pkts(roce->link->rx_bytes, PACKET_PAYLOAD_MAX));
	list_add(&path->node, &rah->paths);
	list_add_tail(&path->all_node, &datagrams->paths);
	datagrams->path_count++;
	return path;
}

/* Finds or opens the path to the process of the QPN; NULL: it cannot be opened. */
static struct ah_path *roce_datagram_find_path(struct roce *roce, struct roce_ah *rah, uint32_t qpn)
{
	struct ah_path *path;

	list_for_each_entry(path, &rah->paths, node) {
		if (path->path.remote_qpn >> LINK_PEER_QPN_SHIFT != qpn >> LINK_PEER_QPN_SHIFT)
			continue;
		list_move_tail(&path->all_node, &roce->datagrams.paths);
		return path;
	}
	return path_new(roce, rah, qpn);
}

/*
 * Copies the payload: the WR completes when the caller returns, and the application may then reuse
 * its memory. Returns the number of iov entries, or -EFAULT: the memory cannot be read.
 */
static int fill_payload(struct roce_slot *slot, const struct datagram_tx *datagram)
{
	if (!user_gather(slot->bytes, datagram->iov, datagram->iov_count))
		return -EFAULT;
	slot->iov[0] = (struct iovec){.iov_base = slot->bytes, .iov_len = datagram->bytes};
	return datagram->bytes ? 1 : 0;
}

/*
 * Whether the path's window has room. If not, the timer or a VENDOR_ACK continues. A group has
 * several receivers, so datagrams to a group have no window.
 */
static bool datagram_has_window(struct roce *roce, struct ah_path *path)
{
	uint32_t timeouts = path->pace.timeouts;
	uint64_t retry_ns;

	if (gid_is_multicast(path->path.remote_gid))
		return true;
	if (pace_may_send(&path->pace, roce->now_ns, &retry_ns)) {
		if (path->pace.timeouts != timeouts)
			roce_count(roce, ROCE_PACE_TIMEOUTS);
		return true;
	}
	if (!roce->pace_timer.is_pending || retry_ns < roce->pace_timer.deadline_ns)
		roce_timer_add(roce, &roce->pace_timer, retry_ns);
	return false;
}

void roce_datagram_pace_timer(struct timer *timer, uint64_t now_ns)
{
	struct roce *roce = container_of(timer, struct roce, pace_timer);

	roce->now_ns = now_ns;
	roce_transport.run(roce->engine);
}

int roce_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram)
{
	struct roce *roce = roce_of(qp->context->engine);
	struct packet packet = {
		.opcode = opcode_of_send(OPCODE_TRANSPORT_UD, true, true,
					 datagram->has_imm ? OPCODE_WITH_IMM : OPCODE_PLAIN),
		.is_solicited = datagram->is_solicited,
		.dest_qpn = datagram->dest_qpn,
		.psn = datagram->psn,
		.qkey = datagram->qkey,
		.src_qpn = qp->qpn,
		.imm_be = datagram->imm_be,
	};
	struct roce_slot *slot;
	struct ah_path *path;
	int iovs;

	engine_assert_locked(qp->context->engine);
	roce_look_at_clock(roce);
	path = roce->link ? roce_datagram_find_path(roce, ah->transport_ah, datagram->dest_qpn) :
			    NULL;
	if (!path) {
		roce_count(roce, ROCE_DATAGRAMS_LOST);
		return 0;
	}
	if (!datagram_has_window(roce, path))
		return -EAGAIN;
	slot = batch_reserve(roce);
	if (!slot)
		return -EAGAIN;
	iovs = fill_payload(slot, datagram);
	if (iovs < 0)
		return iovs;
	if (!gid_is_multicast(path->path.remote_gid))
		packet.wants_ack = pace_on_send(&path->pace, packet.psn);
	batch_commit_to(roce, &path->path, &path->flow, &packet, iovs);
	return 0;
}

bool roce_datagrams_end(struct engine *engine, bool may_wait)
{
	struct roce *roce = roce_of(engine);

	engine_assert_locked(engine);
	if (!roce)
		return false;
	if (may_wait && batch_may_wait(roce))
		return roce->batch.count;
	batch_flush(roce);
	return false;
}

static struct roce_inflow *find_inflow(struct roce *roce, const struct link_rx *rx)
{
	uint64_t words[4], hash = rx->src_port;
	struct roce_sender *sender;

	memcpy(words, rx->remote_gid, GID_BYTES);
	memcpy(words + 2, rx->local_gid, GID_BYTES);
	for (int i = 0; i < 4; i++)
		hash = hash_mix(hash, words[i]);
	sender = &roce->datagrams.senders[hash % ROCE_INFLOWS];
	if (sender->inflow.src_port == rx->src_port &&
	    !memcmp(sender->remote_gid, rx->remote_gid, GID_BYTES) &&
	    !memcmp(sender->local_gid, rx->local_gid, GID_BYTES))
		return &sender->inflow;
	memcpy(sender->remote_gid, rx->remote_gid, GID_BYTES);
	memcpy(sender->local_gid, rx->local_gid, GID_BYTES);
	inflow_init(&sender->inflow);
	return &sender->inflow;
}

static void fill_grh(const struct link_rx *rx, const struct roce_inflow *inflow, uint16_t ip_id,
		     uint8_t *to)
{
	struct grh grh = {
		.flow_label = rx->flow_label,
		.ip_id = ip_id,
		.dont_fragment = inflow->dont_fragment,
		.traffic_class = rx->traffic_class,
		.hop_limit = rx->hop_limit,
		.udp_payload_bytes = (uint16_t)rx->len,
	};

	memcpy(grh.src_gid, rx->remote_gid, GID_BYTES);
	memcpy(grh.dst_gid, rx->local_gid, GID_BYTES);
	grh_build(&grh, to);
}

/* Whether ICRC and P_Key are correct; if not, the packet is counted as dropped. */
static bool datagram_is_valid(struct roce *roce, const struct link_rx *rx,
			      const struct packet *packet, struct roce_inflow *inflow,
			      uint16_t *ip_id)
{
	if (!inflow_is_whole(inflow, &roce->solver, rx, ip_id)) {
		roce->unparsable[PACKET_ICRC]++;
		roce_count(roce, ROCE_DROPPED_UNPARSABLE);
		return false;
	}
	if ((packet->pkey & ROCE_PKEY_MASK) == ROCE_PKEY_MASK)
		return true;
	roce_drop_partition(roce);
	return false;
}

void roce_datagram_on_vendor_ack(struct roce *roce, const struct link_rx *rx,
				 const struct packet *packet)
{
	struct roce_inflow *inflow = find_inflow(roce, rx);
	struct ah_path *path;
	uint16_t ip_id;

	if (!datagram_is_valid(roce, rx, packet, inflow, &ip_id))
		return;
	list_for_each_entry(path, &roce->datagrams.paths, all_node) {
		if (path->path.remote_qpn >> LINK_PEER_QPN_SHIFT !=
			    packet->src_qpn >> LINK_PEER_QPN_SHIFT ||
		    memcmp(path->path.remote_gid, rx->remote_gid, GID_BYTES) ||
		    !pace_on_ack(&path->pace, packet->psn))
			continue;
		/* roce_run() sends the datagrams that wait. */
		roce_count(roce, ROCE_VENDOR_ACKS_RECEIVED);
		return;
	}
	roce_count(roce, ROCE_DROPPED_RESPONSE);
}

void roce_datagram_receive(struct roce *roce, const struct link_rx *rx, const struct packet *packet)
{
	struct datagram_rx datagram = {
		.dest_qpn = packet->dest_qpn,
		.src_qpn = packet->src_qpn,
		.qkey = packet->qkey,
		.has_imm = packet->info->has_imm,
		.is_solicited = packet->is_solicited,
		.imm_be = packet->imm_be,
		.payload = packet->payload,
		.bytes = (uint32_t)packet->payload_bytes,
	};
	struct roce_inflow *inflow = find_inflow(roce, rx);
	enum datagram_result result;
	uint16_t ip_id;

	if (!datagram_is_valid(roce, rx, packet, inflow, &ip_id))
		return;
	datagram.ifindex = rx->ifindex;
	memcpy(datagram.local_gid, rx->local_gid, GID_BYTES);
	memcpy(datagram.remote_gid, rx->remote_gid, GID_BYTES);
	fill_grh(rx, inflow, ip_id, datagram.grh);
	result = datagram_deliver(roce->engine, &datagram);
	if (result != DATAGRAM_DELIVERED)
		roce_count(roce, counters[result]);
	/* A sender that does not know the Q_Key has no right to a reply. */
	if (vendor_ack_is_requested(packet) && !gid_is_multicast(rx->local_gid) &&
	    (result == DATAGRAM_DELIVERED || result == DATAGRAM_NO_RECV ||
	     result == DATAGRAM_RECV_TOO_SHORT))
		vendor_ack_pend_datagram(roce, rx, packet);
}
