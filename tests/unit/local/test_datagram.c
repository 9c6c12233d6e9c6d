/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams between processes of one host. With any seed each datagram arrives once, complete and
 * in order, with the GRH of a RoCE packet, and does not block others. Invalid FIFO elements of a
 * faulty peer have no effect and are counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/transport.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"
#include "pair.h"
#include "wire/packet.h"

#define QKEY	   0x55aa55aau
#define SLOT_BYTES 8192u
#define SLOTS	   64u
#define SENDS	   2000u

struct fixture {
	struct pair pair;
	struct ibv_qp *qps[2];
	struct ibv_qp *connected[2]; /* NULL: not used by this test */
	struct ibv_ah *ahs[2];
	unsigned int recvs_posted[2];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	pair_open(&f->pair, true);
	for (int i = 0; i < 2; i++) {
		f->qps[i] = pair_create_qp(&f->pair.nodes[i], IBV_QPT_UD, NULL);
		f->ahs[i] = pair_create_ah(&f->pair.nodes[i]);
		pair_ready(f->qps[i], QKEY);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(f->qps[i]), 0);
		if (f->connected[i])
			assert_int_equal(ibv_destroy_qp(f->connected[i]), 0);
		assert_int_equal(ibv_destroy_ah(f->ahs[i]), 0);
	}
	pair_close(&f->pair);
	free(f);
	return 0;
}

static uint64_t counter(const struct fixture *f, int node, enum local_counter which)
{
	return local_of(&f->pair.nodes[node].engine)->counters[which];
}

static uint8_t *recv_slot(struct fixture *f, int node, uint64_t index)
{
	return f->pair.nodes[node].buf + PAIR_BUF_BYTES / 2 + index % SLOTS * SLOT_BYTES;
}

static void post_recv(struct fixture *f, int node)
{
	struct ibv_sge sge = {(uintptr_t)recv_slot(f, node, f->recvs_posted[node]), SLOT_BYTES,
			      f->pair.nodes[node].mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = f->recvs_posted[node]++, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	assert_int_equal(ibv_post_recv(f->qps[node], &wr, &bad), 0);
}

/* Sends the node's first `bytes` with this wr_id. */
static int send_to(struct fixture *f, int node, uint32_t qpn, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)f->pair.nodes[node].buf, bytes,
			      f->pair.nodes[node].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	wr.opcode = wr_id % 2 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	wr.imm_data = (uint32_t)wr_id;
	wr.send_flags = IBV_SEND_SIGNALED | (wr_id % 3 ? 0 : IBV_SEND_SOLICITED);
	wr.wr.ud.ah = f->ahs[node];
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	return ibv_post_send(f->qps[node], &wr, &bad);
}

/* Returns how many sends of the node have completed, all successfully. */
static unsigned int count_completions(struct fixture *f, int node)
{
	unsigned int n = 0;
	struct ibv_wc wc;

	while (poll_cq_once(f->pair.nodes[node].cq, &wc)) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		n++;
	}
	return n;
}

static void expect_wc(struct fixture *f, int node, uint64_t wr_id, enum ibv_wc_opcode opcode,
		      struct ibv_wc *wc)
{
	assert_true(poll_cq_once(f->pair.nodes[node].cq, wc));
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
	assert_int_equal(wc->opcode, opcode);
	assert_int_equal(wc->wr_id, wr_id);
}

static void expect_none(struct fixture *f, int node)
{
	struct ibv_wc wc;

	assert_false(poll_cq_once(f->pair.nodes[node].cq, &wc));
}

