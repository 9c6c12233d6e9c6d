/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/datagram.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/user_copy.h"
#include "base/util.h"
#include "core/device/ah.h"
#include "core/device/device.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "core/queue/datagram.h"
#include "local/fault.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/peer_connect.h"
#include "local/ring.h"
#include "local/run.h"
#include "wire/packet.h"

/*
 * Datagrams between two processes of one host. The sender writes a datagram with its GRH into one
 * cell; there is no response. If the FIFO is full, the sender waits for space, because the reader
 * is probably only slow. After DATAGRAM_WAIT_NS without space datagrams are dropped, as in a
 * network, so that datagrams for other peers do not wait any longer.
 *
 * A process of another user could free an element each time that this limit approaches. Datagrams
 * wait for it an eighth of the time at most, and DATAGRAM_WAIT_NS at once.
 */
#define DATAGRAM_WAIT_NS    1000000000ull
#define DATAGRAM_WAIT_SHARE 8

static const enum local_counter counters[] = {
	[DATAGRAM_DELIVERED] = LOCAL_MESSAGES_RECEIVED,
	[DATAGRAM_UNKNOWN_QPN] = LOCAL_DATAGRAMS_UNKNOWN_QPN,
	[DATAGRAM_NOT_UD] = LOCAL_DATAGRAMS_NOT_UD,
	[DATAGRAM_QP_STATE] = LOCAL_DATAGRAMS_QP_STATE,
	[DATAGRAM_QKEY] = LOCAL_DATAGRAMS_QKEY,
	[DATAGRAM_NO_RECV] = LOCAL_DATAGRAMS_NO_RECV,
	[DATAGRAM_RECV_TOO_SHORT] = LOCAL_DATAGRAMS_RECV_TOO_SHORT,
	[DATAGRAM_BAD_RECV] = LOCAL_DATAGRAMS_BAD_RECV,
};
static_assert(COUNT(counters) == DATAGRAM_RESULT_COUNT, "every result is counted");

/*
 * Multicast groups can have members on other hosts: another transport sends to multicast addresses.
 */
int local_ah_open(struct ah *ah)
{
	engine_assert_all_locked(to_context(ah->pub.context)->engine);
	if (gid_is_multicast(ah->attr.grh.dgid.raw) ||
	    !device_owns_gid(ah->engine, &ah->attr.grh.dgid))
		return -EOPNOTSUPP;
	return 0;
}

/* As peer_get(), but waits for the daemon's reply for at most DATAGRAM_WAIT_NS. */
static int local_datagram_find_peer(struct engine *engine, uint32_t slot, struct peer **peer)
{
	int ret = peer_get(engine, slot, peer);

	if (ret == -EAGAIN && !peer_connect_may_wait(local_of(engine), slot, DATAGRAM_WAIT_NS))
		return -ENOENT;
	return ret;
}

static uint64_t wait_max_ns(const struct peer *peer, uint64_t now_ns)
{
	uint64_t idle_ns = now_ns - peer->unblocked_ns;

	if (peer->may_reach_ours)
		return DATAGRAM_WAIT_NS;
	return min_u64(DATAGRAM_WAIT_NS, peer->wait_left_ns + idle_ns / DATAGRAM_WAIT_SHARE);
}

/* The peer's FIFO is full. -EAGAIN: the datagram waits for space; 0: it was dropped. */
static int wait_for_room(struct peer *peer)
{
	struct engine *engine = peer->engine;
	uint64_t now_ns = clock_now_ns();

	if (!peer->blocked_since_ns) {
		peer->blocked_since_ns = now_ns;
		peer->wait_left_ns = wait_max_ns(peer, now_ns);
		timer_add(&engine->timers, &peer->blocked_timer, now_ns + peer->wait_left_ns);
		engine_timer_added(engine);
	}
	if (now_ns - peer->blocked_since_ns < peer->wait_left_ns) {
		local_finish_turn(peer);
		return -EAGAIN;
	}
	local_count(engine, LOCAL_DATAGRAMS_LOST);
	return 0;
}

void local_datagram_has_room(struct peer *peer)
{
	uint64_t now_ns = clock_now_ns();

	timer_cancel(&peer->engine->timers, &peer->blocked_timer);
	peer->wait_left_ns -= min_u64(now_ns - peer->blocked_since_ns, peer->wait_left_ns);
	peer->unblocked_ns = now_ns;
	peer->blocked_since_ns = 0;
}

void local_datagram_timer(struct timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	datagram_resume(container_of(timer, struct peer, blocked_timer)->engine);
}

static uint16_t udp_payload_bytes(const struct datagram_tx *datagram)
{
	size_t bytes = BTH_BYTES + DETH_BYTES + ICRC_BYTES;

	bytes += datagram->has_imm ? IMM_BYTES : 0;
	return (uint16_t)(bytes + datagram->bytes + packet_pad_bytes(datagram->bytes));
}

/* Writes the GRH that a packet on the network would have. */
static void write_grh(const struct ah *ah, const struct datagram_tx *datagram, uint8_t *to)
{
	struct grh grh = {
		.flow_label = ah->attr.grh.flow_label,
		.dont_fragment = true,
		.traffic_class = ah->attr.grh.traffic_class,
		.hop_limit = ah->attr.grh.hop_limit,
		.udp_payload_bytes = udp_payload_bytes(datagram),
	};

	memcpy(grh.src_gid, ah->local_gid, GID_BYTES);
	memcpy(grh.dst_gid, ah->attr.grh.dgid.raw, GID_BYTES);
	grh_build(&grh, to);
}

