/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_XRC_FORWARD_H
#define USRDMA_ROCE_XRC_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "core/device/context.h"
#include "core/qp/xrc_forward.h"
#include "roce/qp.h"
#include "roce/xrc_forward_state.h"

/*
 * XRC target QPs whose requests refer to SRQs of other processes of this host
 * (core/qp/xrc_forward.h, ADR 0020). The process of the XRC target QP checks the PSN of each
 * request and forwards a request to the process that owns the SRQ, the executor. The executor has a
 * roce_qp that executes requests and sends responses on behalf of the target QP.
 *
 * An ACK acknowledges all preceding PSNs, so only one process executes requests at any time. A
 * burst is a sequence of requests that are forwarded to one executor. It begins when the target QP
 * process has no pending responses, and ends when the executor has reported all its requests.
 * During a burst the target QP process sends no ACK or NAK, and requests for other SRQs are
 * buffered (reorder.c).
 */

/* A set of processes. */
typedef uint64_t xrc_slots[IPC_SLOTS / 64];

/*
 * State of an XRC target QP whose domain other processes may open. Owned by the roce_qp; guarded by
 * engine.lock. Requests (burst_done, burst_sent] are outstanding.
 */
struct xrc_target {
	struct list_head node; /* roce.xrc.targets */
	struct xrc_forward_waiter waiter;
	struct roce_qp *rqp;
	enum xrc_target_state state;
	xrc_slots attached;  /* processes that have an executor */
	xrc_slots current;   /* processes that have the current attributes */
	uint32_t executor;   /* slot of the process of the current or last burst */
	uint32_t burst;	     /* its number */
	uint32_t burst_sent; /* serial of the last forwarded request */
	uint32_t burst_done; /* serial of the last reported request */
	uint32_t first_psn;  /* of the burst */
	uint32_t done_psn;   /* all PSNs before it are known to be executed */
	/* the executor exited: requests in [done_psn, unknown_end_psn) may have been executed */
	uint32_t unknown_end_psn;
	bool executor_is_inside; /* the executor executes an incomplete message */
	uint32_t deferred_psn;	 /* the last PSN that was deferred */
	/* when deferred_psn was deferred, the burst began, or the executor last reported */
	uint64_t progress_ns;
	bool rnr_nak_pending; /* because the executor is stalled */
};

/*
 * In the process that owns the SRQ: executes requests on behalf of a QP of another process. Created
 * by ATTACH. Freed by DETACH, at the exit of the target QP process, or when the domain is closed.
 * Guarded by engine.lock.
 */
struct xrc_executor {
	struct hash_node hash_node; /* roce.xrc.executors, by QPN */
	struct list_head node;	    /* roce.xrc.executor_list */
	struct xrc_forward_waiter waiter;
	struct qp qp;		/* internal: not visible to the application, not in the QP table */
	struct context context; /* internal */
	enum xrc_executor_state state;
	uint32_t burst;
	uint32_t serial;	      /* of the last executed request */
	enum disposition disposition; /* of the last executed request */
};

/* Initialises the part in struct roce. 0 or -errno. */
int roce_xrc_open(struct roce_xrc *xrc) __attribute__((warn_unused_result));
void roce_xrc_close(struct roce_xrc *xrc);

extern const struct xrc_forward_user roce_xrc_forward;

/*
 * xrc_forward_target.c. xrc_target_open(): an XRC target QP of a shareable domain was bound; 0 or
 * -ENOMEM. xrc_target_close(): it is being unbound. xrc_target_halt(): it left the states in which
 * it receives.
 */
int xrc_target_open(struct roce_qp *rqp) __attribute__((warn_unused_result));
void xrc_target_close(struct roce_qp *rqp);
void xrc_target_halt(struct roce_qp *rqp);
/*
 * Member publish_qp of struct transport: if the attributes changed, each executor gets them before
 * the next request.
 */
void xrc_target_publish(struct qp *qp);

/*
 * Forwards the packet with the expected PSN if necessary. DISPOSITION_ACCEPTED: this process
 * executes it now. DISPOSITION_FORWARDED: it was forwarded. DISPOSITION_DEFERRED: it must be
 * buffered. DISPOSITION_SRQ: no process owns the SRQ.
 */
enum disposition xrc_target_request(struct roce_qp *rqp, const struct packet *packet);
/* Whether the SRQ of the request belongs to another process. */
bool xrc_target_is_remote(const struct roce_qp *rqp, const struct packet *packet);
/* Forwards a duplicate READ or atomic to the executor, which sends the response again. */
enum disposition xrc_target_replay(struct roce_qp *rqp, const struct packet *packet);
/*
 * A retransmission to a QP in ERROR after DISPOSITION_EXECUTOR shows that all requests before it
 * were executed.
 */
void xrc_target_learn(struct roce_qp *rqp, const struct packet *packet);
/* All responses of this process were sent: processes the deferred request. */
void xrc_target_resume(struct roce_qp *rqp);

/*
 * Called for a packet that is a duplicate or was deferred. If the executor has not reported for a
 * while, an RNR NAK to the requester becomes pending, because its retry count is meant for lost
 * packets.
 */
void xrc_target_check_stall(struct roce_qp *rqp, const struct packet *packet);
/* The PSN for that RNR NAK: requests from there on are not known to be executed. */
uint32_t xrc_target_unreported_psn(const struct roce_qp *rqp);

void xrc_target_take_report(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg);
void xrc_target_peer_exited(struct roce *roce, uint32_t slot);

/* Whether forwarded requests are outstanding, so that this process must not respond. */
static inline bool xrc_target_is_in_burst(const struct xrc_target *target)
{
	return target->state == XRC_TARGET_BURST || target->state == XRC_TARGET_BURST_DEFERRED;
}

/* Whether the packet with the expected PSN is deferred. */
static inline bool xrc_target_is_deferred(const struct xrc_target *target)
{
	return target->state == XRC_TARGET_DEFERRED || target->state == XRC_TARGET_BURST_DEFERRED;
}

/* xrc_forward_executor.c */
void xrc_executor_attach(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg);
void xrc_executor_request(struct roce *roce, uint32_t slot, const struct xrc_forward_msg *msg);
void xrc_executor_detach(struct roce *roce, const struct xrc_forward_msg *msg);
void xrc_executor_peer_exited(struct roce *roce, uint32_t slot);
void xrc_executor_domain_closed(struct engine *engine, const struct xrc_domain *domain);
/*
 * The current request failed: ends the burst. The report makes the target QP process send the NAK,
 * too.
 */
void xrc_executor_fail(struct roce_qp *rqp, enum disposition disposition);
/* All pending responses were sent: reports to the target QP process. */
void xrc_executor_responded(struct roce_qp *rqp);

#endif
