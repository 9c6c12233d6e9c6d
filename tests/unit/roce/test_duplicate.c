/* SPDX-License-Identifier: BSD-2-Clause */

/* Duplicates of atomic operations get the stored result. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/object/objects.h"
#include "peer.h"
#include "roce/qp.h"

#define PSN(n) psn_add(PEER_FIRST_PSN, (n))

static void open_with_word(struct peer *peer, uint8_t rd_atomic, uint64_t word)
{
	peer_open_reads(peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_ATOMIC, rd_atomic);
	memcpy(peer->node->buf + 64, &word, sizeof(word));
}

static void expect_word_and_close(struct peer *peer, uint64_t expected)
{
	uint64_t word;

	memcpy(&word, peer->node->buf + 64, sizeof(word));
	assert_int_equal(word, expected);
	peer_close(peer);
}

static struct packet fetch_add(const struct peer *peer, uint32_t psn)
{
	return (struct packet){.opcode = OPCODE(RC, FETCH_ADD),
			       .psn = psn,
			       .va = (uintptr_t)peer->node->buf + 64,
			       .rkey = peer->node->mr->rkey,
			       .swap_or_add = 5};
}

static void expect_add_responses(struct peer *peer, uint32_t count)
{
	struct packet packet;

	for (uint32_t i = 0; i < count; i++) {
		assert_true(peer_next(peer, &packet));
		assert_int_equal(packet.opcode, OPCODE(RC, ATOMIC_ACK));
		assert_int_equal(packet.psn, PSN(i));
		assert_int_equal(packet.atomic_original, 40 + 5 * i);
	}
}

static void responder_duplicate_atomic_is_executed_once(void **state)
{
	static struct peer two;
	struct peer *peer = &two;
	struct packet add;

	(void)state;
	open_with_word(peer, 2, 40);
	add = fetch_add(peer, PSN(0));
	for (uint32_t i = 0; i < 2; i++) {
		add.psn = PSN(i);
		peer_send(peer, add, NULL, 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		add.psn = PSN(i);
		peer_send(peer, add, NULL, 0);
		peer_settle(peer);
	}
	expect_add_responses(peer, 2);
	expect_word_and_close(peer, 50);
}

/*
 * The counter of stored results wraps between the atomics. Their responses are sent before the
 * duplicates arrive.
 */
static void responder_duplicate_atomic_at_wrap_of_counter_is_executed_once(void **state)
{
	enum { READS = 3 }; /* not a power of two */
	static struct peer three;
	struct peer *peer = &three;

	(void)state;
	open_with_word(peer, READS, 40);
	roce_qp_of(to_qp(peer->qp))->rx.atomics_head = UINT32_MAX;
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < READS; i++)
			peer_send(peer, fetch_add(peer, PSN(i)), NULL, 0);
		peer_settle(peer);
		expect_add_responses(peer, READS);
	}
	expect_word_and_close(peer, 40 + 5 * READS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(responder_duplicate_atomic_is_executed_once),
		cmocka_unit_test(responder_duplicate_atomic_at_wrap_of_counter_is_executed_once),
	};

	return cmocka_run_group_tests_name("duplicate", tests, NULL, NULL);
}
