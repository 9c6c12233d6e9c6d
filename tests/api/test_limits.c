/* SPDX-License-Identifier: BSD-2-Clause */

/* The limits of ranges: the longest message, the most SGEs, and the events of a connection. */

#include "fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WINDOW_BYTES  ((size_t)16 << 20)
#define MESSAGE_BYTES ((size_t)1 << 31)

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

/*
 * An address range of the longest message and one page, which maps the same few megabytes
 * repeatedly.
 */
static uint8_t *map_window(void)
{
	size_t bytes = MESSAGE_BYTES + WINDOW_BYTES;
	int fd = memfd_create("window", MFD_CLOEXEC);
	uint8_t *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			   0);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)WINDOW_BYTES), 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	for (size_t offset = 0; offset < bytes; offset += WINDOW_BYTES)
		assert_ptr_not_equal(mmap(at + offset, WINDOW_BYTES, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_FIXED, fd, 0),
				     MAP_FAILED);
	close(fd);
	return at;
}

static void post_long(struct pair *pair, enum ibv_wr_opcode opcode, struct ibv_sge *sges, int count,
		      const struct ibv_mr *to)
{
	struct ibv_send_wr wr = send_wr(opcode, sges, NULL, 0, 1);

	wr.num_sge = count;
	wr.wr.rdma.remote_addr = (uintptr_t)to->addr;
	wr.wr.rdma.rkey = to->rkey;
	post_send_ok(&pair->a, &wr);
}

static struct ibv_wc wait_long(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		;
	return wc;
}

/*
 * ThreadSanitizer keeps a record of each byte, for which test machines have not enough memory. With
 * AddressSanitizer the ICRC of such messages takes two minutes, and each packet is checked as
 * those of short messages are.
 */
static bool are_long_messages_feasible(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__SANITIZE_ADDRESS__)
	return !on_the_wire();
#else
	return true;
#endif
}

static void messages_of_two_gibibytes(void)
{
	uint8_t *from = map_window();
	uint8_t *to = map_window();
	struct ibv_mr *from_mr = ibv_reg_mr(api.pd, from, MESSAGE_BYTES + 1, ALL_ACCESS);
	struct ibv_mr *to_mr = ibv_reg_mr(api.pd, to, MESSAGE_BYTES + 1, ALL_ACCESS);
	struct ibv_sge from_sges[3] = {
		{.addr = (uintptr_t)from, .length = 1u << 31, .lkey = from_mr->lkey},
		{.addr = (uintptr_t)from, .length = 1, .lkey = from_mr->lkey},
	};
	struct ibv_sge halves[2] = {
		{.addr = (uintptr_t)to, .length = 1u << 30, .lkey = to_mr->lkey},
		{.addr = (uintptr_t)to + (1u << 30), .length = 1u << 30, .lkey = to_mr->lkey},
	};
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, &api, NULL);
	fill_pattern(from, WINDOW_BYTES, 3);
	post_long(&pair, IBV_WR_RDMA_WRITE, from_sges, 1, to_mr);
	assert_int_equal(wait_long(pair.a.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(from, to, WINDOW_BYTES);
	memset(from, 0, WINDOW_BYTES);
	post_long(&pair, IBV_WR_RDMA_READ, from_sges, 1, to_mr);
	wc = wait_long(pair.a.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(from, to, WINDOW_BYTES);
	memset(to, 0, WINDOW_BYTES);
	post_recv_ok(&pair.b, halves, 2, 9);
	post_long(&pair, IBV_WR_SEND, from_sges, 1, to_mr);
	assert_int_equal(wait_long(pair.a.cq).status, IBV_WC_SUCCESS);
	wc = wait_long(pair.b.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 1u << 31);
	assert_memory_equal(from, to, WINDOW_BYTES);
	/* One byte more than the port's max_msg_sz. */
	post_long(&pair, IBV_WR_RDMA_WRITE, from_sges, 2, to_mr);
	assert_int_equal(wait_long(pair.a.cq).status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(from_mr), 0);
	assert_int_equal(ibv_dereg_mr(to_mr), 0);
	munmap(from, MESSAGE_BYTES + WINDOW_BYTES);
	munmap(to, MESSAGE_BYTES + WINDOW_BYTES);
}

static void ibv_post_send_messages_up_to_max_msg_sz_arrive(void **state)
{
	(void)state;
	if (!are_long_messages_feasible())
		skip();
	messages_of_two_gibibytes();
}

static void ibv_post_send_max_sge_sges_arrive(void **state)
{
	struct ibv_device_attr attr;
	struct ibv_sge from[64], to[64];
	struct pair pair;

	(void)state;
	assert_int_equal(ibv_query_device(api.ctx, &attr), 0);
	assert_true(attr.max_sge >= 1 && attr.max_sge <= 64 && attr.max_sge_rd == attr.max_sge);
	pair_open(&pair, &api, &(struct pair_options){.max_sge = (uint32_t)attr.max_sge});
	fill_pattern(pair.a.buf, SIDE_BUF_BYTES, 1);
	/* Odd lengths on one side, even lengths on the other, and some of zero. */
	for (int i = 0; i < attr.max_sge; i++) {
		from[i] = sge_of(&pair.a, (size_t)i * 100, i % 3 ? 77 : 0);
		to[i] = sge_of(&pair.b, (size_t)i * 100, 78);
	}
	post_recv_ok(&pair.b, to, attr.max_sge, 2);
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = send_wr(i ? IBV_WR_RDMA_READ : IBV_WR_SEND, from, &pair.b,
						0, 1);
		uint8_t flat[64 * 78];
		size_t length = 0;

		wr.num_sge = attr.max_sge;
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
		if (i)
			break;
		for (int n = 0; n < attr.max_sge; n++) {
			memcpy(flat + length, pair.a.buf + n * 100, from[n].length);
			length += from[n].length;
		}
		assert_int_equal(wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS).byte_len, length);
		for (size_t at = 0; at < length; at++)
			assert_int_equal(pair.b.buf[at / 78 * 100 + at % 78], flat[at]);
	}
	pair_close(&pair);
}

