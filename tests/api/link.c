/* SPDX-License-Identifier: BSD-2-Clause */
#include "link.h"

void link_open(struct link *link, struct api *api, enum peer_flavour flavour,
	       struct pair_options options)
{
	peer_start(&link->peer, flavour, &options);
	options.stays_unconnected = true;
	pair_open(&link->pair, api, &options);
	link->side = &link->pair.a;
	peer_connect(&link->peer, &link->pair);
}

void link_close(struct link *link)
{
	pair_close(&link->pair);
	peer_stop(&link->peer);
}

void for_each_flavour(struct api *api, void (*body)(struct link *link), struct pair_options options)
{
	for (enum peer_flavour flavour = 0; flavour < PEER_FLAVOURS; flavour++) {
		struct link link;

		link_open(&link, api, flavour, options);
		body(&link);
		link_close(&link);
	}
}

void settle(const struct link *link)
{
	assert_int_equal(qp_state(link->side->qp), IBV_QPS_RTS);
}

struct ibv_send_wr to_peer(const struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   uint64_t offset, uint64_t wr_id)
{
	struct ibv_send_wr wr = send_wr(opcode, sge, NULL, 0, wr_id);

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = link->peer.addr + offset;
		wr.wr.atomic.rkey = link->peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = link->peer.addr + offset;
		wr.wr.rdma.rkey = link->peer.rkey;
	}
	return wr;
}

struct peer_command from_peer(const struct link *link, enum ibv_wr_opcode opcode, uint64_t offset,
			      uint32_t length, uint64_t wr_id)
{
	struct peer_command command = {
		.op = PEER_SEND,
		.opcode = opcode,
		.offset = offset,
		.length = length,
		.wr_id = wr_id,
		.value = link->side->mr->rkey,
		.remote_addr = (uintptr_t)link->side->buf + offset,
	};

	return command;
}

void one_sided_work_goes_on(struct link *link, uint32_t bytes)
{
	struct ibv_sge sge = sge_of(link->side, 0, bytes);

	for (uint64_t i = 0; i < 200; i++) {
		struct ibv_send_wr wr = to_peer(link, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
						&sge, 0, i);

		post_send_ok(link->side, &wr);
		wc_expect(link->side->cq, i, IBV_WC_SUCCESS);
	}
}
