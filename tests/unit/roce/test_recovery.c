/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "peer.h"
#include "roce/qp.h"
#include "wire/aeth.h"

/*
 * The requester after a loss: which packets are retransmitted, to peers with and without a reorder
 * buffer.
 */

#define PSN(n)		psn_add(PEER_SECOND_PSN, (n))
#define ACK_SYNDROME	0x1f
#define NAK_SEQUENCE	0x60
#define RNR_NAK_10_MS	(0x20 | 20)
#define MS		UINT64_C(1000000)
#define RTT_NS		(1 * MS)
#define FIRST_WINDOW	30u
#define MESSAGE_PACKETS 800u

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, 0);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static void wait_ns(struct peer *peer, uint64_t ns)
{
	uint64_t until_ns = peer->world.now_ns + ns;

	while (peer->world.now_ns < until_ns) {
		peer->world.now_ns += 50000;
		world_turn(&peer->world);
	}
}

/* Responds a round trip later. */
static void response(struct peer *peer, uint32_t n, uint8_t syndrome)
{
	wait_ns(peer, RTT_NS);
	peer_answer(peer, PSN(n), syndrome);
}

/* Checks that the next packets are [first, end); returns whether the last requests an ACK. */
static bool expect_packets(struct peer *peer, uint32_t first, uint32_t end)
{
	struct packet packet = {0};

	for (uint32_t n = first; n < end; n++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.psn, PSN(n));
	}
	return packet.wants_ack;
}

/* Takes all packets from `first` on; returns the end of the range. */
static uint32_t take_rest(struct peer *peer, uint32_t first)
{
	struct packet packet;

	while (peer_next(peer, &packet))
		assert_int_equal(packet.psn, PSN(first++));
	return first;
}

static void expect_nothing(struct peer *peer)
{
	struct packet packet;

	assert_false(peer_next(peer, &packet));
}

/*
 * The first window is outstanding and round-trip times are known. The outstanding packets begin at
 * the returned number.
 */
static uint32_t start(struct peer *peer)
{
	peer_post_send(peer, IBV_WR_RDMA_WRITE, MESSAGE_PACKETS * PEER_MTU, 0);
	expect_packets(peer, 0, FIRST_WINDOW);
	response(peer, FIRST_WINDOW - 1, ACK_SYNDROME);
	expect_packets(peer, FIRST_WINDOW, 3 * FIRST_WINDOW);
	expect_nothing(peer);
	return FIRST_WINDOW;
}

static const struct recovery *recovery_of(const struct peer *peer)
{
	return &roce_qp_of(to_qp(peer->qp))->tx.recovery;
}

static bool is_confirmed(const struct peer *peer)
{
	return recovery_of(peer)->reorder.confidence == REORDER_CONFIRMED;
}

static void recovery_peer_with_reorder_buffer_gets_missing_packets_only(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer);

	/* Lost in the middle of a GSO burst. */
	response(peer, first + 5, NAK_SEQUENCE);
	assert_true(expect_packets(peer, first + 5, first + 6));
	/* Followed by new packets, as far as the window permits. */
	assert_in_range(take_rest(peer, 3 * FIRST_WINDOW), 3 * FIRST_WINDOW + 5,
			3 * FIRST_WINDOW + 10);
	/* The second loss of that window. */
	response(peer, first + 50, NAK_SEQUENCE);
	assert_true(is_confirmed(peer));
	expect_packets(peer, first + 50, first + 51);
}

static void recovery_peer_with_reorder_buffer_gets_new_packets_meanwhile(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end, then, window;

	response(peer, first + 5, NAK_SEQUENCE);
	expect_packets(peer, first + 5, first + 6);
	end = take_rest(peer, 3 * FIRST_WINDOW);
	response(peer, first + 20, NAK_SEQUENCE);
	expect_packets(peer, first + 20, first + 21);
	then = take_rest(peer, end);
	/* Without a response the requester continues at the same rate. */
	wait_ns(peer, RTT_NS / 2);
	then = take_rest(peer, then);
	window = roce_qp_of(to_qp(peer->qp))->tx.cc.cwnd_pkts;
	assert_in_range(then - end, window / 3, window * 2 / 3);
	wait_ns(peer, RTT_NS / 2);
	then = take_rest(peer, then);
	assert_in_range(then - end, window * 3 / 4, window);
}

