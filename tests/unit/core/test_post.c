/* SPDX-License-Identifier: BSD-2-Clause */

/* Posting: the contents of WQEs, the errors, and when a transport is notified: fake.h. */

#include "queues.h"

#include <errno.h>
#include <string.h>

#include "core/queue/post.h"
#include "core/queue/qp_error.h"
#include "core/queue/wq.h"

#define QUEUE_WRS 16

static uint8_t bytes[4096];

static int send_one(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = ibv_post_send(qp, wr, &bad);

	assert_ptr_equal(bad, ret ? wr : NULL);
	return ret;
}

static const struct send_wqe *newest(struct ibv_qp *qp)
{
	const struct send_queue *sq = &to_qp(qp)->sq;

	return sq_wqe(sq, sq->head - 1);
}

/* Every opcode on every QP type that can send. */
static void post_check_opcode_every_qp_type_permits_its_opcodes(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool rc, uc, ud;
	} table[] = {
		{IBV_WR_SEND, true, true, true},
		{IBV_WR_SEND_WITH_IMM, true, true, true},
		{IBV_WR_RDMA_WRITE, true, true, false},
		{IBV_WR_RDMA_WRITE_WITH_IMM, true, true, false},
		{IBV_WR_RDMA_READ, true, false, false},
		{IBV_WR_ATOMIC_CMP_AND_SWP, true, false, false},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, true, false, false},
		{IBV_WR_SEND_WITH_INV, true, false, false},
		{IBV_WR_LOCAL_INV, true, true, false},
		{IBV_WR_BIND_MW, true, true, false},
		{IBV_WR_TSO, false, false, false},
		{IBV_WR_DRIVER1, false, false, false},
		{(enum ibv_wr_opcode)77, false, false, false},
	};
	struct ibv_qp *rc = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp *uc = fake_qp(&fake, IBV_QPT_UC, NULL);
	struct ibv_qp *ud = fake_qp(&fake, IBV_QPT_UD, NULL);

	(void)state;
	fake_walk(rc, IBV_QPS_RTS);
	fake_walk(uc, IBV_QPS_RTS);
	fake_walk(ud, IBV_QPS_RTS);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		enum ibv_wr_opcode opcode = table[i].opcode;

		LOCKED(assert_int_equal(post_check_opcode(to_qp(rc), opcode),
					table[i].rc ? 0 : -EINVAL));
		LOCKED(assert_int_equal(post_check_opcode(to_qp(uc), opcode),
					table[i].uc ? 0 : -EINVAL));
		LOCKED(assert_int_equal(post_check_opcode(to_qp(ud), opcode),
					table[i].ud ? 0 : -EINVAL));
	}
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(uc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
}

