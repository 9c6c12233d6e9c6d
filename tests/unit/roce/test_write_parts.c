/* SPDX-License-Identifier: BSD-2-Clause */
/* WRs that the peer sends as several WRITE Only packets (docs/adr/0056), at the responder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "peer.h"
#include "roce/qp.h"

static uint8_t bytes[PEER_MTU];

static int set_up(void **state)
{
	static struct peer peer;

	memset(bytes, 0xb5, sizeof(bytes));
	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

/* Only the SE bit of a WRITE Only packet without immediate means that the WR continues. */
static void responder_se_bit_marks_part_of_wr(void **state)
{
	static const struct {
		uint8_t opcode;
		bool is_solicited, is_part;
	} writes[] = {
		{OPCODE(RC, WRITE_ONLY), true, true},
		{OPCODE(RC, WRITE_ONLY), false, false},
		{OPCODE(RC, WRITE_ONLY_IMM), true, false},
		{OPCODE(RC, WRITE_FIRST), true, false},
	};
	struct peer *peer = *state;
	const uint8_t *buf = peer->node->buf;

	peer_post_recv(peer, 1, 4);
	for (uint32_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		struct packet packet = {
			.opcode = writes[i].opcode,
			.psn = psn_add(PEER_FIRST_PSN, i),
			.is_solicited = writes[i].is_solicited,
			.va = (uintptr_t)buf + PEER_BUF_BYTES - PEER_MTU,
			.rkey = peer->node->mr->rkey,
			.dma_length_bytes = PEER_MTU,
		};

		if (packet.opcode == OPCODE(RC, WRITE_FIRST)) {
			packet.va = (uintptr_t)buf;
			packet.dma_length_bytes = 2 * PEER_MTU;
		}
		peer_send(peer, packet, bytes, PEER_MTU);
		peer_settle(peer);
		assert_int_equal(roce_qp_of(to_qp(peer->qp))->rx.in->is_part, writes[i].is_part);
		assert_memory_equal(buf + (packet.va - (uintptr_t)buf), bytes, PEER_MTU);
	}
	assert_int_equal(to_qp(peer->qp)->state, IBV_QPS_RTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(responder_se_bit_marks_part_of_wr, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("write_parts", tests, NULL, NULL);
}