static void local_datagram_receive_has_grh(void **state)
{
	struct fixture *f = *state;
	struct ibv_grh *header = (struct ibv_grh *)(void *)recv_slot(f, 1, 0);
	struct ibv_ah_attr attr;
	struct grh grh;
	struct ibv_wc wc;

	memset(f->pair.nodes[0].buf, 0x3c, 5);
	post_recv(f, 1);
	assert_int_equal(send_to(f, 0, f->qps[1]->qp_num, 8, 5), 0);
	pair_settle(&f->pair);
	expect_wc(f, 0, 8, IBV_WC_SEND, &wc);
	expect_wc(f, 1, 0, IBV_WC_RECV, &wc);
	assert_int_equal(wc.byte_len, GRH_BYTES + 5);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.src_qp, f->qps[0]->qp_num);
	assert_int_equal(wc.imm_data, 8);
	assert_memory_equal(recv_slot(f, 1, 0) + GRH_BYTES, f->pair.nodes[0].buf, 5);
	assert_int_equal(grh_parse(&grh, recv_slot(f, 1, 0)), 0);
	/* That of the route; an address of this host has 64 (docs/adr/0066). */
	assert_int_equal(grh.hop_limit, 64);
	assert_int_equal(grh.traffic_class, 0x44);
	assert_int_equal(grh.flow_label, 0x12345);
	assert_int_equal(grh.udp_payload_bytes,
			 BTH_BYTES + DETH_BYTES + IMM_BYTES + 8 + ICRC_BYTES);
	assert_int_equal(ibv_init_ah_from_wc(f->qps[1]->context, 1, &wc, header, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 0);
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)random() % n;
}

/* A pattern that is unique for the sender and the number `index`. */
static void fill(uint8_t *at, int sender, uint32_t index, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(i * 13 + index * 7 + (uint32_t)sender);
}

/* The datagrams that the node must receive: number and size, for each sender in order. */
struct expected {
	uint32_t count;
	uint32_t seen;
	uint32_t sizes[SENDS];
};

static void take(struct fixture *f, int node, struct expected from[2])
{
	static uint8_t want[PACKET_PAYLOAD_MAX];
	struct ibv_wc wc;

	while (poll_cq_once(f->pair.nodes[node].cq, &wc)) {
		int sender = wc.src_qp == f->qps[1]->qp_num;
		struct expected *e = &from[sender];

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_SEND)
			continue;
		assert_true(e->seen < e->count);
		assert_int_equal(wc.byte_len, GRH_BYTES + e->sizes[e->seen]);
		fill(want, sender, e->seen, e->sizes[e->seen]);
		assert_memory_equal(recv_slot(f, node, wc.wr_id) + GRH_BYTES, want,
				    e->sizes[e->seen]);
		e->seen++;
		post_recv(f, node);
	}
}

static void local_datagram_send_arrives_once_in_order(void **state)
{
	static struct expected expected[2][2]; /* [receiver][sender] */
	struct fixture *f = *state;

	memset(expected, 0, sizeof(expected));
	srandom(7);
	for (int i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < SLOTS; k++)
			post_recv(f, i);
	}
	for (uint32_t i = 0; i < SENDS; i++) {
		int from = (int)below(2), to = (int)below(2);
		struct expected *e = &expected[to][from];
		uint32_t bytes = below(3) ? below(100) : below(PACKET_PAYLOAD_MAX + 1);

		fill(f->pair.nodes[from].buf, from, e->count, bytes);
		if (send_to(f, from, f->qps[to]->qp_num, i, bytes)) {
			pair_settle(&f->pair);
		} else {
			e->sizes[e->count++] = bytes;
		}
		/* Receives are posted for all datagrams that can be outstanding. */
		if (i % (SLOTS / 2) == 0 || !below(8)) {
			pair_settle(&f->pair);
			take(f, 0, expected[0]);
			take(f, 1, expected[1]);
		}
	}
	pair_settle(&f->pair);
	for (int to = 0; to < 2; to++) {
		take(f, to, expected[to]);
		for (int from = 0; from < 2; from++) {
			assert_true(expected[to][from].count > SENDS / 8);
			assert_int_equal(expected[to][from].seen, expected[to][from].count);
		}
	}
}

static void local_datagram_send_full_fifo_waits(void **state)
{
	struct fixture *f = *state;
	struct ibv_ah *ah = pair_create_ah(&f->pair.nodes[0]), *kept = f->ahs[0];
	unsigned int posted = 0, done;

	f->ahs[0] = ah;
	for (uint32_t i = 0; i < SLOTS; i++)
		post_recv(f, 1);
	while (!send_to(f, 0, f->qps[1]->qp_num, posted, 4096))
		posted++;
	done = count_completions(f, 0);
	/* The FIFO is full, and so is the send queue. */
	assert_int_equal(posted - done, 64);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	f->ahs[0] = kept;
	pair_settle(&f->pair);
	assert_int_equal(done + count_completions(f, 0), posted);
	assert_int_equal(count_completions(f, 1), SLOTS);
	assert_int_equal(counter(f, 1, LOCAL_DATAGRAMS_NO_RECV), posted - SLOTS);
	assert_int_equal(counter(f, 0, LOCAL_DATAGRAMS_LOST), 0);
}

