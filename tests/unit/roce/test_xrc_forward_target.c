/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * XRC at the XRC target QP process: the requests that it forwards, and the responses that it sends.
 */

#include "xrc_forward_kit.h"
#include "../../with_locks.h"

#include <errno.h>
#include <string.h>

#define SRQN(slot) ((uint32_t)(slot) << IPC_SLOT_SHIFT | 1)

static const struct xrc_forward_msg *expect_request(uint32_t slot, uint32_t psn)
{
	const struct xrc_forward_msg *msg = kit_expect_msg(slot, XRC_FORWARD_REQUEST);

	assert_int_equal(msg->request.packet.psn, psn);
	return msg;
}

static struct xrc_forward_msg report_msg(const struct xrc_forward_msg *request_msg,
					 enum disposition disposition, uint32_t psn)
{
	return (struct xrc_forward_msg){
		.type = XRC_FORWARD_REPORT,
		.qpn = request_msg->qpn,
		.report =
			{
				.burst = request_msg->request.burst,
				.serial = request_msg->request.serial,
				.psn = psn,
				.msn = request_msg->request.msn + 1,
				.disposition = disposition,
			},
	};
}

static void report_of(struct peer *peer, uint32_t slot, const struct xrc_forward_msg *request_msg,
		      enum disposition disposition, uint32_t psn)
{
	const struct xrc_forward_msg msg = report_msg(request_msg, disposition, psn);

	kit_receive(peer, slot, &msg);
}

static void report(struct peer *peer, const struct xrc_forward_msg *request_msg,
		   enum disposition disposition, uint32_t psn)
{
	report_of(peer, OTHER, request_msg, disposition, psn);
}

static void request_is_forwarded_unchanged(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *msg;

	kit_request(peer, OPCODE_SEND_ONLY_IMM, PSN(0), SRQN(OTHER), 9);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	assert_int_equal(kit_sent[0].msg.attach.domain_id, DOMAIN_ID);
	assert_int_equal(kit_sent[0].msg.attach.remote_qpn, PEER_QPN);
	assert_int_equal(kit_sent[0].msg.attach.access, ALL);
	assert_memory_equal(kit_sent[0].msg.attach.remote_gid, peer_gid, GID_BYTES);
	msg = expect_request(OTHER, PSN(0));
	assert_int_equal(msg->qpn, peer->qp->qp_num);
	assert_int_equal(kit_sent[1].msg.request.packet.payload_bytes, 9);
	assert_memory_equal(kit_sent[1].msg.request.packet.payload, kit_bytes, 9);
	kit_expect_no_msg();
	/* The SRQ's owner sends the ACK. */
	kit_expect_nothing(peer);
	report(peer, msg, DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_nothing(peer);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
	kit_expect_no_msg();
	/* The owner is attached already. */
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	msg = expect_request(OTHER, PSN(1));
	assert_int_equal(msg->request.msn, 1);
	kit_expect_no_msg();
}

static void xrc_forward_target_no_response_is_sent_during_burst(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *first, *second;

	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	first = expect_request(OTHER, PSN(0));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	second = expect_request(OTHER, PSN(1));
	assert_int_equal(second->request.burst, first->request.burst);
	/*
	 * Its own waits, a third process's waits, what was lost is not asked for, and a duplicate
	 * has no answer.
	 */
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), kit_srqn, 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(3), SRQN(THIRD), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(5), kit_srqn, 8);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	report(peer, first, DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	report(peer, second, DISPOSITION_ACCEPTED, PSN(2));
	/*
	 * The own request was next, and is acknowledged before the request of the third process is
	 * forwarded.
	 */
	kit_expect_aeth(peer, PSN(2), ACK_SYNDROME);
	kit_expect_msg(THIRD, XRC_FORWARD_ATTACH);
	expect_request(THIRD, PSN(3));
	kit_expect_nothing(peer);
	kit_expect_no_msg();
}

