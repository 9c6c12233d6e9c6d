/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagrams: posts that fail, work requests that complete with an error, and datagrams
 * that are dropped silently.
 */
#include "datagram.h"

#include <errno.h>
#include <string.h>

static void ibv_create_ah_invalid_attr_fails(void **state)
{
	struct api *api = *state;
	struct ibv_ah_attr good = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.sgid_index = ud_gid_index(api->ctx, true), .hop_limit = 1},
	};
	struct ibv_ah_attr attr;

	assert_int_equal(ibv_query_gid(api->ctx, 1, good.grh.sgid_index, &good.grh.dgid), 0);
#define REFUSES(change)                                                   \
	do {                                                              \
		attr = good;                                              \
		change;                                                   \
		assert_null_errno(ibv_create_ah(api->pd, &attr), EINVAL); \
	} while (0)
	REFUSES(attr.is_global = 0);
	REFUSES(attr.port_num = 0);
	REFUSES(attr.port_num = 2);
	REFUSES(attr.sl = 16);
	REFUSES(attr.grh.sgid_index = 250);
	REFUSES(attr.grh.sgid_index = ud_gid_index(api->ctx, false));
#undef REFUSES
}

static void ibv_dealloc_pd_with_ah_fails_with_ebusy(void **state)
{
	struct api *api = *state;
	struct ibv_pd *pd = ibv_alloc_pd(api->ctx);
	struct ibv_ah *ah = ud_create_ah(pd, ud_gid_index(api->ctx, true));

	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ibv_modify_qp_ud_attributes_are_checked(void **state)
{
	const struct pair_options options = {.stays_unconnected = true};
	const struct {
		enum ibv_qp_state to;
		int mask;
		int ret;
	} steps[] = {
		{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, EINVAL},
		{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, EINVAL},
		{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
		{IBV_QPS_RTS, IBV_QP_SQ_PSN, EINVAL},
		{IBV_QPS_RTR, IBV_QP_AV, EINVAL},
		{IBV_QPS_RTR, IBV_QP_DEST_QPN, EINVAL},
		{IBV_QPS_RTR, 0, 0},
		{IBV_QPS_RTS, 0, EINVAL},
		{IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT, EINVAL},
		{IBV_QPS_RTS, IBV_QP_SQ_PSN, 0},
		{IBV_QPS_RTS, IBV_QP_QKEY, 0},
		{IBV_QPS_RTS, IBV_QP_PATH_MTU, EINVAL},
		{IBV_QPS_SQE, 0, EINVAL},
		{IBV_QPS_SQD, 0, 0},
		{IBV_QPS_RTS, IBV_QP_CUR_STATE, 0},
		{IBV_QPS_ERR, 0, 0},
		{IBV_QPS_RESET, 0, 0},
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ud ud;

	ud_open(&ud, *state, &options);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		memset(&attr, 0, sizeof(attr));
		attr.qp_state = steps[i].to;
		attr.cur_qp_state = IBV_QPS_SQD;
		attr.port_num = 1;
		attr.qkey = 5 + (uint32_t)i;
		attr.sq_psn = 77;
		if (ibv_modify_qp(ud.pair.a.qp, &attr, IBV_QP_STATE | steps[i].mask) !=
		    steps[i].ret)
			fail_msg("step %zu", i);
		if (steps[i].to == IBV_QPS_SQD)
			continue;
		if (!steps[i].ret)
			assert_int_equal(qp_state(ud.pair.a.qp), steps[i].to);
		if (i != 10)
			continue;
		assert_int_equal(ibv_query_qp(ud.pair.a.qp, &attr, IBV_QP_QKEY, &init), 0);
		assert_int_equal(attr.qkey, 5 + i);
		assert_int_equal(attr.sq_psn, 77);
		assert_int_equal(init.qp_type, IBV_QPT_UD);
	}
	ud_close(&ud);
}

static int post(struct side *side, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = ibv_post_send(side->qp, &wr, &bad);

	assert_ptr_equal(bad, ret ? &wr : NULL);
	return ret;
}

static void ibv_post_send_ud_invalid_wr_fails(void **state)
{
	const struct pair_options options = {.max_inline = 16, .max_wr = 4, .max_sge = 2};
	static const enum ibv_wr_opcode connected[] = {
		IBV_WR_RDMA_WRITE,    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_SEND_WITH_INV, IBV_WR_ATOMIC_CMP_AND_SWP,  IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV,
	};
	struct ibv_qp_attr drain = {.qp_state = IBV_QPS_SQD};
	struct ibv_send_wr good, wr;
	struct ibv_sge sge;
	struct ud ud;

	ud_open(&ud, *state, &options);
	good = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 8);
	for (size_t i = 0; i < sizeof(connected) / sizeof(connected[0]); i++) {
		wr = good;
		wr.opcode = connected[i];
		assert_int_equal(post(&ud.pair.a, wr), EINVAL);
	}
	wr = good;
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(&ud.pair.a, wr), EINVAL);
	wr = good;
	wr.wr.ud.remote_qpn = 1u << 24;
	assert_int_equal(post(&ud.pair.a, wr), EINVAL);
	wr = good;
	wr.num_sge = 100;
	assert_int_equal(post(&ud.pair.a, wr), EINVAL);
	wr = good;
	sge.length = 5000;
	wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(post(&ud.pair.a, wr), EINVAL);
	sge.length = 8;
	assert_int_equal(ibv_modify_qp(ud.pair.a.qp, &drain, IBV_QP_STATE), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(post(&ud.pair.a, good), 0);
	assert_int_equal(post(&ud.pair.a, good), ENOMEM);
	wc_none(ud.pair.a.cq);
	pair_reconnect(&ud.pair);
	/* No WQE remains from before. */
	ud_recv(&ud.pair.b, 100);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 9);
	ud_expect(&ud.pair.b, 100, &ud.pair.a, 9);
	ud_close(&ud);
}

