/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault rules of the simulated network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "link/sim.h"

#define PACKETS	  64u
#define HDR	  12u
#define SEND_ONLY 0x04 /* RC SEND only */
#define QPN	  0x8001u
#define DELAY_NS  1000u

static const uint8_t gids[2][GID_BYTES] = {
	{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
	{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2},
};

static struct sim_net *net;
static struct link *links[2];

static void open_net(const char *rules)
{
	const struct sim_faults faults = {.rules = rules, .delay_ns = DELAY_NS};

	net = sim_net_new(1, &faults);
	assert_non_null(net);
	for (int i = 0; i < 2; i++)
		links[i] = sim_link_new(net, gids[i]);
	assert_true(links[0] && links[1]);
	sim_net_advance(net, 1);
}

static void close_net(void)
{
	link_close(links[0]);
	link_close(links[1]);
	sim_net_free(net);
}

/* A packet with a BTH; its last byte is the number. */
static void send_packet(uint8_t number)
{
	struct link_path path = {.local_qpn = QPN};
	struct link_tx tx = {.path = &path, .hdr_bytes = HDR, .hdr = {SEND_ONLY}};

	memcpy(path.local_gid, gids[0], GID_BYTES);
	memcpy(path.remote_gid, gids[1], GID_BYTES);
	path.traffic_class = 2;
	tx.hdr[HDR - 1] = number;
	assert_int_equal(link_send(links[0], &tx, 1), 1);
}

/*
 * Receives what arrives until until_ns. Returns the number of packets; their numbers are in
 * `numbers`.
 */
static unsigned receive_until(uint64_t until_ns, uint8_t numbers[2 * PACKETS])
{
	struct link_rx rx;
	unsigned count = 0;

	sim_net_advance(net, until_ns);
	while (link_recv(links[1], &rx, 1) == 1) {
		assert_true(count < 2 * PACKETS);
		numbers[count++] = rx.bytes[HDR - 1];
	}
	return count;
}

static unsigned run_rules(const char *rules, uint8_t numbers[2 * PACKETS])
{
	unsigned count;

	open_net(rules);
	for (uint8_t i = 0; i < PACKETS; i++)
		send_packet(i);
	count = receive_until(UINT64_C(1000000000), numbers);
	close_net();
	return count;
}

static void sim_rules_same_text_repeats_faults(void **state)
{
	static const char rules[] =
		"seed=5;packet:drop:p=0.2;packet.send:duplicate:p=0.2;packet.send:delay=5us~5us:p=0.2";
	uint8_t first[2 * PACKETS], second[2 * PACKETS];
	unsigned count = run_rules(rules, first);

	(void)state;
	assert_int_equal(run_rules(rules, second), count);
	assert_memory_equal(first, second, count);
	/* Another seed. */
	if (run_rules(strchr(rules, 'p'), second) == count)
		assert_memory_not_equal(first, second, count);
}

/*
 * The network loses the packets that the point packet.send of a process would lose with the same
 * rule.
 */
static void sim_rules_drop_same_passes_as_fault_point(void **state)
{
	static const char rules[] = "seed=9;packet.send:drop:p=0.3:op=SEND:qp=0x8001";
	const struct fault_subject subject = {.qpn = QPN, .op = FAULT_OP_SEND};
	uint8_t numbers[2 * PACKETS];
	unsigned count = run_rules(rules, numbers), at = 0;
	struct fault fault;
	char why[128];

	(void)state;
	assert_true(count < PACKETS);
	assert_int_equal(fault_configure(rules, why, sizeof(why)), 0);
	for (uint8_t i = 0; i < PACKETS; i++) {
		if (!fault_due(FAULT_PACKET_SEND, &subject, &fault))
			assert_int_equal(numbers[at++], i);
	}
	assert_int_equal(at, count);
	assert_int_equal(fault_configure(NULL, NULL, 0), 0);
}

static void sim_rules_reorder_holds_packet_until_others_pass(void **state)
{
	const uint8_t expected[] = {0, 2, 3, 1, 4};
	uint8_t numbers[2 * PACKETS];

	(void)state;
	open_net("packet.send:reorder=2:nth=2");
	for (uint8_t i = 0; i < 5; i++)
		send_packet(i);
	assert_int_equal(receive_until(100 * DELAY_NS, numbers), 5);
	assert_memory_equal(numbers, expected, sizeof(expected));
	close_net();
	/* Without later packets it arrives after 10 ms. */
	open_net("packet.send:reorder:nth=1");
	send_packet(0);
	assert_int_equal(receive_until(9000000, numbers), 0);
	assert_int_equal(receive_until(11000000, numbers), 1);
	close_net();
	/* A packet that is still held is freed with its link. */
	open_net("packet.send:reorder:nth=1");
	send_packet(0);
	close_net();
}

static void sim_rules_corrupt_and_mark_change_packet(void **state)
{
	struct link_rx rx;
	unsigned bits = 0;

	(void)state;
	open_net("packet.receive:corrupt:nth=1;packet.receive:mark:nth=2:peer=10.0.0.1");
	send_packet(0);
	send_packet(0);
	sim_net_advance(net, 100 * DELAY_NS);
	assert_int_equal(link_recv(links[1], &rx, 1), 1);
	for (size_t i = 0; i < rx.len; i++)
		bits += (unsigned)__builtin_popcount(rx.bytes[i] ^ (i ? 0 : SEND_ONLY));
	assert_int_equal(bits, 1);
	assert_int_equal(link_recv(links[1], &rx, 1), 1);
	assert_int_equal(rx.traffic_class & 3, 3);
	close_net();
}

/* Virtual time: the rules begin with the network. */
static void sim_rules_from_limits_virtual_time(void **state)
{
	uint8_t numbers[2 * PACKETS];

	(void)state;
	open_net("packet.send:drop:from=1s");
	send_packet(1);
	assert_int_equal(receive_until(100 * DELAY_NS, numbers), 1);
	sim_net_advance(net, UINT64_C(1500000000));
	send_packet(2);
	assert_int_equal(receive_until(UINT64_C(1600000000), numbers), 0);
	close_net();
}

static void sim_rules_invalid_text_fails(void **state)
{
	const struct sim_faults faults = {.rules = "packet:lose"};

	(void)state;
	assert_null(sim_net_new(1, &faults));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim_rules_same_text_repeats_faults),
		cmocka_unit_test(sim_rules_drop_same_passes_as_fault_point),
		cmocka_unit_test(sim_rules_reorder_holds_packet_until_others_pass),
		cmocka_unit_test(sim_rules_corrupt_and_mark_change_packet),
		cmocka_unit_test(sim_rules_from_limits_virtual_time),
		cmocka_unit_test(sim_rules_invalid_text_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