static struct peer *peer_of(struct fixture *f, int node)
{
	return local_of(&f->pair.nodes[node].engine)->by_slot[f->pair.nodes[!node].engine.slot];
}

static void local_datagram_send_to_stopped_reader_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct engine *engine = &f->pair.nodes[0].engine;
	unsigned int posted = 0, done;

	while (!send_to(f, 0, f->qps[1]->qp_num, posted, 4096))
		posted++;
	done = count_completions(f, 0);
	node_turn(&f->pair.nodes[0]);
	expect_none(f, 0);
	/* A datagram to this process itself is queued after the blocked ones. */
	assert_int_equal(send_to(f, 0, f->qps[0]->qp_num, posted, 1), ENOMEM);
	assert_true(timer_next_deadline(&engine->timers) != TIMER_NEVER_NS);
	/* The time limit for a blocked FIFO expires. */
	peer_of(f, 0)->blocked_since_ns = 1;
	node_turn(&f->pair.nodes[0]);
	assert_int_equal(done + count_completions(f, 0), posted);
	assert_int_equal(counter(f, 0, LOCAL_DATAGRAMS_LOST), posted - done);
	/* From here on datagrams are dropped without a wait, until the peer reads again. */
	assert_int_equal(send_to(f, 0, f->qps[1]->qp_num, posted, 4096), 0);
	assert_int_equal(count_completions(f, 0), 1);
	assert_int_equal(counter(f, 0, LOCAL_DATAGRAMS_LOST), posted - done + 1);
	pair_settle(&f->pair);
	assert_int_equal(peer_of(f, 0)->blocked_since_ns, 0);
	post_recv(f, 1);
	assert_int_equal(send_to(f, 0, f->qps[1]->qp_num, 1, 4096), 0);
	pair_settle(&f->pair);
	assert_int_equal(count_completions(f, 1), 1);
}

/* Fills the FIFO to the peer, and returns how long datagrams may wait. */
static uint64_t fill_fifo(struct fixture *f)
{
	while (!send_to(f, 0, f->qps[1]->qp_num, 0, 4096))
		count_completions(f, 0);
	return peer_of(f, 0)->wait_left_ns;
}

/* The peer frees elements when the datagrams have waited for `waited_ns`. */
static void free_fifo(struct fixture *f, uint64_t waited_ns)
{
	peer_of(f, 0)->blocked_since_ns -= waited_ns;
	pair_settle(&f->pair);
	count_completions(f, 0);
}

/*
 * The time between two waits of the test counts an eighth; it is added here so that the test's own
 * speed has no effect.
 */
static void local_datagram_peer_of_another_user_delays_an_eighth_of_the_time(void **state)
{
	struct fixture *f = *state;
	struct peer *peer = peer_of(f, 0);
	const uint64_t second_ns = 1000000000;

	for (int is_same_user = 0; is_same_user <= 1; is_same_user++) {
		peer->may_reach_ours = is_same_user;
		assert_int_equal(fill_fifo(f), second_ns);
		free_fifo(f, second_ns * 9 / 10);
		if (is_same_user)
			continue;
		assert_true(peer->wait_left_ns <= second_ns / 10);
		peer->unblocked_ns -= second_ns;
		assert_in_range(fill_fifo(f), second_ns / 8, second_ns - 1);
		free_fifo(f, second_ns);
		assert_int_equal(peer->wait_left_ns, 0);
	}
}

#define LONG_BYTES    65536u
#define LONG_MESSAGES 60u

static void post_long(struct fixture *f)
{
	struct ibv_sge sge = {(uintptr_t)f->pair.nodes[0].buf, LONG_BYTES,
			      f->pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = LONG_BYTES, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_sge recv_sge = {(uintptr_t)f->pair.nodes[1].buf, LONG_BYTES,
				   f->pair.nodes[1].mr->lkey};
	struct ibv_recv_wr recv_wr = {.sg_list = &recv_sge, .num_sge = 1}, *bad_recv;

	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_recv(f->connected[1], &recv_wr, &bad_recv), 0);
	assert_int_equal(ibv_post_send(f->connected[0], &wr, &bad), 0);
}

