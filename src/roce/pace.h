/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_PACE_H
#define USRDMA_ROCE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A window for packets of UC and UD (ADR 0040). In a lossless network a full receiver pauses the
 * sender; a UDP socket that is full drops. A sender sets AckReq in one packet out of a quarter of
 * the window. A receiver of this project replies with a VENDOR_ACK when it has taken that packet
 * from its socket (vendor_ack.h). Other receivers ignore the bit, and the sender then sends without
 * a window.
 *
 * States: UNKNOWN until the first VENDOR_ACK or timeout. WINDOW after a VENDOR_ACK. FREE after a
 * timeout in UNKNOWN, or after PACE_TIMEOUTS timeouts in succession in WINDOW. A VENDOR_ACK in FREE
 * leads to WINDOW. A timeout is a time during which the window was full and no VENDOR_ACK arrived;
 * the packets in flight then count as lost.
 *
 * Part of a UC queue pair or of the path of an address handle. No I/O and no clock.
 */
#define PACE_ASKS	     4u
#define PACE_WINDOW_MAX_PKTS 256u

/* A receiver of this project on a busy host is not scheduled for tens of milliseconds at times. */
#define PACE_TIMEOUT_NS UINT64_C(100000000)
#define PACE_TIMEOUTS	10u

enum pace_state { PACE_UNKNOWN, PACE_WINDOW, PACE_FREE, PACE_STATE_COUNT };

struct pace {
	enum pace_state state;
	uint32_t window_pkts; /* a multiple of PACE_ASKS */
	uint32_t sent_pkts;   /* this and the next modulo 2^32 */
	uint32_t acked_pkts;  /* of these, the receiver has taken or lost */
	struct {
		uint32_t psn;
		uint32_t sent_pkts; /* including this packet */
	} asks[PACE_ASKS]; /* [asks_tail, asks_head): packets with AckReq without a VENDOR_ACK */
	uint32_t asks_head;
	uint32_t asks_tail;
	/* since when the window is full; 0: it was not full at the last send */
	uint64_t blocked_ns;
	uint32_t timeouts; /* in succession */
};

/* window_pkts: rounded down to a multiple of PACE_ASKS and limited to PACE_WINDOW_MAX_PKTS. */
void pace_init(struct pace *pace, uint32_t window_pkts);

/* Whether a packet may be sent now. If not, *retry_ns is the time at which a timeout permits it. */
bool pace_may_send(struct pace *pace, uint64_t now_ns, uint64_t *retry_ns);

/* Counts a packet that is sent now. Returns whether to set its AckReq bit. */
bool pace_on_send(struct pace *pace, uint32_t psn);

/* A VENDOR_ACK with this PSN arrived. false: no packet with this PSN waits for one. */
bool pace_on_ack(struct pace *pace, uint32_t psn);

#endif
