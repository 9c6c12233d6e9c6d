/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * XRC across processes (IBA A14): one process has the XRC target QP; it and others have the SRQs.
 * The sender is this process.
 */

#include "xrc_hub.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SRQN 0xfffffeu
#define NOBODY	65534

static void ibv_post_send_xrc_reaches_process_of_srq(void **state)
{
	static const uint32_t lengths[] = {0, 1, 1024, 1025, SLOT_BYTES};
	struct hub *hub = *state;
	uint64_t wr_id = 1;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (int to = 0; to < WORKERS; to++, wr_id++) {
			xrc_worker_recv(&hub->workers[to], 0, SLOT_BYTES, wr_id);
			fill_pattern(hub->buf, lengths[i], (uint8_t)wr_id);
			hub_post(hub, IBV_WR_SEND_WITH_IMM, to, 0, lengths[i], 0, wr_id);
			wc_expect(hub->cq, wr_id, IBV_WC_SUCCESS);
			hub_expect_in(hub, to, wr_id, IBV_WC_RECV, lengths[i]);
			assert_true(
				xrc_worker_holds(&hub->workers[to], 0, lengths[i], (uint8_t)wr_id));
		}
	}
	assert_int_equal(xrc_worker_ask(&hub->workers[HOME], XRC_EVENT, 0), IBV_EVENT_COMM_EST);
}

/*
 * All messages are posted at once: the processes receive them alternately, in the order of the
 * messages.
 */
static void ibv_post_send_xrc_alternating_processes_receive_in_order(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	enum { ROUNDS = 12, COUNT = ROUNDS * WORKERS * 5 };
	struct hub *hub = *state;
	uint64_t wr_id = 1;

	for (int to = 0; to < WORKERS; to++) {
		for (int i = 0; i < 2 * ROUNDS; i++)
			xrc_worker_recv(&hub->workers[to], 2 * SLOT_BYTES, SLOT_BYTES, (uint64_t)i);
		xrc_worker_fill(&hub->workers[to], SLOT_BYTES, SLOT_BYTES, (uint8_t)(to + 1));
	}
	fill_pattern(hub->buf, SLOT_BYTES, 99);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t op = 0; op < 5; op++) {
			for (int to = 0; to < WORKERS; to++, wr_id++) {
				bool is_read = opcodes[op] == IBV_WR_RDMA_READ;
				bool is_atomic = opcodes[op] == IBV_WR_ATOMIC_FETCH_AND_ADD;
				uint64_t slot = is_read ? 1 + (uint64_t)to : is_atomic ? 5 : 0;

				hub_post(hub, opcodes[op], to, slot * SLOT_BYTES,
					 is_atomic ? 8 : SLOT_BYTES,
					 is_read   ? SLOT_BYTES :
					 is_atomic ? 4 * SLOT_BYTES :
						     3 * SLOT_BYTES,
					 wr_id);
			}
		}
	}
	for (uint64_t i = 1; i <= COUNT; i++)
		wc_expect(hub->cq, i, IBV_WC_SUCCESS);
	for (int to = 0; to < WORKERS; to++) {
		struct xrc_command word = {.op = XRC_WORD, .offset = 4 * SLOT_BYTES};
		uint8_t wanted[SLOT_BYTES];

		for (int i = 0; i < 2 * ROUNDS; i++)
			hub_expect_in(hub, to, (uint64_t)i,
				      i % 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, SLOT_BYTES);
		assert_true(xrc_worker_holds(&hub->workers[to], 2 * SLOT_BYTES, SLOT_BYTES, 99));
		assert_true(xrc_worker_holds(&hub->workers[to], 3 * SLOT_BYTES, SLOT_BYTES, 99));
		assert_int_equal(xrc_worker_do(&hub->workers[to], word).value, 5 * ROUNDS);
		fill_pattern(wanted, SLOT_BYTES, (uint8_t)(to + 1));
		assert_memory_equal(hub->buf + (1 + (size_t)to) * SLOT_BYTES, wanted, SLOT_BYTES);
	}
}