static void ibv_post_send_before_rts_fails(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_send_wr wr = {.wr_id = 0, .opcode = IBV_WR_SEND};

	(void)state;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	assert_int_equal(fake_modify(qp, IBV_QPS_INIT), 0);
	assert_int_equal(send_one(qp, &wr), EINVAL);
	assert_int_equal(fake_modify(qp, IBV_QPS_RTR), 0);
	assert_int_equal(send_one(qp, &wr), EINVAL);
	assert_int_equal(fake_calls.kick, 0);
	assert_int_equal(fake_modify(qp, IBV_QPS_RTS), 0);
	assert_int_equal(send_one(qp, &wr), 0);
	assert_int_equal(fake_calls.kick, 1);
	/* Accepted, but the transport is notified only when the queue runs again. */
	assert_int_equal(fake_modify(qp, IBV_QPS_SQD), 0);
	wr.wr_id = 1;
	assert_int_equal(send_one(qp, &wr), 0);
	assert_int_equal(fake_calls.kick, 1);
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
	expect_flushed(0, 2);
	/* In ERR a posted WR is flushed immediately. */
	wr.wr_id = 2;
	assert_int_equal(send_one(qp, &wr), 0);
	expect_flushed(2, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_post_send_in_sqe_or_err_is_flushed(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_UC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	engine_lock(&fake.engine);
	qp_enter_send_error(to_qp(qp));
	engine_unlock(&fake.engine);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_SQE);
	post_sends(qp, 1);
	expect_flushed(0, 1);
	assert_int_equal(fake_calls.kick, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The WRs before the invalid one are posted, and the transport is notified once. */
static void ibv_post_send_list_stops_at_invalid_wr(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_send_wr wrs[4], *bad = NULL;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	memset(wrs, 0, sizeof(wrs));
	for (int i = 0; i < 4; i++) {
		wrs[i].opcode = IBV_WR_SEND;
		wrs[i].next = i < 3 ? &wrs[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(qp, wrs, &bad), 0);
	assert_null(bad);
	assert_int_equal(fake_calls.kick, 1);
	wrs[2].num_sge = -1;
	assert_int_equal(ibv_post_send(qp, wrs, &bad), EINVAL);
	assert_ptr_equal(bad, &wrs[2]);
	assert_int_equal(to_qp(qp)->sq.head, 6);
	assert_int_equal(fake_calls.kick, 2);
	wrs[0].opcode = IBV_WR_TSO;
	assert_int_equal(ibv_post_send(qp, wrs, &bad), EINVAL);
	assert_ptr_equal(bad, &wrs[0]);
	assert_int_equal(fake_calls.kick, 2);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_post_send_full_queue_fails_with_enomem(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	post_sends(qp, QUEUE_WRS);
	assert_int_equal(send_one(qp, &wr), ENOMEM);
	engine_lock(&fake.engine);
	sq_retire(to_qp(qp), IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	engine_unlock(&fake.engine);
	assert_int_equal(send_one(qp, &wr), 0);
	assert_int_equal(send_one(qp, &wr), ENOMEM);
	(void)expect_wc(0, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_post_send_copies_wr(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_sge sge[4] = {{1, 10, 2}, {3, 0, 4}, {5, 1u << 31, 6}, {7, 1u << 31, 8}};
	struct ibv_send_wr wr = {
		.wr_id = 77,
		.sg_list = sge,
		.num_sge = 2,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SOLICITED,
		.imm_data = 0x01020304,
		.wr.rdma = {.remote_addr = 0x1122334455667788, .rkey = 0x99},
	};
	const struct send_wqe *wqe;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(send_one(qp, &wr), 0);
	wqe = newest(qp);
	assert_int_equal(wqe->wr_id, 77);
	assert_int_equal(wqe->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(wqe->send_flags, IBV_SEND_SOLICITED);
	assert_int_equal(wqe->imm_data_be, 0x01020304);
	assert_int_equal(wqe->remote_addr, 0x1122334455667788);
	assert_int_equal(wqe->rkey, 0x99);
	assert_int_equal(wqe->state, SEND_WQE_POSTED);
	assert_int_equal(wqe->length_bytes, 10);
	assert_int_equal(wqe->num_sge, 2);
	assert_false(wqe->is_inline);
	assert_memory_equal(wqe->sge, sge, 2 * sizeof(sge[0]));
	/* A sum of lengths that exceeds 32 bits is still too long. */
	wr.num_sge = 4;
	assert_int_equal(send_one(qp, &wr), 0);
	assert_int_equal(newest(qp)->length_bytes, UINT32_MAX);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.num_sge = 1;
	wr.wr.atomic.remote_addr = 0x10;
	wr.wr.atomic.compare_add = 0x20;
	wr.wr.atomic.swap = 0x30;
	wr.wr.atomic.rkey = 0x40;
	assert_int_equal(send_one(qp, &wr), 0);
	wqe = newest(qp);
	assert_int_equal(wqe->remote_addr, 0x10);
	assert_int_equal(wqe->compare_add, 0x20);
	assert_int_equal(wqe->swap, 0x30);
	assert_int_equal(wqe->rkey, 0x40);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_post_send_too_many_sges_fails(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_sge sge[5];
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 5, .opcode = IBV_WR_SEND};
	struct ibv_recv_wr recv = {.sg_list = sge, .num_sge = 5}, *bad;

	(void)state;
	memset(sge, 0, sizeof(sge));
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(send_one(qp, &wr), EINVAL);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad), EINVAL);
	wr.num_sge = recv.num_sge = -1;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	wr.send_flags = 0;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad), EINVAL);
	assert_int_equal(to_qp(qp)->sq.head, 0);
	assert_int_equal(to_qp(qp)->rq.head, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Inline data is copied by the post, from any memory; lkeys are ignored. */
static void ibv_post_send_inline_copies_data(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	uint32_t max = to_qp(qp)->sq.max_inline_bytes;
	struct ibv_sge sge[3] = {{(uintptr_t)bytes, 5, 0},
				 {(uintptr_t)bytes + 100, 0, 0},
				 {(uintptr_t)bytes + 50, 3, 0}};
	struct ibv_send_wr wr = {
		.sg_list = sge, .num_sge = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
	const struct send_wqe *wqe;

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(send_one(qp, &wr), 0);
	wqe = newest(qp);
	assert_true(wqe->is_inline);
	assert_int_equal(wqe->num_sge, 0);
	assert_int_equal(wqe->length_bytes, 8);
	assert_memory_equal(wqe->data, bytes, 5);
	assert_memory_equal(wqe->data + 5, bytes + 50, 3);
	sge[0].length = max - 3;
	assert_int_equal(send_one(qp, &wr), 0);
	assert_int_equal(newest(qp)->length_bytes, max);
	sge[2].length = 4;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	sge[2].length = UINT32_MAX;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	sge[2].length = 3;
	for (int i = 0; i < 3; i++) {
		static const enum ibv_wr_opcode none[] = {
			IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};

		wr.opcode = none[i];
		assert_int_equal(send_one(qp, &wr), EINVAL);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A WR of a datagram has a destination; its address handle is kept as long as the WQE is queued. */
static void ibv_post_send_ud_keeps_address_handle_until_completion(void **state)
{
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_UD, NULL);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr.ud = {.remote_qpn = 5}};
	struct ibv_ah *ah;

	(void)state;
	ah_attr.grh.dgid.raw[0] = 0xfd;
	ah = ibv_create_ah(fake.pd, &ah_attr);
	assert_non_null(ah);
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(send_one(qp, &wr), EINVAL);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0x1000000;
	assert_int_equal(send_one(qp, &wr), EINVAL);
	wr.wr.ud.remote_qpn = 0xfffffe;
	wr.wr.ud.remote_qkey = 0x1234;
	fake_calls.send_error = -EAGAIN;
	assert_int_equal(send_one(qp, &wr), 0);
	assert_int_equal(newest(qp)->remote_qpn, 0xfffffe);
	assert_int_equal(newest(qp)->remote_qkey, 0x1234);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(fake_calls.ah_close, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(fake_calls.ah_close, 1);
}

static void ibv_post_recv_before_init_fails(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_recv_wr wr = {.wr_id = 100}, *bad = NULL;

	(void)state;
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(fake_modify(qp, IBV_QPS_INIT), 0);
	post_recvs(qp, 2);
	/* No requester waits for a receive. */
	assert_int_equal(fake_calls.recv_posted, 0);
	assert_int_equal(fake_modify(qp, IBV_QPS_ERR), 0);
	expect_flushed(100, 2);
	post_recvs(qp, 3);
	expect_flushed(100, 3);
	expect_cq_empty();
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_post_recv_full_queue_fails_with_enomem(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_recv_wr wrs[2] = {{.wr_id = 200, .next = &wrs[1]}, {.wr_id = 201}};
	struct ibv_recv_wr *bad = NULL;

	(void)state;
	fake_walk(qp, IBV_QPS_INIT);
	post_recvs(qp, QUEUE_WRS - 1);
	assert_int_equal(ibv_post_recv(qp, wrs, &bad), ENOMEM);
	assert_ptr_equal(bad, &wrs[1]);
	assert_int_equal(to_qp(qp)->rq.head, QUEUE_WRS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A QP that sent RNR NAK is notified once when a receive is posted. */
static void ibv_post_recv_after_rnr_notifies_transport_once(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	fake_walk(qp, IBV_QPS_RTR);
	to_qp(qp)->is_waiting_recv = true;
	post_recvs(qp, 2);
	assert_int_equal(fake_calls.recv_posted, 1);
	assert_false(to_qp(qp)->is_waiting_recv);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* As many waiting QPs of an SRQ are notified as receives were posted. */
static void ibv_post_srq_recv_notifies_waiting_qps(void **state)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &attr);
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct ibv_qp *qps[2];

	(void)state;
	assert_non_null(srq);
	for (int i = 0; i < 2; i++) {
		qps[i] = fake_qp(&fake, IBV_QPT_RC, srq);
		fake_walk(qps[i], IBV_QPS_RTR);
		to_qp(qps[i])->is_waiting_recv = true;
		list_add_tail(&to_qp(qps[i])->waiting_recv_node, &to_srq(srq)->waiting_recv);
	}
	assert_int_equal(ibv_post_recv(qps[0], &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(fake_calls.recv_posted, 2);
	assert_true(list_is_empty(&to_srq(srq)->waiting_recv));
	wr.num_sge = 2;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	fake.engine.is_orphan = true;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EIO);
	assert_int_equal(ibv_post_recv(qps[0], &wr, &bad), EIO);
	assert_ptr_equal(bad, &wr);
	fake.engine.is_orphan = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUES_TEST(post_check_opcode_every_qp_type_permits_its_opcodes),
		QUEUES_TEST(ibv_post_send_before_rts_fails),
		QUEUES_TEST(ibv_post_send_in_sqe_or_err_is_flushed),
		QUEUES_TEST(ibv_post_send_list_stops_at_invalid_wr),
		QUEUES_TEST(ibv_post_send_full_queue_fails_with_enomem),
		QUEUES_TEST(ibv_post_send_copies_wr),
		QUEUES_TEST(ibv_post_send_too_many_sges_fails),
		QUEUES_TEST(ibv_post_send_inline_copies_data),
		QUEUES_TEST(ibv_post_send_ud_keeps_address_handle_until_completion),
		QUEUES_TEST(ibv_post_recv_before_init_fails),
		QUEUES_TEST(ibv_post_recv_full_queue_fails_with_enomem),
		QUEUES_TEST(ibv_post_recv_after_rnr_notifies_transport_once),
		QUEUES_TEST(ibv_post_srq_recv_notifies_waiting_qps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
