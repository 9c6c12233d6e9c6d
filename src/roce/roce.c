/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/roce.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/counters.h"
#include "core/device.h"
#include "core/qp.h"
#include "roce/relay.h"

/* 10 is ECT(0) of RFC 3168: routers may mark instead of drop. 11: one did. */
#define ECN_CAPABLE 0x02
#define ECN_MARKED  0x03

/* A congestion notice in this time at most, for each QP (IBA A17). */
#define NOTICE_NS 50000u

#define SHOWN_NAME_BYTES 64

/* After so many looks in vain whoever polls looks for datagrams so often at most. */
#define VAIN_LOOKS   256
#define VAIN_LOOK_NS 2000u

static const char *const counter_names[] = {
	[ROCE_PACKETS_SENT] = "packets sent",
	[ROCE_PACKETS_RESENT] = "packets sent again",
	[ROCE_PACKETS_RECEIVED] = "packets received",
	[ROCE_BACK_PRESSURE] = "waits for the socket",
	[ROCE_TIMEOUTS] = "timeouts",
	[ROCE_DUPLICATES] = "duplicate requests",
	[ROCE_KEPT] = "packets kept for their turn",
	[ROCE_SEQUENCE_NAKS_SENT] = "sequence naks sent",
	[ROCE_SEQUENCE_NAKS_RECEIVED] = "sequence naks received",
	[ROCE_RNR_NAKS_SENT] = "rnr naks sent",
	[ROCE_RNR_NAKS_RECEIVED] = "rnr naks received",
	[ROCE_CONGESTION_MARKS] = "packets marked for congestion",
	[ROCE_CONGESTION_NOTICES] = "congestion notices received",
	[ROCE_QP_ERRORS] = "queue pair errors",
	[ROCE_DROPPED_UNPARSABLE] = "dropped: malformed",
	[ROCE_DROPPED_UNKNOWN_QPN] = "dropped: unknown qpn",
	[ROCE_DROPPED_QP_STATE] = "dropped: queue pair not ready",
	[ROCE_DROPPED_ADDRESS] = "dropped: wrong address",
	[ROCE_DROPPED_PKEY] = "dropped: wrong p_key",
	[ROCE_DROPPED_OPCODE] = "dropped: opcode of another service",
	[ROCE_DROPPED_RESPONSE] = "dropped: response to nothing",
	[ROCE_DROPPED_QKEY] = "dropped: wrong q_key",
	[ROCE_DROPPED_NO_RECV] = "dropped: no receive",
	[ROCE_DROPPED_RECV_TOO_SHORT] = "dropped: receive too short",
	[ROCE_DROPPED_BAD_RECV] = "dropped: bad receive",
	[ROCE_DATAGRAMS_LOST] = "datagrams without a way out",
	[ROCE_DROPPED_SEQUENCE] = "dropped: out of sequence",
	[ROCE_DROPPED_STALE] = "dropped: stale duplicate",
	[ROCE_DROPPED_SIZE] = "dropped: wrong length",
	[ROCE_DROPPED_ACCESS] = "dropped: access not permitted",
	[ROCE_INVALID_NAKS_SENT] = "invalid request naks sent",
	[ROCE_ACCESS_NAKS_SENT] = "remote access naks sent",
	[ROCE_OPERATION_NAKS_SENT] = "remote operation naks sent",
	[ROCE_FATAL_NAKS_RECEIVED] = "fatal naks received",
	[ROCE_BAD_RESPONSES] = "bad responses",
	[ROCE_RELAYED] = "xrc requests passed on",
	[ROCE_RELAYS_TAKEN] = "xrc requests taken over",
};
static_assert(sizeof(counter_names) / sizeof(counter_names[0]) == ROCE_COUNTER_COUNT,
	      "every counter has its name");

const char *roce_counter_name(enum roce_counter counter)
{
	return (unsigned int)counter < ROCE_COUNTER_COUNT ? counter_names[counter] : "unknown";
}

void roce_look_at_clock(struct roce *roce)
{
	if (roce->clock)
		roce->now_ns = roce->clock(roce->clock_arg);
}

void roce_timer_add(struct roce *roce, struct timer *timer, uint64_t deadline_ns)
{
	timer_add(&roce->engine->timers, timer, deadline_ns);
	engine_timer_added(roce->engine);
}