static void write_cell(uint32_t src_qpn, const struct datagram_tx *datagram, struct cell *cell)
{
	cell->type = CELL_DATAGRAM;
	cell->flags |= CELL_FIRST | CELL_LAST;
	if (datagram->has_imm)
		cell->flags |= CELL_IMM;
	if (datagram->is_solicited)
		cell->flags |= CELL_SOLICITED;
	cell->bytes = (uint16_t)(GRH_BYTES + datagram->bytes);
	cell->dst_qpn = datagram->dest_qpn;
	cell->src_qpn = src_qpn;
	cell->rkey = datagram->qkey;
	cell->imm_or_code = datagram->imm_be;
	cell->length = datagram->bytes;
}

int local_datagram_write(uint32_t src_qpn, const struct datagram_tx *datagram, struct peer *peer,
			 struct cell *cell, uint8_t *at)
{
	if (!user_gather(at + GRH_BYTES, datagram->iov, datagram->iov_count))
		return -EFAULT;
	write_cell(src_qpn, datagram, cell);
	ring_commit(&peer->tx, cell);
	peer->has_sent = true;
	local_count(peer->engine, LOCAL_MESSAGES_SENT);
	return 0;
}

/* Sends the datagram as the faults determine. `cell` is reserved, and `at` is its payload. */
PROBE_COLD static int send_faulty(const struct qp *qp, const struct ah *ah,
				  const struct datagram_tx *datagram, struct peer *peer,
				  struct cell *cell, uint8_t *at)
{
	struct engine *engine = qp->context->engine;
	uint8_t grh[GRH_BYTES];
	uint64_t delay_ns;
	unsigned int copies = local_fault_datagram(qp, ah, datagram, &delay_ns);

	write_grh(ah, datagram, grh);
	if (copies && delay_ns)
		return local_fault_delay_datagram(engine, qp->qpn, datagram, grh, delay_ns);
	if (!copies)
		local_count(engine, LOCAL_DATAGRAMS_LOST);
	/* Without space for it the second copy is lost. */
	for (; copies && cell; copies--) {
		int ret;

		memcpy(at, grh, GRH_BYTES);
		ret = local_datagram_write(qp->qpn, datagram, peer, cell, at);
		if (ret)
			return ret;
		cell = copies > 1 ? ring_reserve(&peer->tx, GRH_BYTES + datagram->bytes, &at) :
				    NULL;
	}
	return 0;
}

int local_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram)
{
	struct engine *engine = qp->context->engine;
	struct peer *peer;
	struct cell *cell;
	uint8_t *at;
	int ret = local_datagram_find_peer(engine, datagram->dest_qpn >> IPC_SLOT_SHIFT, &peer);

	engine_assert_locked(qp->context->engine);
	if (ret == -EAGAIN)
		return ret;
	if (ret) {
		local_count(engine, LOCAL_DATAGRAMS_LOST);
		return 0;
	}
	cell = ring_reserve(&peer->tx, GRH_BYTES + datagram->bytes, &at);
	if (!cell)
		return wait_for_room(peer);
	if (probe_is_on(PROBE_FAULT)) {
		ret = send_faulty(qp, ah, datagram, peer, cell, at);
	} else {
		write_grh(ah, datagram, at);
		ret = local_datagram_write(qp->qpn, datagram, peer, cell, at);
	}
	local_finish_turn(peer);
	return ret;
}

/*
 * Whether the source address is valid: a process of this host can only send from the host's own
 * addresses.
 */
static bool is_source(struct engine *engine, const uint8_t gid[GID_BYTES])
{
	union ibv_gid source;

	memcpy(source.raw, gid, GID_BYTES);
	return device_may_own_gid(engine, &source);
}

PROBE_COLD static unsigned int copies_received(struct engine *engine, const struct cell *cell,
					       const uint8_t *src_gid)
{
	const struct qp *qp = qp_find(engine, cell->dst_qpn);

	return qp ? local_fault_received(qp, cell, src_gid) : 1;
}

void local_datagram_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload)
{
	struct datagram_rx rx = {
		.dest_qpn = cell->dst_qpn,
		.src_qpn = cell->src_qpn,
		.qkey = cell->rkey,
		.has_imm = cell->flags & CELL_IMM,
		.is_solicited = cell->flags & CELL_SOLICITED,
		.imm_be = cell->imm_or_code,
		.payload = payload + GRH_BYTES,
	};
	unsigned int copies;
	struct grh grh;

	if (cell->bytes < GRH_BYTES || cell->bytes > GRH_BYTES + PACKET_PAYLOAD_MAX ||
	    cell->src_qpn >> IPC_SLOT_SHIFT != peer->slot ||
	    cell->dst_qpn == DATAGRAM_QPN_MULTICAST) {
		local_count(peer->engine, LOCAL_BAD_CELLS);
		return;
	}
	rx.bytes = cell->bytes - (uint32_t)GRH_BYTES;
	memcpy(rx.grh, payload, GRH_BYTES);
	if (grh_parse(&grh, rx.grh)) {
		local_count(peer->engine, LOCAL_BAD_CELLS);
		return;
	}
	if (!is_source(peer->engine, grh.src_gid)) {
		local_count(peer->engine, LOCAL_DATAGRAMS_SOURCE);
		return;
	}
	memcpy(rx.local_gid, grh.dst_gid, GID_BYTES);
	copies = probe_is_on(PROBE_FAULT) ? copies_received(peer->engine, cell, grh.src_gid) : 1;
	if (!copies)
		local_count(peer->engine, LOCAL_DATAGRAMS_LOST);
	for (; copies; copies--)
		local_count(peer->engine, counters[datagram_deliver(peer->engine, &rx)]);
}
