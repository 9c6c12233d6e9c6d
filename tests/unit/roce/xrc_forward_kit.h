/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_ROCE_XRC_FORWARD_KIT_H
#define TESTS_UNIT_ROCE_XRC_FORWARD_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "peer.h"
#include "roce/xrc_forward.h"
#include "wire/aeth.h"

/*
 * XRC requests for SRQs of other processes: one real process, and a test that acts as the requester
 * and as all other processes. The test receives all messages to them, and sends arbitrary messages.
 */
#define ALL	     (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define PSN(n)	     psn_add(PEER_FIRST_PSN, (n))
#define ACK_SYNDROME 0x1f
#define NAK(code)    (0x60 | (code))
#define OTHER	     200u /* QPN range of the other process */
#define THIRD	     201u
#define DOMAIN_ID    77u
#define SENT_MAX     64

struct kit_sent {
	struct xrc_forward_msg msg; /* decoded from bytes */
	uint32_t slot;
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
};

extern struct kit_sent kit_sent[SENT_MAX]; /* messages sent; kit_seen of them were checked */
extern int kit_seen;
extern int kit_send_error;		/* result of the next send */
extern uint8_t kit_bytes[2 * PEER_MTU]; /* payload of the requester */
extern struct ibv_srq *kit_srq;		/* SRQ of the process */
extern uint32_t kit_srqn;

/* cmocka fixture whose state is a struct peer with an XRC target QP. */
int kit_set_up(void **state);
int kit_tear_down(void **state);

struct packet kit_packet(const struct peer *peer, enum opcode_operation operation, uint32_t psn,
			 uint32_t srqn);
/* Requests of the requester, and the responses that it expects. */
void kit_request(struct peer *peer, enum opcode_operation operation, uint32_t psn, uint32_t srqn,
		 size_t payload_bytes);
void kit_expect_aeth(struct peer *peer, uint32_t psn, uint8_t syndrome);
void kit_expect_nothing(struct peer *peer);

/* Messages of another process, and the messages that it expects. */
void kit_receive(struct peer *peer, uint32_t slot, const struct xrc_forward_msg *msg);
const struct xrc_forward_msg *kit_expect_msg(uint32_t slot, enum xrc_forward_type type);
void kit_expect_no_msg(void);

enum ibv_qp_state kit_state(const struct peer *peer);

#endif
