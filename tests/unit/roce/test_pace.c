/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window of UC and UD: its states, VENDOR_ACKs, peers that send none, and a receiver whose
 * socket is small.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "peer.h"
#include "roce/qp.h"

#define MS     CLOCK_NS_PER_MS
#define WINDOW 8u
#define ASK    (WINDOW / PACE_ASKS)

/*
 * Sends until the window is full; returns how many packets. The PSN is the number of the packet,
 * from 1.
 */
static uint32_t fill(struct pace *pace, uint64_t now_ns, uint64_t *retry_ns)
{
	uint32_t n = 0;

	while (n < 4 * WINDOW && pace_may_send(pace, now_ns, retry_ns)) {
		uint32_t psn = pace->sent_pkts + 1;

		assert_int_equal(pace_on_send(pace, psn), psn % ASK == 0);
		n++;
	}
	return n;
}

static void pace_init_limits_window(void **state)
{
	struct pace pace;

	(void)state;
	pace_init(&pace, 10 * PACE_WINDOW_MAX_PKTS);
	assert_int_equal(pace.window_pkts, PACE_WINDOW_MAX_PKTS);
	pace_init(&pace, 0);
	assert_int_equal(pace.window_pkts, PACE_ASKS);
	pace_init(&pace, 2 * PACE_ASKS + 1);
	assert_int_equal(pace.window_pkts, 2 * PACE_ASKS);
}

static void pace_on_ack_opens_window(void **state)
{
	struct pace pace;
	uint64_t retry_ns;

	(void)state;
	pace_init(&pace, WINDOW);
	assert_int_equal(fill(&pace, 1 * MS, &retry_ns), WINDOW);
	assert_int_equal(retry_ns, 1 * MS + PACE_TIMEOUT_NS);
	/* A PSN without AckReq, and one that was not sent. */
	assert_false(pace_on_ack(&pace, 1));
	assert_false(pace_on_ack(&pace, 100));
	assert_int_equal(pace.state, PACE_UNKNOWN);
	assert_true(pace_on_ack(&pace, ASK));
	assert_int_equal(pace.state, PACE_WINDOW);
	assert_int_equal(fill(&pace, 2 * MS, &retry_ns), ASK);
	assert_int_equal(retry_ns, 2 * MS + PACE_TIMEOUT_NS);
	/*
	 * The third request is acknowledged, the reply to the second was lost; a duplicate changes
	 * nothing.
	 */
	assert_true(pace_on_ack(&pace, 3 * ASK));
	assert_false(pace_on_ack(&pace, 3 * ASK));
	assert_false(pace_on_ack(&pace, 2 * ASK));
	assert_int_equal(fill(&pace, 3 * MS, &retry_ns), 2 * ASK);
}

static void pace_may_send_unknown_peer_is_free_after_timeout(void **state)
{
	struct pace pace;
	uint64_t retry_ns;

	(void)state;
	pace_init(&pace, WINDOW);
	assert_int_equal(fill(&pace, 0, &retry_ns), WINDOW);
	assert_false(pace_may_send(&pace, retry_ns - 1, &retry_ns));
	assert_true(pace_may_send(&pace, retry_ns, &retry_ns));
	assert_int_equal(pace.state, PACE_FREE);
	assert_int_equal(fill(&pace, retry_ns, &retry_ns), 4 * WINDOW);
	/* Packets with AckReq are still sent: a reply to the latest one leads to the window. */
	assert_true(pace_on_ack(&pace, 5 * WINDOW));
	assert_int_equal(pace.state, PACE_WINDOW);
	assert_int_equal(fill(&pace, retry_ns, &retry_ns), WINDOW);
}

static void pace_may_send_known_peer_is_free_after_timeouts_in_succession(void **state)
{
	struct pace pace;
	uint64_t now_ns = 5, retry_ns;

	(void)state;
	pace_init(&pace, WINDOW);
	assert_int_equal(fill(&pace, now_ns, &retry_ns), WINDOW);
	assert_true(pace_on_ack(&pace, WINDOW));
	for (uint32_t i = 0; i < PACE_TIMEOUTS; i++) {
		assert_int_equal(pace.state, PACE_WINDOW);
		assert_int_equal(fill(&pace, now_ns, &retry_ns), WINDOW);
		assert_int_equal(retry_ns, now_ns + PACE_TIMEOUT_NS);
		now_ns = retry_ns;
		assert_true(pace_may_send(&pace, now_ns, &retry_ns));
	}
	assert_int_equal(pace.state, PACE_FREE);
	/* A late reply to a packet that counts as lost does not close the window. */
	assert_true(pace_on_ack(&pace, pace.asks[pace.asks_tail % PACE_ASKS].psn));
	assert_int_equal(pace.timeouts, 0);
	assert_int_equal(fill(&pace, now_ns, &retry_ns), WINDOW);
}

