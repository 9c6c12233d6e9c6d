/* SPDX-License-Identifier: BSD-2-Clause */
#include "third.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/engine/engine_watch.h"
#include "core/engine/qp_table.h"
#include "core/object/opcode.h"
#include "core/queue/execute.h"
#include "core/queue/qp_error.h"
#include "core/queue/requester.h"
#include "core/queue/sge.h"
#include "core/report/counters.h"

struct third_qp {
	struct qp *qp;
	struct list_head node; /* third.sending */
	struct inbound in;
};

static struct third_qp *third_qp_of(const struct qp *qp)
{
	return qp->transport_qp;
}

static void third_read_wake(struct engine *engine, void *arg)
{
	struct third *third = arg;
	eventfd_t count;

	(void)engine;
	third->counters[THIRD_WAKES]++;
	(void)!eventfd_read(third->wake_fd, &count);
}

static int third_open(struct engine *engine, int *segment_fd)
{
	static const char *const names[] = {"messages", "rnr", "wakes"};
	struct third *third = calloc(1, sizeof(*third));
	int ret = -ENOMEM;

	(void)segment_fd;
	if (!third)
		return ret;
	third->engine = engine;
	list_init(&third->sending);
	third->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (third->wake_fd < 0) {
		ret = -errno;
		goto err_third;
	}
	ret = engine_watch(engine, third->wake_fd, WATCH_BY_ANY, third_read_wake, third,
			   &third->watch);
	if (ret)
		goto err_fd;
	third->counters = counters_register(engine, "third", names, THIRD_COUNTER_COUNT,
					    third->unshown);
	engine->transport_state[THIRD_TRANSPORT] = third;
	return 0;

err_fd:
	close(third->wake_fd);
err_third:
	free(third);
	return ret;
}

static void third_close(struct engine *engine)
{
	struct third *third = third_of(engine);

	if (!third)
		return;
	engine_unwatch(engine, third->watch);
	close(third->wake_fd);
	free(third);
	engine->transport_state[THIRD_TRANSPORT] = NULL;
}

static void third_disown(struct engine *engine)
{
	if (third_of(engine))
		close(third_of(engine)->wake_fd);
}

static int third_bind(struct qp *qp)
{
	struct third_qp *tqp;

	if (qp->type != IBV_QPT_RC ||
	    qp->attr.dest_qp_num >> IPC_SLOT_SHIFT != qp->context->engine->slot)
		return -EOPNOTSUPP;
	tqp = calloc(1, sizeof(*tqp));
	if (!tqp)
		return -ENOMEM;
	tqp->qp = qp;
	list_init(&tqp->node);
	qp->transport_qp = tqp;
	return 0;
}

static void third_unbind(struct qp *qp)
{
	list_del(&third_qp_of(qp)->node);
	free(third_qp_of(qp));
	qp->transport_qp = NULL;
}

static void third_halt(struct qp *qp)
{
	list_del(&third_qp_of(qp)->node);
	inbound_fail(qp, &third_qp_of(qp)->in, ACCESS_OK);
}

/* The QP has WQEs to send; run() sends them in a thread that polls, or in the engine thread. */
static void third_kick(struct qp *qp)
{
	struct third *third = third_of(qp->context->engine);

	if (!list_is_linked(&third_qp_of(qp)->node))
		list_add_tail(&third_qp_of(qp)->node, &third->sending);
	(void)!eventfd_write(third->wake_fd, 1);
}

/* The connected QP of the same process; NULL: none in a state that receives. */
static struct qp *third_peer(const struct qp *qp)
{
	struct qp *peer = qp_find(qp->context->engine, qp->attr.dest_qp_num);

	if (!peer || peer->transport != &third_transport || peer->attr.dest_qp_num != qp->qpn ||
	    (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS))
		return NULL;
	return peer;
}

/* Receives were posted to a QP that had none: its peer sends again. */
static void third_recv_posted(struct qp *qp)
{
	struct qp *peer = third_peer(qp);

	if (peer)
		third_kick(peer);
}