/* Messages and datagrams could each fill the FIFO whenever there is space. */
static void local_datagram_send_and_messages_share_fifo(void **state)
{
	struct fixture *f = *state;
	unsigned int messages = 0, datagrams = 0;
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++)
		f->connected[i] = pair_create_qp(&f->pair.nodes[i], IBV_QPT_RC, NULL);
	pair_connect(f->connected[0], f->connected[1]);
	for (uint32_t i = 0; i < LONG_MESSAGES; i++)
		post_long(f);
	while (messages < LONG_MESSAGES || datagrams < 200) {
		while (!send_to(f, 0, f->qps[1]->qp_num, 1, 4096))
			;
		node_turn(&f->pair.nodes[1]);
		node_turn(&f->pair.nodes[0]);
		while (poll_cq_once(f->pair.nodes[0].cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (wc.wr_id != LONG_BYTES) {
				datagrams++;
				continue;
			}
			messages++;
			post_long(f);
		}
		if (messages >= 5000 || datagrams >= 50000)
			fail_msg("%u messages, %u datagrams", messages, datagrams);
		while (poll_cq_once(f->pair.nodes[1].cq, &wc))
			;
	}
	assert_int_equal(counter(f, 0, LOCAL_DATAGRAMS_LOST), 0);
}

static void local_datagram_send_to_dead_peer_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct engine *engine = &f->pair.nodes[0].engine;
	struct ipc_peer_gone gone = {
		.hdr = {.type = IPC_PEER_GONE, .len = sizeof(gone)},
		.slot = f->pair.nodes[1].engine.slot,
		.pair_id = 1,
	};
	unsigned int posted = 0;

	while (!send_to(f, 0, f->qps[1]->qp_num, posted, 4096))
		posted++;
	engine_lock(engine);
	engine_dispatch_notice(engine, &gone.hdr, NULL, 0);
	engine_unlock(engine);
	node_turn(&f->pair.nodes[0]);
	assert_int_equal(count_completions(f, 0), posted);
	assert_int_equal(timer_next_deadline(&engine->timers), TIMER_NEVER_NS);
}

static void local_datagram_send_to_unknown_qpn_is_dropped(void **state)
{
	/* QP1, an unassigned QPN range, the multicast QPN. */
	static const uint32_t qpns[] = {1, 77u << IPC_SLOT_SHIFT, 0xffffff};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(qpns) / sizeof(qpns[0]); i++) {
		assert_int_equal(send_to(f, 0, qpns[i], i, 10), 0);
		assert_int_equal(count_completions(f, 0), 1);
		assert_int_equal(counter(f, 0, LOCAL_DATAGRAMS_LOST), i + 1);
	}
	assert_int_equal(send_to(f, 0, f->qps[0]->qp_num + 1, 1, 10), 0);
	pair_settle(&f->pair);
	assert_int_equal(count_completions(f, 0), 1);
	assert_int_equal(counter(f, 0, LOCAL_DATAGRAMS_UNKNOWN_QPN), 1);
}

/* Writes a FIFO element as a faulty peer could: from node 0 to node 1. */
static struct cell *begin_cell(struct fixture *f, uint32_t far_bytes, uint8_t **far)
{
	struct cell *cell = ring_reserve(&peer_of(f, 0)->tx, far_bytes, far);

	assert_non_null(cell);
	cell->type = CELL_DATAGRAM;
	cell->flags |= CELL_FIRST | CELL_LAST;
	cell->bytes = (uint16_t)far_bytes;
	cell->src_qpn = f->qps[0]->qp_num;
	cell->dst_qpn = f->qps[1]->qp_num;
	cell->rkey = QKEY;
	if (far_bytes >= GRH_BYTES) {
		memset(*far, 0, far_bytes);
		**far = 0x60;
	}
	return cell;
}

static void end_cell(struct fixture *f, struct cell *cell)
{
	ring_commit(&peer_of(f, 0)->tx, cell);
	pair_settle(&f->pair);
}