static int open_uc(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_UC, IBV_ACCESS_REMOTE_WRITE);
	*state = &peer;
	return 0;
}

static int open_rc(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, 0);
	*state = &peer;
	return 0;
}

static int open_ud(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_UD, 0);
	*state = &peer;
	return 0;
}

static int close_peer(void **state)
{
	peer_close(*state);
	return 0;
}

/*
 * Receives the packets of the queue pair. Returns their number and the PSN of the last one with
 * AckReq.
 */
static uint32_t drain_sent(struct peer *peer, uint32_t *asked_psn)
{
	struct packet packet;
	uint32_t n = 0;

	while (peer_next(peer, &packet)) {
		n++;
		if (packet.wants_ack)
			*asked_psn = packet.psn;
	}
	return n;
}

static void send_vendor_ack(struct peer *peer, uint32_t psn)
{
	struct packet ack = {
		.opcode = OPCODE(VENDOR, ACK), .psn = psn, .src_qpn = PEER_QPN, .syndrome = 0x1f};

	peer_send(peer, ack, NULL, 0);
	peer_settle(peer);
}

static void requester_uc_write_waits_for_vendor_ack(void **state)
{
	struct peer *peer = *state;
	uint32_t psn = 0, total = PEER_BUF_BYTES / PEER_MTU, sent;
	struct ibv_wc wc;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_BUF_BYTES, 0);
	sent = drain_sent(peer, &psn);
	assert_int_equal(sent, PACE_WINDOW_MAX_PKTS);
	assert_false(world_poll(peer->node->send_cq, &wc));
	for (int i = 0; i < 3; i++) {
		send_vendor_ack(peer, psn);
		sent += drain_sent(peer, &psn);
	}
	assert_int_equal(sent, total);
	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(peer_counter(peer, ROCE_VENDOR_ACKS_RECEIVED), 3);
	send_vendor_ack(peer, psn + 1);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 1);
}

/* A VENDOR_ACK for the PSN of the last packet with AckReq, with one wrong property. */
static void requester_uc_ignores_foreign_vendor_ack(void **state)
{
	struct peer *peer = *state;
	struct packet ack = {.opcode = OPCODE(VENDOR, ACK), .src_qpn = PEER_QPN, .syndrome = 0x1f};
	struct packet wrong;
	uint32_t psn = 0;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_BUF_BYTES, 0);
	assert_int_equal(drain_sent(peer, &psn), PACE_WINDOW_MAX_PKTS);
	ack.psn = psn;
	wrong = ack;
	wrong.src_qpn = PEER_QPN + 1;
	peer_send(peer, wrong, NULL, 0);
	peer_settle(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 1);
	wrong = ack;
	wrong.pkey = 0x7001;
	peer_send(peer, wrong, NULL, 0);
	peer_settle(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_PKEY), 1);
	wrong = ack;
	wrong.dest_qpn = peer->qp->qp_num + 1;
	peer_send(peer, wrong, NULL, 0);
	peer_settle(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_UNKNOWN_QPN), 1);
	/* A wrong ICRC. */
	peer_send_spoilt(peer, ack, NULL, 0, BTH_BYTES, 1, false);
	peer_settle(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_UNPARSABLE), 1);
	assert_int_equal(drain_sent(peer, &psn), 0);
	send_vendor_ack(peer, psn);
	assert_int_equal(drain_sent(peer, &psn), PACE_WINDOW_MAX_PKTS);
}

static void roce_dispatch_rc_drops_vendor_ack(void **state)
{
	struct peer *peer = *state;

	send_vendor_ack(peer, PEER_SECOND_PSN);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_OPCODE), 1);
	assert_int_equal(peer->qp->state, IBV_QPS_RTS);
}

