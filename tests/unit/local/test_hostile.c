/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer process that violates the rules of the shared memory: it can access only what was granted,
 * and no call waits for it indefinitely.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"
#include "pair.h"

#define RECV_BYTES 64u

struct hostile {
	struct pair pair;
	struct node *victim;
	struct ibv_qp *qps[2]; /* of the attacker, of the victim */
	struct ring_writer *ring;
};

static void hostile_open_qps(struct hostile *hostile, bool is_same_uid, enum ibv_qp_type type)
{
	struct ibv_sge sge;
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	pair_open_connected(&hostile->pair, hostile->qps, type, is_same_uid);
	hostile->victim = &hostile->pair.nodes[1];
	hostile->ring =
		&local_of(&hostile->pair.nodes[0].engine)->by_slot[hostile->victim->engine.slot]->tx;
	sge = (struct ibv_sge){(uintptr_t)hostile->victim->buf, RECV_BYTES,
			       hostile->victim->mr->lkey};
	assert_int_equal(ibv_post_recv(hostile->qps[1], &recv, &bad), 0);
}

static void hostile_open(struct hostile *hostile, bool is_same_uid)
{
	hostile_open_qps(hostile, is_same_uid, IBV_QPT_RC);
}

static void hostile_close(struct hostile *hostile)
{
	pair_close_connected(&hostile->pair, hostile->qps);
}

/* Reserves one element without payload. */
static struct cell *new_cell(struct hostile *hostile, enum cell_type type)
{
	struct cell *cell = ring_reserve(hostile->ring, 0, NULL);

	assert_non_null(cell);
	memset((uint8_t *)cell + sizeof(cell->seq), 0, sizeof(*cell) - sizeof(cell->seq));
	cell->type = (uint8_t)type;
	return cell;
}

/* Sends one element without payload; the victim has processed it afterwards. */
static void send_cell(struct hostile *hostile, enum cell_type type, unsigned int flags,
		      uint32_t length)
{
	struct cell *cell = new_cell(hostile, type);

	cell->flags = (uint8_t)flags;
	cell->dst_qpn = hostile->qps[1]->qp_num;
	cell->src_qpn = hostile->qps[0]->qp_num;
	cell->length = length;
	ring_commit(hostile->ring, cell);
	node_turn(hostile->victim);
}

/* Requests the memory object of a key; returns that of the victim's MR afterwards. */
static uint32_t request_share(struct hostile *hostile, uint32_t rkey)
{
	const struct segment *segment = local_of(&hostile->victim->engine)->segment;
	struct cell *cell = new_cell(hostile, CELL_SHARE_REQUEST);

	cell->rkey = rkey;
	ring_commit(hostile->ring, cell);
	node_turn(hostile->victim);
	return segment_mr_entry(segment, hostile->victim->mr->rkey)->share;
}

static void local_share_request_needs_memory_access(void **state)
{
	struct hostile hostile;

	(void)state;
	hostile_open(&hostile, false);
	assert_int_equal(request_share(&hostile, hostile.victim->mr->rkey), 0);
	hostile_close(&hostile);
}

static void local_share_request_with_invalid_key_has_no_effect(void **state)
{
	struct hostile hostile;
	uint32_t rkey;

	(void)state;
	hostile_open(&hostile, true);
	rkey = hostile.victim->mr->rkey;
	assert_int_equal(request_share(&hostile, 0), 0);
	assert_int_equal(request_share(&hostile, UINT32_MAX), 0);
	/* The same place of the table, also as the key of a memory window. */
	assert_int_equal(request_share(&hostile, rkey ^ SEGMENT_MRS), 0);
	assert_int_equal(request_share(&hostile, rkey | SEGMENT_WINDOW_KEY), 0);
	/* No object is mapped. */
	send_cell(&hostile, CELL_SHARE_GONE, 0, 0);
	/* Memory of malloc(). */
	assert_int_equal(request_share(&hostile, rkey), SEGMENT_SHARE_NONE);
	hostile_close(&hostile);
}

/* Sends the immediate of a WRITE whose data it claims to have placed. */
static struct ibv_wc claim_placed(struct hostile *hostile, uint32_t length)
{
	struct ibv_wc wc;

	send_cell(hostile, CELL_WRITE, CELL_FIRST | CELL_LAST | CELL_IMM | CELL_PLACED, length);
	assert_true(poll_cq_once(hostile->victim->cq, &wc));
	return wc;
}

/* The claim is false for a process that cannot access our memory, and applications use byte_len. */
static void local_receive_in_place_claim_needs_memory_access(void **state)
{
	struct hostile hostile;

	(void)state;
	hostile_open(&hostile, false);
	assert_int_not_equal(claim_placed(&hostile, 1u << 30).status, IBV_WC_SUCCESS);
	hostile_close(&hostile);
	hostile_open(&hostile, true);
	assert_int_not_equal(claim_placed(&hostile, MAX_MSG_BYTES + 1).status, IBV_WC_SUCCESS);
	hostile_close(&hostile);
	hostile_open(&hostile, true);
	assert_int_equal(claim_placed(&hostile, 8).status, IBV_WC_SUCCESS);
	hostile_close(&hostile);
}