static void recovery_peer_without_reorder_buffer_gets_everything(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end;
	struct packet packet;

	response(peer, first + 5, NAK_SEQUENCE);
	assert_true(expect_packets(peer, first + 5, first + 6));
	end = take_rest(peer, 3 * FIRST_WINDOW);
	/* The peer accepted that packet and no other. */
	response(peer, first + 5, ACK_SYNDROME);
	assert_false(is_confirmed(peer));
	expect_packets(peer, first + 6, end);
	take_rest(peer, end);
	response(peer, end - 1, ACK_SYNDROME);
	first = end;
	while (peer_next(peer, &packet))
		end = psn_sub(packet.psn, PSN(0)) + 1;
	/*
	 * The next loss is repaired by go-back-N within the window; after the following one
	 * selective repeat is tried again.
	 */
	response(peer, first + 9, NAK_SEQUENCE);
	expect_packets(peer, first + 9, first + 39);
	while (peer_next(peer, &packet))
		;
	response(peer, end - 1, ACK_SYNDROME);
	first = end;
	while (peer_next(peer, &packet))
		end = psn_sub(packet.psn, PSN(0)) + 1;
	response(peer, first + 3, NAK_SEQUENCE);
	assert_true(expect_packets(peer, first + 3, first + 4));
	take_rest(peer, end);
}

static void recovery_second_nak_of_same_psn_shows_no_reorder_buffer(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end;

	response(peer, first + 5, NAK_SEQUENCE);
	expect_packets(peer, first + 5, first + 6);
	end = take_rest(peer, 3 * FIRST_WINDOW);
	response(peer, first + 6, NAK_SEQUENCE);
	expect_packets(peer, first + 6, end);
}

/*
 * The first two packets, of which the first has a RETH, form one GSO burst; the other packets of
 * the first window another.
 */
static void recovery_lost_gso_train_is_retransmitted_whole(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, MESSAGE_PACKETS * PEER_MTU, 0);
	expect_packets(peer, 0, FIRST_WINDOW);
	response(peer, 0, NAK_SEQUENCE);
	assert_true(expect_packets(peer, 0, 2));
	expect_nothing(peer);
	response(peer, 5, ACK_SYNDROME);
	assert_true(is_confirmed(peer));
}

/* Adds a packet that is sent for the first time to the batch. */
static void commit(struct roce_qp *rqp, uint32_t psn)
{
	static uint8_t payload[PEER_MTU];
	struct packet packet = {.opcode = OPCODE(RC, SEND_MIDDLE), .psn = psn};
	struct roce_slot *slot = batch_reserve(rqp->roce);

	assert_non_null(slot);
	slot->iov[0] = (struct iovec){payload, sizeof(payload)};
	batch_commit(rqp, &packet, 1);
	batch_note(rqp, psn);
	rqp->tx.max_psn = psn_next(psn);
}

static void bursts_pkts_counts_packets_of_own_queue_pair(void **state)
{
	const struct world_qp_attr attr = {.type = IBV_QPT_RC, .mtu = IBV_MTU_256, .max_wr = 1};
	struct peer *peer = *state;
	struct ibv_qp *qp = world_create_qp(peer->node, &attr);
	struct roce_qp *own = roce_qp_of(to_qp(peer->qp)), *other;

	world_connect_to(qp, peer_gid, PEER_QPN + 1, PSN(0), PSN(0), &attr);
	other = roce_qp_of(to_qp(qp));
	commit(own, PSN(0));
	commit(own, PSN(1));
	commit(other, PSN(0));
	commit(other, PSN(1));
	commit(other, PSN(2));
	batch_flush(own->roce);
	commit(other, PSN(3));
	commit(own, PSN(2));
	commit(own, PSN(3));
	commit(own, PSN(4));
	batch_flush(own->roce);
	/* Packets that are sent alone do not extend the burst before them. */
	commit(own, PSN(5));
	batch_flush(own->roce);
	commit(other, PSN(4));
	commit(own, PSN(6));
	batch_flush(own->roce);
	assert_int_equal(bursts_pkts(own, PSN(0)), 2);
	assert_int_equal(bursts_pkts(own, PSN(2)), 3);
	assert_int_equal(bursts_pkts(own, PSN(5)), 1);
	assert_int_equal(bursts_pkts(own, PSN(6)), 1);
	assert_int_equal(bursts_pkts(other, PSN(0)), 3);
	assert_int_equal(bursts_pkts(other, PSN(4)), 1);
	ibv_destroy_qp(qp);
}

