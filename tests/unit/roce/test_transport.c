/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The other functions of the transport: binding, sleeping, counters; and connections that it
 * refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../with_locks.h"
#include "base/clock.h"
#include "base/util.h"
#include "core/qp/qp.h"
#include "ipc/segment.h"
#include "peer.h"
#include "roce/qp.h"

static const struct world_qp_attr attr = {
	.type = IBV_QPT_RC,
	.mtu = IBV_MTU_256,
	.timeout = 14,
	.retry_cnt = 1,
	.rnr_retry = 1,
	.rd_atomic = 1,
	.access = IBV_ACCESS_REMOTE_WRITE,
	.max_wr = 16,
};

static bool owns_any_gid;

/* Replaces device_owns_gid() by a linker option. */
bool __wrap_device_owns_gid(struct engine *engine, const union ibv_gid *gid);

bool __wrap_device_owns_gid(struct engine *engine, const union ibv_gid *gid)
{
	(void)engine;
	(void)gid;
	return owns_any_gid;
}

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

/* Connects a new QP with that source GID to this GID: 0 or an errno. */
static int connect_one(struct world_node *node, const uint8_t *dgid, uint8_t sgid_index,
		       struct ibv_qp **qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = attr.access};

	*qp = world_create_qp(node, &attr);
	assert_int_equal(ibv_modify_qp(*qp, &a,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.sgid_index = sgid_index},
	};
	memcpy(a.ah_attr.grh.dgid.raw, dgid, GID_BYTES);
	return ibv_modify_qp(*qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static void expect_refused(struct peer *peer, const uint8_t *dgid, int error)
{
	unsigned int before = roce_of(&peer->node->engine)->qp_count;
	struct ibv_qp *qp;

	assert_int_equal(connect_one(peer->node, dgid, 0, &qp), error);
	assert_int_equal(roce_of(&peer->node->engine)->qp_count, before);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static int no_path(struct link *link, struct link_path *path)
{
	(void)link;
	(void)path;
	return -EMFILE;
}

static void roce_bind_unreachable_peer_fails(void **state)
{
	static const uint8_t ipv6[GID_BYTES] = {0xfd, [15] = 1};
	struct peer *peer = *state;
	struct link_ops ops = *peer->node->link->ops;
	const struct link_ops *sim_ops = peer->node->link->ops;

	/* An IPv6 destination is not reachable from an IPv4 address. */
	expect_refused(peer, ipv6, EINVAL);
	ops.path_open = no_path;
	peer->node->link->ops = &ops;
	expect_refused(peer, peer_gid, EMFILE);
	peer->node->link->ops = sim_ops;
}

static void roce_bind_without_link_fails(void **state)
{
	const struct world_qp_attr ud = {.type = IBV_QPT_UD, .max_wr = 4, .qkey = 1};
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;
	struct ibv_qp *qp = world_create_qp(peer->node, &ud);

	world_ready(qp, &ud);
	world_reset_qp(peer->qp);
	WITH_LOCKS(engine, roce_set_link(engine, NULL, NULL, NULL));
	expect_refused(peer, peer_gid, EOPNOTSUPP);
	assert_int_not_equal(ibv_attach_mcast(qp, &peer_group, 0), 0);
	WITH_LOCKS(engine, assert_false(roce_transport.sleep(engine, true)));
	assert_false(roce_is_held(engine));
	WITH_LOCKS(engine, assert_int_equal(roce_transport.run(engine), 0));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/*
 * Every device except `lo` has link-local addresses: between two devices of this host lo carries
 * the packets.
 */
static void roce_bind_link_local_of_same_host_uses_loopback(void **state)
{
	static const uint8_t local[GID_BYTES] = {0xfe, 0x80, [15] = 1};
	static const uint8_t remote[GID_BYTES] = {0xfe, 0x80, [15] = 2};
	struct peer *peer = *state;
	struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
	uint8_t wanted[GID_BYTES];
	struct ibv_qp *qp;

	memcpy(peer->node->device.info.gids[0].raw, local, GID_BYTES);
	gid_from_ipv4(wanted, &loopback);
	for (int i = 0; i < 2; i++) {
		owns_any_gid = i;
		assert_int_equal(connect_one(peer->node, remote, 0, &qp), 0);
		assert_memory_equal(roce_qp_of(to_qp(qp))->path.remote_gid, i ? wanted : remote,
				    GID_BYTES);
		assert_memory_equal(roce_qp_of(to_qp(qp))->path.local_gid, i ? wanted : local,
				    GID_BYTES);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* A QP in RTR learns from the first packet that its peer is connected, and raises one event. */
static void roce_receive_first_packet_in_rtr_establishes(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(RC, WRITE_ONLY)};
	struct ibv_qp *qp;

	assert_int_equal(connect_one(peer->node, peer_gid, 0, &qp), 0);
	packet.dest_qpn = qp->qp_num;
	for (uint32_t psn = 0; psn < 2; psn++) {
		packet.psn = psn;
		peer_send(peer, packet, NULL, 0);
		peer_settle(peer);
	}
	assert_int_equal(peer_event(peer), IBV_EVENT_COMM_EST);
	assert_int_equal(peer_event(peer), -1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void send_only(struct peer *peer, const void *payload, size_t bytes)
{
	const struct packet packet = {
		.opcode = OPCODE(RC, SEND_ONLY), .psn = PEER_FIRST_PSN, .wants_ack = true};

	peer_send(peer, packet, payload, bytes);
}

/*
 * As local_reconnect_with_same_psns_drops_what_arrived_in_reset: programs such as Apache brpc use
 * the PSN 0 for each connection of the same QPs. A NIC drops what arrives in RESET and INIT; here
 * it waits in the socket until the engine runs.
 */
static void roce_bind_with_same_psn_drops_what_arrived_in_reset(void **state)
{
	struct peer *peer = *state;
	struct ibv_wc wc;

	send_only(peer, "old", 4);
	world_reset_qp(peer->qp);
	peer->world.now_ns += CLOCK_NS_PER_S;
	sim_net_advance(peer->world.net, peer->world.now_ns);
	world_connect_to(peer->qp, peer_gid, PEER_QPN, PEER_FIRST_PSN, PEER_SECOND_PSN, &attr);
	peer_post_recv(peer, 1, 4);
	peer_settle(peer);
	assert_int_equal(ibv_poll_cq(peer->qp->recv_cq, 1, &wc), 0);
	send_only(peer, "new", 4);
	peer_settle(peer);
	assert_int_equal(ibv_poll_cq(peer->qp->recv_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal((char *)peer->node->buf, "new");
}

/* A message without an announced length is limited to the longest permitted message. */
static void roce_receive_longer_than_max_message_gets_nak(void **state)
{
	static const uint8_t bytes[PEER_MTU];
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(RC, SEND_FIRST), .psn = PEER_FIRST_PSN};

	peer_post_recv(peer, 1, 4 * PEER_MTU);
	peer_send(peer, packet, bytes, PEER_MTU);
	peer_settle(peer);
	roce_qp_of(to_qp(peer->qp))->rx.in->done_bytes = MAX_MSG_BYTES - PEER_MTU + 1;
	packet.opcode = OPCODE(RC, SEND_MIDDLE);
	packet.psn = psn_next(packet.psn);
	peer_send(peer, packet, bytes, PEER_MTU);
	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.syndrome, aeth_make(AETH_KIND_NAK, AETH_NAK_INVALID_REQUEST));
	assert_int_equal(peer_event(peer), IBV_EVENT_QP_REQ_ERR);
}

static struct ibv_qp *uc_qp(struct peer *peer)
{
	struct world_qp_attr uc = attr;
	struct ibv_qp *qp;

	uc.type = IBV_QPT_UC;
	qp = world_create_qp(peer->node, &uc);
	world_connect_to(qp, peer_gid, PEER_QPN, 0, 0, &uc);
	return qp;
}

/* Packets posted before an invalid WR were sent. */
static void roce_kick_invalid_uc_send_fails_alone(void **state)
{
	struct peer *peer = *state;
	struct ibv_qp *qp = uc_qp(peer);
	struct ibv_sge sges[2] = {{(uintptr_t)peer->node->buf, 8, peer->node->mr->lkey},
				  {(uintptr_t)peer->node->buf, 8, 1}};
	struct ibv_send_wr wrs[2], *bad;
	struct ibv_wc wc;

	memset(wrs, 0, sizeof(wrs));
	for (int i = 0; i < 2; i++) {
		wrs[i].wr_id = 1 + (uint64_t)i;
		wrs[i].opcode = IBV_WR_SEND;
		wrs[i].send_flags = IBV_SEND_SIGNALED;
		wrs[i].sg_list = &sges[i];
		wrs[i].num_sge = 1;
	}
	wrs[0].next = &wrs[1];
	assert_int_equal(ibv_post_send(qp, wrs, &bad), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(world_poll(peer->node->send_cq, &wc));
		assert_int_equal(wc.wr_id, 1 + i);
		assert_int_equal(wc.status, i ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/*
 * More work than one run permits: the engine thread processes the rest. It must not sleep, and is
 * woken if no thread polls.
 */
static void roce_sleep_pending_work_prevents_sleep(void **state)
{
	struct peer *peer = *state;
	struct engine *engine = &peer->node->engine;
	struct ibv_qp *qp = uc_qp(peer);
	struct ibv_sge sge = {(uintptr_t)peer->node->buf, 200 * PEER_MTU, peer->node->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	uint64_t rung = 0;

	engine->progress.state = PROGRESS_NONE;
	engine->watches.doorbell_fd = eventfd(0, EFD_NONBLOCK);
	assert_true(engine->watches.doorbell_fd >= 0);
	WITH_LOCKS(engine, assert_false(roce_transport.sleep(engine, true)));
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(read(engine->watches.doorbell_fd, &rung, sizeof(rung)), sizeof(rung));
	WITH_LOCKS(engine, assert_true(roce_transport.sleep(engine, true)));
	WITH_LOCKS(engine, assert_false(roce_transport.sleep(engine, false)));
	close(engine->watches.doorbell_fd);
	engine->watches.doorbell_fd = -1;
	engine->progress.state = PROGRESS_POLLED;
	peer_settle(peer);
	WITH_LOCKS(engine, assert_false(roce_transport.sleep(engine, true)));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* With enough room all counters have unique names and count. */
static void roce_counter_name_counters_are_unique(void **state)
{
	struct segment_counters *table = calloc(1, sizeof(*table));
	struct engine *engine = calloc(1, sizeof(*engine));
	int segment_fd = -1;
	unsigned named = 0;

	(void)state;
	assert_non_null(table);
	assert_non_null(engine);
	biased_lock_init(&engine->lock);
	engine_init_lists(engine);
	engine->segment.counters = table;
	WITH_LOCKS(engine, assert_int_equal(roce_transport.open(engine, &segment_fd), 0));
	assert_ptr_equal(roce_of(engine)->counters, table->values);
	for (unsigned i = 0; i < ROCE_ALL_COUNTERS; i++) {
		if (i == (unsigned int)ROCE_COUNTER_COUNT + (unsigned int)PACKET_OK)
			continue;
		assert_int_equal(strncmp(table->names[i], "roce.", 5), 0);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(table->names[i], table->names[k]);
		named++;
	}
	assert_int_equal(named, ROCE_ALL_COUNTERS - 1);
	assert_string_equal(roce_counter_name(ROCE_PACKETS_SENT), "packets sent");
	assert_string_equal(roce_counter_name(ROCE_COUNTER_COUNT), "unknown");
	WITH_LOCKS(engine, roce_transport.close(engine));
	WITH_LOCKS(engine, roce_transport.close(engine));
	biased_lock_fini(&engine->lock);
	free(engine);
	free(table);
}

static void roce_receive_cnp_in_rtr_is_counted(void **state)
{
	struct peer *peer = *state;
	struct packet packet = {.opcode = OPCODE(CNP, NOTIFICATION)};
	uint64_t *notices = &roce_of(&peer->node->engine)->counters[ROCE_CONGESTION_NOTICES];
	struct ibv_qp *qp;

	assert_int_equal(connect_one(peer->node, peer_gid, 0, &qp), 0);
	packet.dest_qpn = qp->qp_num;
	for (uint64_t i = 1; i <= 3; i++) {
		peer_send(peer, packet, NULL, 0);
		peer_settle(peer);
		assert_int_equal(*notices, i);
	}
	assert_int_equal(qp->state, IBV_QPS_RTR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Sends a response that a switch has marked. Returns the window. */
static uint32_t window_after_mark(struct peer *peer, uint8_t opcode, uint32_t psn, size_t bytes)
{
	static const uint8_t payload[PEER_MTU];
	struct packet response = {.opcode = opcode, .psn = psn, .syndrome = 0x1f};

	peer->path.traffic_class = 3;
	peer_send(peer, response, payload, bytes);
	peer_settle(peer);
	return roce_qp_of(to_qp(peer->qp))->tx.cc.cwnd_pkts;
}

/* The requester's window limits READ responses, but not ACKs. */
static void roce_receive_marked_read_response_reduces_window(void **state)
{
	struct peer *peer = *state;
	uint32_t window = roce_qp_of(to_qp(peer->qp))->tx.cc.cwnd_pkts;

	peer_post_send(peer, IBV_WR_RDMA_READ, 8 * PEER_MTU, 0);
	assert_int_equal(window_after_mark(peer, OPCODE(RC, ACK), psn_prev(PEER_SECOND_PSN), 0),
			 window);
	assert_true(window_after_mark(peer, OPCODE(RC, READ_RESPONSE_FIRST), PEER_SECOND_PSN,
				      PEER_MTU) < window);
	assert_int_equal(peer_counter(peer, ROCE_CONGESTION_MARKS), 2);
}

/* A switch must drop packets of a sender that does not react to marks (RFC 3168 §5). */
static void roce_bind_only_reliable_packets_are_ecn_capable(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};
	static struct peer peer;
	struct packet packet;
	struct link_rx rx;

	(void)state;
	for (size_t i = 0; i < COUNT(types); i++) {
		peer_open(&peer, types[i], 0);
		peer_post_send(&peer, IBV_WR_RDMA_WRITE, 8, 0);
		assert_true(peer_next_rx(&peer, &packet, &rx));
		assert_int_equal(rx.traffic_class & ROCE_ECN_MASK, types[i] == IBV_QPT_RC ? 2 : 0);
		peer_close(&peer);
	}
}

/* Unknown names change nothing; a known name applies to queue pairs that are connected later. */
static void roce_set_cc_selects_algorithm_of_new_qps(void **state)
{
	struct peer *peer = *state;
	struct roce_qp *rqp = roce_qp_of(to_qp(peer->qp));
	struct engine *engine = &peer->node->engine;
	struct ibv_qp *qp;

	assert_ptr_equal(rqp->tx.cc.ops, &cc_westwood);
	assert_int_equal(roce_set_cc(engine, "vegas"), -EINVAL);
	assert_ptr_equal(roce_of(engine)->cc, &cc_westwood);
	assert_int_equal(roce_set_cc(engine, "newreno"), 0);
	assert_ptr_equal(rqp->tx.cc.ops, &cc_westwood);
	assert_int_equal(connect_one(peer->node, peer_gid, 0, &qp), 0);
	assert_ptr_equal(roce_qp_of(to_qp(qp))->tx.cc.ops, &cc_newreno);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(roce_receive_cnp_in_rtr_is_counted),
		TEST(roce_receive_marked_read_response_reduces_window),
		cmocka_unit_test(roce_bind_only_reliable_packets_are_ecn_capable),
		TEST(roce_set_cc_selects_algorithm_of_new_qps),
		TEST(roce_bind_unreachable_peer_fails),
		TEST(roce_bind_without_link_fails),
		TEST(roce_bind_link_local_of_same_host_uses_loopback),
		TEST(roce_bind_with_same_psn_drops_what_arrived_in_reset),
		TEST(roce_receive_first_packet_in_rtr_establishes),
		TEST(roce_receive_longer_than_max_message_gets_nak),
		TEST(roce_kick_invalid_uc_send_fails_alone),
		TEST(roce_sleep_pending_work_prevents_sleep),
		TEST(roce_counter_name_counters_are_unique),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