static void xrc_forward_target_gap_is_reported_after_burst(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *first;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	first = expect_request(OTHER, PSN(0));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	report(peer, first, DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_aeth(peer, PSN(1), NAK(AETH_NAK_PSN_SEQUENCE));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	expect_request(OTHER, PSN(1));
	expect_request(OTHER, PSN(2));
	kit_expect_no_msg();
}

static void request_after_rnr_is_forwarded_in_a_new_burst(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *first, *again;

	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_request(peer, OPCODE_SEND_ONLY, PSN(2), kit_srqn, 9);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	first = expect_request(OTHER, PSN(0));
	expect_request(OTHER, PSN(1));
	report(peer, first, DISPOSITION_RNR, PSN(0));
	/*
	 * The owner has sent the NAK; following requests are not forwarded before the
	 * retransmission.
	 */
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	again = expect_request(OTHER, PSN(0));
	assert_int_not_equal(again->request.burst, first->request.burst);
	/* A message of a burst that is over is ignored. */
	report(peer, first, DISPOSITION_ACCEPTED, PSN(1));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	report(peer, again, DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
}

static void request_without_space_is_deferred(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), kit_srqn, 8);
	kit_expect_nothing(peer);
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, THIRD));
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	kit_expect_nothing(peer);
	kit_send_error = 0;
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_aeth(peer, PSN(1), ACK_SYNDROME);
}

static void expect_end(struct peer *peer, uint32_t psn, uint8_t syndrome, enum ibv_event_type event)
{
	kit_expect_aeth(peer, psn, syndrome);
	assert_int_equal(kit_state(peer), IBV_QPS_ERR);
	assert_int_equal(peer_event(peer), event);
	assert_int_equal(peer_event(peer), -1);
}

static void request_for_unknown_process_ends_the_qp(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_send_error = -ENOENT;
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	expect_end(peer, PSN(0), NAK(AETH_NAK_INVALID_REQUEST), IBV_EVENT_QP_REQ_ERR);
}

static void exit_of_the_process_ends_a_deferred_request(void **state)
{
	struct peer *peer = *state;

	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_send_error = -ENOENT;
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, OTHER));
	expect_end(peer, PSN(0), NAK(AETH_NAK_INVALID_REQUEST), IBV_EVENT_QP_REQ_ERR);
}

static void xrc_forward_target_reported_error_ends_qp(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	expect_request(OTHER, PSN(0));
	report(peer, expect_request(OTHER, PSN(1)), DISPOSITION_SRQ, PSN(1));
	expect_end(peer, PSN(1), NAK(AETH_NAK_INVALID_REQUEST), IBV_EVENT_QP_REQ_ERR);
	kit_expect_no_msg();
	/* The response was lost, and the requester processes the NAK only after it. */
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	assert_int_equal(kit_expect_msg(OTHER, XRC_FORWARD_REPLAY)->request.packet.psn, PSN(0));
	kit_expect_aeth(peer, PSN(1), NAK(AETH_NAK_INVALID_REQUEST));
	world_reset_qp(peer->qp);
	assert_int_equal(kit_expect_msg(OTHER, XRC_FORWARD_DETACH)->qpn, peer->qp->qp_num);
	kit_expect_no_msg();
}

static void wait_long(struct peer *peer)
{
	peer->world.now_ns += UINT64_C(1000000000);
}

static void expect_stall_nak(struct peer *peer, uint32_t psn)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(XRC, ACK));
	assert_int_equal(packet.psn, psn);
	assert_int_equal(aeth_kind(packet.syndrome), AETH_KIND_RNR_NAK);
	/* The RNR timer value is long enough to prevent frequent retries. */
	assert_true(aeth_rnr_wait_ns(aeth_code(packet.syndrome)) >= UINT64_C(10000000));
}

/* A stopped owner delays the requester and uses none of its retries. */
static void xrc_forward_target_stalled_executor_causes_rnr_nak(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *first, *second;

	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	first = expect_request(OTHER, PSN(0));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	second = expect_request(OTHER, PSN(1));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	wait_long(peer);
	report(peer, first, DISPOSITION_ACCEPTED, PSN(1));
	/* The owner has just sent a message. */
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	wait_long(peer);
	/* The ACK of a completed request was lost: this one acknowledges it. */
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	expect_stall_nak(peer, PSN(1));
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	expect_stall_nak(peer, PSN(1));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), kit_srqn, 8);
	expect_stall_nak(peer, PSN(1));
	kit_expect_nothing(peer);
	kit_expect_no_msg();
	report(peer, second, DISPOSITION_ACCEPTED, PSN(2));
	kit_expect_aeth(peer, PSN(2), ACK_SYNDROME);
	kit_expect_nothing(peer);
}

