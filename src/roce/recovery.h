/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_RECOVERY_H
#define USRDMA_ROCE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/rtt.h"

/*
 * Loss recovery of a requester (IBA 1.x §9.7.5): detects losses and retransmits. This header
 * declares the state machine (recovery_state.c, no I/O). recovery.c executes its actions on a queue
 * pair and runs the timers. Congestion control (cc.h) limits the packets in flight.
 * docs/loss-recovery.md explains loss recovery; docs/recovery-states.md has the state table.
 *
 * PSNs: [una_psn, next_psn) is in flight, [next_psn, max_psn) was sent before and is to be
 * retransmitted.
 */
enum recovery_state {
	RECOVERY_OPEN, /* no loss is known */
	/* selective repeat: only the gap [una_psn, retransmit_end_psn) is retransmitted */
	RECOVERY_SELECTIVE,
	RECOVERY_GO_BACK_N, /* all packets up to retransmit_end_psn are retransmitted */
	/* the peer had no receive WQE: no packets are sent until the RNR timer expires */
	RECOVERY_RNR_WAIT,
	RECOVERY_STATE_COUNT
};

enum recovery_input {
	RECOVERY_IN_ACK, /* an acknowledgment advanced una_psn */
	/*
	 * An acknowledgment advanced una_psn to the end of go-back-N, or beyond the gap of
	 * selective repeat. The latter shows that the peer had buffered the packets after the gap.
	 */
	RECOVERY_IN_RECOVERED,
	/*
	 * una_psn is missing at the peer: a sequence NAK, a response that skips data, or a first
	 * timeout
	 */
	RECOVERY_IN_GAP, /* selective repeat is possible */
	/*
	 * go-back-N is required: READs or atomics are in flight, or the gap is all that is in
	 * flight
	 */
	RECOVERY_IN_GAP_ALL,
	/* go-back-N is required: the peer recently dropped out-of-order packets */
	RECOVERY_IN_GAP_HOLD_OFF,
	/* the packet after the gap is also missing: the peer has no reorder buffer */
	RECOVERY_IN_NOT_BUFFERED,
	/* from the timer */
	RECOVERY_IN_RTO, /* all packets in flight are considered lost */
	RECOVERY_IN_RNR_EXPIRED,
	/* from the peer */
	RECOVERY_IN_RNR_NAK,
	RECOVERY_IN_COUNT
};

enum recovery_action {
	/* the table has no entry; a test verifies that this does not occur */
	RECOVERY_ACTION_MISSING,
	RECOVERY_ACTION_NEVER, /* the input does not occur in this state */
	RECOVERY_ACTION_NOTHING,
	RECOVERY_ACTION_RETRANSMIT_GAP,
	RECOVERY_ACTION_RETRANSMIT_ALL,
	/* retransmit all, and count one loss of the hold-off */
	RECOVERY_ACTION_RETRANSMIT_ALL_COUNT,
	RECOVERY_ACTION_RETRANSMIT_ALL_DENY, /* retransmit all, and start a hold-off */
	RECOVERY_ACTION_CONFIRM,	     /* record that the peer buffers out-of-order packets */
	RECOVERY_ACTION_WAIT_RNR,	     /* go back to una_psn, and start the RNR timer */
	RECOVERY_ACTION_RESUME,		     /* sending continues from una_psn */
	RECOVERY_ACTION_COUNT
};

struct recovery_cell {
	unsigned char action; /* enum recovery_action */
	unsigned char next;   /* enum recovery_state */
};

/*
 * Whether the peer buffers out-of-order packets. A responder of this project does (reorder.c); most
 * NICs do not. The wire protocol does not carry this property. It is inferred from the PSN that the
 * peer acknowledges after a gap was retransmitted.
 */
enum reorder_confidence {
	REORDER_UNKNOWN,   /* selective repeat is attempted */
	REORDER_CONFIRMED, /* selective repeat succeeded */
	/* selective repeat failed: go-back-N for the next hold_off_losses losses */
	REORDER_HOLD_OFF,
};

struct recovery_reorder {
	enum reorder_confidence confidence;
	/* the next hold-off is 2^exponent losses; each consecutive failure adds 1 */
	unsigned int hold_off_exponent;
	uint32_t hold_off_losses;
};

/* In struct roce_qp, guarded by engine.lock. */
struct recovery {
	enum recovery_state state;
	struct recovery_reorder reorder;
	/* The current retransmission; not valid in OPEN. */
	uint32_t retransmit_end_psn;
	uint32_t retransmit_max_psn; /* max_psn at its start */
	uint64_t retransmit_ns;	     /* time of its start */
	uint32_t gap_pkts;	     /* SELECTIVE: length of the gap in packets */
	bool is_una_resent;	     /* una_psn was retransmitted and has not advanced since */
	/* The RTO timer (RFC 6298), and the ACK timeout (ibv_qp_attr.timeout). */
	struct rtt rtt;
	unsigned int rto_backoff; /* expirations since una_psn advanced */
	uint64_t rto_start_ns;	  /* when una_psn advanced or was sent */
	uint64_t ack_start_ns;	  /* the same, except retransmissions */
	uint32_t retries_left;
	uint32_t rnr_left;
	uint32_t rnr_naks; /* received, and the total wait after them */
	uint64_t rnr_waited_ns;
	/* The packet for the current measurement of the round-trip time. */
	bool is_timing;
	bool is_timed_resent; /* after a timeout: the measured time is an upper bound */
	uint32_t timed_psn;
	uint64_t timed_ns;
};

/* Whether selective repeat has failed, and has not succeeded since. */
static inline bool recovery_reorder_has_failed(const struct recovery_reorder *reorder)
{
	return reorder->confidence != REORDER_CONFIRMED && reorder->hold_off_exponent;
}

/* The queue pair's state when a gap is reported: input of recovery_classify_gap(). */
struct recovery_gap {
	uint32_t una_psn;
	uint32_t max_psn;
	/* length of the GSO burst that begins with una_psn; networks mostly lose the whole burst */
	uint32_t burst_pkts;
	bool has_responses; /* READs, atomics, atomic WRITEs or FLUSHes are in flight */
};

struct recovery_cell recovery_cell(enum recovery_state state, enum recovery_input input);
const char *recovery_state_name(enum recovery_state state);
const char *recovery_input_name(enum recovery_input input);
const char *recovery_action_name(enum recovery_action action);

/* The input for an acknowledgment that advanced una_psn. */
enum recovery_input recovery_classify_ack(const struct recovery *recovery, uint32_t una_psn);

/* Whether the peer acknowledged exactly the retransmitted gap, but not the packet after it. */
bool recovery_is_gap_acked(const struct recovery *recovery, uint32_t una_psn);

/*
 * The input for a missing una_psn. *gap_pkts: the gap's length for RECOVERY_IN_GAP. Not called in
 * RNR_WAIT.
 */
enum recovery_input recovery_classify_gap(const struct recovery *recovery,
					  const struct recovery_gap *gap, uint32_t *gap_pkts);

void recovery_reorder_confirm(struct recovery_reorder *reorder);
/* Starts a hold-off, twice as long as the preceding one, up to 64 losses. */
void recovery_reorder_deny(struct recovery_reorder *reorder);
/* Counts one loss of the hold-off, which ends with the last. */
void recovery_reorder_count(struct recovery_reorder *reorder);

#endif