static void requester_uc_write_without_vendor_acks_waits_once(void **state)
{
	struct peer *peer = *state;
	uint32_t psn = 0, total = PEER_BUF_BYTES / PEER_MTU, sent = 0;
	uint64_t start_ns = peer->world.now_ns;
	struct ibv_wc wc;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_BUF_BYTES, 0);
	while (world_step(&peer->world))
		sent += drain_sent(peer, &psn);
	assert_int_equal(sent + drain_sent(peer, &psn), total);
	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(peer_counter(peer, ROCE_PACE_TIMEOUTS), 1);
	assert_in_range(peer->world.now_ns - start_ns, PACE_TIMEOUT_NS, 2 * PACE_TIMEOUT_NS);
}

static void requester_uc_error_ends_wait(void **state)
{
	struct peer *peer = *state;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	uint32_t psn = 0;
	struct ibv_wc wc;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_BUF_BYTES, 0);
	assert_int_equal(ibv_modify_qp(peer->qp, &error, IBV_QP_STATE), 0);
	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(drain_sent(peer, &psn), PACE_WINDOW_MAX_PKTS);
	while (world_step(&peer->world))
		;
	assert_int_equal(drain_sent(peer, &psn), 0);
}

static void responder_uc_ack_request_gets_vendor_ack(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(UC, WRITE_ONLY),
				.psn = PEER_FIRST_PSN,
				.wants_ack = true,
				.is_migrated = true,
				.rkey = peer->node->mr->rkey,
				.va = (uintptr_t)peer->node->buf,
				.dma_length_bytes = 8};

	peer_send(peer, packet, "01234567", 8);
	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(VENDOR, ACK));
	assert_int_equal(packet.psn, PEER_FIRST_PSN);
	assert_int_equal(packet.src_qpn, peer->qp->qp_num);
	assert_false(peer_next(peer, &packet));
}

/*
 * The receive queue is empty, and no application polls: the reply waits for VENDOR_ACK_WAIT_NS or
 * for receives.
 */
static void vendor_ack_send_waits_for_receives(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {
		.opcode = OPCODE(UC, SEND_ONLY), .psn = PEER_FIRST_PSN, .is_migrated = true};
	uint64_t start_ns = peer->world.now_ns;
	struct packet ack;

	peer_post_recv(peer, 1, 64);
	peer_send(peer, packet, "1", 1);
	packet.psn = psn_next(packet.psn);
	packet.wants_ack = true;
	peer_send(peer, packet, "2", 1);
	peer_settle(peer);
	assert_false(peer_next(peer, &ack));
	for (uint64_t i = 0; i < 8; i++)
		peer_post_recv(peer, i, 64);
	while (world_step(&peer->world))
		;
	assert_true(peer_next(peer, &ack));
	assert_in_range(peer->world.now_ns - start_ns, 1, VENDOR_ACK_WAIT_NS - 1);
}

static void vendor_ack_send_without_receives_waits_once(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {
		.opcode = OPCODE(UC, SEND_ONLY), .psn = PEER_FIRST_PSN, .is_migrated = true};
	struct packet ack;
	uint64_t start_ns;

	for (int i = 0; i < 3; i++) {
		start_ns = peer->world.now_ns;
		peer_post_recv(peer, 1, 64);
		packet.wants_ack = i > 0;
		peer_send(peer, packet, "1", 1);
		packet.psn = psn_next(packet.psn);
		while (world_step(&peer->world))
			;
		assert_int_equal(peer_next(peer, &ack), i > 0);
		assert_int_equal(peer->world.now_ns - start_ns >= VENDOR_ACK_WAIT_NS, i == 1);
	}
}

static struct ibv_send_wr datagram_wr(struct peer *peer, struct ibv_ah *ah, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	*sge = (struct ibv_sge){(uintptr_t)peer->node->buf, 8, peer->node->mr->lkey};
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = PEER_QPN;
	wr.wr.ud.remote_qkey = PEER_QKEY;
	return wr;
}

