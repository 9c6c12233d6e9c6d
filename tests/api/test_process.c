/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Two processes. Each test runs with every restriction of access to the peer's memory, in both
 * directions: the results do not depend on it, only the performance.
 */

#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void sends_both_ways(struct link *link)
{
	static const uint32_t lengths[] = {0, 1, 64, 4096, 4097, SIDE_BUF_BYTES};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct ibv_sge sge = sge_of(link->side, 0, lengths[i]);
		struct ibv_send_wr wr = to_peer(link, IBV_WR_SEND_WITH_IMM, &sge, 0, i);
		struct ibv_wc wc;

		peer_recv(&link->peer, 0, lengths[i], 100 + i);
		fill_pattern(link->side->buf, lengths[i], (uint8_t)i);
		wr.imm_data = htonl(0xabc);
		post_send_ok(link->side, &wr);
		wc_expect(link->side->cq, i, IBV_WC_SUCCESS);
		wc = peer_wc(&link->peer, 100 + i, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, lengths[i]);
		assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
		assert_int_equal(ntohl(wc.imm_data), 0xabc);
		assert_true(peer_holds(&link->peer, 0, lengths[i], (uint8_t)i));

		post_recv_ok(link->side, &sge, 1, 200 + i);
		peer_fill(&link->peer, 0, lengths[i], (uint8_t)(i + 7));
		assert_int_equal(peer_do(&link->peer,
					 from_peer(link, IBV_WR_SEND, 0, lengths[i], 300 + i))
					 .ret,
				 0);
		wc = wc_expect(link->side->cq, 200 + i, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, lengths[i]);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		peer_wc(&link->peer, 300 + i, IBV_WC_SUCCESS);
	}
}

static void writes_and_reads_both_ways(struct link *link)
{
	static const uint32_t lengths[] = {1, 8, 5000, SIDE_BUF_BYTES};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct ibv_sge sge = sge_of(link->side, 0, lengths[i]);
		struct ibv_send_wr wr = to_peer(link, IBV_WR_RDMA_WRITE, &sge, 0, i);
		uint8_t wanted[SIDE_BUF_BYTES];

		fill_pattern(link->side->buf, lengths[i], (uint8_t)i);
		post_send_ok(link->side, &wr);
		wc_expect(link->side->cq, i, IBV_WC_SUCCESS);
		assert_true(peer_holds(&link->peer, 0, lengths[i], (uint8_t)i));
		memset(link->side->buf, 0, lengths[i]);
		wr = to_peer(link, IBV_WR_RDMA_READ, &sge, 0, 10 + i);
		post_send_ok(link->side, &wr);
		wc_expect(link->side->cq, 10 + i, IBV_WC_SUCCESS);
		fill_pattern(wanted, lengths[i], (uint8_t)i);
		assert_memory_equal(link->side->buf, wanted, lengths[i]);

		settle(link);
		peer_fill(&link->peer, 0, lengths[i], (uint8_t)(i + 3));
		assert_int_equal(peer_do(&link->peer,
					 from_peer(link, IBV_WR_RDMA_WRITE, 0, lengths[i], 20))
					 .ret,
				 0);
		peer_wc(&link->peer, 20, IBV_WC_SUCCESS);
		settle(link);
		fill_pattern(wanted, lengths[i], (uint8_t)(i + 3));
		assert_memory_equal(link->side->buf, wanted, lengths[i]);
		fill_pattern(link->side->buf, lengths[i], (uint8_t)(i + 5));
		settle(link);
		assert_int_equal(peer_do(&link->peer,
					 from_peer(link, IBV_WR_RDMA_READ, 0, lengths[i], 30))
					 .ret,
				 0);
		peer_wc(&link->peer, 30, IBV_WC_SUCCESS);
		settle(link);
		assert_true(peer_holds(&link->peer, 0, lengths[i], (uint8_t)(i + 5)));
	}
}

static void write_with_immediate_tells(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 3000);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 100, 1);
	struct ibv_wc wc;

	peer_recv(&link->peer, 0, 0, 2);
	fill_pattern(link->side->buf, 3000, 9);
	wr.imm_data = htonl(77);
	post_send_ok(link->side, &wr);
	wc_expect(link->side->cq, 1, IBV_WC_SUCCESS);
	wc = peer_wc(&link->peer, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 3000);
	assert_int_equal(ntohl(wc.imm_data), 77);
	/* The data is complete before the completion. */
	assert_true(peer_holds(&link->peer, 100, 3000, 9));
}

