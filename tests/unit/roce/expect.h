/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_ROCE_EXPECT_H
#define TESTS_UNIT_ROCE_EXPECT_H

#include "peer.h"

/* Checks of what the queue pair sends next, after it has processed what it received. */

static inline void expect_nothing(struct peer *peer)
{
	struct packet packet;

	peer_settle(peer);
	assert_false(peer_next(peer, &packet));
}

/* An ACK or NAK with this opcode, PSN and syndrome, which is returned. */
static inline struct packet expect_response(struct peer *peer, uint8_t opcode, uint32_t psn,
					    uint8_t syndrome)
{
	struct packet packet;

	peer_settle(peer);
	assert_true(peer_next(peer, &packet));
	assert_int_equal(packet.opcode, opcode);
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.syndrome, syndrome);
	return packet;
}

#endif
