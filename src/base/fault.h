/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_H
#define USRDMA_BASE_FAULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/probe.h"

/*
 * Fault points: named places in the code where a fault can be injected. A point calls fault_due() on each pass and executes
 * the action that it returns. USRDMA_FAULT and the file that USRDMA_FAULTS names configure the points by rules:
 *
 *	rules     = line *( newline line )
 *	line      = [ clause ] *( ";" [ clause ] ) [ "#" comment ]
 *	clause    = "seed=" number | point ":" action *( ":" condition )
 *	action    = "drop" | "duplicate" | "corrupt" | "delay=" time | "fail=" code
 *	condition = "p=" probability | "nth=" number | "every=" number | "times=" number | "prog=" name
 *	time      = number ( "us" | "ms" | "s" )
 *
 * Spaces may stand around a clause. `code` is the name of an errno or, for wr.execute, of a work completion status without IBV_WC_. A rule fires on each pass
 * that its conditions allow: p is the probability from 0 to 1, nth names one pass, counted from 1, every permits the
 * passes that the number divides, times limits how often the rule fires, and prog restricts it to the program of that name. If several rules of a point fire on one pass, the first of them counts. The seed (1 without it) decides on
 * which passes a rule with a probability fires, whatever happens at other points.
 */
enum fault_point {
	FAULT_PACKET_SEND, /* RoCEv2 packets, before link_send() and after link_recv() */
	FAULT_PACKET_RECEIVE,
	FAULT_MAD_SEND, /* MADs, in the daemon */
	FAULT_MAD_RECEIVE,
	FAULT_FIFO_SEND, /* an element for a shared-memory FIFO with space; fail: the FIFO is full */
	FAULT_FIFO_RECEIVE,
	FAULT_WR_POST, /* a call that posts a send WR */
	FAULT_WR_EXECUTE, /* a send WR, passed once when it is accepted; fail: it completes with the status */
	FAULT_QP_MODIFY, /* ibv_modify_qp() */
	FAULT_IPC_CALL,	 /* requests to the daemon that wait for their reply */
	FAULT_POINT_COUNT
};

enum fault_action {
	FAULT_DROP,
	FAULT_DUPLICATE,
	FAULT_CORRUPT, /* one bit is inverted */
	FAULT_DELAY,
	FAULT_FAIL,
	FAULT_ACTION_COUNT
};

/* The action of a fault point. */
struct fault {
	enum fault_action action;
	int code;	   /* FAIL: an errno or a status, positive; ENOBUFS for fifo.send */
	uint64_t delay_ns; /* DELAY */
	uint64_t random;   /* CORRUPT: chooses the bit */
};

#define FAULT_RULES_MAX 64

/*
 * Replaces the rules; NULL: no rules. Returns 0; or -EINVAL with the cause as text in `why`, and there are no rules.
 * No other thread may pass a fault point during the call.
 */
int fault_configure(const char *rules, char *why, size_t why_bytes)
	__attribute__((warn_unused_result));

/* The point's and the action's name in a rule. */
const char *fault_point_name(enum fault_point point);
const char *fault_action_name(enum fault_action action);

/* Out-of-line parts of fault_due() and fault_code(). */
PROBE_COLD bool fault_decide(enum fault_point point, struct fault *fault);
PROBE_COLD int fault_decide_code(enum fault_point point);

/* Whether the point fires on this pass, and its action, which the point supports. Any thread; preserves errno. */
static inline bool fault_due(enum fault_point point, struct fault *fault)
{
	return probe_is_on(PROBE_FAULT) && fault_decide(point, fault);
}

/* For a point whose only action is FAIL: the code, or 0. */
static inline int fault_code(enum fault_point point)
{
	return probe_is_on(PROBE_FAULT) ? fault_decide_code(point) : 0;
}

/* Executes CORRUPT on a buffer of at least one byte. */
static inline void fault_corrupt(const struct fault *fault, void *bytes, size_t len)
{
	uint64_t bit = fault->random % (8 * (uint64_t)len);

	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

#endif
