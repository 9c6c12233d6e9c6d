/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/qp.h"

/* The order in which the packets of one call of link_recv() are processed. */

#define MAX	8
#define QPN_END 7 /* the last byte of the destination QPN in the BTH */

struct arrived {
	uint8_t opcode;
	uint8_t qpn;
};

static uint8_t bytes[MAX][PACKET_MIN];

static void fill(struct link_rx *rx, const struct arrived *arrived, int n)
{
	for (int i = 0; i < n; i++) {
		bytes[i][0] = arrived[i].opcode;
		bytes[i][QPN_END] = arrived[i].qpn;
		rx[i] = (struct link_rx){.bytes = bytes[i], .len = PACKET_MIN};
	}
}

/* order[i]: the index of the packet that is processed i-th. */
static void expect_order(const struct link_rx *rx, const int *order, int n)
{
	for (int i = 0; i < n; i++)
		assert_ptr_equal(rx[i].bytes, bytes[order[i]]);
}

static void receive_ack_overtakes_requests_of_its_qp(void **state)
{
	static const struct arrived arrived[] = {
		{OPCODE(RC, SEND_FIRST), 1}, {OPCODE(RC, SEND_LAST), 1}, {OPCODE(RC, ACK), 1},
		{OPCODE(RC, SEND_ONLY), 1},  {OPCODE(RC, ACK), 1},
	};
	static const int order[] = {2, 4, 0, 1, 3};
	struct link_rx rx[MAX];

	(void)state;
	fill(rx, arrived, 5);
	roce_acks_first(rx, 5);
	expect_order(rx, order, 5);
}

static void receive_ack_follows_responses_and_other_qps(void **state)
{
	static const struct arrived arrived[] = {
		{OPCODE(RC, SEND_ONLY), 1}, {OPCODE(RC, READ_RESPONSE_ONLY), 1},
		{OPCODE(RC, ACK), 1},	    {OPCODE(RC, SEND_ONLY), 2},
		{OPCODE(RC, ACK), 3},	    {OPCODE(UD, SEND_ONLY), 4},
		{OPCODE(RC, ACK), 4},
	};
	static const int order[] = {0, 1, 2, 3, 4, 5, 6};
	struct link_rx rx[MAX];

	(void)state;
	fill(rx, arrived, 7);
	roce_acks_first(rx, 7);
	expect_order(rx, order, 7);
}

static void receive_short_datagrams_keep_their_order(void **state)
{
	static const struct arrived arrived[] = {
		{OPCODE(RC, SEND_ONLY), 1}, {OPCODE(RC, ACK), 1}, {OPCODE(RC, SEND_ONLY), 1}};
	static const int order[] = {0, 1, 2};
	struct link_rx rx[MAX];

	(void)state;
	fill(rx, arrived, 3);
	rx[1].len = 1;
	roce_acks_first(rx, 3);
	expect_order(rx, order, 3);
	rx[1].len = PACKET_MIN;
	rx[0].len = 0;
	roce_acks_first(rx, 3);
	expect_order(rx, order, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(receive_ack_overtakes_requests_of_its_qp),
		cmocka_unit_test(receive_ack_follows_responses_and_other_qps),
		cmocka_unit_test(receive_short_datagrams_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
