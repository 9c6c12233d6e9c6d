/* SPDX-License-Identifier: BSD-2-Clause */
/* Unreliable datagrams: datagrams arrive complete, with a GRH that names their source. */
#include "datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW	  16
#define DATAGRAMS 2000

static uint32_t mtu_bytes(struct ibv_context *ctx)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	return 128u << port.active_mtu;
}

static void ibv_post_send_ud_sizes_up_to_mtu_arrive(void **state)
{
	struct api *api = *state;
	const uint32_t sizes[] = {
		0, 1, 3, 4, 100, 1000, mtu_bytes(api->ctx) - 1, mtu_bytes(api->ctx)};
	struct ud ud;

	ud_open(&ud, api, NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_wc wc;

		fill_pattern(ud.pair.a.buf, sizes[i], (uint8_t)i);
		ud_recv(&ud.pair.b, GRH_BYTES + sizes[i]);
		ud_send(&ud, &ud.pair.a, &ud.pair.b, sizes[i]);
		wc = ud_expect(&ud.pair.b, GRH_BYTES + sizes[i], &ud.pair.a, sizes[i]);
		assert_int_equal(wc.wc_flags, IBV_WC_GRH);
	}
	/* Also sends to itself. */
	ud_recv(&ud.pair.a, 500);
	ud_send(&ud, &ud.pair.a, &ud.pair.a, 77);
	ud_expect(&ud.pair.a, 500, &ud.pair.a, 77);
	ud_close(&ud);
}

static void ibv_post_send_ud_imm_data_arrives(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	ud_recv(&ud.pair.b, 1000);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 10);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0x01020304);
	post_send_ok(&ud.pair.a, &wr);
	wc = wc_expect(ud.pair.a.cq, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	wc = ud_expect(&ud.pair.b, 1000, &ud.pair.a, 10);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x01020304);
	ud_close(&ud);
}

static void ibv_post_send_ud_sge_lists_gather_and_scatter(void **state)
{
	struct ibv_sge sges[3], recv[3];
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	fill_pattern(ud.pair.a.buf, 1000, 3);
	/* The GRH is scattered to two SGEs, and the payload across several. */
	recv[0] = sge_of(&ud.pair.b, 0, 30);
	recv[1] = sge_of(&ud.pair.b, 1000, 20);
	recv[2] = sge_of(&ud.pair.b, 2000, 500);
	post_recv_ok(&ud.pair.b, recv, 3, 1);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, sges, 0);
	sges[0] = sge_of(&ud.pair.a, 0, 7);
	sges[1] = sge_of(&ud.pair.a, 100, 0);
	sges[2] = sge_of(&ud.pair.a, 7, 93);
	wr.num_sge = 3;
	post_send_ok(&ud.pair.a, &wr);
	wc_expect(ud.pair.a.cq, 0, IBV_WC_SUCCESS);
	wc = wc_expect(ud.pair.b.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH_BYTES + 100);
	assert_memory_equal(ud.pair.b.buf + 1010, ud.pair.a.buf, 10);
	assert_memory_equal(ud.pair.b.buf + 2000, ud.pair.a.buf + 10, 90);
	assert_int_equal(ud.pair.b.buf[30], 0);
	ud_close(&ud);
}

static void ibv_post_send_ud_inline_copies_data(void **state)
{
	const struct pair_options options = {.max_inline = 64};
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	char text[] = "taken when posted";
	struct ud ud;

	ud_open(&ud, *state, &options);
	ud_recv(&ud.pair.b, 100);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, sizeof(text));
	sge.addr = (uintptr_t)text;
	sge.lkey = 0;
	wr.send_flags |= IBV_SEND_INLINE;
	post_send_ok(&ud.pair.a, &wr);
	memset(text, 0, sizeof(text));
	wc_expect(ud.pair.a.cq, sizeof(text), IBV_WC_SUCCESS);
	wc_expect(ud.pair.b.cq, 100, IBV_WC_SUCCESS);
	assert_string_equal((char *)ud.pair.b.buf + RECV_AT + GRH_BYTES, "taken when posted");
	ud_close(&ud);
}

static void ibv_post_send_ud_memory_is_free_at_completion(void **state)
{
	struct ud ud;

	ud_open(&ud, *state, NULL);
	for (uint32_t i = 0; i < 200; i++) {
		uint8_t wanted[300];

		fill_pattern(ud.pair.a.buf, sizeof(wanted), (uint8_t)i);
		memcpy(wanted, ud.pair.a.buf, sizeof(wanted));
		ud_recv(&ud.pair.b, 1000);
		ud_send(&ud, &ud.pair.a, &ud.pair.b, sizeof(wanted));
		memset(ud.pair.a.buf, 0xff, sizeof(wanted));
		wc_expect(ud.pair.b.cq, 1000, IBV_WC_SUCCESS);
		assert_memory_equal(ud.pair.b.buf + RECV_AT + GRH_BYTES, wanted, sizeof(wanted));
	}
	ud_close(&ud);
}

