/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_ROCE_RELAY_KIT_H
#define TESTS_UNIT_ROCE_RELAY_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/relay.h"
#include "peer.h"
#include "roce/relay.h"
#include "wire/aeth.h"

/*
 * XRC requests for SRQs of other processes: one real process, and a test that is the requester and all other processes. It has
 * each message that is sent to them, and sends what it likes.
 */
#define ALL	     (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f
#define NAK(code)    (0x60 | (code))
#define OTHER	     200u /* the other process's slot */
#define THIRD	     201u
#define DOMAIN_ID    77u
#define SAID_MAX     64

struct kit_word {
	struct relay_msg msg;
	struct relay_attach attach;
	struct packet packet;
	uint32_t slot;
	uint8_t bytes[RELAY_BYTES_MAX];
};

extern struct kit_word kit_said[SAID_MAX]; /* what was sent, of which kit_seen have been expected */
extern int kit_seen;
extern int kit_send_error;		/* what the next is answered */
extern uint8_t kit_bytes[2 * PEER_MTU]; /* the requester's payload */
extern struct ibv_srq *kit_srq;		/* the process's own */
extern uint32_t kit_srqn;

/* Of a cmocka test, whose state is a struct peer with an XRC receive queue pair. */
int kit_set_up(void **state);
int kit_tear_down(void **state);

struct packet kit_packet(const struct peer *peer, enum opcode_operation operation, uint32_t psn,
			 uint32_t srqn);
/* The requester sends, and receives. */
void kit_request(struct peer *peer, enum opcode_operation operation, uint32_t psn, uint32_t srqn,
		 size_t payload_bytes);
void kit_expect_aeth(struct peer *peer, uint32_t psn, uint8_t syndrome);
void kit_expect_nothing(struct peer *peer);

/* Another process says something, and hears. */
void kit_tell(struct peer *peer, uint32_t slot, const struct relay_msg *msg, const void *more,
	      uint32_t len);
const struct relay_msg *kit_expect_word(uint32_t slot, enum relay_kind kind);
void kit_expect_no_word(void);

enum ibv_qp_state kit_state(const struct peer *peer);

#endif
