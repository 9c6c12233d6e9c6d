/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the first cause of each failure, from the reports of one process and of both ends of a
 * connection.
 */
#include <infiniband/verbs.h>
#include <string.h>

#include "core/object/vendor_err.h"
#include "why.h"

/* Reports of the two ends of a connection about one failure are at most this far apart. */
#define SAME_INCIDENT_NS UINT64_C(60000000000)

bool why_is_near(const struct ipc_failure *a, const struct ipc_failure *b)
{
	uint64_t apart = a->time_ns < b->time_ns ? b->time_ns - a->time_ns :
						   a->time_ns - b->time_ns;

	return apart <= SAME_INCIDENT_NS;
}

static bool is_same_process(const struct ipc_failure *a, const struct ipc_failure *b)
{
	return a->pid == b->pid && a->uid == b->uid;
}

/*
 * The failure of the same process with the id `follows`; own index: not stored any more, or none.
 */
static size_t find_followed(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;

	for (size_t i = 0; failure->follows && i < list->count; i++) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (other->id == failure->follows && is_same_process(other, failure))
			return i;
	}
	return index;
}

static bool is_first_on_qp(const struct why_failure *failure)
{
	return failure->is.qpn && !failure->is.follows &&
	       (failure->is.kind == IPC_FAILURE_WR || failure->is.kind == IPC_FAILURE_QP);
}

/* The report of the peer's QP; own index: none. */
static size_t find_opposite(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;

	for (size_t i = list->count; i-- > 0;) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (i != index && is_first_on_qp(&list->failures[i]) &&
		    other->qpn == failure->peer_qpn && other->peer_qpn == failure->qpn &&
		    why_is_near(other, failure))
			return i;
	}
	return index;
}

bool why_is_same_connection(const struct ipc_failure *a, const struct ipc_failure *b)
{
	return a->local_port && a->local_port == b->remote_port &&
	       a->remote_port == b->local_port &&
	       memcmp(a->local_ip, b->remote_ip, sizeof(a->local_ip)) == 0 &&
	       memcmp(a->remote_ip, b->local_ip, sizeof(a->local_ip)) == 0 && why_is_near(a, b);
}

static bool is_connection(const struct ipc_failure *failure)
{
	return failure->kind == IPC_FAILURE_CM ||
	       (failure->kind == IPC_FAILURE_WARNING && failure->reason != IPC_REASON_CQ_SMALL);
}

/* The report of the other end of the connection; own index: none. */
static size_t find_other_end(const struct why_list *list, size_t index)
{
	for (size_t i = list->count; i-- > 0;) {
		if (i != index && is_connection(&list->failures[i].is) &&
		    why_is_same_connection(&list->failures[i].is, &list->failures[index].is))
			return i;
	}
	return index;
}

/* The end that waits for a REP is the one that the user observes. */
static size_t cause_of_connection(const struct why_list *list, size_t index)
{
	size_t other = find_other_end(list, index);
	const struct ipc_failure *a = &list->failures[other].is, *b = &list->failures[index].is;

	if (other == index)
		return index;
	if ((a->reason == IPC_REASON_CM_NO_REP) != (b->reason == IPC_REASON_CM_NO_REP))
		return a->reason == IPC_REASON_CM_NO_REP ? other : index;
	if ((a->reason == IPC_REASON_CM_DREQ) != (b->reason == IPC_REASON_CM_DREQ))
		return b->reason == IPC_REASON_CM_DREQ ? other : index;
	return list->failures[other].number < list->failures[index].number ? other : index;
}

/* The end of the connection, after which the process moved its queue pair to ERR. */
static size_t find_connection_end(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;

	for (size_t i = list->count; i-- > 0;) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (other->kind == IPC_FAILURE_CM && other->qpn == failure->qpn &&
		    other->pid == failure->pid && why_is_near(other, failure))
			return i;
	}
	return index;
}

/* The failed WR that a warning about its RNR NAKs preceded. */
static size_t find_rnr_failure(const struct why_list *list, size_t index)
{
	const struct ipc_failure *warning = &list->failures[index].is;

	for (size_t i = index; i < list->count; i++) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (other->kind == IPC_FAILURE_WR && other->qpn == warning->qpn &&
		    other->status == IBV_WC_RNR_RETRY_EXC_ERR && is_same_process(other, warning))
			return i;
	}
	return index;
}

/* The QP that entered ERR because the CQ overran: the application observes both. */
static size_t find_overrun(const struct why_list *list, size_t index)
{
	const struct ipc_failure *event = &list->failures[index].is;

	for (size_t i = index; i < list->count; i++) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (other->kind == IPC_FAILURE_QP && other->reason == IPC_REASON_QP_CQ_OVERRUN &&
		    is_same_process(other, event) && why_is_near(other, event))
			return i;
	}
	return index;
}

/*
 * The event of a port that went down and was still down when a WR had no response; own index: none.
 */
static size_t find_port_error(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;

	for (size_t i = index; i-- > 0;) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (other->kind != IPC_FAILURE_EVENT || !is_same_process(other, failure) ||
		    strcmp(other->device, failure->device) != 0)
			continue;
		if (other->event == IBV_EVENT_PORT_ACTIVE)
			break;
		if (other->event == IBV_EVENT_PORT_ERR && why_is_near(other, failure))
			return i;
	}
	return index;
}