/* More data than rings and windows hold, in messages of many packets. */
static void ibv_post_send_xrc_long_alternating_messages_arrive(void **state)
{
	enum { COUNT = 60 };
	struct hub *hub = *state;

	fill_pattern(hub->buf, SIDE_BUF_BYTES, 7);
	for (int i = 0; i < COUNT; i++)
		hub_post(hub, IBV_WR_RDMA_WRITE, i % WORKERS, 0, SIDE_BUF_BYTES, 0, (uint64_t)i);
	for (int i = 0; i < COUNT; i++)
		wc_expect(hub->cq, (uint64_t)i, IBV_WC_SUCCESS);
	for (int to = 0; to < WORKERS; to++)
		assert_true(xrc_worker_holds(&hub->workers[to], 0, SIDE_BUF_BYTES, 7));
	for (int i = 0; i < COUNT; i++)
		hub_post(hub, IBV_WR_RDMA_READ, i % WORKERS, 0, SIDE_BUF_BYTES, 0, (uint64_t)i);
	for (int i = 0; i < COUNT; i++)
		wc_expect(hub->cq, (uint64_t)i, IBV_WC_SUCCESS);
}

/*
 * An SRQ without a receive between messages to others: the sender waits until a receive is posted.
 */
static void ibv_post_send_xrc_process_without_receive_is_awaited(void **state)
{
	struct hub *hub = *state;

	for (int round = 0; round < 4; round++) {
		for (int to = 0; to < WORKERS; to++) {
			int late = (round + 1) % WORKERS;

			if (to != late)
				xrc_worker_recv(&hub->workers[to], 0, SLOT_BYTES, (uint64_t)to);
			hub_post(hub, round % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, to, 0,
				 SLOT_BYTES, 0, (uint64_t)to);
		}
		for (int to = 0; to < (round + 1) % WORKERS; to++)
			wc_expect(hub->cq, (uint64_t)to, IBV_WC_SUCCESS);
		wc_none(hub->cq);
		xrc_worker_recv(&hub->workers[(round + 1) % WORKERS], 0, SLOT_BYTES,
				(uint64_t)((round + 1) % WORKERS));
		for (int to = (round + 1) % WORKERS; to < WORKERS; to++)
			wc_expect(hub->cq, (uint64_t)to, IBV_WC_SUCCESS);
		for (int to = 0; to < WORKERS; to++)
			xrc_worker_wc(&hub->workers[to], (uint64_t)to, IBV_WC_SUCCESS);
	}
}

