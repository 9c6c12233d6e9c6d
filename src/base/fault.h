/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_H
#define USRDMA_BASE_FAULT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fault_op.h"
#include "base/probe.h"

/*
 * Fault points: named places in the code where a fault can be injected. A point calls fault_due()
 * on each pass and executes the action that it returns. Rules configure the points: those of
 * USRDMA_FAULT or of the file that USRDMA_FAULTS names, and those of `usrdma fault`, which replace
 * each other while the program runs:
 *
 *	rules     = line *( newline line )
 *	line      = [ clause ] *( ";" [ clause ] ) [ "#" comment ]
 *	clause    = "seed=" number | "start=" number | point ":" action *( ":" condition )
 *	action    = "drop" | "duplicate" | "corrupt" | "delay=" delay | "rate=" bytes |
 *		    "reorder" [ "=" number ] | "mark" | "fail=" code | "error" |
 *		    "srq_limit" | "overrun" | "empty" | "deny" | "down" | "gid_change" |
 *		    "stop" | "kill" | "reject=" reason | "disconnect" | "remove" |
 *		    "lid_change" | "sm_change" | "client_reregister"
 *	condition = "p=" probability | "nth=" number | "every=" number | "times=" number |
 *		    "from=" time | "until=" time | "prog=" name | "pid=" number |
 *		    "dev=" name | "qp=" number | "type=" names | "op=" names |
 *		    "peer=" address | "name=" name | "dir=" ( "sent" | "received" )
 *	delay     = time [ "~" time [ "," ( "uniform" | "normal" | "pareto" ) ] ]
 *	time      = number ( "us" | "ms" | "s" )
 *
 * `point` is the name of an enum fault_point; "packet" and "mad" stand for the points of both
 * directions. usrdma(7) describes the actions and conditions. A pass of a rule is a pass of its
 * point that meets prog, pid, dev, qp, type, op, peer, from and until. A rule fires on each of its
 * passes that p, nth, every and times allow. If several rules fire on one pass, the first of them
 * counts. The number of the pass among those of the same rule and QPN, the rule's position and the
 * seed (1 without the clause) determine all random numbers, so that they do not depend on other
 * QPs.
 */
enum fault_point {
	FAULT_PACKET_SEND, /* RoCEv2 packets, before link_send() and after link_recv() */
	FAULT_PACKET_RECEIVE,
	FAULT_MAD_SEND, /* MADs, in the daemon */
	FAULT_MAD_RECEIVE,
	/*
	 * before an element is written to a shared-memory FIFO that has space; fail: it is reported
	 * as full
	 */
	FAULT_FIFO_SEND,
	FAULT_FIFO_RECEIVE,
	FAULT_WR_POST, /* a call that posts a send WR */
	/* a send WR, passed once when it is accepted; fail: it completes with the status */
	FAULT_WR_EXECUTE,
	FAULT_QP_MODIFY, /* ibv_modify_qp() */
	FAULT_IPC_CALL,	 /* requests to the daemon that wait for their reply */
	/* a completion on its way to its CQ; fail: status and vendor error are replaced */
	FAULT_COMPLETION,
	/* a completion, before FAULT_COMPLETION: an event of its QP, CQ or SRQ is injected */
	FAULT_QP_EVENT,
	FAULT_RECEIVE,	       /* a message takes a receive WQE; empty: the queue has no WQE */
	FAULT_MESSAGE,	       /* a message or datagram of shared memory */
	FAULT_ACCESS,	       /* the check of a remote request's rkey; deny: the key is invalid */
	FAULT_CALL,	       /* a public call that creates an object or a connection */
	FAULT_DEVICE,	       /* a device, periodically, in the daemon */
	FAULT_PROCESS,	       /* a process with queue pairs, periodically, in the daemon */
	FAULT_CONNECTION,      /* an established connection, periodically, in the daemon */
	FAULT_MESSAGE_RECEIVE, /* FAULT_MESSAGE, in the process that receives it */
	FAULT_POINT_COUNT
};

enum fault_action {
	FAULT_DROP,
	FAULT_DUPLICATE,
	FAULT_CORRUPT, /* one bit is inverted */
	FAULT_DELAY,
	FAULT_FAIL,
	FAULT_RATE,    /* in a rule only: a point receives DELAY */
	FAULT_REORDER, /* later packets of the QP overtake the packet */
	FAULT_MARK,    /* ECN: congestion experienced */
	FAULT_ERROR,   /* the QP enters ERR */
	FAULT_SRQ_LIMIT,
	FAULT_OVERRUN, /* the CQ is full */
	FAULT_EMPTY,
	FAULT_DENY,
	FAULT_DOWN, /* the port is down while the rule fires */
	/* reports the event only, as LID_CHANGE, SM_CHANGE and CLIENT_REREGISTER do */
	FAULT_GID_CHANGE,
	FAULT_STOP, /* the process is stopped while the rule fires */
	FAULT_KILL,
	FAULT_REJECT,	  /* a REQ is answered by a REJ, and not sent or received */
	FAULT_DISCONNECT, /* as if the process had called rdma_disconnect() */
	FAULT_REMOVE,	  /* the device is removed while the rule fires */
	FAULT_LID_CHANGE,
	FAULT_SM_CHANGE,
	FAULT_CLIENT_REREGISTER,
	FAULT_ACTION_COUNT
};

/*
 * The object that passes a point. A member that is 0 or NULL is unknown: a rule with a condition on
 * that member does not match.
 */
