/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * XRC across processes (IBA A14): one has the receive queue pair, it and others have the SRQs that are behind it. The sender
 * is this process.
 */

#include "xrc_hub.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SRQN 0xfffffeu
#define NOBODY	65534

static void messages_go_to_the_process_they_name(void **state)
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

/* Posted all at once: one process after the other has the queue pair's ear, in the order of the messages. */
static void messages_alternate(void **state)
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

/* More than rings and windows hold, and of many packets each. */
static void long_messages_alternate(void **state)
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

/* Nothing is there to receive into, in the midst of messages for others, until it is. */
static void a_process_that_is_not_ready_is_waited_for(void **state)
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

static void a_number_of_nobody_is_an_invalid_request(void **state)
{
	struct hub *hub = *state;

	hub_post_to_nobody(hub, NO_SRQN, 1);
	wc_expect(hub->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	hub_expect_failure(hub, IBV_EVENT_QP_REQ_ERR);
}

static void a_number_that_its_process_gave_back_is_one_too(void **state)
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

static void a_closed_domain_takes_nothing_more(void **state)
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

/* An SRQ of the same number's owner, but of another file's domain. */
static void another_domain_is_no_way_in(void **state)
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

static void rights_are_those_of_the_owner(void **state)
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

static void a_message_that_is_too_long_fails_at_the_owner(void **state)
{
	struct hub *hub = *state;

	xrc_worker_recv(&hub->workers[1], 0, 16, 1);
	hub_post(hub, IBV_WR_SEND, 1, 0, SLOT_BYTES, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	xrc_worker_wc(&hub->workers[1], 1, IBV_WC_LOC_LEN_ERR);
	hub_expect_error_state(hub);
}

/* Who is killed takes nothing with it that is not its own; what is sent to it afterwards fails. */
static void the_others_go_on_when_one_is_killed(void **state)
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
	/* The home may not have heard of it yet, and lose this one with it. */
	hub_post(hub, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 77);
	wc = wc_next(hub->cq);
	assert_true(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_OP_ERR);
	hub_expect_failure(hub, wc.status == IBV_WC_REM_OP_ERR ? IBV_EVENT_QP_FATAL :
								 IBV_EVENT_QP_REQ_ERR);
}

/* Killed with messages of the queue pair in hand: it ends, and both sides hear of it. */
static void the_queue_pair_ends_with_who_has_its_messages(void **state)
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
	/* Where its last word was lost with it, or everything had been done. */
	assert_true(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_OP_ERR ||
		    wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_RETRY_EXC_ERR);
}

static void the_homes_end_is_that_of_the_queue_pair(void **state)
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

/* Root, and in a user namespace that has more users than one. */
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

/* Who may open the file is in the domain, and neither can look into the other's memory. */
static void another_user_is_in_the_domain(void **state)
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

/* A queue pair that begins anew is the same to nobody who had it before. */
static void a_queue_pair_is_made_again(void **state)
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
		TEST(messages_go_to_the_process_they_name),
		TEST(messages_alternate),
		TEST(long_messages_alternate),
		TEST(a_process_that_is_not_ready_is_waited_for),
		TEST(a_number_of_nobody_is_an_invalid_request),
		TEST(a_number_that_its_process_gave_back_is_one_too),
		TEST(a_closed_domain_takes_nothing_more),
		TEST(another_domain_is_no_way_in),
		TEST(rights_are_those_of_the_owner),
		TEST(a_message_that_is_too_long_fails_at_the_owner),
		TEST(the_others_go_on_when_one_is_killed),
		TEST(the_queue_pair_ends_with_who_has_its_messages),
		TEST(the_homes_end_is_that_of_the_queue_pair),
		TEST(another_user_is_in_the_domain),
		TEST(a_queue_pair_is_made_again),
	};
	int status;

	if (xrc_worker_main(argc, argv, &status))
		return status;
	return cmocka_run_group_tests_name("xrc_process", tests, NULL, NULL);
}