#define ADDS 300

static void atomics_are_atomic_against_all(struct link *link)
{
	struct peer_command add = {.op = PEER_ADD, .offset = 8, .value = 1000000, .length = 100000};
	struct peer_command word = {.op = PEER_WORD, .offset = 8};
	struct ibv_sge sge = sge_of(link->side, 0, 8);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 8, 1);
	uint64_t before;

	before = peer_do(&link->peer, word).value;
	/* The owner's CPU adds concurrently. */
	peer_tell(&link->peer, add);
	wr.wr.atomic.compare_add = 1;
	for (int i = 0; i < ADDS; i++) {
		post_send_ok(link->side, &wr);
		wc_expect(link->side->cq, 1, IBV_WC_SUCCESS);
	}
	assert_int_equal(peer_answer(&link->peer).ret, 0);
	assert_int_equal(peer_do(&link->peer, word).value,
			 before + ADDS + 100000 * UINT64_C(1000000));
	wr = to_peer(link, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 8, 2);
	wr.wr.atomic.compare_add = before + ADDS + 100000 * UINT64_C(1000000);
	wr.wr.atomic.swap = 42;
	post_send_ok(link->side, &wr);
	wc_expect(link->side->cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(peer_do(&link->peer, word).value, 42);
	/*
	 * A compare-and-swap with a wrong compare value changes nothing and returns the present
	 * value.
	 */
	post_send_ok(link->side, &wr);
	wc_expect(link->side->cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)link->side->buf, 42);
	assert_int_equal(peer_do(&link->peer, word).value, 42);
}

static void ibv_post_send_every_operation_between_processes_completes(void **state)
{
	(void)state;
	for_each_flavour(&api, sends_both_ways, (struct pair_options){0});
	for_each_flavour(&api, writes_and_reads_both_ways, (struct pair_options){0});
	for_each_flavour(&api, write_with_immediate_tells, (struct pair_options){0});
	for_each_flavour(&api, atomics_are_atomic_against_all, (struct pair_options){0});
}

static void ibv_post_send_uc_between_processes_completes(void **state)
{
	(void)state;
	for_each_flavour(&api, sends_both_ways, (struct pair_options){.type = IBV_QPT_UC});
	for_each_flavour(&api, write_with_immediate_tells,
			 (struct pair_options){.type = IBV_QPT_UC});
}

static void fails_with(struct link *link, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	post_send_ok(link->side, wr);
	wc_expect(link->side->cq, wr->wr_id, status);
	assert_int_equal(qp_state(link->side->qp), IBV_QPS_ERR);
}

static void a_wrong_key_fails(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 8);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_RDMA_WRITE, &sge, 0, 1);

	wr.wr.rdma.rkey ^= 0x100000;
	fails_with(link, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void beyond_the_end_fails(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 8);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_RDMA_READ, &sge, SIDE_BUF_BYTES - 7, 1);

	fails_with(link, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void a_deregistered_region_fails(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 8);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_RDMA_WRITE, &sge, 0, 1);
	struct peer_command dereg = {.op = PEER_DEREG};

	post_send_ok(link->side, &wr);
	wc_expect(link->side->cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(peer_do(&link->peer, dereg).ret, 0);
	fails_with(link, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void too_long_a_send_fails(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 101);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_SEND, &sge, 0, 1);

	peer_recv(&link->peer, 0, 100, 2);
	fails_with(link, &wr, IBV_WC_REM_INV_REQ_ERR);
	peer_wc(&link->peer, 2, IBV_WC_LOC_LEN_ERR);
}

static void no_receive_fails(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 1);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_SEND, &sge, 0, 1);

	fails_with(link, &wr, IBV_WC_RNR_RETRY_EXC_ERR);
}

/*
 * Memory that was unmapped after its registration, with a requester that accesses the peer's memory
 * itself. If the peer's own engine places the data, the access is to unmapped memory of its own
 * process.
 */
static void unmapped_memory_fails(void)
{
	struct peer_command unmap = {.op = PEER_UNMAP};
	struct link link;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	link_open(&link, &api, PEER_PLAIN, (struct pair_options){0});
	sge = sge_of(link.side, 0, 8);
	wr = to_peer(&link, IBV_WR_RDMA_WRITE, &sge, 0, 1);
	assert_int_equal(peer_do(&link.peer, unmap).ret, 0);
	post_send_ok(link.side, &wr);
	wc = wc_next(link.side->cq);
	assert_int_equal(wc.status, IBV_WC_REM_OP_ERR);
	/* A blocked peer could not even free its buffer. */
	kill(link.peer.pid, SIGKILL);
	link_close(&link);
}