static void recovery_recent_retransmission_is_not_repeated(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer), end;

	response(peer, first + 5, NAK_SEQUENCE);
	expect_packets(peer, first + 5, first + 6);
	end = take_rest(peer, 3 * FIRST_WINDOW);
	response(peer, first + 6, NAK_SEQUENCE);
	expect_packets(peer, first + 6, end);
	end = take_rest(peer, end);
	/* A NAK of packets sent before the timeout. */
	peer_answer(peer, PSN(first + 8), NAK_SEQUENCE);
	take_rest(peer, end);
	wait_ns(peer, RTT_NS / 2);
	response(peer, first + 10, NAK_SEQUENCE);
	expect_packets(peer, first + 10, first + 25);
}

static void recovery_outstanding_read_needs_go_back_n(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, 10 * PEER_MTU, 0);
	peer_post_send(peer, IBV_WR_RDMA_READ, PEER_MTU, 0);
	peer_post_send(peer, IBV_WR_RDMA_WRITE, 4 * PEER_MTU, 0);
	while (peer_next(peer, &packet))
		;
	response(peer, 5, NAK_SEQUENCE);
	expect_packets(peer, 5, 15);
	expect_nothing(peer);
}

static void recovery_first_timeout_retransmits_gap_again(void **state)
{
	struct peer *peer = *state;
	uint32_t first = start(peer);
	struct packet packet;
	uint32_t window;

	response(peer, first + 5, NAK_SEQUENCE);
	response(peer, first + 20, NAK_SEQUENCE);
	while (peer_next(peer, &packet))
		;
	window = roce_qp_of(to_qp(peer->qp))->tx.cc.cwnd_pkts;
	while (!peer_counter(peer, ROCE_TIMEOUTS)) {
		while (peer_next(peer, &packet))
			;
		wait_ns(peer, RTT_NS / 10);
	}
	expect_packets(peer, first + 20, first + 21);
	assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.cc.cwnd_pkts, window);
	/* The second timeout is treated as congestion and reduces the window. */
	while (peer_counter(peer, ROCE_TIMEOUTS) < 2)
		wait_ns(peer, RTT_NS / 10);
	assert_in_range(roce_qp_of(to_qp(peer->qp))->tx.cc.cwnd_pkts, 1, 8);
}

/* The process was not scheduled for a while: its timer is due, and the response has arrived. */
static void recovery_pending_responses_precede_timeout(void **state)
{
	struct peer *peer = *state;
	uint32_t end_psn = PSN(3 * FIRST_WINDOW);
	struct packet ack = {
		.opcode = OPCODE(RC, ACK), .psn = psn_prev(end_psn), .syndrome = ACK_SYNDROME};

	start(peer);
	peer_send(peer, ack, NULL, 0);
	peer->world.now_ns += 100 * MS;
	/* Timers are run first. */
	world_turn(&peer->world);
	assert_int_equal(peer_counter(peer, ROCE_TIMEOUTS), 0);
	assert_int_equal(peer_counter(peer, ROCE_PACKETS_RESENT), 0);
	assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.una_psn, end_psn);
	/* Without any response the timeout is processed. */
	peer->world.now_ns += 100 * MS;
	world_turn(&peer->world);
	assert_int_equal(peer_counter(peer, ROCE_TIMEOUTS), 1);
}

static int some_fd(struct link *link)
{
	(void)link;
	return 0;
}