void roce_send_later(struct roce_qp *rqp)
{
	if (!list_is_linked(&rqp->send_node))
		list_add_tail(&rqp->send_node, &rqp->roce->sending);
}

void roce_set_link(struct engine *engine, struct link *link, uint64_t (*clock)(void *arg),
		   void *clock_arg)
{
	struct roce *roce = engine->roce;

	roce->link = link;
	roce->clock = clock;
	roce->clock_arg = clock_arg;
}

bool roce_is_held(const struct engine *engine)
{
	return engine->roce && engine->roce->batch.is_held;
}

static void open_counters(struct roce *roce)
{
	uint64_t *shown = counters_take(roce->engine, ROCE_COUNTER_COUNT + PACKET_REASON_COUNT);
	char words[SHOWN_NAME_BYTES];

	roce->counters = shown ? shown : roce->unshown;
	roce->unparsable = roce->counters + ROCE_COUNTER_COUNT;
	if (!shown)
		return;
	for (int i = 0; i < ROCE_COUNTER_COUNT; i++)
		counters_name(roce->engine, &roce->counters[i], "roce", counter_names[i]);
	for (int i = PACKET_OK + 1; i < PACKET_REASON_COUNT; i++) {
		snprintf(words, sizeof(words), "malformed: %s",
			 packet_reason_name((enum packet_reason)i));
		counters_name(roce->engine, &roce->unparsable[i], "roce", words);
	}
}

static int roce_open(struct engine *engine, int *segment_fd)
{
	struct roce *roce = calloc(1, sizeof(*roce));

	(void)segment_fd;
	if (!roce)
		return -ENOMEM;
	if (relay_open(&roce->relay)) {
		free(roce);
		return -ENOMEM;
	}
	roce->engine = engine;
	list_init(&roce->sending);
	list_init(&roce->answering);
	timer_init(&roce->held_timer, batch_timer);
	icrc_solver_init(&roce->solver);
	list_init(&roce->datagrams.paths);
	open_counters(roce);
	engine->roce = roce;
	return 0;
}

static void roce_close(struct engine *engine)
{
	struct roce *roce = engine->roce;

	if (!roce)
		return;
	timer_cancel(&engine->timers, &roce->held_timer);
	relay_close(&roce->relay);
	free(roce);
	engine->roce = NULL;
}

static void roce_qp_free(struct roce_qp *rqp)
{
	kept_drop_all(rqp);
	free(rqp->rx.kept);
	free(rqp->rx.in);
	free(rqp->rx.jobs);
	free(rqp->rx.atomics);
	free(rqp);
}

static struct roce_qp *roce_qp_new(struct roce *roce, struct qp *qp)
{
	struct roce_qp *rqp = calloc(1, sizeof(*rqp));

	if (!rqp)
		return NULL;
	rqp->qp = qp;
	rqp->roce = roce;
	inflow_init(&rqp->inflow);
	list_init(&rqp->send_node);
	list_init(&rqp->answer_node);
	timer_init(&rqp->tx.timer, retry_timer);
	rqp->mtu_bytes = 128u << qp->attr.path_mtu;
	rqp->rx.psn = qp->attr.rq_psn;
	rqp->rx.max_reads = qp->attr.max_dest_rd_atomic ? qp->attr.max_dest_rd_atomic : 1;
	rqp->rx.max_jobs = 2 * rqp->rx.max_reads;
	rqp->rx.in = calloc(1, sizeof(*rqp->rx.in));
	rqp->rx.jobs = calloc(rqp->rx.max_jobs, sizeof(*rqp->rx.jobs));
	rqp->rx.atomics = calloc(rqp->rx.max_reads, sizeof(*rqp->rx.atomics));
	if (rqp->rx.in && rqp->rx.jobs && rqp->rx.atomics)
		return rqp;
	roce_qp_free(rqp);
	return NULL;
}

