/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/roce.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "core/qp.h"
#include "roce/qp.h"

/* 10 is ECT(0) of RFC 3168: routers may mark instead of drop. 11: one did. */
#define ECN_MASK    0x03
#define ECN_CAPABLE 0x02
#define ECN_MARKED  0x03

#define HOP_LIMIT_DEFAULT 64

/* A congestion notice in this time at most, for each QP (IBA A17). */
#define NOTICE_NS 50000u

/* Of a P_Key all but the membership bit. */
#define PKEY_MASK 0x7fff

static const char *const counter_names[] = {
	[ROCE_PACKETS_SENT] = "packets sent",
	[ROCE_PACKETS_RESENT] = "packets sent again",
	[ROCE_PACKETS_RECEIVED] = "packets received",
	[ROCE_BACK_PRESSURE] = "waits for the socket",
	[ROCE_TIMEOUTS] = "timeouts",
	[ROCE_DUPLICATES] = "duplicate requests",
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
	[ROCE_DROPPED_ADDRESS] = "dropped: not the peer's address",
	[ROCE_DROPPED_PKEY] = "dropped: wrong p_key",
	[ROCE_DROPPED_OPCODE] = "dropped: opcode of another service",
	[ROCE_DROPPED_RESPONSE] = "dropped: response to nothing",
};
static_assert(sizeof(counter_names) / sizeof(counter_names[0]) == ROCE_COUNTER_COUNT,
	      "every counter has its name");

const char *roce_counter_name(enum roce_counter counter)
{
	return (unsigned int)counter < ROCE_COUNTER_COUNT ? counter_names[counter] : "unknown";
}

/* A call begins: this is its time. */
static void look_at_clock(struct roce *roce)
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

static int roce_open(struct engine *engine, int *segment_fd)
{
	struct roce *roce = calloc(1, sizeof(*roce));

	(void)segment_fd;
	if (!roce)
		return -ENOMEM;
	roce->engine = engine;
	list_init(&roce->sending);
	list_init(&roce->answering);
	timer_init(&roce->held_timer, batch_timer);
	icrc_solver_init(&roce->solver);
	engine->roce = roce;
	return 0;
}

static void roce_close(struct engine *engine)
{
	struct roce *roce = engine->roce;

	if (!roce)
		return;
	timer_cancel(&engine->timers, &roce->held_timer);
	free(roce);
	engine->roce = NULL;
}

static void roce_qp_free(struct roce_qp *rqp)
{
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
	rqp->rx_dont_fragment = true;
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
	const struct ibv_ah_attr *ah = &rqp->qp->attr.ah_attr;
	struct link_path *path = &rqp->path;
	struct ipc_gid gid;
	int ret = device_gid(rqp->qp->context->device, ah->grh.sgid_index, &gid);

	if (ret)
		return ret;
	memcpy(path->local_gid, gid.raw, GID_BYTES);
	memcpy(path->remote_gid, ah->grh.dgid.raw, GID_BYTES);
	if (gid_is_ipv4(path->local_gid) != gid_is_ipv4(path->remote_gid))
		return -EINVAL;
	path->remote_qpn = rqp->qp->attr.dest_qp_num;
	path->ifindex = gid.ifindex;
	path->flow_label = ah->grh.flow_label;
	path->traffic_class = (uint8_t)((ah->grh.traffic_class & ~ECN_MASK) | ECN_CAPABLE);
	path->hop_limit = ah->grh.hop_limit ? ah->grh.hop_limit : HOP_LIMIT_DEFAULT;
	ret = link_path_open(rqp->roce->link, path);
	if (ret)
		return ret;
	icrc_flow_init(&rqp->tx_flow, path->local_gid, path->remote_gid, path->src_port,
		       PACKET_UDP_PORT);
	return 0;
}

static int roce_bind(struct qp *qp)
{
	struct roce *roce = qp->context->engine->roce;
	struct roce_qp *rqp;
	int ret;

	if (!roce || !roce->link || (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_UC))
		return -EOPNOTSUPP;
	rqp = roce_qp_new(roce, qp);
	if (!rqp)
		return -ENOMEM;
	ret = set_path(rqp);
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

	look_at_clock(roce);
	/* Back from SQD or SQE the PSNs go on where they were. */
	if (!rqp->tx.is_ready) {
		rqp->tx.is_ready = true;
		rqp->tx.una_psn = qp->attr.sq_psn;
		rqp->tx.next_psn = qp->attr.sq_psn;
		rqp->tx.max_psn = qp->attr.sq_psn;
		retry_init(rqp);
	}
	roce_requester_run(rqp);
	push_out(roce);
}

static void roce_kick(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	look_at_clock(roce);
	roce_requester_run(rqp);
	push_out(roce);
}

static void roce_halt(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);

	timer_cancel(&qp->context->engine->timers, &rqp->tx.timer);
	rqp->tx.is_waiting_rnr = false;
	list_del(&rqp->send_node);
	roce_responder_abandon(rqp);
	roce_count(rqp->roce, ROCE_QP_ERRORS);
}