struct fault_subject {
	const char *device;   /* name of the RDMA device */
	const char *netdev;   /* name of its network interface */
	const uint8_t *peer;  /* GID of the peer */
	uint32_t qpn;	      /* of the local QP */
	unsigned int qp_type; /* enum ibv_qp_type */
	enum fault_op op;
	const char *call; /* name of the public call */
	uint32_t bytes;	  /* RATE */
	pid_t pid;	  /* 0: of this process, also the next member */
	const char *program;
	uint64_t now_ns; /* 0: clock_now_ns() */
};

struct fault_counter;

/* The action of a fault point. */
struct fault {
	enum fault_action action;
	/* FAIL: an errno or a status, positive; ENOBUFS for fifo.send. REJECT: the reason */
	int code;
	uint32_t vendor_err; /* FAIL of a completion, if has_vendor_err */
	bool has_vendor_err;
	uint64_t delay_ns;	       /* DELAY */
	uint64_t random;	       /* CORRUPT: chooses the bit */
	uint64_t count;		       /* REORDER: number of packets that overtake */
	struct fault_counter *counter; /* the shared counter of the rule; NULL: it has none */
};

#define FAULT_RULES_MAX 64

/*
 * Replaces the rules of the environment; NULL: no rules. Returns 0; or -EINVAL with the cause as
 * text in `why`, and there are no rules.
 */
int fault_configure(const char *rules, char *why, size_t why_bytes)
	__attribute__((warn_unused_result));

/*
 * Replaces the rules of `usrdma fault`, which apply in addition to and after those of the
 * environment. Any thread may call it, and other threads may pass points at the same time: each
 * pass uses the rules before or after the call. No effect if the rules in force have this
 * generation or a later one. Returns 0; -EINVAL with the cause as text in `why`, or -ENOMEM: the
 * rules in force stay.
 */
int fault_apply_text(const char *text, uint64_t generation, char *why, size_t why_bytes)
	__attribute__((warn_unused_result));

/*
 * Numbers of passes and firings of a rule. A firing whose action could not be executed counts as a
 * failure and not as a firing; `error` is the errno of the last failure.
 */
struct fault_counter {
	_Atomic uint64_t passes;
	_Atomic uint64_t firings;
	_Atomic uint64_t failures;
	_Atomic uint64_t error;
};

/*
 * The point could not execute the action of this firing: -errno. The rule has fired all the same,
 * for the condition `times`.
 */
void fault_failed(const struct fault *fault, int error);

/*
 * Counts the passes and firings of the rules of fault_apply_text() also in
 * counters[FAULT_RULES_MAX], which may be shared with other processes; NULL: not. The memory stays
 * valid until the process ends.
 */
void fault_share_counters(struct fault_counter *counters);

/*
 * Copies this process's numbers of the rules of fault_apply_text(), by position. Returns the number
 * of rules and their generation.
 */
struct fault_count {
	uint64_t passes;
	uint64_t firings;
	uint64_t failures;
	int error; /* errno of the last failure */
};
int fault_counters(struct fault_count counts[FAULT_RULES_MAX], uint64_t *generation);

/* Whether a rule names the point. */
bool fault_has_point(enum fault_point point);

/* The point\'s and the action\'s name in a rule. */
const char *fault_point_name(enum fault_point point);
const char *fault_action_name(enum fault_action action);

/*
 * For rules that are not in force for the whole process: whether a rule of `set` fires on this
 * pass. The firing is counted in `counters`, logged and traced. fault_hold(true) keeps the probes
 * of faults on while there are such rules.
 */
struct fault_set;
bool fault_decide_in(struct fault_set *set, struct fault_counter *counters, enum fault_point point,
		     const struct fault_subject *subject, struct fault *fault);
void fault_hold(bool is_on);

/* Out-of-line parts of fault_due() and fault_code(). `subject` may be NULL. */
PROBE_COLD bool fault_decide(enum fault_point point, const struct fault_subject *subject,
			     struct fault *fault);
PROBE_COLD int fault_decide_code(enum fault_point point, const struct fault_subject *subject);

/*
 * Whether the point fires on this pass, and its action, which the point supports. Any thread;
 * preserves errno. A point outside of a PROBE_COLD function fills its subject in one, so that it
 * costs nothing when faults are off.
 */
static inline bool fault_due(enum fault_point point, const struct fault_subject *subject,
			     struct fault *fault)
{
	return probe_is_on(PROBE_FAULT) && fault_decide(point, subject, fault);
}

/* For a point whose only action is FAIL and that has no subject: the code, or 0. */
static inline int fault_code(enum fault_point point)
{
	return probe_is_on(PROBE_FAULT) ? fault_decide_code(point, NULL) : 0;
}

/*
 * The point call, at the beginning of the public call `name`. No lock is held; both functions sleep
 * if the fault is a delay. fault_call() returns 0 or -errno, which the caller reports.
 * fault_call_fails() sets errno if the call fails, and reports it.
 */
PROBE_COLD int fault_call_cold(const char *name);
PROBE_COLD bool fault_call_fails_cold(const char *name);

static inline int fault_call(const char *name)
{
	return probe_is_on(PROBE_FAULT) ? fault_call_cold(name) : 0;
}

static inline bool fault_call_fails(const char *name)
{
	return probe_is_on(PROBE_FAULT) && fault_call_fails_cold(name);
}

/* Executes CORRUPT on a buffer of at least one byte. */
static inline void fault_corrupt(const struct fault *fault, void *bytes, size_t len)
{
	uint64_t bit = fault->random % (8 * (uint64_t)len);

	((uint8_t *)bytes)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

#endif