/* Where the QP's address vector leads. 0 or -errno. */
static int set_path(struct roce_qp *rqp)
{
	const struct ibv_global_route *route = &rqp->qp->attr.ah_attr.grh;
	struct link_path *path = &rqp->path;
	struct ipc_gid gid;
	int ret = device_gid(rqp->qp->context->device, route->sgid_index, &gid);

	if (!ret)
		ret = path_fill(rqp->roce, gid.raw, gid.ifindex, route, path);
	if (ret)
		return ret;
	path->traffic_class |= ECN_CAPABLE;
	path->remote_qpn = rqp->qp->attr.dest_qp_num;
	ret = link_path_open(rqp->roce->link, path);
	if (ret)
		return ret;
	icrc_flow_init(&rqp->tx_flow, path->local_gid, path->remote_gid, path->src_port,
		       PACKET_UDP_PORT);
	return 0;
}

/* Another process's SRQs are for QPs of a domain that it can have opened; a proxy is no QP of ours. */
static int open_home(struct roce_qp *rqp)
{
	const struct qp *qp = rqp->qp;

	if (qp->type != IBV_QPT_XRC_RECV || !qp->xrc_domain->id ||
	    qp_find(rqp->roce->engine, qp->qpn) != qp)
		return 0;
	return relay_home_open(rqp);
}

static int roce_bind(struct qp *qp)
{
	struct roce *roce = qp->context->engine->roce;
	struct roce_qp *rqp;
	int ret;

	if (!roce || !roce->link || qp->type == IBV_QPT_UD)
		return -EOPNOTSUPP;
	rqp = roce_qp_new(roce, qp);
	if (!rqp)
		return -ENOMEM;
	ret = set_path(rqp);
	if (!ret) {
		ret = open_home(rqp);
		if (ret)
			link_path_close(roce->link, &rqp->path);
	}
	if (ret) {
		roce_qp_free(rqp);
		return ret;
	}
	qp->transport_qp = rqp;
	roce->qp_count++;
	return 0;
}

/* After what an application called: what is left is for the thread, if nobody polls. */
static void push_out(struct roce *roce)
{
	batch_flush(roce);
	if (!list_is_empty(&roce->sending) && !roce->batch.is_held && !roce->engine->is_polled)
		engine_wake(roce->engine);
}

static void roce_ready(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	roce_look_at_clock(roce);
	/* Back from SQD or SQE the PSNs go on where they were. */
	if (!rqp->tx.is_ready) {
		rqp->tx.is_ready = true;
		rqp->tx.una_psn = qp->attr.sq_psn;
		rqp->tx.next_psn = qp->attr.sq_psn;
		rqp->tx.max_psn = qp->attr.sq_psn;
		rqp->tx.reads_end_psn = qp->attr.sq_psn;
		retry_init(rqp);
	}
	roce_requester_run(rqp);
	push_out(roce);
}

static void roce_kick(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	roce_look_at_clock(roce);
	roce_requester_run(rqp);
	if (rqp->rx.has_waited && answer_run(rqp))
		list_del(&rqp->answer_node);
	push_out(roce);
}

static void roce_halt(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);

	timer_cancel(&qp->context->engine->timers, &rqp->tx.timer);
	rqp->tx.is_waiting_rnr = false;
	list_del(&rqp->send_node);
	roce_responder_abandon(rqp);
	if (rqp->rx.home)
		relay_home_halt(rqp);
	roce_count(rqp->roce, ROCE_QP_ERRORS);
}

static void roce_unbind(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	roce_look_at_clock(roce);
	timer_cancel(&qp->context->engine->timers, &rqp->tx.timer);
	list_del(&rqp->send_node);
	/* What the peer was promised; if the link has no room, its retries will tell it. */
	if (roce->link && list_is_linked(&rqp->answer_node)) {
		answer_run(rqp);
		batch_flush(roce);
	}
	list_del(&rqp->answer_node);
	if (rqp->rx.home)
		relay_home_close(rqp);
	if (roce->link)
		link_path_close(roce->link, &rqp->path);
	roce_qp_free(rqp);
	roce->qp_count--;
	qp->transport_qp = NULL;
}

/* Whether the packet came from where the QP's peer is, to where the QP is. */
static bool is_from_peer(const struct roce_qp *rqp, const struct link_rx *rx)
{
	return !memcmp(rx->remote_gid, rqp->path.remote_gid, GID_BYTES) &&
	       !memcmp(rx->local_gid, rqp->path.local_gid, GID_BYTES);
}

