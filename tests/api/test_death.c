/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The peer process stops, spins or is killed: the effect on one-sided operations, and on operations
 * that wait for its response.
 */

#include "link.h"

#include <signal.h>
#include <sys/wait.h>

static struct api api;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	api_close(&api);
	return 0;
}

static void ibv_post_send_write_to_stopped_target_completes(void **state)
{
	struct peer_command spin = {.op = PEER_SPIN};
	struct link link;
	int status;

	(void)state;
	for (enum peer_flavour flavour = 0; flavour < PEER_FLAVOURS; flavour++) {
		link_open(&link, &api, flavour, (struct pair_options){0});
		assert_int_equal(peer_do(&link.peer, spin).ret, 0);
		one_sided_work_goes_on(&link, 4096);
		kill(link.peer.pid, SIGKILL);
		link_close(&link);
	}
	/*
	 * A stopped process executes no operation: the requester accesses its memory. The requester
	 * has not mapped this memory, so it copies by system calls, which do not divide single
	 * bytes on any processor (docs/adr/0071).
	 */
	link_open(&link, &api, PEER_PLAIN, (struct pair_options){0});
	one_sided_work_goes_on(&link, 1);
	assert_int_equal(kill(link.peer.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(link.peer.pid, &status, WUNTRACED), link.peer.pid);
	assert_true(WIFSTOPPED(status));
	one_sided_work_goes_on(&link, 1);
	assert_int_equal(kill(link.peer.pid, SIGCONT), 0);
	link_close(&link);
}

/*
 * The peer is killed while we WRITE into its memory: the failure is that of a dead peer, not an
 * access error.
 */
static void ibv_post_send_write_to_killed_target_fails(void **state)
{
	(void)state;
	for (enum peer_flavour flavour = 0; flavour < PEER_FLAVOURS; flavour++) {
		struct link link;
		struct ibv_wc wc;
		uint64_t done = 0;

		link_open(&link, &api, flavour, (struct pair_options){0});
		do {
			struct ibv_sge sge = sge_of(link.side, 0, SIDE_BUF_BYTES);
			struct ibv_send_wr wr = to_peer(&link, IBV_WR_RDMA_WRITE, &sge, 0, done);

			if (done == 100)
				kill(link.peer.pid, SIGKILL);
			post_send_ok(link.side, &wr);
			wc = wc_next(link.side->cq);
			assert_int_equal(wc.wr_id, done++);
		} while (wc.status == IBV_WC_SUCCESS);
		assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
		assert_true(done > 100);
		assert_int_equal(qp_state(link.side->qp), IBV_QPS_ERR);
		link_close(&link);
	}
}

/*
 * The peer is killed: outstanding work requests fail immediately, and the others are flushed in
 * order.
 */
static void death_ends_what_waits(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 64);

	post_recv_ok(link->side, &sge, 1, 100);
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_send_wr wr = to_peer(link, IBV_WR_SEND, &sge, 0, i);

		post_send_ok(link->side, &wr);
	}
	kill(link->peer.pid, SIGKILL);
	wc_expect(link->side->cq, 0, IBV_WC_RETRY_EXC_ERR);
	wc_expect(link->side->cq, 1, IBV_WC_WR_FLUSH_ERR);
	wc_expect(link->side->cq, 2, IBV_WC_WR_FLUSH_ERR);
	wc_expect(link->side->cq, 100, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(link->side->qp), IBV_QPS_ERR);
}

static void ibv_post_send_to_dead_peer_fails(void **state)
{
	(void)state;
	for_each_flavour(&api, death_ends_what_waits, (struct pair_options){.rnr_retry = 7});
}

static void connect_peer_only(struct link *link)
{
	struct peer_command connect = {.op = PEER_CONNECT, .value = link->side->qp->qp_num};

	assert_int_equal(peer_do(&link->peer, connect).ret, 0);
	peer_recv(&link->peer, 0, 64, 1);
}

/*
 * The target has no free descriptor for the pair when the daemon connects the processes: our SEND
 * fails. Once it has a descriptor, a new QP reaches it.
 */
static void ibv_modify_qp_target_without_descriptors_fails(void **state)
{
	struct peer_command starve = {.op = PEER_STARVE, .value = 1};
	struct pair_options options = {.stays_unconnected = true};
	struct link link;

	(void)state;
	for (int round = 0; round < 2; round++) {
		bool is_waiting_recv = round == 0;
		struct ibv_send_wr wr;
		struct ibv_sge sge;

		if (is_waiting_recv)
			peer_start(&link.peer, PEER_PLAIN, NULL);
		starve.value = is_waiting_recv;
		assert_int_equal(peer_do(&link.peer, starve).ret, 0);
		pair_open(&link.pair, &api, &options);
		link.side = &link.pair.a;
		assert_int_equal(qp_to_init(link.side->qp, 0), 0);
		assert_int_equal(qp_to_rtr(link.side->qp, &api, link.peer.qpn), 0);
		assert_int_equal(qp_to_rts(link.side->qp, 7, 7), 0);
		if (!is_waiting_recv)
			connect_peer_only(&link);
		sge = sge_of(link.side, 0, 64);
		wr = to_peer(&link, IBV_WR_SEND, &sge, 0, 1);
		post_send_ok(link.side, &wr);
		wc_expect(link.side->cq, 1,
			  is_waiting_recv ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		pair_close(&link.pair);
	}
	peer_stop(&link.peer);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_write_to_stopped_target_completes),
		cmocka_unit_test(ibv_post_send_write_to_killed_target_fails),
		cmocka_unit_test(ibv_post_send_to_dead_peer_fails),
		cmocka_unit_test(ibv_modify_qp_target_without_descriptors_fails),
	};
	int status;

	return peer_main(argc, argv, &status) ? status :
						cmocka_run_group_tests(tests, setup, teardown);
}
