/* SPDX-License-Identifier: BSD-2-Clause */

/* FIFOs between queue pairs of different shards (docs/adr/0054). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine/shard.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"
#include "pair.h"

#define MESSAGE_BYTES 64u

/* A QP of this shard. Each QP has a thread domain, which have the shards other than 0 in turn. */
struct domain {
	struct ibv_td *td;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
};

static void domain_close(struct node *node, struct domain *domain)
{
	assert_int_equal(ibv_destroy_qp(domain->qp), 0);
	if (domain->pd != node->pd)
		assert_int_equal(ibv_dealloc_pd(domain->pd), 0);
	if (domain->td)
		assert_int_equal(ibv_dealloc_td(domain->td), 0);
	*domain = (struct domain){0};
}

static struct ibv_qp *create_qp(struct node *node, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = node->cq,
		.recv_cq = node->cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	assert_non_null(qp);
	return qp;
}

static void domain_open(struct node *node, uint32_t shard, struct domain *domain)
{
	struct ibv_parent_domain_init_attr attr = {.pd = node->pd};
	struct ibv_td_init_attr td_attr = {0};

	if (!shard) {
		*domain = (struct domain){.pd = node->pd, .qp = create_qp(node, node->pd)};
		return;
	}
	for (;;) {
		attr.td = domain->td = ibv_alloc_td(&node->context.pub.context, &td_attr);
		assert_non_null(domain->td);
		domain->pd = ibv_alloc_parent_domain(&node->context.pub.context, &attr);
		assert_non_null(domain->pd);
		domain->qp = create_qp(node, domain->pd);
		if (qpn_shard(domain->qp->qp_num) == shard)
			return;
		domain_close(node, domain);
	}
}

