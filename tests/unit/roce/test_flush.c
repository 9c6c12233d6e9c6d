/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "expect.h"

/* FLUSH and atomic WRITE at a responder (IBA A19); their errors are in test_responder.c. */

#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f

static uint8_t bytes[8] = "8 bytes.";

static int set_up(void **state)
{
	static struct peer peer;

	peer_open(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	*state = &peer;
	return 0;
}

static int tear_down(void **state)
{
	peer_close(*state);
	return 0;
}

static struct packet request(const struct peer *peer, uint8_t opcode, uint32_t psn, uint32_t length)
{
	return (struct packet){.opcode = opcode,
			       .psn = psn,
			       .wants_ack = true,
			       .flush_types = IBV_FLUSH_GLOBAL,
			       .va = (uintptr_t)peer->node->buf,
			       .rkey = peer->node->mr->rkey,
			       .dma_length_bytes = length};
}

static void expect_done(struct peer *peer, uint32_t psn, uint32_t msn)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, OPCODE(RC, READ_RESPONSE_ONLY));
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.syndrome, ACK_SYNDROME);
	assert_int_equal(packet.msn, msn);
	assert_int_equal(packet.payload_bytes, 0);
}

/*
 * The response is that of a READ without data, and is repeated for a duplicate; the present
 * contents of the memory do not matter.
 */
static void responder_flush_and_atomic_write_duplicate_is_executed_once(void **state)
{
	struct peer *peer = *state;
	struct packet write = request(peer, OPCODE(RC, ATOMIC_WRITE), PSN(0), 8);
	struct packet flush = request(peer, OPCODE(RC, FLUSH), PSN(1), 64);

	peer_send(peer, write, bytes, 8);
	expect_done(peer, PSN(0), 1);
	assert_memory_equal(peer->node->buf, bytes, 8);
	peer_send(peer, flush, NULL, 0);
	expect_done(peer, PSN(1), 2);
	memset(peer->node->buf, 0x11, 8);
	peer_send(peer, write, bytes, 8);
	expect_done(peer, PSN(0), 1);
	assert_int_equal(peer->node->buf[0], 0x11);
	peer_send(peer, flush, NULL, 0);
	expect_done(peer, PSN(1), 2);
	/* For a whole region the range is ignored; it may exceed the longest message. */
	flush.psn = PSN(2);
	flush.va = 0;
	flush.dma_length_bytes = UINT32_MAX;
	flush.flush_level = IBV_FLUSH_MR;
	peer_send(peer, flush, NULL, 0);
	expect_done(peer, PSN(2), 3);
	expect_nothing(peer);
}

/* They count as outstanding READs and atomics of the queue pair. */
static void responder_flush_and_atomic_write_above_depth_gets_nak(void **state)
{
	struct peer *peer = *state;
	const struct sim_faults full = {.refuse = SIM_CERTAIN}, none = {0};
	struct packet packet;

	sim_net_set_faults(peer->world.net, &none);
	for (uint32_t i = 0; i < 3; i++)
		peer_send(peer, request(peer, OPCODE(RC, FLUSH), PSN(i), 8), NULL, 0);
	sim_net_set_faults(peer->world.net, &full);
	peer_settle(peer);
	assert_int_equal(peer_event(peer), IBV_EVENT_QP_REQ_ERR);
	sim_net_set_faults(peer->world.net, &none);
	peer->world.now_ns += 1000000;
	expect_done(peer, PSN(0), 1);
	expect_done(peer, PSN(1), 2);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.psn, PSN(2));
	assert_int_equal(packet.syndrome, 0x61);
}

#define on_peer(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_peer(responder_flush_and_atomic_write_duplicate_is_executed_once),
		on_peer(responder_flush_and_atomic_write_above_depth_gets_nak),
	};

	return cmocka_run_group_tests_name("roce-flush", tests, NULL, NULL);
}