static void ibv_post_send_errors_between_processes_have_status(void **state)
{
	(void)state;
	for_each_flavour(&api, a_wrong_key_fails, (struct pair_options){0});
	for_each_flavour(&api, beyond_the_end_fails, (struct pair_options){0});
	for_each_flavour(&api, a_deregistered_region_fails, (struct pair_options){0});
	for_each_flavour(&api, too_long_a_send_fails, (struct pair_options){0});
	for_each_flavour(&api, no_receive_fails, (struct pair_options){0});
	/* Each retry finds the peer asleep and must wake it. */
	for_each_flavour(&api, no_receive_fails, (struct pair_options){.rnr_retry = 6});
	unmapped_memory_fails();
}

/* With rnr_retry 7 a message waits for its receive indefinitely. */
static void a_receive_may_come_late(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 500);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_SEND, &sge, 0, 1);

	fill_pattern(link->side->buf, 500, 4);
	post_send_ok(link->side, &wr);
	for (int i = 0; i < 1000; i++)
		wc_none(link->side->cq);
	peer_recv(&link->peer, 0, 500, 2);
	wc_expect(link->side->cq, 1, IBV_WC_SUCCESS);
	peer_wc(&link->peer, 2, IBV_WC_SUCCESS);
	assert_true(peer_holds(&link->peer, 0, 500, 4));
}

/*
 * A message that the peer has received and acknowledged is complete, even if the queue pair goes to
 * ERR before the CQ is polled.
 */
static void what_was_answered_is_not_flushed(struct link *link)
{
	struct ibv_sge sge = sge_of(link->side, 0, 8);
	struct ibv_send_wr wr = to_peer(link, IBV_WR_SEND, &sge, 0, 1);
	struct ibv_wc wc;

	peer_recv(&link->peer, 0, 8, 2);
	/* The application polls, so that no other thread processes the response. */
	for (int i = 0; i < 100000; i++)
		assert_int_equal(ibv_poll_cq(link->side->cq, 1, &wc), 0);
	post_send_ok(link->side, &wr);
	peer_wc(&link->peer, 2, IBV_WC_SUCCESS);
	assert_int_equal(qp_to_err(link->side->qp), 0);
	wc_expect(link->side->cq, 1, IBV_WC_SUCCESS);
}

static void ibv_modify_qp_err_between_processes_flushes(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		for_each_flavour(&api, what_was_answered_is_not_flushed, (struct pair_options){0});
}

static void ibv_post_send_rnr_retry_7_between_processes_waits(void **state)
{
	(void)state;
	for_each_flavour(&api, a_receive_may_come_late, (struct pair_options){.rnr_retry = 7});
}

/*
 * A peer WRITEs into our region continuously. After ibv_dereg_mr() has returned, no byte may
 * change.
 */
static void nobody_outruns_dereg(struct link *link)
{
	struct peer_command storm = from_peer(link, IBV_WR_RDMA_WRITE, 0, SIDE_BUF_BYTES, 5);
	uint8_t after[SIDE_BUF_BYTES];
	struct ibv_wc wc;

	memset(link->side->buf, 0x11, SIDE_BUF_BYTES);
	peer_fill(&link->peer, 0, SIDE_BUF_BYTES, 6);
	settle(link);
	storm.op = PEER_STORM;
	assert_int_equal(peer_do(&link->peer, storm).wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(link->side->mr), 0);
	memset(link->side->buf, 0x22, SIDE_BUF_BYTES);
	memset(after, 0x22, sizeof(after));
	wc = peer_answer(&link->peer).wc;
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(link->side->buf, after, sizeof(after));
	link->side->mr = ibv_reg_mr(api.pd, link->side->buf, 8, 0);
	assert_non_null(link->side->mr);
}

static void ibv_dereg_mr_ends_access_of_peer(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		for_each_flavour(&api, nobody_outruns_dereg, (struct pair_options){0});
}

/*
 * Permission to access the peer's memory is withdrawn during a transfer: the work continues by
 * messages.
 */
static void ibv_post_send_peer_memory_hidden_in_transfer_completes(void **state)
{
	struct peer_command hide = {.op = PEER_HIDE};
	struct link link;

	(void)state;
	link_open(&link, &api, PEER_PLAIN, (struct pair_options){0});
	one_sided_work_goes_on(&link, 4096);
	assert_int_equal(peer_do(&link.peer, hide).ret, 0);
	one_sided_work_goes_on(&link, 4096);
	writes_and_reads_both_ways(&link);
	write_with_immediate_tells(&link);
	link_close(&link);
}