/* Side b replies with the data of the completion and the GRH only. */
static void response(struct ud *ud, const struct ibv_wc *wc, const union ibv_gid *gid,
		     uint8_t gid_index)
{
	struct side *b = &ud->pair.b;
	struct ibv_grh *grh = (struct ibv_grh *)(void *)(b->buf + RECV_AT);
	struct ibv_pd *pd = ud->pair.api->pd;
	struct ibv_wc copy = *wc;
	struct ibv_ah_attr attr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	assert_int_equal(ibv_init_ah_from_wc(pd->context, 1, &copy, grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, gid_index);
	assert_memory_equal(&attr.grh.dgid, gid, sizeof(*gid));
	wr = ud_wr(ud, b, &ud->pair.a, &sge, 55);
	wr.wr.ud.ah = ibv_create_ah_from_wc(pd, &copy, grh, 1);
	assert_non_null(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = wc->src_qp;
	fill_pattern(b->buf, 55, 9);
	ud_recv(&ud->pair.a, 200);
	post_send_ok(b, &wr);
	wc_expect(b->cq, 55, IBV_WC_SUCCESS);
	ud_expect(&ud->pair.a, 200, b, 55);
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
}

static void ibv_create_ah_from_wc_reply_arrives(void **state)
{
	struct api *api = *state;

	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		uint8_t gid_index = ud_gid_index(api->ctx, is_ipv4);
		union ibv_gid gid;
		struct ibv_wc wc;
		struct ud ud;

		ud_open(&ud, api, NULL);
		assert_int_equal(ibv_destroy_ah(ud.ah), 0);
		ud.ah = ud_create_ah(api->pd, gid_index);
		assert_int_equal(ibv_query_gid(api->ctx, 1, gid_index, &gid), 0);
		ud_recv(&ud.pair.b, 1000);
		ud_send(&ud, &ud.pair.a, &ud.pair.b, 33);
		wc = ud_expect(&ud.pair.b, 1000, &ud.pair.a, 33);
		response(&ud, &wc, &gid, gid_index);
		ud_close(&ud);
	}
}

static void ibv_create_ah_every_gid_reaches_peer(void **state)
{
	struct api *api = *state;
	struct ud ud;

	ud_open(&ud, api, NULL);
	for (uint8_t i = 0; i < 16; i++) {
		union ibv_gid gid;
		static const union ibv_gid none;

		if (ibv_query_gid(api->ctx, 1, i, &gid) || !memcmp(&gid, &none, sizeof(gid)))
			continue;
		assert_int_equal(ibv_destroy_ah(ud.ah), 0);
		ud.ah = ud_create_ah(api->pd, i);
		ud_recv(&ud.pair.b, 1000);
		ud_send(&ud, &ud.pair.a, &ud.pair.b, 10);
		ud_expect(&ud.pair.b, 1000, &ud.pair.a, 10);
	}
	ud_close(&ud);
}

static void post_window(const struct ud *ud, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		struct ibv_sge sge = sge_of(&ud->pair.b, RECV_AT + i % WINDOW * 1024, 1024);
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		assert_int_equal(ibv_post_recv(ud->pair.b.qp, &wr, &bad), 0);
	}
}

/* At most a window of datagrams is outstanding, so that none is dropped. */
static void ibv_post_send_ud_many_arrive_in_order(void **state)
{
	struct ud ud;

	ud_open(&ud, *state, NULL);
	for (uint32_t done = 0; done < DATAGRAMS; done += WINDOW) {
		post_window(&ud, done, WINDOW);
		for (uint32_t i = done; i < done + WINDOW; i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, i % 900);

			sge.addr += i % WINDOW * 1024;
			memset(ud.pair.a.buf + i % WINDOW * 1024, (int)i, i % 900);
			/* One completion in four also completes the preceding WQEs. */
			wr.send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
			wr.wr_id = i;
			post_send_ok(&ud.pair.a, &wr);
		}
		for (uint32_t i = done + 3; i < done + WINDOW; i += 4)
			wc_expect(ud.pair.a.cq, i, IBV_WC_SUCCESS);
		for (uint32_t i = done; i < done + WINDOW; i++) {
			struct ibv_wc wc = wc_expect(ud.pair.b.cq, i, IBV_WC_SUCCESS);

			assert_int_equal(wc.byte_len, GRH_BYTES + i % 900);
			assert_memory_equal(ud.pair.b.buf + RECV_AT + i % WINDOW * 1024 + GRH_BYTES,
					    ud.pair.a.buf + i % WINDOW * 1024, i % 900);
		}
	}
	wc_none(ud.pair.a.cq);
	ud_close(&ud);
}

