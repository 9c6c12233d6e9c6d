/* SPDX-License-Identifier: BSD-2-Clause */

/* XRC at the process that owns the SRQ: the execution of forwarded requests. */

#include "xrc_forward_kit.h"

#include <errno.h>
#include <string.h>

#include "../../with_locks.h"

#define RNR_SYNDROME (0x20 | 14)
#define PRIVATE_BYTE 0x5e
#define REMOTE_QPN   (OTHER << IPC_SLOT_SHIFT | 5)

static struct xrc_forward_attach attach_of(const struct peer *peer)
{
	struct xrc_forward_attach attach = {
		.domain_id = DOMAIN_ID,
		.dev_id = peer->node->device.info.dev_id,
		.remote_qpn = PEER_QPN,
		.path_mtu = IBV_MTU_256,
		.access = ALL,
		.max_dest_rd_atomic = 2,
		.min_rnr_timer = 14,
		.hop_limit = 1,
	};

	memcpy(attach.local_gid, peer->node->gid, GID_BYTES);
	memcpy(attach.remote_gid, peer_gid, GID_BYTES);
	return attach;
}

static void attach_with(struct peer *peer, uint32_t slot, uint32_t qpn,
			const struct xrc_forward_attach *attach)
{
	const struct xrc_forward_msg msg = {
		.type = XRC_FORWARD_ATTACH, .qpn = qpn, .attach = *attach};

	kit_receive(peer, slot, &msg);
}

static void attach(struct peer *peer)
{
	const struct xrc_forward_attach attach = attach_of(peer);

	attach_with(peer, OTHER, REMOTE_QPN, &attach);
}

static struct xrc_forward_msg request_msg(uint32_t burst, uint32_t serial, struct packet packet,
					  size_t payload_bytes)
{
	packet.payload = kit_bytes;
	packet.payload_bytes = payload_bytes;
	return (struct xrc_forward_msg){
		.type = XRC_FORWARD_REQUEST,
		.qpn = REMOTE_QPN,
		.request = {.burst = burst, .serial = serial, .msn = 3, .packet = packet},
	};
}

/* Forwards a request as the XRC target QP process does. */
static void pass(struct peer *peer, uint32_t burst, uint32_t serial, struct packet packet,
		 size_t payload_bytes)
{
	const struct xrc_forward_msg msg = request_msg(burst, serial, packet, payload_bytes);

	kit_receive(peer, OTHER, &msg);
}

static void expect_report(uint32_t burst, uint32_t serial, enum disposition disposition,
			  uint32_t psn)
{
	const struct xrc_forward_msg *msg = kit_expect_msg(OTHER, XRC_FORWARD_REPORT);

	assert_int_equal(msg->qpn, REMOTE_QPN);
	assert_int_equal(msg->report.burst, burst);
	assert_int_equal(msg->report.serial, serial);
	assert_int_equal(msg->report.disposition, disposition);
	assert_int_equal(msg->report.psn, psn);
}

static void post_recv(struct peer *peer, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, PEER_BUF_BYTES, peer->node->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(kit_srq, &wr, &bad), 0);
}

static void expect_wc(struct peer *peer, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, REMOTE_QPN);
}

static void xrc_forward_executor_executes_responds_and_reports(void **state)
{
	struct peer *peer = *state;
	struct packet packet;

	attach(peer);
	post_recv(peer, 1);
	pass(peer, 4, 10, kit_packet(peer, OPCODE_SEND_FIRST, PSN(7), kit_srqn), PEER_MTU);
	kit_expect_aeth(peer, PSN(7), ACK_SYNDROME);
	expect_report(4, 10, DISPOSITION_ACCEPTED, PSN(8));
	/* The message continues in another burst. */
	pass(peer, 5, 11, kit_packet(peer, OPCODE_SEND_LAST, PSN(8), kit_srqn), 8);
	kit_expect_aeth(peer, PSN(8), ACK_SYNDROME);
	expect_report(5, 11, DISPOSITION_ACCEPTED, PSN(9));
	expect_wc(peer, 1, IBV_WC_SUCCESS);
	pass(peer, 5, 12, kit_packet(peer, OPCODE_READ_REQUEST, PSN(9), kit_srqn), 0);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, READ_RESPONSE_ONLY));
	assert_int_equal(packet.psn, PSN(9));
	expect_report(5, 12, DISPOSITION_ACCEPTED, PSN(10));
	kit_expect_no_msg();
	assert_int_equal(kit_state(peer), IBV_QPS_RTS);
}

