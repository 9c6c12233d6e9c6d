/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_FAILURE_H
#define USRDMA_CORE_REPORT_FAILURE_H

#include "base/probe.h"
#include "base/timer.h"
#include "core/object/access_result.h"
#include "core/report/failure_kept.h"
#include "ipc/msg_failure.h"

struct context;
struct engine;
struct ipc_gid;
struct qp;
union ibv_gid;

/*
 * Reports failures to the daemon, for `usrdma why`, after an operation has failed. All functions
 * with a `struct qp` are called with the lock of the QP held (core/engine/qp_lock.h). They never
 * block: a report that cannot be sent is pending and sent later; if FAILURE_KEPT are pending, it is
 * dropped and counted.
 */

/* Rate limit of one process: reports at once, and reports a second. */
#define FAILURE_BURST	   64
#define FAILURE_RATE_PER_S 20

/*
 * The last request of a peer that a check refused; a QP that enters ERR because of it takes it
 * over.
 */
struct failure_refusal {
	uint32_t qpn; /* 0: none */
	enum access_result result;
	unsigned int access; /* enum ibv_access_flags that it needs */
	uint64_t remote_addr;
	uint64_t length;
	uint32_t rkey;
	/* not 0: the payload of a packet, of `length` bytes, does not agree with this path_mtu */
	uint32_t mtu_bytes;
};

/* A failed call that was reported. */
struct failure_reported_call {
	const char *call;
	int ret;
	uint64_t time_ns;
};

/* Part of the engine. */
struct failure_reports {
	bool is_open;	/* the daemon is connected */
	bool has_timer; /* `timer` is initialised */
	/* begins with the time, so that it is unique although process ids are reused */
	uint64_t last_id;
	uint32_t dropped;   /* since the last report that was sent */
	uint32_t tokens;    /* reports that may be sent now */
	uint64_t refill_ns; /* when tokens were added */
	struct failure_refusal refusal;
	uint32_t unknown_qpn; /* the last packet for an unknown QPN that was reported */
	uint64_t unknown_ns;
	struct failure_reported_call calls[8];
	uint32_t next_call; /* the entry that the next one replaces */
	struct timer timer; /* next attempt to send the pending reports */
	struct failure_kept kept;
};

void failure_open(struct failure_reports *reports);

/* Fill in what is known of the QP or the context. NULL: this process cannot report. */
struct engine *failure_begin(const struct qp *qp, enum ipc_failure_kind kind,
			     struct ipc_failure *failure);
struct engine *failure_begin_context(const struct context *context, enum ipc_failure_kind kind,
				     struct ipc_failure *failure);
void failure_send(struct engine *engine, struct ipc_failure *failure);
void failure_call(struct engine *engine, struct ipc_failure *failure, const char *call, int error);

/*
 * The reason of a failed call: no route from the source to the destination, or no reply of the next
 * hop.
 */
PROBE_COLD void failure_unreachable(struct ipc_failure *failure, const struct ipc_gid *source,
				    const union ibv_gid *dgid);

/* Whether this reason was not reported yet for the QP since its reset. */
bool failure_is_first(struct qp *qp, enum ipc_failure_reason reason);

#endif