static void local_datagram_receive_malformed_element_is_dropped(void **state)
{
	struct fixture *f = *state;
	uint64_t bad = 0;
	struct ibv_wc wc;
	struct cell *cell;
	uint8_t *far;

#define REFUSES(far_bytes, change)                                       \
	do {                                                             \
		cell = begin_cell(f, far_bytes, &far);                   \
		change;                                                  \
		end_cell(f, cell);                                       \
		expect_none(f, 1);                                       \
		assert_int_equal(counter(f, 1, LOCAL_BAD_CELLS), ++bad); \
	} while (0)
	post_recv(f, 1);
	REFUSES(100, cell->bytes = GRH_BYTES - 1);
	REFUSES(100, cell->bytes = 0);
	REFUSES(16384, cell->bytes = GRH_BYTES + PACKET_PAYLOAD_MAX + 1);
	REFUSES(100, cell->src_qpn = f->qps[1]->qp_num);
	REFUSES(100, cell->src_qpn = 1);
	REFUSES(100, cell->dst_qpn = 0xffffff);
	REFUSES(100, far[0] = 0x40); /* neither an IPv4 nor an IPv6 header */
	REFUSES(100, cell->data_offset = RING_DATA_BYTES - 10);
	REFUSES(100, cell->data_offset = UINT32_MAX);
	REFUSES(100,
		cell->flags = CELL_FIRST | CELL_LAST); /* the payload is not in the data area */
#undef REFUSES
	cell = begin_cell(f, GRH_BYTES + 3, &far);
	end_cell(f, cell);
	expect_wc(f, 1, 0, IBV_WC_RECV, &wc);
	assert_int_equal(wc.byte_len, GRH_BYTES + 3);
}

static void local_datagram_receive_drops_are_counted_by_cause(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *rc = pair_create_qp(&f->pair.nodes[1], IBV_QPT_RC, NULL);
	struct ibv_qp *init = pair_create_qp(&f->pair.nodes[1], IBV_QPT_UD, NULL);
	struct ibv_sge sge = {(uintptr_t)f->pair.nodes[1].buf, 41, 0};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct cell *cell;
	struct ibv_wc wc;
	uint8_t *far;

#define DROPS(change, which)                               \
	do {                                               \
		cell = begin_cell(f, GRH_BYTES + 2, &far); \
		change;                                    \
		end_cell(f, cell);                         \
		assert_int_equal(counter(f, 1, which), 1); \
	} while (0)
	DROPS((void)0, LOCAL_DATAGRAMS_NO_RECV);
	DROPS(cell->dst_qpn = rc->qp_num, LOCAL_DATAGRAMS_NOT_UD);
	DROPS(cell->dst_qpn = init->qp_num, LOCAL_DATAGRAMS_QP_STATE);
	DROPS(cell->dst_qpn = init->qp_num + 1, LOCAL_DATAGRAMS_UNKNOWN_QPN);
	DROPS(cell->rkey++, LOCAL_DATAGRAMS_QKEY);
	/* The source address of the GRH. */
	DROPS(far[8] = PAIR_FOREIGN_GID, LOCAL_DATAGRAMS_SOURCE);
	assert_int_equal(ibv_post_recv(f->qps[1], &wr, &bad), 0);
	DROPS((void)0, LOCAL_DATAGRAMS_RECV_TOO_SHORT);
	expect_none(f, 1);
	/* One byte fits, but its memory is unmapped. */
	cell = begin_cell(f, GRH_BYTES + 1, &far);
	end_cell(f, cell);
	assert_true(poll_cq_once(f->pair.nodes[1].cq, &wc));
	assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(counter(f, 1, LOCAL_DATAGRAMS_BAD_RECV), 1);
	assert_int_equal(counter(f, 1, LOCAL_BAD_CELLS), 0);
#undef DROPS
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(init), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(local_datagram_receive_has_grh),
		TEST(local_datagram_send_arrives_once_in_order),
		TEST(local_datagram_send_full_fifo_waits),
		TEST(local_datagram_send_to_stopped_reader_is_dropped),
		TEST(local_datagram_peer_of_another_user_delays_an_eighth_of_the_time),
		TEST(local_datagram_send_and_messages_share_fifo),
		TEST(local_datagram_send_to_dead_peer_is_dropped),
		TEST(local_datagram_send_to_unknown_qpn_is_dropped),
		TEST(local_datagram_receive_malformed_element_is_dropped),
		TEST(local_datagram_receive_drops_are_counted_by_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