static void roce_datagram_send_waits_for_vendor_ack(void **state)
{
	struct peer *peer = *state;
	struct ibv_ah *ah = world_create_ah(peer->node, peer_gid);
	struct ibv_send_wr *bad, wr;
	uint32_t psn = 0, posted = 0, sent = 0;
	struct ibv_sge sge;

	wr = datagram_wr(peer, ah, &sge);
	while (!ibv_post_send(peer->qp, &wr, &bad)) {
		posted++;
		sent += drain_sent(peer, &psn);
		peer_settle(peer);
	}
	sent += drain_sent(peer, &psn);
	/* The rest fills the send queue. */
	assert_int_equal(sent, PACE_WINDOW_MAX_PKTS);
	assert_true(posted > sent);
	send_vendor_ack(peer, psn + 1);
	/* From a queue pair of another process. */
	peer_send(peer,
		  (struct packet){.opcode = OPCODE(VENDOR, ACK),
				  .psn = psn,
				  .src_qpn = PEER_QPN ^ 1u << LINK_PEER_QPN_SHIFT},
		  NULL, 0);
	peer_settle(peer);
	assert_int_equal(drain_sent(peer, &psn), 0);
	send_vendor_ack(peer, psn);
	assert_int_equal(drain_sent(peer, &psn), posted - sent);
	assert_int_equal(peer_counter(peer, ROCE_VENDOR_ACKS_RECEIVED), 1);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_RESPONSE), 2);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void roce_datagram_receive_wrong_qkey_gets_no_vendor_ack(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(UD, SEND_ONLY),
				.psn = 77,
				.wants_ack = true,
				.is_migrated = true,
				.qkey = PEER_QKEY + 1,
				.src_qpn = PEER_QPN};
	struct packet ack;

	for (uint64_t i = 0; i < 16; i++)
		peer_post_recv(peer, i, 64);
	peer_send(peer, packet, "12345678", 8);
	peer_settle(peer);
	assert_false(peer_next(peer, &ack));
	packet.qkey = PEER_QKEY;
	peer_send(peer, packet, "12345678", 8);
	peer_settle(peer);
	assert_true(peer_next(peer, &ack));
	assert_int_equal(ack.opcode, OPCODE(VENDOR, ACK));
	assert_int_equal(ack.psn, 77);
	assert_int_equal(ack.src_qpn, peer->qp->qp_num);
}

/*
 * Linux's rxe sets AckReq in the last packet of each message, also of UC and UD, and never sets
 * MigReq.
 */
static void responder_uc_ack_request_of_rxe_gets_no_vendor_ack(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(UC, WRITE_ONLY),
				.psn = PEER_FIRST_PSN,
				.wants_ack = true,
				.rkey = peer->node->mr->rkey,
				.va = (uintptr_t)peer->node->buf,
				.dma_length_bytes = 8};

	peer_send(peer, packet, "01234567", 8);
	peer_settle(peer);
	assert_memory_equal(peer->node->buf, "01234567", 8);
	assert_false(peer_next(peer, &packet));
	assert_int_equal(peer_counter(peer, ROCE_VENDOR_ACKS_SENT), 0);
}

static void roce_datagram_receive_ack_request_of_rxe_gets_no_vendor_ack(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(UD, SEND_ONLY),
				.psn = 77,
				.wants_ack = true,
				.qkey = PEER_QKEY,
				.src_qpn = PEER_QPN};
	struct ibv_wc wc;

	for (uint64_t i = 0; i < 16; i++)
		peer_post_recv(peer, i, 64);
	peer_send(peer, packet, "12345678", 8);
	peer_settle(peer);
	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_false(peer_next(peer, &packet));
	assert_int_equal(peer_counter(peer, ROCE_VENDOR_ACKS_SENT), 0);
}

/*
 * Two hosts. The receiving process is not scheduled for most of the time, and its socket holds
 * little.
 */
#define MESSAGES      600u
#define MESSAGE_BYTES 2048u
#define SOCKET_PKTS   300u
#define RECVS	      512u

static void post_message(struct world *world, struct ibv_qp *const qps[2], struct ibv_ah *ah,
			 uint32_t bytes)
{
	struct world_node *from = &world->nodes[0];
	struct ibv_sge sge = {(uintptr_t)from->buf, bytes, from->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qps[1]->qp_num;
		wr.wr.ud.remote_qkey = PEER_QKEY;
	}
	while (ibv_post_send(qps[0], &wr, &bad))
		assert_true(world_step(world));
}

