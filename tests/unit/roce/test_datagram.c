/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD packets: the packet of a send, the checks of received packets, and bounds of the memory that
 * packets can use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "../../with_locks.h"
#include "core/device/ah.h"
#include "core/queue/datagram.h"
#include "peer.h"

#define GOOD_PACKET                                                              \
	{                                                                        \
		.opcode = OPCODE(UD, SEND_ONLY), .qkey = PEER_QKEY, .src_qpn = 7 \
	}

static int setup(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_UD, 0);
	*state = &peer;
	return 0;
}

static int teardown(void **state)
{
	peer_close(*state);
	return 0;
}

static struct ibv_send_wr wr_of(struct peer *peer, struct ibv_ah *ah, struct ibv_sge *sge,
				uint32_t bytes)
{
	struct ibv_send_wr wr = {
		.wr_id = bytes, .sg_list = sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};

	*sge = (struct ibv_sge){(uintptr_t)peer->node->buf, bytes, peer->node->mr->lkey};
	wr.opcode = IBV_WR_SEND;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = PEER_QPN;
	wr.wr.ud.remote_qkey = 0x11;
	return wr;
}

static void post(struct peer *peer, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(peer->qp, &wr, &bad), 0);
}

static void post_bytes(struct peer *peer, struct ibv_ah *ah, uint32_t bytes)
{
	struct ibv_sge sge;

	post(peer, wr_of(peer, ah, &sge, bytes));
}

static void expect_sent(struct peer *peer, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_true(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void expect_received(struct peer *peer, uint64_t wr_id, struct ibv_wc *wc)
{
	peer_settle(peer);
	assert_true(world_poll(peer->node->recv_cq, wc));
	assert_int_equal(wc->wr_id, wr_id);
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
}

static void expect_nothing(struct peer *peer)
{
	struct ibv_wc wc;

	peer_settle(peer);
	assert_false(world_poll(peer->node->recv_cq, &wc));
}

static void roce_datagram_send_is_one_packet(void **state)
{
	struct peer *peer = *state;
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.hop_limit = 9, .traffic_class = 0xff, .flow_label = 0x54321},
	};
	struct packet packet;
	struct link_rx rx;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_ah *ah;

	memcpy(attr.grh.dgid.raw, peer_gid, GID_BYTES);
	ah = ibv_create_ah(peer->node->pd, &attr);
	assert_non_null(ah);
	memcpy(peer->node->buf, "datagram", 8);
	wr = wr_of(peer, ah, &sge, 7);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x44332211;
	wr.send_flags |= IBV_SEND_SOLICITED;
	post(peer, wr);
	post_bytes(peer, ah, 4096);
	post_bytes(peer, ah, 0);
	expect_sent(peer, 7);
	expect_sent(peer, 4096);
	expect_sent(peer, 0);
	peer_settle(peer);

	assert_true(peer_next_rx(peer, &packet, &rx));
	assert_int_equal(packet.opcode, OPCODE(UD, SEND_ONLY_IMM));
	assert_int_equal(packet.qkey, 0x11);
	assert_int_equal(packet.src_qpn, peer->qp->qp_num);
	assert_int_equal(packet.imm_be, 0x44332211);
	assert_int_equal(packet.psn, PEER_SECOND_PSN);
	assert_true(packet.is_solicited);
	assert_false(packet.wants_ack);
	assert_int_equal(packet.payload_bytes, 7);
	assert_memory_equal(packet.payload, "datagra", 7);
	/* Datagrams are sent as not ECN-capable: no sender would react to a mark. */
	assert_int_equal(rx.traffic_class, 0xfc);
	assert_int_equal(rx.hop_limit, 9);
	assert_int_equal(rx.flow_label, 0x54321);
	for (uint32_t i = 1; i <= 2; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, OPCODE(UD, SEND_ONLY));
		assert_int_equal(packet.psn, PEER_SECOND_PSN + i);
		assert_int_equal(packet.payload_bytes, i == 1 ? 4096 : 0);
		assert_false(packet.is_solicited);
	}
	assert_false(peer_next(peer, &packet));
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void roce_datagram_receive_completes_one_receive(void **state)
{
	struct peer *peer = *state;
	struct packet packet = GOOD_PACKET;
	struct grh want = {
		.dont_fragment = true,
		.traffic_class = 0x20,
		.hop_limit = 33,
		.udp_payload_bytes = BTH_BYTES + DETH_BYTES + IMM_BYTES + 8 + ICRC_BYTES,
	};
	uint8_t grh[GRH_BYTES];
	struct ibv_wc wc;

	memcpy(want.src_gid, peer_gid, GID_BYTES);
	memcpy(want.dst_gid, peer->node->gid, GID_BYTES);
	grh_build(&want, grh);
	peer->path.traffic_class = 0x20;
	peer->path.hop_limit = 33;
	peer_post_recv(peer, 5, 100);
	packet.opcode = OPCODE(UD, SEND_ONLY_IMM);
	packet.imm_be = 0x99;
	packet.psn = 0x123456;
	peer_send(peer, packet, "12345", 5);
	expect_received(peer, 5, &wc);
	assert_int_equal(wc.byte_len, GRH_BYTES + 5);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.src_qp, 7);
	assert_int_equal(wc.imm_data, 0x99);
	assert_memory_equal(peer->node->buf, grh, GRH_BYTES);
	assert_memory_equal(peer->node->buf + GRH_BYTES, "12345", 5);
	/* The PSN is ignored: the same one, and an old one. */
	for (uint32_t i = 0; i < 2; i++) {
		peer_post_recv(peer, 6, 100);
		packet.psn -= i;
		peer_send(peer, packet, "12345", 5);
		expect_received(peer, 6, &wc);
	}
}