static void xrc_forward_executor_burst_ends_with_rnr_nak(void **state)
{
	struct peer *peer = *state;

	attach(peer);
	pass(peer, 1, 1, kit_packet(peer, OPCODE_SEND_ONLY, PSN(0), kit_srqn), 8);
	expect_report(1, 1, DISPOSITION_RNR, PSN(0));
	kit_expect_aeth(peer, PSN(0), RNR_SYNDROME);
	post_recv(peer, 1);
	pass(peer, 1, 2, kit_packet(peer, OPCODE_SEND_ONLY, PSN(1), kit_srqn), 8);
	pass(peer, 1, 3, kit_packet(peer, OPCODE_SEND_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	pass(peer, 2, 1, kit_packet(peer, OPCODE_SEND_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
	expect_report(2, 1, DISPOSITION_ACCEPTED, PSN(1));
	expect_wc(peer, 1, IBV_WC_SUCCESS);
}

static void xrc_forward_executor_replayed_atomic_is_not_executed_again(void **state)
{
	struct peer *peer = *state;
	struct packet packet = kit_packet(peer, OPCODE_FETCH_ADD, PSN(0), kit_srqn), response;
	struct xrc_forward_msg replay;
	uint64_t word;

	packet.swap_or_add = 5;
	memset(peer->node->buf, 0, 8);
	attach(peer);
	pass(peer, 1, 1, packet, 0);
	assert_true(peer_next(peer, &response));
	assert_int_equal(response.opcode, OPCODE(XRC, ATOMIC_ACK));
	replay = request_msg(1, 0, packet, 0);
	replay.type = XRC_FORWARD_REPLAY;
	kit_receive(peer, OTHER, &replay);
	assert_true(peer_next(peer, &response));
	assert_int_equal(response.opcode, OPCODE(XRC, ATOMIC_ACK));
	assert_int_equal(response.atomic_original, 0);
	memcpy(&word, peer->node->buf, sizeof(word));
	assert_int_equal(word, 5);
	expect_report(1, 1, DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_no_msg();
}

static void xrc_forward_executor_burst_ends_with_rejected_request(void **state)
{
	struct peer *peer = *state;
	struct packet packet = kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn);

	attach(peer);
	packet.rkey = ~packet.rkey;
	pass(peer, 1, 1, packet, 8);
	kit_expect_aeth(peer, PSN(0), NAK(AETH_NAK_REMOTE_ACCESS));
	expect_report(1, 1, DISPOSITION_RKEY, PSN(0));
	pass(peer, 1, 2, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	/* The process's own queue pair is not affected. */
	assert_int_equal(kit_state(peer), IBV_QPS_RTS);
	assert_int_equal(peer_event(peer), -1);
}

static void xrc_forward_executor_incomplete_message_ends_with_its_qp(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg detach = {.type = XRC_FORWARD_DETACH, .qpn = REMOTE_QPN};

	for (int i = 0; i < 2; i++) {
		attach(peer);
		post_recv(peer, 1);
		pass(peer, 1, 1, kit_packet(peer, OPCODE_SEND_FIRST, PSN(0), kit_srqn), PEER_MTU);
		kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
		expect_report(1, 1, DISPOSITION_ACCEPTED, PSN(1));
		if (i)
			WITH_LOCKS(&peer->node->engine,
				   xrc_forward_peer_exited(&peer->node->engine, OTHER));
		else
			kit_receive(peer, OTHER, &detach);
		expect_wc(peer, 1, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(roce_of(&peer->node->engine)->xrc.executors.count, 0);
	}
}

/* The target QP was moved to ERR or destroyed while the link accepted no more responses. */
static void xrc_forward_executor_long_read_ends_with_its_qp(void **state)
{
	const struct xrc_forward_msg detach = {.type = XRC_FORWARD_DETACH, .qpn = REMOTE_QPN};
	const struct sim_faults full = {.refuse = SIM_CERTAIN}, none = {0};
	struct peer *peer = *state;
	struct packet read = kit_packet(peer, OPCODE_READ_REQUEST, PSN(0), kit_srqn), packet;

	attach(peer);
	read.va = (uintptr_t)peer->node->buf;
	read.dma_length_bytes = PEER_BUF_BYTES;
	sim_net_set_faults(peer->world.net, &full);
	pass(peer, 1, 1, read, 0);
	sim_net_set_faults(peer->world.net, &none);
	memset(peer->node->buf, PRIVATE_BYTE, PEER_BUF_BYTES);
	kit_receive(peer, OTHER, &detach);
	peer->world.now_ns += 1000000;
	peer_settle(peer);
	while (peer_next(peer, &packet))
		assert_int_not_equal(packet.payload[0], PRIVATE_BYTE);
}

static void xrc_forward_executor_invalid_attach_creates_no_executor(void **state)
{
	struct peer *peer = *state;
	struct xrc_forward_attach what;
	uint32_t qpn = REMOTE_QPN;

#define CREATES_NONE(change, slot)                                                      \
	do {                                                                            \
		what = attach_of(peer);                                                 \
		change;                                                                 \
		attach_with(peer, slot, qpn, &what);                                    \
		qpn = REMOTE_QPN;                                                       \
		assert_int_equal(roce_of(&peer->node->engine)->xrc.executors.count, 0); \
	} while (0)
	CREATES_NONE((void)0, THIRD);
	CREATES_NONE(qpn |= 1u << 24, OTHER);
	CREATES_NONE(what.domain_id++, OTHER);
	CREATES_NONE(what.domain_id = 0, OTHER);
	CREATES_NONE(what.dev_id++, OTHER);
	CREATES_NONE(what.remote_qpn = 1u << 24, OTHER);
	CREATES_NONE(what.path_mtu = 0, OTHER);
	CREATES_NONE(what.path_mtu = IBV_MTU_4096 + 1, OTHER);
	CREATES_NONE(what.max_dest_rd_atomic = 255, OTHER);
	CREATES_NONE(what.min_rnr_timer = 32, OTHER);
	CREATES_NONE(what.local_gid[0] ^= 1, OTHER);
	/* The XRC target QP process is notified, and sends the response. */
	pass(peer, 1, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	expect_report(1, 1, DISPOSITION_SRQ, PSN(0));
	kit_expect_nothing(peer);
	assert_int_equal(peer->node->buf[0], 0);
}

/*
 * A process that is rejected while the channel is full must be notified later, or it would wait
 * indefinitely.
 */
static void request_without_executor_is_reported_when_there_is_space(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	pass(peer, 1, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	pass(peer, 2, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	kit_send_error = 0;
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, THIRD));
	kit_expect_no_msg();
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	/* The last report of each queue pair. */
	expect_report(2, 1, DISPOSITION_SRQ, PSN(0));
	kit_expect_no_msg();
}

/* If a process does not read its messages, the number of stored messages is limited. */
static void xrc_forward_executor_pending_reports_are_limited(void **state)
{
	struct peer *peer = *state;
	const struct list_head *pending = &peer->node->engine.xrc_forward.queues[OTHER].pending;
	struct packet packet = kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn);
	struct xrc_forward_msg msg = request_msg(1, 1, packet, 8);
	const struct list_head *node;
	unsigned int count = 0;

	kit_send_error = -EAGAIN;
	for (uint32_t i = 0; i < 2 * XRC_FORWARD_REPORTS_MAX; i++) {
		msg.qpn = OTHER << IPC_SLOT_SHIFT | i;
		kit_receive(peer, OTHER, &msg);
	}
	for (node = pending->next; node != pending; node = node->next)
		count++;
	assert_int_equal(count, XRC_FORWARD_REPORTS_MAX);
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, OTHER));
	assert_true(list_is_empty(pending));
}

/* The queue pairs of one process do not use all entries. */
static void xrc_forward_executor_of_one_process_is_limited(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_attach attach = attach_of(peer);
	uint32_t count;

	for (uint32_t i = 0; i < IPC_SLOT_QPNS; i++)
		attach_with(peer, OTHER, OTHER << IPC_SLOT_SHIFT | i, &attach);
	count = roce_of(&peer->node->engine)->xrc.executors.count;
	assert_in_range(count, 1024, IPC_SLOT_QPNS - 1);
	attach_with(peer, THIRD, THIRD << IPC_SLOT_SHIFT, &attach);
	assert_int_equal(roce_of(&peer->node->engine)->xrc.executors.count, count + 1);
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, OTHER));
	assert_int_equal(roce_of(&peer->node->engine)->xrc.executors.count, 1);
	/* The entry is freed again. */
	attach_with(peer, OTHER, OTHER << IPC_SLOT_SHIFT, &attach);
	assert_int_equal(roce_of(&peer->node->engine)->xrc.executors.count, 2);
}

static void xrc_forward_executor_drops_other_packets(void **state)
{
	struct peer *peer = *state;
	struct packet packet = kit_packet(peer, OPCODE_ACK, PSN(0), kit_srqn);

	attach(peer);
	pass(peer, 1, 1, packet, 0);
	packet = kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn);
	packet.opcode = OPCODE(RC, WRITE_ONLY);
	pass(peer, 1, 1, packet, 8);
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	pass(peer, 1, 1, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
	/* Out of order within the burst. */
	pass(peer, 1, 2, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(3), kit_srqn), 8);
	pass(peer, 1, 2, kit_packet(peer, OPCODE_WRITE_ONLY, PSN(0), kit_srqn), 8);
	kit_expect_nothing(peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc_forward_executor_executes_responds_and_reports),
		TEST(xrc_forward_executor_burst_ends_with_rnr_nak),
		TEST(xrc_forward_executor_replayed_atomic_is_not_executed_again),
		TEST(xrc_forward_executor_burst_ends_with_rejected_request),
		TEST(xrc_forward_executor_incomplete_message_ends_with_its_qp),
		TEST(xrc_forward_executor_long_read_ends_with_its_qp),
		TEST(xrc_forward_executor_invalid_attach_creates_no_executor),
		TEST(request_without_executor_is_reported_when_there_is_space),
		TEST(xrc_forward_executor_pending_reports_are_limited),
		TEST(xrc_forward_executor_of_one_process_is_limited),
		TEST(xrc_forward_executor_drops_other_packets),
	};

	return cmocka_run_group_tests_name("xrc_forward_executor", tests, NULL, NULL);
}