static void refill(struct world *world, struct ibv_qp *qp, uint32_t n)
{
	struct world_node *to = &world->nodes[1];
	struct ibv_sge sge = {(uintptr_t)to->buf, MESSAGE_BYTES + 64, to->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	while (n--)
		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

static void send_to_busy_receiver(enum ibv_qp_type type, uint32_t bytes)
{
	const struct sim_faults faults = {.delay_ns = 5000, .socket_pkts = SOCKET_PKTS};
	const struct world_qp_attr attr = {
		.type = type, .mtu = IBV_MTU_256, .qkey = PEER_QKEY, .max_wr = RECVS};
	struct world world;
	struct ibv_qp *qps[2];
	struct ibv_ah *ah = NULL;
	uint32_t sent = 0, received = 0;
	struct ibv_wc wc;

	world_open(&world, 1, 2, false, 2 * (size_t)MESSAGE_BYTES, &faults);
	for (int i = 0; i < 2; i++)
		qps[i] = world_create_qp(&world.nodes[i], &attr);
	if (type == IBV_QPT_UD) {
		world_ready(qps[0], &attr);
		world_ready(qps[1], &attr);
		ah = world_create_ah(&world.nodes[0], world.nodes[1].gid);
	} else {
		world_connect(&world.nodes[0], qps[0], &world.nodes[1], qps[1], &attr);
	}
	refill(&world, qps[1], RECVS);
	while (received < MESSAGES) {
		if (sent < MESSAGES) {
			post_message(&world, qps, ah, bytes);
			sent++;
		}
		if (sent % 32 == 0)
			world.nodes[1].stalled_until_ns = world.now_ns + 3 * MS;
		if (sent == MESSAGES)
			assert_true(world_step(&world));
		while (world_poll(world.nodes[1].recv_cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			received++;
			refill(&world, qps[1], 1);
		}
	}
	assert_int_equal(roce_of(&world.nodes[0].engine)->counters[ROCE_PACE_TIMEOUTS], 0);
	assert_in_range(roce_of(&world.nodes[0].engine)->counters[ROCE_VENDOR_ACKS_RECEIVED], 1,
			MESSAGES);
	assert_int_equal(ah ? ibv_destroy_ah(ah) : 0, 0);
	assert_int_equal(ibv_destroy_qp(qps[0]) + ibv_destroy_qp(qps[1]), 0);
	world_close(&world);
}

static void pace_uc_send_to_busy_receiver_loses_no_message(void **state)
{
	(void)state;
	send_to_busy_receiver(IBV_QPT_UC, MESSAGE_BYTES);
}

static void pace_ud_send_to_busy_receiver_loses_no_message(void **state)
{
	(void)state;
	send_to_busy_receiver(IBV_QPT_UD, 128);
}

#define UC(name) cmocka_unit_test_setup_teardown(name, open_uc, close_peer)
#define UD(name) cmocka_unit_test_setup_teardown(name, open_ud, close_peer)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pace_init_limits_window),
		cmocka_unit_test(pace_on_ack_opens_window),
		cmocka_unit_test(pace_may_send_unknown_peer_is_free_after_timeout),
		cmocka_unit_test(pace_may_send_known_peer_is_free_after_timeouts_in_succession),
		UC(requester_uc_write_waits_for_vendor_ack),
		UC(requester_uc_ignores_foreign_vendor_ack),
		cmocka_unit_test_setup_teardown(roce_dispatch_rc_drops_vendor_ack, open_rc,
						close_peer),
		UC(requester_uc_write_without_vendor_acks_waits_once),
		UC(requester_uc_error_ends_wait),
		UC(responder_uc_ack_request_gets_vendor_ack),
		UC(responder_uc_ack_request_of_rxe_gets_no_vendor_ack),
		UD(roce_datagram_receive_ack_request_of_rxe_gets_no_vendor_ack),
		UC(vendor_ack_send_waits_for_receives),
		UC(vendor_ack_send_without_receives_waits_once),
		UD(roce_datagram_send_waits_for_vendor_ack),
		UD(roce_datagram_receive_wrong_qkey_gets_no_vendor_ack),
		cmocka_unit_test(pace_uc_send_to_busy_receiver_loses_no_message),
		cmocka_unit_test(pace_ud_send_to_busy_receiver_loses_no_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