static void ibv_get_cq_event_between_processes_wakes(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api.ctx);

	(void)state;
	for (enum peer_flavour flavour = 0; flavour < PEER_FLAVOURS; flavour++) {
		struct link link;

		link_open(&link, &api, flavour, (struct pair_options){.channel = channel});
		for (uint64_t i = 0; i < 50; i++) {
			struct ibv_sge sge = sge_of(link.side, 0, 64);
			struct ibv_cq *cq;
			void *context;

			post_recv_ok(link.side, &sge, 1, i);
			assert_int_equal(ibv_req_notify_cq(link.side->cq, 0), 0);
			wc_none(link.side->cq);
			assert_int_equal(
				peer_do(&link.peer, from_peer(&link, IBV_WR_SEND, 0, 64, i)).ret,
				0);
			assert_true(readable_within(channel->fd, 10000));
			assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
			assert_ptr_equal(cq, link.side->cq);
			wc_expect(cq, i, IBV_WC_SUCCESS);
			peer_wc(&link.peer, i, IBV_WC_SUCCESS);
			ibv_ack_cq_events(cq, 1);
		}
		link_close(&link);
	}
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The number of sockets that this process has open. */
static int count_sockets(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct stat file;

		count += !fstat(fd, &file) && S_ISSOCK(file.st_mode);
	}
	return count;
}

static int sockets_at_start;

/* The child's part of the next test: its exit status is the result. */
static int child_of_fork(struct link *link)
{
	struct ibv_send_wr *bad_send, wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad_recv, recv = {.wr_id = 1};
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	struct ibv_device **list;
	int count;

	/* The socket between this test and its peer, which is not the library's. */
	if (count_sockets() != sockets_at_start + 1)
		return 8;
	if (ibv_post_send(link->side->qp, &wr, &bad_send) != EIO ||
	    ibv_post_recv(link->side->qp, &recv, &bad_recv) != EIO)
		return 1;
	if (ibv_query_qp(link->side->qp, &attr, 0, &init) != EIO ||
	    ibv_query_port(api.ctx, 1, &port) != EIO)
		return 2;
	if (ibv_alloc_pd(api.ctx) || errno != EIO || ibv_req_notify_cq(link->side->cq, 0) != EIO)
		return 3;
	if (ibv_reg_mr(api.pd, link->side->buf, 8, 0) || errno != EIO)
		return 4;
	/* The child destroys its copies only. */
	if (ibv_destroy_qp(link->side->qp) || ibv_destroy_cq(link->side->cq) ||
	    ibv_dereg_mr(link->side->mr))
		return 5;
	/* The child can open the device again. */
	list = ibv_get_device_list(&count);
	if (!list || !count ||
	    strcmp(ibv_get_device_name(list[0]), ibv_get_device_name(api.ctx->device)))
		return 6;
	return ibv_open_device(list[0]) ? 0 : 7;
}

static void fork_leaves_the_parent_alone(struct link *link)
{
	pid_t child;
	int status;

	sends_both_ways(link);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(child_of_fork(link));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	sends_both_ways(link);
	writes_and_reads_both_ways(link);
}

static void ibv_open_device_after_fork_without_exec_succeeds(void **state)
{
	(void)state;
	for_each_flavour(&api, fork_leaves_the_parent_alone, (struct pair_options){0});
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_every_operation_between_processes_completes),
		cmocka_unit_test(ibv_post_send_uc_between_processes_completes),
		cmocka_unit_test(ibv_post_send_errors_between_processes_have_status),
		cmocka_unit_test(ibv_modify_qp_err_between_processes_flushes),
		cmocka_unit_test(ibv_post_send_rnr_retry_7_between_processes_waits),
		cmocka_unit_test(ibv_dereg_mr_ends_access_of_peer),
		cmocka_unit_test(ibv_post_send_peer_memory_hidden_in_transfer_completes),
		cmocka_unit_test(ibv_get_cq_event_between_processes_wakes),
		cmocka_unit_test(ibv_open_device_after_fork_without_exec_succeeds),
	};
	int status;

	sockets_at_start = count_sockets();
	return peer_main(argc, argv, &status) ? status :
						cmocka_run_group_tests(tests, setup, teardown);
}
