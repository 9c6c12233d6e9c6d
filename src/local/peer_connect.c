/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer_connect.h"

#include <errno.h>

#include "base/clock.h"
#include "core/qp/xrc_forward.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/requester.h"
#include "local/run.h"

/*
 * Sending to an unresolved peer: a process to which this process is not connected. The request to
 * the daemon does not block, so that a daemon that does not reply delays only messages to that
 * peer. Until the daemon pushes IPC_PEER or IPC_CONNECT_PEER_FAILED, datagrams and XRC messages get
 * -EAGAIN, and the requesters of connected QPs are on local.seeking.
 */

/* Minimum time between a failed request to the daemon and the next one for the same slot. */
#define UNRESOLVED_NS CLOCK_NS_PER_MS

/*
 * Time until a request is retried that could not be sent: another thread uses the connection, or
 * the socket is full.
 */
#define RETRY_NS CLOCK_NS_PER_MS

/*
 * Sends IPC_CONNECT_PEER. -EAGAIN: retry later; any other -errno: the connection to the daemon has
 * failed.
 */
static int peer_connect_request(struct local *local, uint32_t slot)
{
	struct ipc_connect_peer req = {.hdr.type = IPC_CONNECT_PEER, .slot = slot};

	/*
	 * The daemon creates no new pair for the two processes before it received
	 * IPC_PEER_NOT_TAKEN for the last one.
	 */
	if (local->not_taken[slot])
		return -EAGAIN;
	return engine_try_send_request(local->engine, &req, sizeof(req));
}

static void arm_timer(struct local *local, uint64_t deadline_ns)
{
	struct timer *timer = &local->peer_connect_timer;

	if (timer->is_pending && timer->deadline_ns <= deadline_ns)
		return;
	timer_add(&local->engine->timers, timer, deadline_ns);
	engine_timer_added(local->engine);
}

/*
 * Requests a connection to the peer. 0: the request was sent or will be retried; -ENOENT: the
 * connection to the daemon has failed.
 */
static int peer_connect_begin(struct local *local, uint32_t slot, uint64_t now_ns)
{
	struct peer_connect *peer_connect = &local->peer_connects[slot];
	int ret = peer_connect_request(local, slot);

	if (ret && ret != -EAGAIN)
		return -ENOENT;
	peer_connect->is_asked = !ret;
	peer_connect->began_ns = now_ns;
	local->peer_connect_count++;
	if (ret)
		arm_timer(local, now_ns + RETRY_NS);
	return 0;
}

int peer_get(struct engine *engine, uint32_t slot, struct peer **found)
{
	struct local *local = local_of(engine);
	struct peer_connect *peer_connect;
	uint64_t now_ns;
	int ret;

	*found = peer_find(engine, slot);
	if (*found)
		return 0;
	if (slot == 0 || slot >= IPC_SLOTS || slot == engine->slot ||
	    slot == local->unresolved_slot)
		return -ENOENT;
	peer_connect = &local->peer_connects[slot];
	if (peer_connect->began_ns)
		return -EAGAIN;
	now_ns = clock_now_ns();
	if (now_ns < peer_connect->unresolved_until_ns)
		return -ENOENT;
	ret = peer_connect_begin(local, slot, now_ns);
	return ret ? ret : -EAGAIN;
}

bool peer_connect_may_wait(struct local *local, uint32_t slot, uint64_t wait_ns)
{
	uint64_t until_ns = local->peer_connects[slot].began_ns + wait_ns;

	if (clock_now_ns() >= until_ns)
		return false;
	arm_timer(local, until_ns);
	return true;
}

/* Runs the requesters that wait for that slot, whether or not the peer is connected. */
static void run_seeking(struct local *local, uint32_t slot)
{
	struct list_head due;
	struct local_qp *lqp, *tmp;
	struct peer *peer;

	list_init(&due);
	list_for_each_entry_safe(lqp, tmp, &local->seeking, blocked_node) {
		if (lqp->qp->attr.dest_qp_num >> IPC_SLOT_SHIFT != slot)
			continue;
		list_del(&lqp->blocked_node);
		list_add_tail(&lqp->blocked_node, &due);
	}
	while (!list_is_empty(&due))
		local_requester_run(list_first_entry(&due, struct local_qp, blocked_node));
	list_for_each_entry(peer, &local->peers, node) {
		if (peer->slot == slot && !peer->is_gone)
			local_finish_turn(peer);
	}
}

void peer_connect_end(struct local *local, uint32_t slot, bool has_failed)
{
	struct peer_connect *peer_connect = &local->peer_connects[slot];

	if (!peer_connect->began_ns)
		return;
	peer_connect->began_ns = 0;
	if (!--local->peer_connect_count)
		timer_cancel(&local->engine->timers, &local->peer_connect_timer);
	if (has_failed) {
		peer_connect->unresolved_until_ns = clock_now_ns() + UNRESOLVED_NS;
		local->unresolved_slot = slot;
	}
	run_seeking(local, slot);
	xrc_forward_space(local->engine, slot);
	datagram_resume(local->engine);
	local->unresolved_slot = 0;
}

void peer_connect_timer(struct timer *timer, uint64_t now_ns)
{
	struct local *local = container_of(timer, struct local, peer_connect_timer);

	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		struct peer_connect *peer_connect = &local->peer_connects[slot];
		int ret;

		if (!peer_connect->began_ns || peer_connect->is_asked)
			continue;
		ret = peer_connect_request(local, slot);
		peer_connect->is_asked = !ret;
		if (ret == -EAGAIN)
			arm_timer(local, now_ns + RETRY_NS);
		else if (ret)
			peer_connect_end(local, slot, true);
	}
	/* Drops the datagrams whose waiting time is over. */
	datagram_resume(local->engine);
}