/*
 * libibverbs and librdmacm of a process report the end of the daemon each: the first report of the
 * two.
 */
static size_t find_daemon_end(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;

	for (size_t i = 0; i < index; i++) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (other->reason == IPC_REASON_DAEMON_ENDED && is_same_process(other, failure) &&
		    why_is_near(other, failure))
			return i;
	}
	return index;
}

/* An overrun of a CQ, or the warning before it. */
static bool is_cq_error(const struct ipc_failure *failure)
{
	return (failure->kind == IPC_FAILURE_EVENT && failure->event == IBV_EVENT_CQ_ERR) ||
	       failure->reason == IPC_REASON_CQ_SMALL;
}

static bool had_no_response(const struct ipc_failure *failure)
{
	return failure->kind == IPC_FAILURE_WR && failure->vendor_err == VENDOR_ERR_NO_RESPONSE;
}

/* Whether the requester's report is the cause: the peer only refused an invalid request. */
static bool is_invalid_request(const struct ipc_failure *failure)
{
	if (failure->kind != IPC_FAILURE_WR || (failure->flags & IPC_FAILURE_IS_RECV))
		return false;
	return failure->status == IBV_WC_REM_ACCESS_ERR ||
	       failure->status == IBV_WC_REM_INV_REQ_ERR ||
	       failure->status == IBV_WC_RNR_RETRY_EXC_ERR;
}

/* The peer's invalid receive WR is the cause of the requester's REM_OP_ERR. */
static bool is_peers_fault(const struct ipc_failure *failure)
{
	return failure->kind == IPC_FAILURE_WR && failure->status == IBV_WC_REM_OP_ERR;
}

/* Of two reports of both ends, whether `a` is the cause of `b`. */
static bool is_cause(const struct ipc_failure *a, const struct ipc_failure *b)
{
	if (is_invalid_request(a) != is_invalid_request(b))
		return is_invalid_request(a);
	if (is_peers_fault(a) != is_peers_fault(b))
		return is_peers_fault(b);
	return a->time_ns < b->time_ns;
}

/* Reports of a hostile process may name each other as their cause. */
static void break_cycles(struct why_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		size_t root = why_root(list, i);

		list->failures[root].cause = root;
	}
}

void why_join(struct why_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct why_failure *failure = &list->failures[i];

		failure->cause = find_followed(list, i);
		failure->opposite = i;
		if (failure->is.reason == IPC_REASON_RNR_WAIT)
			failure->cause = find_rnr_failure(list, i);
		else if (failure->is.reason == IPC_REASON_DAEMON_ENDED)
			failure->cause = find_daemon_end(list, i);
		else if (is_connection(&failure->is))
			failure->cause = cause_of_connection(list, i);
		else if (is_cq_error(&failure->is))
			failure->cause = find_overrun(list, i);
		if (!is_first_on_qp(failure))
			continue;
		if (failure->is.reason == IPC_REASON_QP_MODIFIED) {
			failure->cause = find_connection_end(list, i);
			continue;
		}
		failure->opposite = find_opposite(list, i);
		if (failure->opposite != i &&
		    is_cause(&list->failures[failure->opposite].is, &failure->is))
			failure->cause = failure->opposite;
		if (failure->cause == i && had_no_response(&failure->is))
			failure->cause = find_port_error(list, i);
	}
	break_cycles(list);
}

size_t why_root(const struct why_list *list, size_t index)
{
	/* The bound: reports of a hostile process could form a cycle. */
	for (size_t steps = 0; steps < list->count; steps++) {
		if (list->failures[index].cause == index)
			break;
		index = list->failures[index].cause;
	}
	return index;
}

static bool has_followers(const struct why_list *list, size_t root)
{
	for (size_t i = 0; i < list->count; i++) {
		if (i != root && list->failures[i].cause == root)
			return true;
	}
	return false;
}

static bool is_same_call(const struct ipc_failure *a, const struct ipc_failure *b)
{
	return a->kind == IPC_FAILURE_CALL && b->kind == IPC_FAILURE_CALL &&
	       is_same_process(a, b) && a->qpn == b->qpn && a->reason == b->reason &&
	       a->error == b->error && a->flags == b->flags &&
	       strncmp(a->call, b->call, sizeof(a->call)) == 0;
}

/* Makes this failure stand for the earlier ones of the same call. */
static void fold_into(struct why_list *list, size_t index)
{
	struct why_failure *failure = &list->failures[index];

	for (size_t i = index; i-- > 0;) {
		struct why_failure *earlier = &list->failures[i];

		if (earlier->cause != i || !is_same_call(&earlier->is, &failure->is) ||
		    has_followers(list, i))
			continue;
		earlier->is_repeated = true;
		failure->repeats++;
		failure->since_ns = earlier->is.time_ns;
	}
}

void why_fold(struct why_list *list)
{
	for (size_t i = list->count; i-- > 0;) {
		if (list->failures[i].cause == i && !list->failures[i].is_repeated)
			fold_into(list, i);
	}
}
