/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile peer: writes arbitrary cells at any time to the FIFO of a process with connected QPs,
 * stores false tails, and sends responses without requests. The victim may access only the region
 * that was registered for the peer.
 *
 * An input is a sequence of records of RECORD_BYTES. The first byte selects the operation. The
 * second byte selects the fields of the following cell that are replaced by plausible values;
 * without them hardly any cell would pass the first check.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"

#include "../unit/local/pair.h"

#define RECORD_BYTES	 (2 + sizeof(struct cell))
#define REGISTERED_BYTES 4096u
#define GUARD		 0xa5
#define GUARDED_BYTES	 (64u * 1024)
#define QP_COUNT	 3
#define UD		 2 /* index of the UD queue pair */
#define QKEY		 0x12345678
#define HEADERS_BYTES	 8192u /* of the attacker's data area; valid IP headers at every offset */
#define IPV4_NO_OPTIONS	 0x45

enum plausible {
	PLAUSIBLE_QPN = 1 << 0,
	PLAUSIBLE_SSN = 1 << 1,
	PLAUSIBLE_TYPE = 1 << 2,
	PLAUSIBLE_ADDR = 1 << 3,
	PLAUSIBLE_RKEY = 1 << 4,
	PLAUSIBLE_SIZE = 1 << 5,
	PLAUSIBLE_FIRST = 1 << 6,
	PLAUSIBLE_LAST = 1 << 7,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct attack {
	struct pair pair;
	struct node *victim;
	struct ring_writer ring; /* the attacker's end */
	/* the first REGISTERED_BYTES of the victim's buffer; the rest must not change */
	struct ibv_mr *mr;
	struct ibv_qp *qps[QP_COUNT];
	struct ibv_qp *attacker_qps[QP_COUNT];
	struct ibv_ah *ah; /* for datagrams to the attacker and to the victim itself */
};

static void open_attack(struct attack *attack)
{
	static const enum ibv_qp_type types[QP_COUNT] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

	pair_open(&attack->pair, false);
	attack->victim = &attack->pair.nodes[1];
	memset(attack->victim->buf, GUARD, GUARDED_BYTES);
	attack->mr = ibv_reg_mr(attack->victim->pd, attack->victim->buf, REGISTERED_BYTES,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
					IBV_ACCESS_FLUSH_GLOBAL);
	/* The peer must not access the whole buffer. */
	ibv_dereg_mr(attack->victim->mr);
	for (int i = 0; i < QP_COUNT; i++) {
		attack->qps[i] = pair_create_qp(attack->victim, types[i], NULL);
		attack->attacker_qps[i] = pair_create_qp(&attack->pair.nodes[0], types[i], NULL);
		if (types[i] != IBV_QPT_UD)
			pair_connect(attack->qps[i], attack->attacker_qps[i]);
	}
	pair_ready(attack->qps[UD], QKEY);
	attack->ah = pair_create_ah(attack->victim);
	attack->ring =
		local_of(&attack->pair.nodes[0].engine)->by_slot[attack->victim->engine.slot]->tx;
	memset(attack->ring.shared->data, IPV4_NO_OPTIONS, HEADERS_BYTES);
}

static void close_attack(struct attack *attack)
{
	for (int i = 0; i < QP_COUNT; i++) {
		ibv_destroy_qp(attack->qps[i]);
		ibv_destroy_qp(attack->attacker_qps[i]);
	}
	ibv_destroy_ah(attack->ah);
	for (uint32_t i = REGISTERED_BYTES; i < GUARDED_BYTES; i++) {
		if (attack->victim->buf[i] != GUARD)
			abort();
	}
	attack->victim->mr = attack->mr;
	pair_close(&attack->pair);
}

static void make_plausible(const struct attack *attack, struct cell *cell, uint8_t what, int which)
{
	if (what & PLAUSIBLE_QPN) {
		cell->dst_qpn = attack->qps[which]->qp_num;
		cell->src_qpn = attack->attacker_qps[which]->qp_num;
	}
	if (what & PLAUSIBLE_SSN)
		cell->ssn %= 4;
	if (what & PLAUSIBLE_TYPE)
		cell->type = (uint8_t)(1 + cell->type % (CELL_TYPE_COUNT - 1));
	if (what & PLAUSIBLE_ADDR)
		cell->remote_addr = (uintptr_t)attack->victim->buf +
				    cell->remote_addr % (2 * REGISTERED_BYTES);
	if (what & PLAUSIBLE_RKEY)
		cell->rkey = which == UD ? QKEY : attack->mr->rkey;
	if (what & PLAUSIBLE_SIZE) {
		cell->length %= 2 * REGISTERED_BYTES;
		cell->bytes %= RING_FRAGMENT_BYTES;
	}
	if (which == UD && (what & PLAUSIBLE_SIZE)) {
		cell->flags |= CELL_FAR;
		cell->data_offset %= HEADERS_BYTES;
	}
	if (what & PLAUSIBLE_FIRST)
		cell->flags |= CELL_FIRST;
	if (what & PLAUSIBLE_LAST)
		cell->flags |= CELL_LAST;
}

static void write_cell(struct attack *attack, const uint8_t *record)
{
	struct cell *slot = &attack->ring.shared->cells[attack->ring.head % RING_CELLS];
	struct cell cell;

	memcpy(&cell, record + 2, sizeof(cell));
	make_plausible(attack, &cell, record[1], record[2] % QP_COUNT);
	memcpy(slot, &cell, sizeof(cell));
	attack->ring.head++;
	atomic_store(&slot->seq, attack->ring.head);
}

static void victim_recv(struct attack *attack, const uint8_t *record)
{
	struct ibv_sge sge = {(uintptr_t)attack->victim->buf + record[3], (uint32_t)record[4] * 16,
			      attack->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	(void)ibv_post_recv(attack->qps[record[2] % QP_COUNT], &wr, &bad);
}

static void victim_send(struct attack *attack, const uint8_t *record)
{
	struct ibv_sge sge = {(uintptr_t)attack->victim->buf, (uint32_t)record[4] * 8,
			      attack->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.opcode = record[3] % (IBV_WR_ATOMIC_FETCH_AND_ADD + 2);
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD + 1)
		wr.opcode = IBV_WR_ATOMIC_WRITE;
	wr.wr.rdma.remote_addr = record[5];
	wr.wr.rdma.rkey = record[6];
	if (record[2] % QP_COUNT == UD) {
		wr.wr.ud.ah = attack->ah;
		wr.wr.ud.remote_qpn =
			(record[5] & 1 ? attack->attacker_qps : attack->qps)[UD]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	(void)ibv_post_send(attack->qps[record[2] % QP_COUNT], &wr, &bad);
}

static void victim_turn(struct attack *attack)
{
	struct ibv_wc wc;

	/* The victim reads all cells, so that no position is written twice before it is read. */
	while (node_turn(attack->victim))
		;
	while (poll_cq_once(attack->victim->cq, &wc))
		;
}

static void lie_about_tail(struct attack *attack, const uint8_t *record)
{
	uint32_t tail;

	memcpy(&tail, record + 3, sizeof(tail));
	atomic_store(&local_of(&attack->victim->engine)
			      ->by_slot[attack->pair.nodes[0].engine.slot]
			      ->tx.shared->tail,
		     tail);
}

static void play(struct attack *attack, const uint8_t *record)
{
	switch (record[0] % 8) {
	case 0:
		victim_recv(attack, record);
		break;
	case 1:
		victim_send(attack, record);
		break;
	case 2:
		victim_turn(attack);
		break;
	case 3:
		lie_about_tail(attack, record);
		break;
	default:
		write_cell(attack, record);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct attack *attack = calloc(1, sizeof(*attack));

	if (!attack)
		return 0;
	open_attack(attack);
	/* At most RING_CELLS records, so that the attacker overwrites no unread cell. */
	for (size_t at = 0; at + RECORD_BYTES <= size && at / RECORD_BYTES < RING_CELLS;
	     at += RECORD_BYTES)
		play(attack, data + at);
	victim_turn(attack);
	close_attack(attack);
	free(attack);
	return 0;
}