/* Executes one SEND in the peer. */
static enum access_result third_deliver(struct qp *peer, struct send_wqe *wqe,
					const struct iovec *iov, int count)
{
	const struct inbound_end end = {
		.has_imm = wqe_has_imm(wqe),
		.is_solicited = wqe->send_flags & IBV_SEND_SOLICITED,
		.imm_data_be = wqe->imm_data_be,
		.src_qpn = peer->attr.dest_qp_num,
	};
	struct inbound *in = &third_qp_of(peer)->in;
	enum access_result result = inbound_begin_recv(peer, in);

	for (int i = 0; i < count && result == ACCESS_OK; i++)
		result = inbound_data(peer, in, iov[i].iov_base, (uint32_t)iov[i].iov_len);
	return result == ACCESS_OK ? inbound_end(peer, in, &end) : result;
}

/* Maps the result of the responder to the status of the requester's completion. */
static enum ibv_wc_status third_status(enum access_result result)
{
	switch (result) {
	case ACCESS_OK:
		return IBV_WC_SUCCESS;
	case ACCESS_LENGTH:
		return IBV_WC_REM_INV_REQ_ERR;
	default:
		return IBV_WC_REM_OP_ERR;
	}
}

/* Sends the SEND at sq.nxt to the peer. false: the queue pair sends no more. */
static bool third_send(struct qp *qp, struct send_wqe *wqe, struct qp *peer)
{
	struct third *third = third_of(qp->context->engine);
	struct iovec iov[MAX_SGE];
	enum access_result result;
	struct sge_iovs payload = {.iov = iov, .max = MAX_SGE};
	enum vendor_err err = sge_gather(qp, wqe, 0, wqe->length_bytes, false, &payload);

	if (err) {
		requester_fail(qp, IBV_WC_LOC_PROT_ERR, err);
		return false;
	}
	result = third_deliver(peer, wqe, iov, payload.count);
	if (result == ACCESS_RNR) {
		third->counters[THIRD_RNR]++;
		peer->is_waiting_recv = true;
		return false;
	}
	if (result != ACCESS_OK) {
		inbound_fail(peer, &third_qp_of(peer)->in, result);
		qp_enter_error(peer, QP_NO_EVENT);
		requester_fail(qp, third_status(result), access_vendor_err(result));
		return false;
	}
	third->counters[THIRD_MESSAGES]++;
	qp->sq.nxt++;
	sq_retire(qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
	return true;
}

/* Processes the WQE at sq.nxt. Each WQE completes before the next one is processed. */
static bool third_step(struct qp *qp)
{
	struct send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.nxt);
	struct qp *peer = third_peer(qp);
	struct requester_error error = {0};
	enum requester_next next = requester_prepare(qp, 0, &error);

	if (next == REQUESTER_NEXT_EXECUTED) {
		sq_retire(qp, IBV_WC_SUCCESS, VENDOR_ERR_NONE);
		return true;
	}
	if (next == REQUESTER_NEXT_SEND && wqe_info(wqe)->kind == WR_KIND_SEND && peer)
		return third_send(qp, wqe, peer);
	if (next == REQUESTER_NEXT_SEND)
		error.status = peer ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_RETRY_EXC_ERR;
	requester_fail(qp, error.status, error.vendor_err);
	return false;
}

static unsigned int third_run(struct engine *engine)
{
	struct third *third = third_of(engine);
	unsigned int done = 0;

	while (!list_is_empty(&third->sending)) {
		struct third_qp *tqp = list_first_entry(&third->sending, struct third_qp, node);
		struct qp *qp = tqp->qp;

		list_del(&tqp->node);
		while (qp->sq.nxt != requester_sendable_end(qp) && third_step(qp))
			done++;
		qp_check_drained(qp);
	}
	return done;
}

const struct transport third_transport = {
	.name = "third",
	.open = third_open,
	.close = third_close,
	.disown = third_disown,
	.bind = third_bind,
	.ready = third_kick,
	.halt = third_halt,
	.unbind = third_unbind,
	.kick = third_kick,
	.recv_posted = third_recv_posted,
	.run = third_run,
};