static void ibv_post_send_xrc_unknown_srqn_fails(void **state)
{
	struct hub *hub = *state;

	hub_post_to_nobody(hub, NO_SRQN, 1);
	wc_expect(hub->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	hub_expect_failure(hub, IBV_EVENT_QP_REQ_ERR);
}

static void ibv_post_send_xrc_destroyed_srqn_fails(void **state)
{
	struct hub *hub = *state;

	xrc_worker_recv(&hub->workers[1], 0, SLOT_BYTES, 1);
	hub_post(hub, IBV_WR_SEND, 1, 0, 8, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_SUCCESS);
	xrc_worker_wc(&hub->workers[1], 1, IBV_WC_SUCCESS);
	xrc_worker_ask(&hub->workers[1], XRC_NO_SRQ, 0);
	hub_post(hub, IBV_WR_SEND, 1, 0, 8, 0, 2);
	wc_expect(hub->cq, 2, IBV_WC_REM_INV_REQ_ERR);
	hub_expect_failure(hub, IBV_EVENT_QP_REQ_ERR);
}

static void ibv_post_send_xrc_closed_domain_fails(void **state)
{
	struct hub *hub = *state;

	xrc_worker_recv(&hub->workers[1], 0, SLOT_BYTES, 1);
	hub_post(hub, IBV_WR_SEND, 1, 0, 8, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_SUCCESS);
	xrc_worker_ask(&hub->workers[1], XRC_NO_SRQ, 0);
	xrc_worker_ask(&hub->workers[1], XRC_CLOSE, 0);
	hub_post(hub, IBV_WR_SEND, 1, 0, 8, 0, 2);
	wc_expect(hub->cq, 2, IBV_WC_REM_INV_REQ_ERR);
	hub_expect_failure(hub, IBV_EVENT_QP_REQ_ERR);
}

/* The number of an SRQ of the same process, but in the XRC domain of another file. */
static void ibv_post_send_xrc_srqn_of_other_domain_fails(void **state)
{
	struct hub *hub = *state;
	struct xrc_worker stranger;
	FILE *other = tmpfile();

	xrc_worker_start(&stranger, fileno(other));
	xrc_worker_ask(&stranger, XRC_OPEN, O_CREAT);
	stranger.srqn = (uint32_t)xrc_worker_ask(&stranger, XRC_SRQ, 0);
	xrc_worker_recv(&stranger, 0, SLOT_BYTES, 1);
	hub_post_to_nobody(hub, stranger.srqn, 1);
	wc_expect(hub->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	hub_expect_failure(hub, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(xrc_worker_ask(&stranger, XRC_NO_WC, 0), 0);
	xrc_worker_stop(&stranger);
	fclose(other);
}

static void ibv_post_send_xrc_access_rights_are_those_of_owner(void **state)
{
	struct hub *hub = *state;
	uint32_t rkey = hub->workers[1].rkey;

	hub_post(hub, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_SUCCESS);
	hub->workers[1].rkey = ~rkey;
	hub_post(hub, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 2);
	wc_expect(hub->cq, 2, IBV_WC_REM_ACCESS_ERR);
	hub_expect_failure(hub, IBV_EVENT_QP_ACCESS_ERR);
}

static void ibv_post_send_xrc_longer_than_receive_fails(void **state)
{
	struct hub *hub = *state;

	xrc_worker_recv(&hub->workers[1], 0, 16, 1);
	hub_post(hub, IBV_WR_SEND, 1, 0, SLOT_BYTES, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	xrc_worker_wc(&hub->workers[1], 1, IBV_WC_LOC_LEN_ERR);
	hub_expect_error_state(hub);
}

/* A killed process does not affect the others; later messages to it fail. */
static void ibv_post_send_xrc_killed_process_affects_its_messages_only(void **state)
{
	struct hub *hub = *state;
	struct ibv_wc wc;

	for (int i = 0; i < 30; i++)
		hub_post(hub, IBV_WR_RDMA_WRITE, i % WORKERS, 0, SLOT_BYTES, 0, (uint64_t)i);
	for (int i = 0; i < 30; i++)
		wc_expect(hub->cq, (uint64_t)i, IBV_WC_SUCCESS);
	xrc_worker_kill(&hub->workers[1]);
	hub->workers[1].pid = 0;
	for (int i = 0; i < 30; i++)
		hub_post(hub, IBV_WR_RDMA_WRITE, i % 2 ? 2 : HOME, 0, SLOT_BYTES, 0, (uint64_t)i);
	for (int i = 0; i < 30; i++)
		wc_expect(hub->cq, (uint64_t)i, IBV_WC_SUCCESS);
	/*
	 * The XRC target QP process may not have detected the kill yet, and this WRITE may be lost
	 * too.
	 */
	hub_post(hub, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 77);
	wc = wc_next(hub->cq);
	assert_true(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_OP_ERR);
	hub_expect_failure(hub, wc.status == IBV_WC_REM_OP_ERR ? IBV_EVENT_QP_FATAL :
								 IBV_EVENT_QP_REQ_ERR);
}

/*
 * A process is killed while it executes messages of the queue pair: the queue pair fails, and both
 * sides are notified.
 */
static void ibv_post_send_xrc_process_killed_during_message_fails_qp(void **state)
{
	struct hub *hub = *state;
	struct ibv_wc wc;

	for (int i = 0; i < 64; i++)
		hub_post(hub, IBV_WR_RDMA_WRITE, 1, 0, SIDE_BUF_BYTES, 0, (uint64_t)i);
	wc_expect(hub->cq, 0, IBV_WC_SUCCESS);
	xrc_worker_kill(&hub->workers[1]);
	hub->workers[1].pid = 0;
	for (int i = 1; i < 64; i++) {
		wc = wc_next(hub->cq);
		assert_int_equal(wc.wr_id, i);
		if (wc.status != IBV_WC_SUCCESS)
			break;
	}
	/* The last response was lost with the process, or all messages had been executed. */
	assert_true(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_OP_ERR ||
		    wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_RETRY_EXC_ERR);
}

static void ibv_post_send_xrc_killed_creator_ends_qp(void **state)
{
	struct hub *hub = *state;

	xrc_worker_recv(&hub->workers[1], 0, SLOT_BYTES, 1);
	hub_post(hub, IBV_WR_SEND, 1, 0, 8, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_SUCCESS);
	xrc_worker_wc(&hub->workers[1], 1, IBV_WC_SUCCESS);
	xrc_worker_kill(&hub->workers[HOME]);
	hub->workers[HOME].pid = 0;
	hub_post(hub, IBV_WR_SEND, 1, 0, 8, 0, 2);
	assert_int_equal(wc_next(hub->cq).status, IBV_WC_RETRY_EXC_ERR);
}

/* Whether the test runs as root, in a user namespace with more than one user. */
static bool can_be_nobody(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(geteuid() != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

/*
 * A process that may open the file may use the domain, although neither process can access the
 * other's memory.
 */
static void ibv_post_send_xrc_process_of_other_user_receives(void **state)
{
	struct hub *hub = *state;
	struct xrc_worker *stranger = &hub->workers[2];

	if (!can_be_nobody())
		skip();
	xrc_worker_stop(stranger);
	xrc_worker_start_as(stranger, fileno(hub->file), NOBODY);
	xrc_worker_ask(stranger, XRC_OPEN, 0);
	stranger->srqn = (uint32_t)xrc_worker_ask(stranger, XRC_SRQ, 0);
	xrc_worker_fill(stranger, SLOT_BYTES, SLOT_BYTES, 3);
	fill_pattern(hub->buf, SLOT_BYTES, 5);
	for (uint64_t i = 0; i < 8; i++) {
		xrc_worker_recv(stranger, 0, SLOT_BYTES, i);
		xrc_worker_recv(&hub->workers[1], 0, SLOT_BYTES, i);
		hub_post(hub, IBV_WR_SEND, 2, 0, SLOT_BYTES, 0, i);
		wc_expect(hub->cq, i, IBV_WC_SUCCESS);
		hub_expect_in(hub, 2, i, IBV_WC_RECV, SLOT_BYTES);
		hub_post(hub, IBV_WR_SEND, 1, 0, SLOT_BYTES, 0, i);
		wc_expect(hub->cq, i, IBV_WC_SUCCESS);
		hub_expect_in(hub, 1, i, IBV_WC_RECV, SLOT_BYTES);
		hub_post(hub, IBV_WR_RDMA_READ, 2, SLOT_BYTES, SLOT_BYTES, SLOT_BYTES, i);
		wc_expect(hub->cq, i, IBV_WC_SUCCESS);
	}
	assert_true(xrc_worker_holds(stranger, 0, SLOT_BYTES, 5));
	fill_pattern(hub->buf, SLOT_BYTES, 3);
	assert_memory_equal(hub->buf + SLOT_BYTES, hub->buf, SLOT_BYTES);
}

/* A queue pair that was reset and connected again has no state from before. */
static void ibv_modify_qp_xrc_reset_and_reconnect_succeeds(void **state)
{
	struct hub *hub = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	for (int round = 0; round < 3; round++) {
		xrc_worker_recv(&hub->workers[1], 0, SLOT_BYTES, 1);
		hub_post(hub, IBV_WR_SEND, 1, 0, SLOT_BYTES, 0, 1);
		wc_expect(hub->cq, 1, IBV_WC_SUCCESS);
		hub_expect_in(hub, 1, 1, IBV_WC_RECV, SLOT_BYTES);
		xrc_worker_ask(&hub->workers[HOME], XRC_NO_QP, 0);
		hub->recv_qpn = (uint32_t)xrc_worker_ask(&hub->workers[HOME], XRC_QP, 0);
		xrc_worker_ask(&hub->workers[HOME], XRC_RTR, hub->qp->qp_num);
		assert_int_equal(ibv_modify_qp(hub->qp, &attr, IBV_QP_STATE), 0);
		hub_connect(hub);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hub_set_up, hub_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ibv_post_send_xrc_reaches_process_of_srq),
		TEST(ibv_post_send_xrc_alternating_processes_receive_in_order),
		TEST(ibv_post_send_xrc_long_alternating_messages_arrive),
		TEST(ibv_post_send_xrc_process_without_receive_is_awaited),
		TEST(ibv_post_send_xrc_unknown_srqn_fails),
		TEST(ibv_post_send_xrc_destroyed_srqn_fails),
		TEST(ibv_post_send_xrc_closed_domain_fails),
		TEST(ibv_post_send_xrc_srqn_of_other_domain_fails),
		TEST(ibv_post_send_xrc_access_rights_are_those_of_owner),
		TEST(ibv_post_send_xrc_longer_than_receive_fails),
		TEST(ibv_post_send_xrc_killed_process_affects_its_messages_only),
		TEST(ibv_post_send_xrc_process_killed_during_message_fails_qp),
		TEST(ibv_post_send_xrc_killed_creator_ends_qp),
		TEST(ibv_post_send_xrc_process_of_other_user_receives),
		TEST(ibv_modify_qp_xrc_reset_and_reconnect_succeeds),
	};
	int status;

	if (xrc_worker_main(argc, argv, &status))
		return status;
	return cmocka_run_group_tests_name("xrc_process", tests, NULL, NULL);
}