static void roce_datagram_reply_by_received_grh_arrives(void **state)
{
	struct peer *peer = *state;
	struct packet packet = GOOD_PACKET;
	struct ibv_ah *ah;
	struct link_rx rx;
	struct ibv_wc wc;

	peer_post_recv(peer, 5, 100);
	peer_send(peer, packet, "12345", 5);
	expect_received(peer, 5, &wc);
	ah = ibv_create_ah_from_wc(peer->node->pd, &wc, (struct ibv_grh *)(void *)peer->node->buf,
				   1);
	assert_non_null(ah);
	post_bytes(peer, ah, 9);
	peer_settle(peer);
	assert_true(peer_next_rx(peer, &packet, &rx));
	assert_memory_equal(rx.remote_gid, peer->node->gid, GID_BYTES);
	assert_int_equal(packet.payload_bytes, 9);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void roce_datagram_receive_invalid_packet_is_counted(void **state)
{
	struct peer *peer = *state;
	const struct packet good = GOOD_PACKET;
	struct packet packet;
	struct ibv_wc wc;

#define DROPS(change, counter)                                             \
	do {                                                               \
		uint64_t before = peer_counter(peer, counter);             \
		packet = good;                                             \
		change;                                                    \
		peer_send(peer, packet, "12345", 5);                       \
		expect_nothing(peer);                                      \
		assert_int_equal(peer_counter(peer, counter), before + 1); \
	} while (0)
	DROPS((void)0, ROCE_DROPPED_NO_RECV);
	peer_post_recv(peer, 1, GRH_BYTES + 4);
	DROPS((void)0, ROCE_DROPPED_RECV_TOO_SHORT);
	DROPS(packet.qkey++, ROCE_DROPPED_QKEY);
	DROPS(packet.pkey = 0x8000, ROCE_DROPPED_PKEY);
	DROPS(packet.pkey = 0x7ffe, ROCE_DROPPED_PKEY);
	assert_int_equal(peer->node->engine.pkey_violations, 2);
	DROPS(packet.dest_qpn = peer->qp->qp_num + 1, ROCE_DROPPED_UNKNOWN_QPN);
	DROPS(packet.dest_qpn = DATAGRAM_QPN_MULTICAST, ROCE_DROPPED_UNKNOWN_QPN);
	DROPS(packet.opcode = OPCODE(RC, SEND_ONLY), ROCE_DROPPED_OPCODE);
	DROPS(packet.opcode = OPCODE(UC, SEND_ONLY), ROCE_DROPPED_OPCODE);
	/* A limited member of the partition is a member. */
	packet = good;
	packet.pkey = 0x7fff;
	peer_send(peer, packet, "1234", 4);
	expect_received(peer, 1, &wc);

	/* Any bit changed after the ICRC was computed; BTH byte 4 is not covered. */
	peer_post_recv(peer, 2, 100);
	for (size_t at = 5; at < BTH_BYTES + DETH_BYTES + 8 + ICRC_BYTES; at++)
		peer_send_spoilt(peer, good, "12345", 5, at, 0x10, false);
	expect_nothing(peer);
	assert_int_equal(roce_of(&peer->node->engine)->unparsable[PACKET_ICRC],
			 BTH_BYTES - 5 + DETH_BYTES + 8 + ICRC_BYTES);
	peer_send(peer, good, "12345", 5);
	expect_received(peer, 2, &wc);
#undef DROPS
}

static void roce_datagram_receive_invalid_wr_is_counted(void **state)
{
	struct peer *peer = *state;
	const struct packet good = GOOD_PACKET;
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, 100, peer->node->mr->lkey + 1};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_recv(peer->qp, &wr, &bad), 0);
	peer_send(peer, good, "1", 1);
	peer_settle(peer);
	assert_true(world_poll(peer->node->recv_cq, &wc));
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_BAD_RECV), 1);
	peer_send(peer, good, "1", 1);
	expect_nothing(peer);
	assert_int_equal(peer_counter(peer, ROCE_DROPPED_QP_STATE), 1);
}