static void xrc_forward_target_long_deferral_causes_rnr_nak(void **state)
{
	struct peer *peer = *state;

	wait_long(peer);
	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	for (int i = 0; i < 3; i++) {
		wait_long(peer);
		kit_request(peer, OPCODE_SEND_ONLY, PSN(0), SRQN(OTHER), 9);
		expect_stall_nak(peer, PSN(0));
		kit_expect_nothing(peer);
	}
	kit_send_error = 0;
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	/* The same if the owner already knows the queue pair. */
	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
	kit_expect_nothing(peer);
	for (int i = 0; i < 3; i++) {
		wait_long(peer);
		kit_request(peer, OPCODE_SEND_ONLY, PSN(1), SRQN(OTHER), 9);
		expect_stall_nak(peer, PSN(1));
		kit_expect_nothing(peer);
	}
}

static void connect_again(struct peer *peer)
{
	const struct world_qp_attr attr = {.mtu = IBV_MTU_256, .access = ALL, .rd_atomic = 2};

	world_connect_to(peer->qp, peer_gid, PEER_QPN, PSN(0), 0, &attr);
}

/* Otherwise the owner would remove the new queue pair. */
static void detach_is_sent_before_the_next_attach(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	kit_send_error = -EAGAIN;
	world_reset_qp(peer->qp);
	connect_again(peer);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_no_msg();
	/* There is room, but the waiting message has not been sent yet. */
	kit_send_error = 0;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_DETACH);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	expect_request(OTHER, PSN(0));
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	kit_expect_no_msg();
}

/* A full channel to one process does not delay messages to another. */
static void replay_without_space_is_dropped(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(THIRD), 0);
	kit_expect_msg(THIRD, XRC_FORWARD_ATTACH);
	report_of(peer, THIRD, expect_request(THIRD, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	kit_send_error = -EAGAIN;
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(THIRD), 0);
	kit_send_error = 0;
	WITH_LOCKS(&peer->node->engine, xrc_forward_space(&peer->node->engine, OTHER));
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	expect_request(OTHER, PSN(1));
}

static void exit_during_a_burst_ends_the_qp(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *first;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), SRQN(OTHER), 8);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	first = expect_request(OTHER, PSN(0));
	report(peer, first, DISPOSITION_ACCEPTED, PSN(1));
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, THIRD));
	assert_int_equal(kit_state(peer), IBV_QPS_RTS);
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, OTHER));
	expect_end(peer, PSN(1), NAK(AETH_NAK_REMOTE_OPERATION), IBV_EVENT_QP_FATAL);
	/*
	 * The owner had acknowledged one more request, so the requester retransmits from the last
	 * one.
	 */
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_aeth(peer, PSN(2), NAK(AETH_NAK_REMOTE_OPERATION));
}

/*
 * All forwarded packets are reported, but the message is incomplete: the NAK is for its next
 * packet.
 */
static void exit_within_a_message_ends_the_qp(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_SEND_FIRST, PSN(0), SRQN(OTHER), PEER_MTU);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	kit_expect_nothing(peer);
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, OTHER));
	expect_end(peer, PSN(1), NAK(AETH_NAK_REMOTE_OPERATION), IBV_EVENT_QP_FATAL);
}

static void exit_after_a_burst_does_not_end_the_qp(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	WITH_LOCKS(&peer->node->engine, xrc_forward_peer_exited(&peer->node->engine, OTHER));
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(1), kit_srqn, 8);
	kit_expect_aeth(peer, PSN(1), ACK_SYNDROME);
	/* The process that has the QPN range now does not know the queue pair. */
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(2), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	expect_request(OTHER, PSN(2));
}

/*
 * The memory of a READ becomes inaccessible while its response is partly sent. The NAK of the READ
 * precedes the next request, so that request must not be executed by another process.
 */
