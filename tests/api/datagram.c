/* SPDX-License-Identifier: BSD-2-Clause */
#include "datagram.h"

#include <string.h>

#define GIDS 16

uint8_t ud_gid_index(struct ibv_context *ctx, bool is_ipv4)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
	union ibv_gid gid;

	for (uint8_t i = 0; i < GIDS; i++) {
		if (ibv_query_gid(ctx, 1, i, &gid) || gid.raw[0] == 0xfe)
			continue;
		if (!memcmp(gid.raw, mapped, sizeof(mapped)) == is_ipv4)
			return i;
	}
	fail_msg("the device has no %s address", is_ipv4 ? "IPv4" : "IPv6");
	return 0;
}

struct ibv_ah *ud_create_ah(struct ibv_pd *pd, uint8_t gid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = gid_index, .hop_limit = 64}};
	struct ibv_ah *ah;

	assert_int_equal(ibv_query_gid(pd->context, 1, gid_index, &attr.grh.dgid), 0);
	ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	return ah;
}

void ud_open(struct ud *ud, struct api *api, const struct pair_options *options)
{
	struct pair_options ud_options = {0};

	if (options)
		ud_options = *options;
	ud_options.type = IBV_QPT_UD;
	pair_open(&ud->pair, api, &ud_options);
	ud->ah = ud_create_ah(api->pd, ud_gid_index(api->ctx, true));
}

void ud_close(struct ud *ud)
{
	if (ud->ah)
		assert_int_equal(ibv_destroy_ah(ud->ah), 0);
	pair_close(&ud->pair);
}

struct ibv_send_wr ud_wr(const struct ud *ud, const struct side *from, const struct side *to,
			 struct ibv_sge *sge, uint32_t bytes)
{
	struct ibv_send_wr wr;

	*sge = sge_of(from, 0, bytes);
	wr = send_wr(IBV_WR_SEND, sge, NULL, 0, bytes);
	wr.wr.ud.ah = ud->ah;
	wr.wr.ud.remote_qpn = to->qp->qp_num;
	wr.wr.ud.remote_qkey = UD_QKEY;
	return wr;
}

void ud_send(const struct ud *ud, struct side *from, const struct side *to, uint32_t bytes)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = ud_wr(ud, from, to, &sge, bytes);

	post_send_ok(from, &wr);
	wc_expect(from->cq, bytes, IBV_WC_SUCCESS);
}

void ud_recv(struct side *side, uint32_t bytes)
{
	struct ibv_sge sge = sge_of(side, RECV_AT, bytes);

	post_recv_ok(side, &sge, 1, bytes);
}

struct ibv_wc ud_expect(const struct side *side, uint64_t wr_id, const struct side *from,
			uint32_t bytes)
{
	struct ibv_wc wc = wc_expect(side->cq, wr_id, IBV_WC_SUCCESS);

	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, GRH_BYTES + bytes);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(wc.src_qp, from->qp->qp_num);
	assert_int_equal(wc.qp_num, side->qp->qp_num);
	assert_memory_equal(side->buf + RECV_AT + GRH_BYTES, from->buf, bytes);
	return wc;
}