static void roce_datagram_receive_without_df_is_accepted(void **state)
{
	struct peer *peer = *state;
	const struct packet good = GOOD_PACKET;
	struct grh grh;
	struct ibv_wc wc;

	peer_post_recv(peer, 1, 100);
	icrc_flow_set_dont_fragment(&peer->flow, false);
	for (int i = 0; i < 3; i++)
		peer_send(peer, good, "1", 1);
	expect_nothing(peer);
	peer_send(peer, good, "1", 1);
	expect_received(peer, 1, &wc);
	assert_int_equal(grh_parse(&grh, peer->node->buf), 0);
	assert_false(grh.dont_fragment);
}

/* A new sender takes the entry of another one, whose datagrams are still received. */
static void roce_datagram_receive_many_senders_are_accepted(void **state)
{
	struct peer *peer = *state;
	const struct packet good = GOOD_PACKET;
	struct ibv_wc wc;

	for (unsigned i = 0; i < 20 * ROCE_INFLOWS; i++) {
		peer->path.src_port = (uint16_t)(1 + i);
		icrc_flow_init(&peer->flow, peer_gid, peer->node->gid, peer->path.src_port,
			       PACKET_UDP_PORT);
		peer_post_recv(peer, i, 100);
		peer_send(peer, good, "1", 1);
		expect_received(peer, i, &wc);
	}
}

static void roce_datagram_send_uses_port_of_process(void **state)
{
	struct peer *peer = *state;
	struct ibv_ah *ah = world_create_ah(peer->node, peer_gid);
	struct roce *roce = roce_of(&peer->node->engine);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	wr = wr_of(peer, ah, &sge, 1);
	/* Two queue pairs of one process, and two further processes. */
	for (uint32_t i = 0; i < 4; i++) {
		wr.wr.ud.remote_qpn = i < 2 ? 0x8002 + i : (i + 2) << LINK_PEER_QPN_SHIFT;
		post(peer, wr);
		assert_int_equal(roce->datagrams.path_count, i < 1 ? 1 : i);
	}
	/* The number of stored paths is limited. */
	for (uint32_t i = 0; i < 511; i++) {
		wr.wr.ud.remote_qpn = i << LINK_PEER_QPN_SHIFT;
		post(peer, wr);
		peer_settle(peer);
		expect_sent(peer, 1);
		assert_true(roce->datagrams.path_count <= 256);
	}
	assert_int_equal(roce->datagrams.path_count, 256);
	assert_int_equal(peer_counter(peer, ROCE_DATAGRAMS_LOST), 0);
	assert_int_equal(peer_counter(peer, ROCE_PACKETS_SENT), 4 + 511);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(roce->datagrams.path_count, 0);
}

static void refuse(struct peer *peer, unsigned chance)
{
	const struct sim_faults faults = {.refuse = chance};

	sim_net_set_faults(peer->world.net, &faults);
}

static void roce_datagram_send_full_link_waits(void **state)
{
	struct peer *peer = *state;
	struct ibv_ah *ah = world_create_ah(peer->node, peer_gid);
	struct packet packet;
	struct ibv_wc wc;

	refuse(peer, SIM_CERTAIN);
	memcpy(peer->node->buf, "first", 5);
	post_bytes(peer, ah, 5);
	/* Inline data is copied; other payload is sent from the application's memory. */
	expect_sent(peer, 5);
	memcpy(peer->node->buf, "other", 5);
	post_bytes(peer, ah, 4);
	post_bytes(peer, ah, 3);
	assert_false(world_poll(peer->node->send_cq, &wc));
	assert_int_equal(ibv_destroy_ah(ah), 0);
	peer->world.now_ns += 1000000;
	world_turn(&peer->world);
	assert_false(world_poll(peer->node->send_cq, &wc));
	refuse(peer, 0);
	peer->world.now_ns += 1000000;
	peer_settle(peer);
	expect_sent(peer, 4);
	expect_sent(peer, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.payload_bytes, 5 - i);
		assert_memory_equal(packet.payload, i ? "other" : "first", 5 - i);
		assert_int_equal(packet.psn, PEER_SECOND_PSN + i);
	}
}