/* Such a thread receives nothing in a run if the descriptor of the link has not woken it. */
static void recovery_pending_responses_precede_timeout_in_waiting_thread(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;
	struct link *link = roce_of(engine)->link;
	const struct link_ops *ops = link->ops;
	struct link_ops with_fd = *ops;
	struct packet ack = {.opcode = OPCODE(RC, ACK), .psn = PSN(0), .syndrome = ACK_SYNDROME};

	with_fd.fd = some_fd;
	for (int is_serving = 0; is_serving < 2; is_serving++, ack.psn = psn_add(ack.psn, 1)) {
		peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_MTU, 0);
		expect_packets(peer, (uint32_t)is_serving, (uint32_t)is_serving + 1);
		peer_send(peer, ack, NULL, 0);
		link->ops = &with_fd;
		engine->progress.state = PROGRESS_THREAD;
		engine->run_by = is_serving ? RUN_BY_SERVER : RUN_BY_THREAD;
		peer->world.now_ns += 10000 * MS;
		world_turn(&peer->world);
		engine->run_by = RUN_BY_CALL;
		engine->progress.state = PROGRESS_POLLED;
		link->ops = ops;
		assert_int_equal(peer_counter(peer, ROCE_TIMEOUTS), 0);
		assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.una_psn, psn_add(ack.psn, 1));
	}
}

/* The packet is sent again by the timeout, and then the peer has no receive for it. */
static void recovery_wait_after_rnr_nak_is_not_measured(void **state)
{
	struct peer *peer = *state;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_MTU, 0);
	expect_packets(peer, 0, 1);
	while (!peer_counter(peer, ROCE_TIMEOUTS))
		wait_ns(peer, RTT_NS);
	assert_true(recovery_of(peer)->is_timing);
	wait_ns(peer, RTT_NS);
	expect_packets(peer, 0, 1);
	response(peer, 0, RNR_NAK_10_MS);
	expect_nothing(peer);
	wait_ns(peer, 12 * MS);
	expect_packets(peer, 0, 1);
	response(peer, 0, ACK_SYNDROME);
	assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.una_psn, PSN(1));
	assert_int_equal(recovery_of(peer)->rtt.srtt_ns, 0);
}

/*
 * The first packet of a connection is lost several times, and acknowledged after a short round
 * trip. The next loss is recovered by retransmission timeouts, which use no retry.
 */
static void recovery_losses_of_first_packet_do_not_extend_timeout(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_MTU, 0);
	while (peer_counter(peer, ROCE_TIMEOUTS) < 4)
		wait_ns(peer, RTT_NS);
	while (peer_next(peer, &packet))
		;
	response(peer, 0, ACK_SYNDROME);
	assert_int_equal(roce_qp_of(to_qp(peer->qp))->tx.una_psn, PSN(1));
	peer_post_send(peer, IBV_WR_RDMA_WRITE, PEER_MTU, 0);
	while (peer_counter(peer, ROCE_TIMEOUTS) < 6)
		wait_ns(peer, RTT_NS);
	assert_int_equal(recovery_of(peer)->retries_left, to_qp(peer->qp)->attr.retry_cnt);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(recovery_peer_with_reorder_buffer_gets_missing_packets_only),
		on_peer(recovery_peer_with_reorder_buffer_gets_new_packets_meanwhile),
		on_peer(recovery_peer_without_reorder_buffer_gets_everything),
		on_peer(recovery_second_nak_of_same_psn_shows_no_reorder_buffer),
		on_peer(recovery_lost_gso_train_is_retransmitted_whole),
		on_peer(bursts_pkts_counts_packets_of_own_queue_pair),
		on_peer(recovery_recent_retransmission_is_not_repeated),
		on_peer(recovery_outstanding_read_needs_go_back_n),
		on_peer(recovery_first_timeout_retransmits_gap_again),
		on_peer(recovery_pending_responses_precede_timeout),
		on_peer(recovery_pending_responses_precede_timeout_in_waiting_thread),
		on_peer(recovery_wait_after_rnr_nak_is_not_measured),
		on_peer(recovery_losses_of_first_packet_do_not_extend_timeout),
	};

	return cmocka_run_group_tests_name("roce-recovery", tests, NULL, NULL);
}