static void ibv_get_async_event_first_message_in_rtr_reports_comm_est(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&pair, &api, &(struct pair_options){.stays_unconnected = true});
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	assert_int_equal(qp_to_init(pair.b.qp, 0), 0);
	assert_int_equal(qp_to_rtr(pair.b.qp, &api, pair.a.qp->qp_num), 0);
	assert_int_equal(qp_to_rtr(pair.a.qp, &api, pair.b.qp->qp_num), 0);
	assert_int_equal(qp_to_rts(pair.a.qp, 7, 7), 0);
	sge = sge_of(&pair.b, 0, 8);
	post_recv_ok(&pair.b, &sge, 1, 2);
	post_recv_ok(&pair.b, &sge, 1, 3);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_COMM_EST), pair.b.qp);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	async_none(api.ctx);
	assert_int_equal(qp_to_rts(pair.b.qp, 7, 7), 0);
	pair_close(&pair);
}

/* Also a message that takes no receive. */
static void ibv_get_async_event_first_onesided_operation_in_rtr_reports_comm_est(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		unsigned int rights = ALL_ACCESS & ~(unsigned int)IBV_ACCESS_LOCAL_WRITE;
		struct ibv_send_wr wr;
		struct ibv_sge sge;
		struct pair pair;

		pair_open(&pair, &api, &(struct pair_options){.stays_unconnected = true});
		assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
		assert_int_equal(qp_to_init(pair.b.qp, rights), 0);
		assert_int_equal(qp_to_rtr(pair.b.qp, &api, pair.a.qp->qp_num), 0);
		assert_int_equal(qp_to_rtr(pair.a.qp, &api, pair.b.qp->qp_num), 0);
		assert_int_equal(qp_to_rts(pair.a.qp, 7, 7), 0);
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(opcodes[i], &sge, &pair.b, 0, 1);
		for (int k = 0; k < 2; k++) {
			post_send_ok(&pair.a, &wr);
			wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
			if (k == 0)
				assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_COMM_EST),
						 pair.b.qp);
		}
		async_none(api.ctx);
		pair_close(&pair);
	}
}

static void ibv_get_async_event_drained_send_queue_reports_sq_drained(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	(void)state;
	pair_open(&pair, &api, &(struct pair_options){.rnr_retry = 7});
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);
	/* The message is sent, but it cannot complete without a receive. */
	post_send_ok(&pair.a, &wr);
	wc_none(pair.a.cq);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	wr.wr_id = 2;
	post_send_ok(&pair.a, &wr);
	sge = sge_of(&pair.b, 0, 8);
	post_recv_ok(&pair.b, &sge, 1, 10);
	post_recv_ok(&pair.b, &sge, 1, 11);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_SQ_DRAINED), pair.a.qp);
	wc_none(pair.a.cq);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 10, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 11, IBV_WC_SUCCESS);
	pair_close(&pair);
}