static void send_one(struct pair *pair, struct ibv_qp *from, struct ibv_qp *to, uint8_t value)
{
	struct node *sender = &pair->nodes[0], *receiver = &pair->nodes[1];
	struct ibv_sge source = {(uintptr_t)sender->buf, MESSAGE_BYTES, sender->mr->lkey};
	struct ibv_sge target = {(uintptr_t)receiver->buf, MESSAGE_BYTES, receiver->mr->lkey};
	struct ibv_recv_wr receive = {.wr_id = value, .sg_list = &target, .num_sge = 1};
	struct ibv_send_wr send = {.wr_id = value,
				   .sg_list = &source,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr *bad_receive;
	struct ibv_send_wr *bad_send;
	struct ibv_wc wc;

	memset(sender->buf, value, MESSAGE_BYTES);
	assert_int_equal(ibv_post_recv(to, &receive, &bad_receive), 0);
	assert_int_equal(ibv_post_send(from, &send, &bad_send), 0);
	pair_settle(pair);
	assert_true(poll_cq_once(receiver->cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, to->qp_num);
	assert_true(poll_cq_once(sender->cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(sender->buf, receiver->buf, MESSAGE_BYTES);
}

static uint32_t peer_count_of(struct node *node)
{
	const struct peer *peer;
	uint32_t count = 0;

	list_for_each_entry(peer, &local_of(&node->engine)->peers, node)
		count++;
	return count;
}

static void local_messages_between_all_shards_arrive(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, true);
	for (uint32_t i = 0; i < SHARDS * SHARDS; i++) {
		struct domain ends[2] = {{0}, {0}};

		domain_open(&pair.nodes[0], i / SHARDS, &ends[0]);
		domain_open(&pair.nodes[1], i % SHARDS, &ends[1]);
		pair_connect(ends[0].qp, ends[1].qp);
		send_one(&pair, ends[0].qp, ends[1].qp, (uint8_t)(i + 1));
		domain_close(&pair.nodes[0], &ends[0]);
		domain_close(&pair.nodes[1], &ends[1]);
	}
	assert_int_equal(peer_count_of(&pair.nodes[0]), SHARDS * SHARDS);
	assert_int_equal(peer_count_of(&pair.nodes[1]), SHARDS * SHARDS);
	pair_close(&pair);
}

/* The messages of the shards are added to the counters that `usrdma status` shows. */
static void local_counters_contain_those_of_shards(void **state)
{
	struct domain ends[2] = {{0}, {0}};
	struct pair pair;
	const struct local *local;

	(void)state;
	pair_open(&pair, true);
	domain_open(&pair.nodes[0], 1, &ends[0]);
	domain_open(&pair.nodes[1], 2, &ends[1]);
	pair_connect(ends[0].qp, ends[1].qp);
	local = local_of(&pair.nodes[0].engine);
	send_one(&pair, ends[0].qp, ends[1].qp, 1);
	pair_settle(&pair);
	assert_int_equal(local->counters[LOCAL_MESSAGES_SENT], 1);
	for (int i = 0; i < 2; i++)
		domain_close(&pair.nodes[i], &ends[i]);
	pair_close(&pair);
}

static struct peer *peer_of(struct node *node, uint32_t our_shard, uint32_t their_shard)
{
	struct peer *peer;

	list_for_each_entry(peer, &local_of(&node->engine)->peers, node) {
		if (peer->our_shard == our_shard && peer->their_shard == their_shard)
			return peer;
	}
	return NULL;
}

/* Sends an element of a connection of shard 0 in a FIFO of other shards. */
static void send_astray(struct peer *peer, enum cell_type type, const struct ibv_qp *from,
			const struct ibv_qp *to)
{
	struct cell *cell = ring_reserve(&peer->tx, 0, NULL);

	assert_non_null(cell);
	memset((uint8_t *)cell + sizeof(cell->seq), 0, sizeof(*cell) - sizeof(cell->seq));
	cell->type = (uint8_t)type;
	cell->flags = CELL_FIRST | CELL_LAST;
	cell->src_qpn = from->qp_num;
	cell->dst_qpn = to->qp_num;
	ring_commit(&peer->tx, cell);
}

static void local_hostile_use_of_shards_hurts_no_queue_pair(void **state)
{
	struct pair pair;
	struct ibv_qp *qps[2];
	struct domain domain = {0}, other = {0};
	struct local *victim;
	uint64_t bad;
	struct ibv_wc wc;
	struct peer *peer;

	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, false);
	victim = local_of(&pair.nodes[1].engine);
	/* Claims all pairs of shards, and numbers that do not exist. */
	peer = peer_of(&pair.nodes[0], 0, 0);
	atomic_store(&peer->tx.shared->shards_used, UINT32_MAX);
	pair_settle(&pair);
	assert_int_equal(peer_count_of(&pair.nodes[1]), SHARDS);
	assert_false(pair.nodes[1].engine.shards.are_open);
	engine_lock(&pair.nodes[1].engine);
	assert_true(shards_open(&pair.nodes[1].engine));
	engine_unlock(&pair.nodes[1].engine);
	pair_settle(&pair);
	assert_int_equal(peer_count_of(&pair.nodes[1]), SHARDS * SHARDS);

	domain_open(&pair.nodes[0], 1, &domain);
	domain_open(&pair.nodes[1], 0, &other);
	pair_connect(domain.qp, other.qp);
	peer = peer_of(&pair.nodes[0], 1, 0);
	assert_non_null(peer);
	/* From a QP that is not the one that the victim's QP is connected to. */
	send_astray(peer, CELL_SEND, domain.qp, qps[1]);
	/* In the name of the right one, in a FIFO of another shard. */
	send_astray(peer, CELL_SEND, qps[0], qps[1]);
	send_astray(peer, CELL_ACK, qps[0], qps[1]);
	bad = victim->counters[LOCAL_BAD_CELLS];
	send_astray(peer, CELL_DATAGRAM, qps[0], qps[1]);
	send_astray(peer, CELL_XRC_FORWARD, qps[0], qps[1]);
	pair_settle(&pair);
	assert_int_equal(victim->counters[LOCAL_BAD_CELLS] - bad, 2);
	assert_false(poll_cq_once(pair.nodes[1].cq, &wc));
	assert_int_equal(qps[1]->state, IBV_QPS_RTS);
	send_one(&pair, qps[0], qps[1], 7);
	domain_close(&pair.nodes[0], &domain);
	domain_close(&pair.nodes[1], &other);
	pair_close_connected(&pair, qps);
}

static void qpn_shard_divides_the_numbers_of_a_slot(void **state)
{
	const uint32_t first = IPC_SLOT_QPNS - (SHARDS - 1) * SHARD_QPNS;

	(void)state;
	assert_int_equal(qpn_shard(2), 0);
	assert_int_equal(qpn_shard(IPC_SLOT_QPNS + first - 1), 0);
	assert_int_equal(qpn_shard(IPC_SLOT_QPNS + first), 1);
	assert_int_equal(qpn_shard(first + SHARD_QPNS - 1), 1);
	assert_int_equal(qpn_shard(first + SHARD_QPNS), 2);
	assert_int_equal(qpn_shard(7 * IPC_SLOT_QPNS - 1), SHARDS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_messages_between_all_shards_arrive),
		cmocka_unit_test(local_counters_contain_those_of_shards),
		cmocka_unit_test(local_hostile_use_of_shards_hurts_no_queue_pair),
		cmocka_unit_test(qpn_shard_divides_the_numbers_of_a_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
