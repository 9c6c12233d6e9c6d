/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A run of the transport: receives the datagrams of the link, and sends responses and requests that
 * are due.
 */

#include "core/engine/lock_check.h"
#include "core/queue/datagram.h"
#include "roce/probe.h"
#include "roce/qp.h"
#include "roce/xrc_forward.h"

/*
 * After VAIN_LOOKS empty link_recv() calls, polling calls link_recv() at most once in VAIN_LOOK_NS.
 */
#define VAIN_LOOKS   256
#define VAIN_LOOK_NS 2000u

/* What a datagram occupies of a receive buffer at least. */
#define DATAGRAM_MIN_BYTES 256u

/*
 * Returns whether another run may have work. There is no work if an ACK waits for the application.
 */
static bool respond(struct roce_qp *rqp)
{
	if (response_may_wait(rqp)) {
		response_set_pending(rqp);
		return !ack_waits(rqp);
	}
	if (!response_run(rqp))
		response_set_pending(rqp);
	else if (rqp->rx.xrc_target)
		xrc_target_resume(rqp);
	return true;
}

/* Runs each QP on the list once. */
static unsigned int respond_all(struct roce *roce)
{
	struct list_head due;
	unsigned int done = 0;

	list_init(&due);
	list_splice_tail(&roce->responding, &due);
	while (!list_is_empty(&due)) {
		struct roce_qp *rqp = list_first_entry(&due, struct roce_qp, response_node);

		list_del(&rqp->response_node);
		if (respond(rqp) && !roce->batch.is_held)
			done++;
	}
	return done;
}

static unsigned int roce_send_all(struct roce *roce)
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

/*
 * The first sender may cause back-pressure for the others, so UD and connected queue pairs
 * alternate in sending first.
 */
static unsigned int roce_run_waiting(struct roce *roce)
{
	unsigned int done = 0;

	roce->is_datagrams_turn = !roce->is_datagrams_turn;
	if (roce->is_datagrams_turn)
		done += datagram_resume(roce->engine);
	done += respond_all(roce);
	done += roce_send_all(roce);
	if (!roce->is_datagrams_turn)
		done += datagram_resume(roce->engine);
	return done;
}

/*
 * Whether to call link_recv(). If there are only UD QPs and no datagram arrived lately, the calls
 * are rate-limited, or left to the engine thread if the socket wakes it: the system call costs
 * several times as much as polling the shared-memory FIFOs of this host.
 */
static bool is_time_to_look(struct roce *roce)
{
	struct engine *engine = roce->engine;

	if (roce->qp_count || roce->is_link_readable || datagram_has_pending(engine))
		return true;
	if (!engine->datagrams.qp_count)
		return false;
	if (roce->vain_looks < VAIN_LOOKS || link_fd(roce->link) < 0)
		return true;
	if (engine_thread_waits(engine))
		return false;
	roce_look_at_clock(roce);
	if (roce->now_ns - roce->looked_ns < VAIN_LOOK_NS)
		return false;
	roce->looked_ns = roce->now_ns;
	return true;
}

/*
 * A thread that waits for the descriptor of the link has received all datagrams that were there
 * when it woke, and the descriptor wakes it for the next one. The call would usually return
 * nothing.
 */
static bool thread_has_looked(const struct roce *roce)
{
	const struct engine *engine = roce->engine;
	bool waits = run_by_server(engine->run_by) ||
		     (run_by_thread(engine->run_by) && engine_thread_waits(engine));

	return waits && !run_by_late(engine->run_by) && !roce->is_link_readable &&
	       !roce->has_more && link_fd(roce->link) >= 0;
}

static int roce_look(struct roce *roce, struct link_rx *rx)
{
	int n;

	if (thread_has_looked(roce))
		return 0;
	roce->is_link_readable = false;
	n = link_recv(roce->link, rx, ROCE_BATCH);
	roce->has_more = n == ROCE_BATCH;
	if (n > 0)
		roce->vain_looks = 0;
	else if (roce->vain_looks < VAIN_LOOKS)
		roce->vain_looks++;
	return n;
}

/*
 * Separate from roce_run(), which is called by each poll of an empty CQ and then needs no stack for
 * the batch.
 */
__attribute__((noinline)) static unsigned int roce_run_link(struct roce *roce)
{
	struct engine *engine = roce->engine;
	struct link_rx rx[ROCE_BATCH];
	unsigned int done;
	int n;

	/* A run by the engine thread does not show that the application polls. */
	if (!run_by_thread(engine->run_by))
		batch_on_run(roce);
	n = roce_look(roce, rx);
	if (n <= 0 && !roce->batch.count && list_is_empty(&roce->responding) &&
	    list_is_empty(&roce->sending) && list_is_empty(&roce->sent) &&
	    !datagram_has_pending(engine) && !roce->vendor_acks.count)
		return 0;
	roce_look_at_clock(roce);
	/*
	 * The packets that wait refer to memory that a received message may overwrite: their ICRC
	 * would be wrong.
	 */
	batch_flush(roce);
	roce_acks_first(rx, n);
	for (int i = 0; i < n; i++)
		roce_link_received(roce, &rx[i]);
	done = n > 0 ? (unsigned int)n : 0;
	done += roce_run_waiting(roce);
	vendor_acks_send(roce);
	return done + roce_requester_flush(roce);
}

unsigned int roce_run(struct engine *engine)
{
	struct roce *roce = roce_of(engine);

	engine_assert_locked(engine);
	return roce && roce->link && is_time_to_look(roce) ? roce_run_link(roce) : 0;
}

/* At most one receive buffer of packets is older than the call. */
void roce_drop_earlier_packets(struct roce *roce)
{
	uint32_t left = roce->link->rx_bytes / (ROCE_BATCH * DATAGRAM_MIN_BYTES);

	do {
		roce_run_link(roce);
	} while (roce->has_more && left--);
}

/*
 * Whether a QP has responses to send now. Postponed ACKs wait for the next packets of the
 * application.
 */
static bool has_due_response(const struct roce *roce)
{
	const struct roce_qp *rqp;

	list_for_each_entry(rqp, &roce->responding, response_node) {
		if (!rqp->rx.has_waited ||
		    (!run_by_replier(roce->engine->run_by) && !ack_waits(rqp)))
			return true;
	}
	return false;
}

/*
 * Prepares the engine thread's sleep; true: there are datagrams, or QPs with packets to send: do
 * not sleep.
 */
bool roce_sleep(struct engine *engine, bool want_doorbell)
{
	struct roce *roce = roce_of(engine);

	engine_assert_locked(engine);
	if (!roce || !roce->link)
		return false;
	if (link_sleep(roce->link, want_doorbell)) {
		roce->is_link_readable = true;
		return true;
	}
	if (!want_doorbell)
		return false;
	return roce->has_more ||
	       (!roce->batch.is_held && (roce->batch.count || !list_is_empty(&roce->sent) ||
					 has_due_response(roce) || !list_is_empty(&roce->sending)));
}