static void ibv_open_device_two_contexts_communicate(void **state)
{
	struct api other;
	struct pair here, there;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	(void)state;
	api_open(&other);
	assert_ptr_not_equal(other.ctx, api.ctx);
	pair_open(&here, &api, &(struct pair_options){.stays_unconnected = true});
	pair_open(&there, &other, &(struct pair_options){.stays_unconnected = true});
	assert_int_equal(qp_to_init(here.a.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(qp_to_init(there.a.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(qp_to_rtr(here.a.qp, &api, there.a.qp->qp_num), 0);
	assert_int_equal(qp_to_rtr(there.a.qp, &other, here.a.qp->qp_num), 0);
	assert_int_equal(qp_to_rts(here.a.qp, 7, 0), 0);
	assert_int_equal(qp_to_rts(there.a.qp, 7, 0), 0);
	/* An MR cannot be moved to a PD of another device context. */
	assert_int_equal(ibv_rereg_mr(here.a.mr, IBV_REREG_MR_CHANGE_PD, other.pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	fill_pattern(here.a.buf, 100, 8);
	sge = sge_of(&here.a, 0, 100);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &there.a, 5, 1);
	post_send_ok(&here.a, &wr);
	wc_expect(here.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(there.a.buf + 5, here.a.buf, 100);
	pair_close(&here);
	pair_close(&there);
	api_close(&other);
}

static void ibv_close_device_with_objects_stops_them(void **state)
{
	struct pair here, left;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct api other;

	(void)state;
	api_open(&other);
	pair_open(&here, &api, &(struct pair_options){.stays_unconnected = true});
	pair_open(&left, &other, &(struct pair_options){.stays_unconnected = true});
	assert_int_equal(qp_to_init(here.a.qp, 0), 0);
	assert_int_equal(qp_to_init(left.a.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(qp_to_rtr(here.a.qp, &api, left.a.qp->qp_num), 0);
	assert_int_equal(qp_to_rtr(left.a.qp, &other, here.a.qp->qp_num), 0);
	assert_int_equal(qp_to_rts(here.a.qp, 1, 0), 0);
	/*
	 * ibv_close_device(3) requests that all objects are destroyed before, but does not enforce
	 * it.
	 */
	assert_int_equal(ibv_close_device(other.ctx), 0);
	sge = sge_of(&here.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &left.a, 0, 1);
	post_send_ok(&here.a, &wr);
	assert_int_not_equal(wc_next(here.a.cq).status, IBV_WC_SUCCESS);
	pair_close(&here);
	pair_close(&left);
	assert_int_equal(ibv_dealloc_pd(other.pd), 0);
}

/*
 * With max_rd_atomic 0 one READ or atomic may be outstanding, as with NICs, so that none waits
 * indefinitely.
 */
static void ibv_modify_qp_max_rd_atomic_0_permits_one_atomic(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct pair pair;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	(void)state;
	pair_open(&pair, &api, NULL);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
	memset(pair.b.buf, 0, 8);
	for (uint64_t i = 0; i < 3; i++) {
		sge = sge_of(&pair.a, 0, 8);
		wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair.b, 0, i);
		wr.wr.atomic.remote_addr = (uintptr_t)pair.b.buf;
		wr.wr.atomic.rkey = pair.b.mr->rkey;
		wr.wr.atomic.compare_add = 1;
		post_send_ok(&pair.a, &wr);
	}
	for (uint64_t i = 0; i < 3; i++)
		wc_expect(pair.a.cq, i, IBV_WC_SUCCESS);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_messages_up_to_max_msg_sz_arrive),
		cmocka_unit_test(ibv_post_send_max_sge_sges_arrive),
		cmocka_unit_test(ibv_get_async_event_first_message_in_rtr_reports_comm_est),
		cmocka_unit_test(
			ibv_get_async_event_first_onesided_operation_in_rtr_reports_comm_est),
		cmocka_unit_test(ibv_get_async_event_drained_send_queue_reports_sq_drained),
		cmocka_unit_test(ibv_modify_qp_max_rd_atomic_0_permits_one_atomic),
		cmocka_unit_test(ibv_open_device_two_contexts_communicate),
		cmocka_unit_test(ibv_close_device_with_objects_stops_them),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