static void roce_unbind(struct qp *qp)
{
	struct roce_qp *rqp = roce_qp_of(qp);
	struct roce *roce = rqp->roce;

	look_at_clock(roce);
	timer_cancel(&qp->context->engine->timers, &rqp->tx.timer);
	list_del(&rqp->send_node);
	/* What the peer was promised; if the link has no room, its retries will tell it. */
	if (roce->link && list_is_linked(&rqp->answer_node)) {
		answer_run(rqp);
		batch_flush(roce);
	}
	list_del(&rqp->answer_node);
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

/* Damage looks like another don't-fragment bit now and then; so often in a row it is how the peer sends. */
#define OTHER_DF_IN_A_ROW 3

static bool is_whole(struct roce_qp *rqp, const struct link_rx *rx)
{
	uint16_t ip_id;

	if (!rqp->rx_flow_port || rqp->rx_flow_port != rx->src_port) {
		icrc_flow_init(&rqp->rx_flow, rx->remote_gid, rx->local_gid, rx->src_port,
			       PACKET_UDP_PORT);
		icrc_flow_set_dont_fragment(&rqp->rx_flow, rqp->rx_dont_fragment);
		rqp->rx_flow_port = rx->src_port;
	}
	switch (icrc_check(&rqp->rx_flow, &rqp->roce->solver, rx->bytes, rx->len, &ip_id)) {
	case ICRC_RIGHT:
		rqp->rx_other_df = 0;
		return !rx->is_ip_id_known || !rqp->rx_flow.is_ipv4 || ip_id == rx->ip_id;
	case ICRC_OTHER_DONT_FRAGMENT:
		if (++rqp->rx_other_df < OTHER_DF_IN_A_ROW)
			return false;
		rqp->rx_other_df = 0;
		rqp->rx_dont_fragment = !rqp->rx_dont_fragment;
		icrc_flow_set_dont_fragment(&rqp->rx_flow, rqp->rx_dont_fragment);
		return false;
	default:
		return false;
	}
}

/* The QP that a packet is for, or NULL, and the reason is counted. */
static struct roce_qp *find_recipient(struct roce *roce, const struct link_rx *rx,
				      const struct packet *packet)
{
	struct qp *qp = qp_find(roce->engine, packet->dest_qpn);
	struct roce_qp *rqp;
	enum roce_counter why;

	if (!qp || qp->transport != &roce_transport) {
		roce_count(roce, ROCE_DROPPED_UNKNOWN_QPN);
		return NULL;
	}
	rqp = roce_qp_of(qp);
	if (!is_from_peer(rqp, rx)) {
		why = ROCE_DROPPED_ADDRESS;
	} else if (!is_whole(rqp, rx)) {
		roce->unparsable[PACKET_ICRC]++;
		why = ROCE_DROPPED_UNPARSABLE;
	} else if ((packet->pkey & PKEY_MASK) != PKEY_MASK) {
		why = ROCE_DROPPED_PKEY;
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
	enum opcode_transport service = is_reliable(rqp) ? OPCODE_TRANSPORT_RC :
							   OPCODE_TRANSPORT_UC;

	if (packet->info->transport == OPCODE_TRANSPORT_CNP) {
		roce_count(rqp->roce, ROCE_CONGESTION_NOTICES);
		retry_congested(rqp);
	} else if (packet->info->transport != service) {
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
	rqp = find_recipient(roce, rx, &packet);
	if (!rqp)
		return;
	if ((rx->traffic_class & ECN_MASK) == ECN_MARKED)
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
		if (!answer_run(rqp))
			answer_owe(rqp);
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

static unsigned int roce_run(struct engine *engine, uint64_t now_ns)
{
	struct roce *roce = engine->roce;
	struct link_rx rx[ROCE_BATCH];
	unsigned int done;
	int n;

	(void)now_ns;
	if (!roce || !roce->link || (!roce->qp_count && !engine->lent_is_readable))
		return 0;
	engine->lent_is_readable = false;
	n = link_recv(roce->link, rx, ROCE_BATCH);
	if (n <= 0 && list_is_empty(&roce->answering) && list_is_empty(&roce->sending))
		return 0;
	look_at_clock(roce);
	if (roce->batch.is_held)
		batch_flush(roce);
	for (int i = 0; i < n; i++)
		receive(roce, &rx[i]);
	done = n > 0 ? (unsigned int)n : 0;
	done += answer_all(roce);
	done += send_all(roce);
	batch_flush(roce);
	return done;
}

/* Datagrams wake whoever waits for the link's descriptor; only what was left undone keeps the thread awake. */
static bool roce_sleep(struct engine *engine, bool want_doorbell)
{
	const struct roce *roce = engine->roce;

	return want_doorbell && roce && roce->link && !roce->batch.is_held &&
	       (!list_is_empty(&roce->answering) || !list_is_empty(&roce->sending));
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
	.run = roce_run,
	.sleep = roce_sleep,
};