static void ibv_post_send_ud_before_rts_fails(void **state)
{
	const struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_sge sge;
	struct ud ud;

	ud_open(&ud, *state, &options);
	assert_int_equal(post(&ud.pair.a, ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 8)), EINVAL);
	assert_int_equal(ibv_modify_qp(ud.pair.a.qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	assert_int_equal(post(&ud.pair.a, ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 8)), EINVAL);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(ud.pair.a.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(post(&ud.pair.a, ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 8)), EINVAL);
	ud_close(&ud);
}

/*
 * A WR that fails, and a following one: the QP goes to SQE, in which receiving continues, and back
 * to RTS. `reason` as listed in docs/completion-errors.md.
 */
static void fails(struct ud *ud, struct ibv_send_wr wr, enum ibv_wc_status status, uint32_t reason)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct side *a = &ud->pair.a, *b = &ud->pair.b;
	struct ibv_sge sge;
	struct ibv_send_wr behind = ud_wr(ud, a, b, &sge, 1);

	wr.wr_id = 99;
	wr.next = &behind;
	/* A failure is reported whether or not the WR is signalled. */
	wr.send_flags = 0;
	behind.send_flags = 0;
	post_send_ok(a, &wr);
	assert_int_equal(wc_expect(a->cq, 99, status).vendor_err, reason);
	wc_expect(a->cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(a->qp), IBV_QPS_SQE);
	behind.wr_id = 2;
	post_send_ok(a, &behind);
	wc_expect(a->cq, 2, IBV_WC_WR_FLUSH_ERR);
	ud_recv(a, 100);
	ud_send(ud, b, a, 3);
	ud_expect(a, 100, b, 3);
	assert_int_equal(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE), 0);
	ud_recv(b, 100);
	ud_send(ud, a, b, 4);
	ud_expect(b, 100, a, 4);
}

static void ibv_post_send_ud_error_moves_qp_to_sqe(void **state)
{
	struct api *api = *state;
	struct ibv_pd *other = ibv_alloc_pd(api->ctx);
	struct ibv_port_attr port;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ud ud;

	assert_non_null(other);
	assert_int_equal(ibv_query_port(api->ctx, 1, &port), 0);
	ud_open(&ud, api, NULL);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, (128u << port.active_mtu) + 1);
	fails(&ud, wr, IBV_WC_LOC_LEN_ERR, 21);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 10);
	sge.lkey ^= 0x5555;
	fails(&ud, wr, IBV_WC_LOC_PROT_ERR, 2);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 10);
	sge.addr += SIDE_BUF_BYTES - 9;
	fails(&ud, wr, IBV_WC_LOC_PROT_ERR, 4);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 10);
	wr.wr.ud.ah = ud_create_ah(other, ud_gid_index(api->ctx, true));
	fails(&ud, wr, IBV_WC_LOC_QP_OP_ERR, 20);
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	async_none(api->ctx);
	ud_close(&ud);
}

/*
 * Sends a datagram that must be dropped, then one that must arrive: datagrams on one host stay in
 * order.
 */
static void vanishes(struct ud *ud, struct ibv_send_wr wr)
{
	wr.wr_id = 50;
	post_send_ok(&ud->pair.a, &wr);
	wc_expect(ud->pair.a.cq, 50, IBV_WC_SUCCESS);
	ud_send(ud, &ud->pair.a, &ud->pair.b, 5);
	ud_expect(&ud->pair.b, 60, &ud->pair.a, 5);
	wc_none(ud->pair.b.cq);
	ud_recv(&ud->pair.b, 60);
}

static void ibv_post_send_ud_to_unknown_qpn_is_dropped(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	ud_recv(&ud.pair.b, 60);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 4);
	wr.wr.ud.remote_qkey = UD_QKEY + 1;
	vanishes(&ud, wr);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 4);
	wr.wr.ud.remote_qpn += 100; /* an unused QPN */
	vanishes(&ud, wr);
	wr.wr.ud.remote_qpn = 400u << 15; /* the QPN of no process */
	vanishes(&ud, wr);
	wr.wr.ud.remote_qpn = 1; /* QP1 */
	vanishes(&ud, wr);
	wr.wr.ud.remote_qpn = 0xffffff; /* the multicast QPN without a group address */
	vanishes(&ud, wr);
	/*
	 * One byte more than the receive has room for; the receive stays posted for the next
	 * datagram.
	 */
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 21);
	vanishes(&ud, wr);
	ud_close(&ud);
}