static void roce_datagram_send_without_link_fails(void **state)
{
	struct peer *peer = *state;
	struct ibv_ah *ah = world_create_ah(peer->node, peer_gid);
	struct roce *roce = roce_of(&peer->node->engine);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct link *link = roce->link;

	roce->link = NULL;
	memcpy(attr.grh.dgid.raw, peer_gid, GID_BYTES);
	errno = 0;
	assert_null(ibv_create_ah(peer->node->pd, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	post_bytes(peer, ah, 1);
	expect_sent(peer, 1);
	assert_int_equal(peer_counter(peer, ROCE_DATAGRAMS_LOST), 1);
	roce->link = link;
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* A link that never has a datagram, and counts its calls. */
static unsigned asked;

static int ask_in_vain(struct link *link, struct link_rx *rx, int max)
{
	(void)link;
	(void)rx;
	(void)max;
	asked++;
	return 0;
}

static int some_fd(struct link *link)
{
	(void)link;
	return 0;
}

static uint64_t clock_at(void *arg)
{
	return *(uint64_t *)arg;
}

static void poll_often(struct engine *engine, unsigned times)
{
	engine_lock(engine);
	while (times--)
		roce_transport.run(engine);
	engine_unlock(engine);
}

/* Replaces the link of the engine by that link. Returns the former one. */
static struct link *be_silent(struct engine *engine, uint64_t *now_ns)
{
	static const struct link_ops ops = {.recv = ask_in_vain, .fd = some_fd};
	static struct link silent = {.ops = &ops};
	struct link *before = roce_of(engine)->link;

	asked = 0;
	WITH_LOCKS(engine, roce_set_link(engine, &silent, clock_at, now_ns));
	return before;
}

static void roce_datagram_run_idle_link_is_polled_rarely(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;
	uint64_t now_ns = 1000000;
	struct link *link = be_silent(engine, &now_ns);

	poll_often(engine, 256);
	assert_int_equal(asked, 256);
	poll_often(engine, 1000);
	assert_in_range(asked, 256, 257);
	asked = 0;
	/* A thread that polls rarely checks the link in each poll. */
	for (unsigned i = 1; i <= 5; i++) {
		now_ns += 2000;
		poll_often(engine, 100);
		assert_int_equal(asked, i);
	}
	/* After a notification the link is checked. */
	WITH_LOCKS(engine, roce_link_is_readable(engine));
	poll_often(engine, 100);
	assert_int_equal(asked, 6);
	/* The engine thread waits for the link. */
	engine->progress.state = PROGRESS_THREAD;
	now_ns += 2000;
	poll_often(engine, 100);
	assert_int_equal(asked, 6);
	WITH_LOCKS(engine, roce_link_is_readable(engine));
	poll_often(engine, 100);
	assert_int_equal(asked, 7);
	engine->progress.state = PROGRESS_POLLED;
	now_ns += 2000;
	poll_often(engine, 100);
	assert_int_equal(asked, 8);
	WITH_LOCKS(engine, roce_set_link(engine, link, clock_at, &now_ns));
}

/*
 * The engine thread calls link_recv() again only if the descriptor is readable, or if the
 * application must not wait for it.
 */
static void roce_datagram_run_in_waiting_thread_reads_link_once(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;
	uint64_t now_ns = 1000000;
	struct link *link = be_silent(engine, &now_ns);

	engine->progress.state = PROGRESS_THREAD;
	engine->run_by = RUN_BY_THREAD;
	WITH_LOCKS(engine, roce_link_is_readable(engine));
	poll_often(engine, 3);
	assert_int_equal(asked, 1);
	engine->run_by = RUN_BY_LATE_THREAD;
	poll_often(engine, 1);
	assert_int_equal(asked, 2);
	engine->run_by = RUN_BY_CALL;
	poll_often(engine, 1);
	assert_int_equal(asked, 3);
	/* A thread in ibv_get_cq_event() does the same. */
	engine->run_by = RUN_BY_SERVER;
	poll_often(engine, 3);
	assert_int_equal(asked, 3);
	WITH_LOCKS(engine, roce_link_is_readable(engine));
	poll_often(engine, 3);
	assert_int_equal(asked, 4);
	engine->run_by = RUN_BY_CALL;
	engine->progress.state = PROGRESS_POLLED;
	WITH_LOCKS(engine, roce_set_link(engine, link, clock_at, &now_ns));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(roce_datagram_send_is_one_packet),
		TEST(roce_datagram_receive_completes_one_receive),
		TEST(roce_datagram_reply_by_received_grh_arrives),
		TEST(roce_datagram_receive_invalid_packet_is_counted),
		TEST(roce_datagram_receive_invalid_wr_is_counted),
		TEST(roce_datagram_receive_without_df_is_accepted),
		TEST(roce_datagram_receive_many_senders_are_accepted),
		TEST(roce_datagram_send_uses_port_of_process),
		TEST(roce_datagram_send_full_link_waits),
		TEST(roce_datagram_send_without_link_fails),
		TEST(roce_datagram_run_idle_link_is_polled_rarely),
		TEST(roce_datagram_run_in_waiting_thread_reads_link_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