/* The QP that a packet is for, or NULL, and the reason is counted. */
static struct roce_qp *find_recipient(struct roce *roce, const struct link_rx *rx,
				      const struct packet *packet)
{
	struct qp *qp = qp_find(roce->engine, packet->dest_qpn);
	struct roce_qp *rqp;
	enum roce_counter why;
	uint16_t ip_id;

	if (!qp || qp->transport != &roce_transport) {
		roce_count(roce, qp && qp->type == IBV_QPT_UD ? ROCE_DROPPED_OPCODE :
								ROCE_DROPPED_UNKNOWN_QPN);
		return NULL;
	}
	rqp = roce_qp_of(qp);
	if (!is_from_peer(rqp, rx)) {
		why = ROCE_DROPPED_ADDRESS;
	} else if (!inflow_is_whole(&rqp->inflow, &roce->solver, rx, &ip_id)) {
		roce->unparsable[PACKET_ICRC]++;
		why = ROCE_DROPPED_UNPARSABLE;
	} else if ((packet->pkey & ROCE_PKEY_MASK) != ROCE_PKEY_MASK) {
		roce_drop_partition(roce);
		return NULL;
	} else {
		return rqp;
	}
	roce_count(roce, why);
	return NULL;
}

/* Routers between marked a packet: the peer's QP is told to slow down (IBA A17). */
static void take_mark(struct roce_qp *rqp)
{
	struct roce *roce = rqp->roce;

	roce_count(roce, ROCE_CONGESTION_MARKS);
	if (rqp->rx.notice_ns && roce->now_ns - rqp->rx.notice_ns < NOTICE_NS)
		return;
	rqp->rx.notice_ns = roce->now_ns;
	rqp->rx.owes_notice = true;
	answer_owe(rqp);
}

static void dispatch(struct roce_qp *rqp, const struct packet *packet)
{
	/* Of XRC's halves the sender takes no requests, and the receiver no responses. */
	enum ibv_qp_type deaf = packet->info->is_request ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;

	if (packet->info->transport == OPCODE_TRANSPORT_CNP) {
		roce_count(rqp->roce, ROCE_CONGESTION_NOTICES);
		window_marked(rqp);
	} else if (packet->info->transport != service_of(rqp) || rqp->qp->type == deaf) {
		roce_count(rqp->roce, ROCE_DROPPED_OPCODE);
	} else if (packet->info->is_request) {
		roce_responder_request(rqp, packet);
	} else {
		roce_completer_response(rqp, packet);
	}
}

static void receive(struct roce *roce, const struct link_rx *rx)
{
	struct packet packet;
	enum packet_reason reason = packet_parse(&packet, rx->bytes, rx->len);
	struct roce_qp *rqp;

	roce_count(roce, ROCE_PACKETS_RECEIVED);
	if (reason != PACKET_OK) {
		roce->unparsable[reason]++;
		roce_count(roce, ROCE_DROPPED_UNPARSABLE);
		return;
	}
	if (packet.info->transport == OPCODE_TRANSPORT_UD) {
		roce_datagram_receive(roce, rx, &packet);
		return;
	}
	rqp = find_recipient(roce, rx, &packet);
	if (!rqp)
		return;
	if ((rx->traffic_class & ROCE_ECN_MASK) == ECN_MARKED)
		take_mark(rqp);
	dispatch(rqp, &packet);
}

/* Everybody on the list gets one turn. */
static unsigned int answer_all(struct roce *roce)
{
	struct list_head due;
	unsigned int done = 0;

	list_init(&due);
	list_splice_tail(&roce->answering, &due);
	while (!list_is_empty(&due)) {
		struct roce_qp *rqp = list_first_entry(&due, struct roce_qp, answer_node);

		list_del(&rqp->answer_node);
		if (answer_may_wait(rqp) || !answer_run(rqp))
			answer_owe(rqp);
		else if (rqp->rx.home && rqp->rx.home->is_parked)
			roce_responder_resume(rqp);
		if (!roce->batch.is_held)
			done++;
	}
	return done;
}

static unsigned int send_all(struct roce *roce)
{
	struct list_head due;
	unsigned int done = 0;

	list_init(&due);
	list_splice_tail(&roce->sending, &due);
	while (!list_is_empty(&due)) {
		roce_requester_run(list_first_entry(&due, struct roce_qp, send_node));
		if (!roce->batch.is_held)
			done++;
	}
	return done;
}