static void ibv_req_notify_cq_ud_solicited_wakes(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	const struct pair_options options = {.channel = channel};
	struct ibv_cq *cq;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	void *context;
	struct ud ud;

	assert_non_null(channel);
	ud_open(&ud, api, &options);
	assert_int_equal(ibv_req_notify_cq(ud.pair.b.cq, 1), 0);
	ud_recv(&ud.pair.b, 100);
	ud_recv(&ud.pair.b, 101);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 1);
	ud_expect(&ud.pair.b, 100, &ud.pair.a, 1);
	assert_false(readable_within(channel->fd, 0));
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 2);
	wr.send_flags |= IBV_SEND_SOLICITED;
	post_send_ok(&ud.pair.a, &wr);
	assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
	assert_ptr_equal(cq, ud.pair.b.cq);
	ibv_ack_cq_events(cq, 1);
	wc_expect(ud.pair.a.cq, 2, IBV_WC_SUCCESS);
	ud_expect(&ud.pair.b, 101, &ud.pair.a, 2);
	ud_close(&ud);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void ibv_post_srq_recv_ud_receives_datagrams(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(api->pd, &init);
	const struct pair_options options = {.srq = srq};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_wc wc;
	struct ud ud;

	assert_non_null(srq);
	ud_open(&ud, api, &options);
	for (uint32_t i = 0; i < 3; i++) {
		struct ibv_sge sge = sge_of(&ud.pair.b, RECV_AT, i == 1 ? 50 : 1000);
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 100);
	ud_expect(&ud.pair.b, 0, &ud.pair.a, 100);
	/* The receive was consumed before its length was checked; the queue pair works. */
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 100);
	wc = wc_expect(ud.pair.b.cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.vendor_err, 6);
	assert_int_equal(wc.qp_num, ud.pair.b.qp->qp_num);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 100);
	ud_expect(&ud.pair.b, 2, &ud.pair.a, 100);
	assert_ptr_equal(async_expect(api->ctx, IBV_EVENT_SRQ_LIMIT_REACHED), srq);
	assert_int_equal(qp_state(ud.pair.b.qp), IBV_QPS_RTS);
	ud_close(&ud);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_wr_send_ud_arrives(void **state)
{
	const struct pair_options options = {
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		.max_inline = 32,
	};
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	struct ud ud;

	ud_open(&ud, *state, &options);
	ex = ibv_qp_to_qp_ex(ud.pair.a.qp);
	assert_non_null(ex);
	fill_pattern(ud.pair.a.buf, 100, 4);
	ud_recv(&ud.pair.b, 200);
	ud_recv(&ud.pair.b, 201);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ud.ah, ud.pair.b.qp->qp_num, UD_QKEY);
	ibv_wr_set_sge(ex, ud.pair.a.mr->lkey, (uintptr_t)ud.pair.a.buf, 100);
	ex->wr_id = 2;
	ibv_wr_send_imm(ex, htonl(7));
	ibv_wr_set_inline_data(ex, ud.pair.a.buf, 20);
	ibv_wr_set_ud_addr(ex, ud.ah, ud.pair.b.qp->qp_num, UD_QKEY);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc_expect(ud.pair.a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(ud.pair.a.cq, 2, IBV_WC_SUCCESS);
	wc = wc_expect(ud.pair.b.cq, 200, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH_BYTES + 100);
	wc = ud_expect(&ud.pair.b, 201, &ud.pair.a, 20);
	assert_int_equal(ntohl(wc.imm_data), 7);
	ud_close(&ud);
}

/* Posted in SQD, so that the WQE still exists when its address handle is destroyed. */
static void ibv_destroy_ah_before_completion_keeps_send(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	ud_recv(&ud.pair.b, 100);
	assert_int_equal(ibv_modify_qp(ud.pair.a.qp, &attr, IBV_QP_STATE), 0);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 20);
	post_send_ok(&ud.pair.a, &wr);
	assert_int_equal(ibv_destroy_ah(ud.ah), 0);
	ud.ah = NULL;
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(ud.pair.a.qp, &attr, IBV_QP_STATE), 0);
	wc_expect(ud.pair.a.cq, 20, IBV_WC_SUCCESS);
	ud_expect(&ud.pair.b, 100, &ud.pair.a, 20);
	ud_close(&ud);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_ud_sizes_up_to_mtu_arrive),
		cmocka_unit_test(ibv_post_send_ud_imm_data_arrives),
		cmocka_unit_test(ibv_post_send_ud_sge_lists_gather_and_scatter),
		cmocka_unit_test(ibv_post_send_ud_inline_copies_data),
		cmocka_unit_test(ibv_post_send_ud_memory_is_free_at_completion),
		cmocka_unit_test(ibv_create_ah_from_wc_reply_arrives),
		cmocka_unit_test(ibv_create_ah_every_gid_reaches_peer),
		cmocka_unit_test(ibv_post_send_ud_many_arrive_in_order),
		cmocka_unit_test(ibv_req_notify_cq_ud_solicited_wakes),
		cmocka_unit_test(ibv_post_srq_recv_ud_receives_datagrams),
		cmocka_unit_test(ibv_wr_send_ud_arrives),
		cmocka_unit_test(ibv_destroy_ah_before_completion_keeps_send),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