/* A revoking call waits only for a process that can access our memory. */
static void local_revoke_mr_ignores_announcement_of_other_user(void **state)
{
	struct hostile hostile;
	struct ibv_mr *mr;

	(void)state;
	hostile_open(&hostile, false);
	mr = ibv_reg_mr(hostile.victim->pd, hostile.victim->buf, 8, 0);
	assert_non_null(mr);
	atomic_store(&hostile.ring->shared->accessing,
		     ring_access(hostile.qps[1]->qp_num, mr->rkey));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	hostile_close(&hostile);
}

struct talker {
	struct ring_shared *shared;
	atomic_uint head;
	atomic_bool is_over;
};

/* Announces new elements continuously, whatever the reader has consumed. */
static void *talk(void *arg)
{
	struct talker *talker = arg;

	while (!atomic_load(&talker->is_over)) {
		uint32_t tail = atomic_load(&talker->shared->tail);

		while (talker->head - tail < RING_CELLS) {
			struct cell *cell = &talker->shared->cells[talker->head % RING_CELLS];

			atomic_store(&cell->seq, talker->head + 1);
			talker->head++;
		}
	}
	return NULL;
}

static void say_dead(struct hostile *hostile)
{
	struct ipc_peer_gone gone = {.hdr = {.type = IPC_PEER_GONE, .len = sizeof(gone)},
				     .pair_id = 1};

	gone.slot = hostile->pair.nodes[0].engine.slot;
	engine_lock(&hostile->victim->engine);
	engine_dispatch_notice(&hostile->victim->engine, &gone.hdr, NULL, 0);
	engine_unlock(&hostile->victim->engine);
}

/*
 * As with a NIC, the end of the peer is not detected: the QP stays usable, and keeps the receive
 * until its own end.
 */
static void local_peer_death_within_message_completes_nothing(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct hostile hostile;
	struct ibv_wc wc;

	(void)state;
	hostile_open(&hostile, false);
	send_cell(&hostile, CELL_SEND, CELL_FIRST, 0);
	say_dead(&hostile);
	assert_false(poll_cq_once(hostile.victim->cq, &wc));
	assert_int_equal(hostile.qps[1]->state, IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(hostile.qps[1], &attr, IBV_QP_STATE), 0);
	assert_true(poll_cq_once(hostile.victim->cq, &wc));
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, 1);
	assert_false(poll_cq_once(hostile.victim->cq, &wc));
	hostile_close(&hostile);
}

static void local_peer_death_within_uc_message_keeps_receive(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct hostile hostile;
	struct ibv_wc wc;

	(void)state;
	hostile_open_qps(&hostile, false, IBV_QPT_UC);
	send_cell(&hostile, CELL_SEND, CELL_FIRST, 0);
	send_cell(&hostile, CELL_SEND, CELL_FIRST, 0);
	assert_false(poll_cq_once(hostile.victim->cq, &wc));
	send_cell(&hostile, CELL_SEND, CELL_FIRST | CELL_LAST, 0);
	assert_true(poll_cq_once(hostile.victim->cq, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 1);
	hostile_close(&hostile);

	/* A reserved receive is flushed with its QP. */
	hostile_open_qps(&hostile, false, IBV_QPT_UC);
	send_cell(&hostile, CELL_SEND, CELL_FIRST, 0);
	send_cell(&hostile, CELL_WRITE, CELL_FIRST, 0);
	assert_int_equal(ibv_modify_qp(hostile.qps[1], &attr, IBV_QP_STATE), 0);
	assert_true(poll_cq_once(hostile.victim->cq, &wc));
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, 1);
	hostile_close(&hostile);
}

/*
 * The daemon reports the end of a process that continues to send: only messages that were in the
 * FIFO are processed.
 */
static void local_peer_death_later_messages_are_ignored(void **state)
{
	struct hostile hostile;
	struct talker talker = {0};
	const uint64_t *heard;
	pthread_t thread;

	(void)state;
	hostile_open(&hostile, false);
	talker.shared = hostile.ring->shared;
	talker.head = hostile.ring->head;
	heard = &local_of(&hostile.victim->engine)->counters[LOCAL_BAD_CELLS];
	assert_int_equal(pthread_create(&thread, NULL, talk, &talker), 0);
	while (atomic_load(&talker.head) < RING_CELLS)
		sched_yield();
	say_dead(&hostile);
	assert_in_range(*heard, 1, RING_CELLS);
	atomic_store(&talker.is_over, true);
	pthread_join(thread, NULL);
	hostile_close(&hostile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_share_request_needs_memory_access),
		cmocka_unit_test(local_share_request_with_invalid_key_has_no_effect),
		cmocka_unit_test(local_receive_in_place_claim_needs_memory_access),
		cmocka_unit_test(local_revoke_mr_ignores_announcement_of_other_user),
		cmocka_unit_test(local_peer_death_within_message_completes_nothing),
		cmocka_unit_test(local_peer_death_within_uc_message_keeps_receive),
		cmocka_unit_test(local_peer_death_later_messages_are_ignored),
	};

	return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
