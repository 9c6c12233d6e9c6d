/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_ROCE_AHEAD_KIT_H
#define TESTS_UNIT_ROCE_AHEAD_KIT_H

#include "expect.h"
#include "roce/qp.h"

/* What the tests of packets that are sent ahead share. */

#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define OWN_PSN(n)   psn_add(PEER_SECOND_PSN, (n))
#define ACK_SYNDROME 0x1f
#define READ_PACKETS 3
#define READ_BYTES   (READ_PACKETS * PEER_MTU)

/* An RC QP whose memory the peer may read and write, with four READs outstanding. */
int ahead_kit_open(void **state);
int ahead_kit_close(void **state);

#define on_peer(test) cmocka_unit_test_setup_teardown(test, ahead_kit_open, ahead_kit_close)

/* An ACK of the peer for the n-th packet of the queue pair. */
void answer(struct peer *peer, uint32_t n, bool takes_ahead);

#endif