static void ibv_post_send_ud_without_receive_is_dropped(void **state)
{
	struct ud ud;

	ud_open(&ud, *state, NULL);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 1);
	/* The next datagram shows that the first one was processed. */
	ud_recv(&ud.pair.a, 100);
	ud_send(&ud, &ud.pair.a, &ud.pair.a, 2);
	ud_expect(&ud.pair.a, 100, &ud.pair.a, 2);
	ud_recv(&ud.pair.b, 100);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 3);
	ud_expect(&ud.pair.b, 100, &ud.pair.a, 3);
	/* A receive for the GRH, and one shorter than the GRH. */
	ud_recv(&ud.pair.b, GRH_BYTES);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 1);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 0);
	ud_expect(&ud.pair.b, GRH_BYTES, &ud.pair.a, 0);
	ud_close(&ud);
}

static void ibv_post_send_ud_qkey_with_high_bit_uses_qkey_of_qp(void **state)
{
	struct ibv_qp_attr attr = {.qkey = 0x80000001};
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	ud_recv(&ud.pair.b, 60);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 4);
	wr.wr.ud.remote_qkey = 0xffffffff;
	post_send_ok(&ud.pair.a, &wr);
	wc_expect(ud.pair.a.cq, 4, IBV_WC_SUCCESS);
	ud_expect(&ud.pair.b, 60, &ud.pair.a, 4);
	/*
	 * Both QPs change their Q_Key: a WR uses the QP's own Q_Key only if bit 31 of its Q_Key is
	 * set.
	 */
	assert_int_equal(ibv_modify_qp(ud.pair.a.qp, &attr, IBV_QP_QKEY), 0);
	assert_int_equal(ibv_modify_qp(ud.pair.b.qp, &attr, IBV_QP_QKEY), 0);
	ud_recv(&ud.pair.b, 60);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 5);
	post_send_ok(&ud.pair.a, &wr);
	wc_expect(ud.pair.a.cq, 4, IBV_WC_SUCCESS);
	ud_expect(&ud.pair.b, 60, &ud.pair.a, 4);
	ud_close(&ud);
}

static void ibv_post_recv_ud_invalid_memory_completes_with_loc_prot_err(void **state)
{
	struct ibv_sge sge;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	sge = sge_of(&ud.pair.b, 0, 100);
	sge.lkey ^= 0x5555;
	post_recv_ok(&ud.pair.b, &sge, 1, 1);
	ud_recv(&ud.pair.b, 100);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 1);
	assert_int_equal(wc_expect(ud.pair.b.cq, 1, IBV_WC_LOC_PROT_ERR).vendor_err, 2);
	wc_expect(ud.pair.b.cq, 100, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(ud.pair.b.qp), IBV_QPS_ERR);
	/* The sender is not notified. */
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 1);
	assert_int_equal(qp_state(ud.pair.a.qp), IBV_QPS_RTS);
	ud_close(&ud);
}

static void ibv_wr_complete_ud_invalid_wr_fails(void **state)
{
	const struct pair_options options = {.send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct api *api = *state;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = api->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp_ex *ex;
	struct ud ud;

	ud_open(&ud, api, &options);
	init.send_cq = ud.pair.a.cq;
	init.recv_cq = ud.pair.a.cq;
	assert_null_errno(ibv_create_qp_ex(api->ctx, &init), EOPNOTSUPP);
	ex = ibv_qp_to_qp_ex(ud.pair.a.qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL); /* no destination set */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ud.ah, 1u << 24, 0);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 1); /* the queue pair was created without this operation */
	ibv_wr_set_ud_addr(ex, ud.ah, ud.pair.b.qp->qp_num, UD_QKEY);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ud_recv(&ud.pair.b, 60);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 5);
	ud_expect(&ud.pair.b, 60, &ud.pair.a, 5);
	ud_close(&ud);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_ah_invalid_attr_fails),
		cmocka_unit_test(ibv_dealloc_pd_with_ah_fails_with_ebusy),
		cmocka_unit_test(ibv_modify_qp_ud_attributes_are_checked),
		cmocka_unit_test(ibv_post_send_ud_invalid_wr_fails),
		cmocka_unit_test(ibv_post_send_ud_before_rts_fails),
		cmocka_unit_test(ibv_post_send_ud_error_moves_qp_to_sqe),
		cmocka_unit_test(ibv_post_send_ud_to_unknown_qpn_is_dropped),
		cmocka_unit_test(ibv_post_send_ud_without_receive_is_dropped),
		cmocka_unit_test(ibv_post_send_ud_qkey_with_high_bit_uses_qkey_of_qp),
		cmocka_unit_test(ibv_post_recv_ud_invalid_memory_completes_with_loc_prot_err),
		cmocka_unit_test(ibv_wr_complete_ud_invalid_wr_fails),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