/* Whoever sends first may leave no room for others: connected queue pairs and datagrams do so by turns. */
static unsigned int run_waiting(struct roce *roce)
{
	unsigned int done = 0;

	roce->is_datagrams_turn = !roce->is_datagrams_turn;
	if (roce->is_datagrams_turn)
		done += datagram_resume(roce->engine);
	done += answer_all(roce);
	done += send_all(roce);
	if (!roce->is_datagrams_turn)
		done += datagram_resume(roce->engine);
	return done;
}

/*
 * Whether to look for packets. Where only datagrams can come, and none has for a while, that is done now and then: the call
 * into the kernel costs several times what it takes to see that nothing came from this host either.
 */
static bool is_time_to_look(struct roce *roce)
{
	struct engine *engine = roce->engine;

	if (roce->qp_count || engine->lent_is_readable ||
	    !list_is_empty(&engine->datagrams.waiting))
		return true;
	if (!engine->datagrams.qp_count)
		return false;
	if (roce->vain_looks < VAIN_LOOKS || link_fd(roce->link) < 0)
		return true;
	roce_look_at_clock(roce);
	if (roce->now_ns - roce->looked_ns < VAIN_LOOK_NS)
		return false;
	roce->looked_ns = roce->now_ns;
	return true;
}

static int look(struct roce *roce, struct link_rx *rx)
{
	int n = link_recv(roce->link, rx, ROCE_BATCH);

	roce->has_more = n == ROCE_BATCH;
	if (n > 0)
		roce->vain_looks = 0;
	else if (roce->vain_looks < VAIN_LOOKS)
		roce->vain_looks++;
	return n;
}

static unsigned int roce_run(struct engine *engine, uint64_t now_ns)
{
	struct roce *roce = engine->roce;
	struct link_rx rx[ROCE_BATCH];
	unsigned int done;
	int n;

	(void)now_ns;
	if (!roce || !roce->link || !is_time_to_look(roce))
		return 0;
	engine->lent_is_readable = false;
	n = look(roce, rx);
	if (n <= 0 && list_is_empty(&roce->answering) && list_is_empty(&roce->sending) &&
	    list_is_empty(&engine->datagrams.waiting))
		return 0;
	roce_look_at_clock(roce);
	if (roce->batch.is_held)
		batch_flush(roce);
	for (int i = 0; i < n; i++)
		receive(roce, &rx[i]);
	done = n > 0 ? (unsigned int)n : 0;
	done += run_waiting(roce);
	batch_flush(roce);
	return done;
}

static int roce_join(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	struct roce *roce = engine->roce;

	return roce && roce->link ? link_join(roce->link, ifindex, group->raw) : -EOPNOTSUPP;
}

static void roce_leave(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	struct roce *roce = engine->roce;

	if (roce && roce->link)
		link_leave(roce->link, ifindex, group->raw);
}

/* Datagrams wake whoever waits for the link's descriptor; only what was left undone keeps the thread awake. */
static bool roce_sleep(struct engine *engine, bool want_doorbell)
{
	const struct roce *roce = engine->roce;

	if (!want_doorbell || !roce || !roce->link)
		return false;
	return roce->has_more || (!roce->batch.is_held && (!list_is_empty(&roce->answering) ||
							   !list_is_empty(&roce->sending)));
}

const struct transport roce_transport = {
	.name = "roce",
	.open = roce_open,
	.close = roce_close,
	.bind = roce_bind,
	.ready = roce_ready,
	.halt = roce_halt,
	.unbind = roce_unbind,
	.kick = roce_kick,
	.publish_qp = roce_relay_publish,
	.ah_open = roce_ah_open,
	.ah_close = roce_ah_close,
	.send_datagram = roce_datagram_send,
	.datagrams_end = roce_datagrams_flush,
	.join = roce_join,
	.leave = roce_leave,
	.relay_take = roce_relay_take,
	.relay_room = roce_relay_room,
	.relay_gone = roce_relay_gone,
	.relay_domain_closed = roce_relay_domain_closed,
	.run = roce_run,
	.sleep = roce_sleep,
};