static void request_after_a_failed_read_is_not_forwarded(void **state)
{
	struct peer *peer = *state;
	struct ibv_mr *mr = ibv_reg_mr(peer->node->pd, peer->node->buf, PEER_BUF_BYTES,
				       IBV_ACCESS_REMOTE_READ);
	struct packet read, write, packet;
	uint32_t packets = PEER_BUF_BYTES / PEER_MTU;
	unsigned int responses = 0;

	assert_non_null(mr);
	read = kit_packet(peer, OPCODE_READ_REQUEST, PSN(0), kit_srqn);
	read.rkey = mr->rkey;
	read.dma_length_bytes = PEER_BUF_BYTES;
	write = kit_packet(peer, OPCODE_WRITE_ONLY, PSN(packets), SRQN(OTHER));
	peer_send(peer, read, NULL, 0);
	peer->world.now_ns += 1000;
	sim_net_advance(peer->world.net, peer->world.now_ns);
	/* One turn sends the first part of the response. */
	engine_lock(&peer->node->engine);
	roce_transport.run(&peer->node->engine);
	engine_unlock(&peer->node->engine);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	peer_send(peer, write, kit_bytes, 8);
	peer_settle(peer);
	kit_expect_no_msg();
	assert_int_equal(kit_state(peer), IBV_QPS_ERR);
	while (peer_next(peer, &packet) && packet.opcode != OPCODE(XRC, ACK))
		responses++;
	assert_in_range(responses, 1, packets - 1);
	assert_int_equal(packet.syndrome, NAK(AETH_NAK_REMOTE_ACCESS));
	assert_int_equal(packet.psn, PSN(responses));
}

static void xrc_forward_target_invalid_report_is_ignored(void **state)
{
	struct peer *peer = *state;
	const struct xrc_forward_msg *msg;
	struct xrc_forward_msg report;

	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	msg = expect_request(OTHER, PSN(0));
	report = report_msg(msg, DISPOSITION_ACCEPTED, PSN(1));
#define INVALID(slot, change)                          \
	do {                                           \
		struct xrc_forward_msg valid = report; \
		change;                                \
		kit_receive(peer, slot, &report);      \
		report = valid;                        \
	} while (0)
	INVALID(THIRD, (void)0);
	INVALID(OTHER, report.qpn ^= 1);
	INVALID(OTHER, report.qpn = UINT32_MAX);
	INVALID(OTHER, report.report.burst++);
	INVALID(OTHER, report.report.serial++);
	INVALID(OTHER, report.report.serial--);
	INVALID(OTHER, report.report.psn = PSN(2));
	INVALID(OTHER, report.report.psn = psn_prev(PSN(0)));
	INVALID(OTHER, report.report.psn |= 0xff000000);
	INVALID(OTHER, report.report.disposition = DISPOSITION_COUNT);
	INVALID(OTHER, report.report.disposition = DISPOSITION_GAP);
	INVALID(OTHER, report.report.is_inside = 2);
	kit_request(peer, OPCODE_WRITE_ONLY, PSN(0), SRQN(OTHER), 8);
	kit_expect_nothing(peer);
	kit_receive(peer, OTHER, &report);
	kit_expect_aeth(peer, PSN(0), ACK_SYNDROME);
}

static void xrc_forward_target_duplicate_read_is_replayed_by_executor(void **state)
{
	struct peer *peer = *state;

	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	kit_expect_msg(OTHER, XRC_FORWARD_ATTACH);
	report(peer, expect_request(OTHER, PSN(0)), DISPOSITION_ACCEPTED, PSN(1));
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(OTHER), 0);
	assert_int_equal(kit_expect_msg(OTHER, XRC_FORWARD_REPLAY)->request.packet.psn, PSN(0));
	/* No message to a process that never had the queue pair. */
	kit_request(peer, OPCODE_READ_REQUEST, PSN(0), SRQN(THIRD), 0);
	kit_expect_no_msg();
	kit_expect_nothing(peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(request_is_forwarded_unchanged),
		TEST(xrc_forward_target_no_response_is_sent_during_burst),
		TEST(xrc_forward_target_gap_is_reported_after_burst),
		TEST(request_after_rnr_is_forwarded_in_a_new_burst),
		TEST(request_without_space_is_deferred),
		TEST(request_for_unknown_process_ends_the_qp),
		TEST(exit_of_the_process_ends_a_deferred_request),
		TEST(xrc_forward_target_reported_error_ends_qp),
		TEST(xrc_forward_target_stalled_executor_causes_rnr_nak),
		TEST(xrc_forward_target_long_deferral_causes_rnr_nak),
		TEST(detach_is_sent_before_the_next_attach),
		TEST(replay_without_space_is_dropped),
		TEST(exit_during_a_burst_ends_the_qp),
		TEST(exit_within_a_message_ends_the_qp),
		TEST(exit_after_a_burst_does_not_end_the_qp),
		TEST(request_after_a_failed_read_is_not_forwarded),
		TEST(xrc_forward_target_invalid_report_is_ignored),
		TEST(xrc_forward_target_duplicate_read_is_replayed_by_executor),
	};

	return cmocka_run_group_tests_name("xrc_forward_target", tests, NULL, NULL);
}
