/* SPDX-License-Identifier: BSD-2-Clause */

/* The other process stops, spins, or dies: what that means to one-sided work, and to what waits for an answer. */

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

static void a_target_may_spin_or_be_stopped(void **state)
{
	struct peer_command spin = {.op = PEER_SPIN};
	struct link link;
	int status;

	(void)state;
	for (enum peer_flavour flavour = 0; flavour < PEER_FLAVOURS; flavour++) {
		link_open(&link, &api, flavour, (struct pair_options){0});
		assert_int_equal(peer_do(&link.peer, spin).ret, 0);
		one_sided_work_goes_on(&link);
		kill(link.peer.pid, SIGKILL);
		link_close(&link);
	}
	/* Stopped, it can only be looked into. */
	link_open(&link, &api, PEER_PLAIN, (struct pair_options){0});
	one_sided_work_goes_on(&link);
	assert_int_equal(kill(link.peer.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(link.peer.pid, &status, WUNTRACED), link.peer.pid);
	assert_true(WIFSTOPPED(status));
	one_sided_work_goes_on(&link);
	assert_int_equal(kill(link.peer.pid, SIGCONT), 0);
	link_close(&link);
}

/* Killed while we write into its memory: it is gone, and not a peer that forbids something. */
static void a_target_dies_in_mid_transfer(void **state)
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

/* A killed peer: what waits for it fails at once, and the rest is flushed in order. */
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

static void a_peer_dies(void **state)
{
	(void)state;
	for_each_flavour(&api, death_ends_what_waits, (struct pair_options){.rnr_retry = 7});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_may_spin_or_be_stopped),
		cmocka_unit_test(a_target_dies_in_mid_transfer),
		cmocka_unit_test(a_peer_dies),
	};
	int status;

	return peer_main(argc, argv, &status) ? status :
						cmocka_run_group_tests(tests, setup, teardown);
}
