/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets to a multicast group: which queue pairs receive them, and the reasons to drop them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/queue/datagram.h"
#include "peer.h"

#define IFINDEX 1 /* ifindex of the node's device */
#define GOOD_PACKET                                                               \
	{                                                                         \
		.opcode = OPCODE(UD, SEND_ONLY), .qkey = PEER_QKEY, .src_qpn = 7, \
		.dest_qpn = DATAGRAM_QPN_MULTICAST                                \
	}

/* A queue pair in the group, and a peer that sends to the group. */
static int setup(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_UD, 0);
	peer_aim(&peer, peer_group.raw);
	assert_int_equal(ibv_attach_mcast(peer.qp, &peer_group, 0), 0);
	*state = &peer;
	return 0;
}

static int teardown(void **state)
{
	struct peer *peer = *state;

	/* The test may have left the group. */
	(void)ibv_detach_mcast(peer->qp, &peer_group, 0);
	peer_close(peer);
	return 0;
}

static void send_good(struct peer *peer)
{
	const struct packet packet = GOOD_PACKET;

	peer_send(peer, packet, "to all", 6);
	peer_settle(peer);
}

static void expect_received(struct peer *peer, uint64_t wr_id)
{
	struct grh grh;
	struct ibv_wc wc;

	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH_BYTES + 6);
	assert_int_equal(wc.src_qp, 7);
	assert_int_equal(grh_parse(&grh, peer->node->buf), 0);
	assert_memory_equal(grh.src_gid, peer_gid, GID_BYTES);
	assert_memory_equal(grh.dst_gid, peer_group.raw, GID_BYTES);
	assert_memory_equal(peer->node->buf + GRH_BYTES, "to all", 6);
}

static void expect_nothing(struct peer *peer)
{
	struct ibv_wc wc;

	peer_settle(peer);
	assert_false(world_poll(peer->node->recv_cq, &wc));
}

static void roce_multicast_receive_member_gets_copy(void **state)
{
	struct peer *peer = *state;

	peer_post_recv(peer, 5, 100);
	send_good(peer);
	expect_received(peer, 5);
	expect_nothing(peer);
	assert_int_equal(ibv_detach_mcast(peer->qp, &peer_group, 0), 0);
	peer_post_recv(peer, 6, 100);
	send_good(peer);
	/* The node has left the group, so the network does not deliver the packet. */
	assert_int_equal(peer_counter(peer, ROCE_PACKETS_RECEIVED), 1);
	expect_nothing(peer);
	assert_int_equal(ibv_attach_mcast(peer->qp, &peer_group, 0), 0);
	send_good(peer);
	expect_received(peer, 6);
}

static void roce_multicast_receive_without_member_is_counted(void **state)
{
	struct peer *peer = *state;
	const struct packet good = GOOD_PACKET;
	struct packet packet;

#define DROPS(change, counter)                                             \
	do {                                                               \
		uint64_t before = peer_counter(peer, counter);             \
		packet = good;                                             \
		change;                                                    \
		peer_send(peer, packet, "to all", 6);                      \
		expect_nothing(peer);                                      \
		assert_int_equal(peer_counter(peer, counter), before + 1); \
	} while (0)
	DROPS((void)0, ROCE_DROPPED_NO_RECV);
	peer_post_recv(peer, 1, 100);
	DROPS(packet.qkey++, ROCE_DROPPED_QKEY);
	DROPS(packet.pkey = 0x8000, ROCE_DROPPED_PKEY);
	/* The multicast address with a unicast QPN; a unicast address with the multicast QPN. */
	DROPS(packet.dest_qpn = peer->qp->qp_num, ROCE_DROPPED_UNKNOWN_QPN);
	peer_aim(peer, peer->node->gid);
	DROPS((void)0, ROCE_DROPPED_UNKNOWN_QPN);
	peer_aim(peer, peer_group.raw);
	/* Reliable services have no multicast. */
	DROPS(packet.opcode = OPCODE(RC, SEND_ONLY), ROCE_DROPPED_UNKNOWN_QPN);
	DROPS(packet.opcode = OPCODE(UC, SEND_ONLY), ROCE_DROPPED_UNKNOWN_QPN);
	/* The ICRC is that of a packet to another address. */
	icrc_flow_init(&peer->flow, peer_gid, peer->node->gid, peer->path.src_port,
		       PACKET_UDP_PORT);
	DROPS((void)0, ROCE_DROPPED_UNPARSABLE);
	assert_int_equal(roce_of(&peer->node->engine)->unparsable[PACKET_ICRC], 1);
	peer_aim(peer, peer_group.raw);
	send_good(peer);
	expect_received(peer, 1);
#undef DROPS
}

/*
 * A socket may receive packets of groups that other processes joined, and of groups on other
 * interfaces.
 */
static void roce_multicast_receive_group_of_other_process_is_dropped(void **state)
{
	struct peer *peer = *state;

	peer_post_recv(peer, 1, 100);
	assert_int_equal(ibv_detach_mcast(peer->qp, &peer_group, 0), 0);
	assert_int_equal(link_join(peer->node->link, IFINDEX, peer_group.raw), 0);
	send_good(peer);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_UNKNOWN_QPN), 1);
	link_leave(peer->node->link, IFINDEX, peer_group.raw);

	assert_int_equal(link_join(peer->node->link, IFINDEX + 1, peer_group.raw), 0);
	assert_int_equal(ibv_attach_mcast(peer->qp, &peer_group, 0), 0);
	send_good(peer);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_UNKNOWN_QPN), 2);
	link_leave(peer->node->link, IFINDEX + 1, peer_group.raw);
	send_good(peer);
	expect_received(peer, 1);
}

static void roce_multicast_send_goes_to_group_address(void **state)
{
	struct peer *peer = *state;
	struct ibv_ah *ah = world_create_ah(peer->node, peer_group.raw);
	struct ibv_sge sge = {(uintptr_t)peer->node->buf + 4096, 6, peer->node->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 3,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct packet packet;
	struct link_rx rx;
	struct ibv_wc wc;

	memcpy(peer->node->buf + 4096, "to all", 6);
	assert_int_equal(link_join(peer->link, IFINDEX, peer_group.raw), 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = DATAGRAM_QPN_MULTICAST;
	wr.wr.ud.remote_qkey = PEER_QKEY;
	peer_post_recv(peer, 9, 100);
	assert_int_equal(ibv_post_send(peer->qp, &wr, &bad), 0);
	peer_settle(peer);
	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(link_recv(peer->link, &rx, 1), 1);
	assert_memory_equal(rx.local_gid, peer_group.raw, GID_BYTES);
	assert_memory_equal(rx.remote_gid, peer->node->gid, GID_BYTES);
	assert_int_equal(packet_parse(&packet, rx.bytes, rx.len), PACKET_OK);
	assert_int_equal(packet.dest_qpn, DATAGRAM_QPN_MULTICAST);
	assert_int_equal(packet.src_qpn, peer->qp->qp_num);
	/* The sender is a member itself. */
	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.src_qp, peer->qp->qp_num);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(roce_multicast_receive_member_gets_copy, setup,
						teardown),
		cmocka_unit_test_setup_teardown(roce_multicast_receive_without_member_is_counted,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			roce_multicast_receive_group_of_other_process_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(roce_multicast_send_goes_to_group_address, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("multicast", tests, NULL, NULL);
}
