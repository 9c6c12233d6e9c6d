/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/user_copy.h"
#include "core/engine/lock_check.h"
#include "local/datagram.h"
#include "local/fault.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/peer_connect.h"
#include "local/ring.h"
#include "local/run.h"

/* Datagrams that the point message delays. */

/* Limit of delayed datagrams, which bounds their memory. Further datagrams are lost. */
#define DELAYED_MAX 4096u
/*
 * Deadlines of datagrams with the same delay differ by at least 1 ns, so that the timers keep their
 * order. Deadlines within this time of the last one are of the same delay.
 */
#define SAME_DELAY_NS 8192u

/*
 * In the list local.delayed; freed when it is sent or the transport is closed. Guarded by
 * engine.lock.
 */
struct delayed_datagram {
	struct list_head node;
	struct timer timer;
	struct engine *engine;
	uint32_t src_qpn;
	struct datagram_tx tx;
	struct iovec payload; /* target of tx.iov */
	uint8_t bytes[];      /* GRH and payload */
};

static void delayed_datagram_free(struct delayed_datagram *delayed)
{
	list_del(&delayed->node);
	local_of(delayed->engine)->delayed_count--;
	free(delayed);
}

/* false: the datagram is lost. */
static bool delayed_datagram_send(const struct delayed_datagram *delayed)
{
	struct peer *peer;
	struct cell *cell;
	uint8_t *at;

	if (peer_get(delayed->engine, delayed->tx.dest_qpn >> IPC_SLOT_SHIFT, &peer))
		return false;
	cell = ring_reserve(&peer->tx, GRH_BYTES + delayed->tx.bytes, &at);
	if (!cell)
		return false;
	memcpy(at, delayed->bytes, GRH_BYTES);
	if (local_datagram_write(delayed->src_qpn, &delayed->tx, peer, cell, at))
		return false;
	local_finish_turn(peer);
	return true;
}

static void delayed_datagram_due(struct timer *timer, uint64_t now_ns)
{
	struct delayed_datagram *delayed = container_of(timer, struct delayed_datagram, timer);

	(void)now_ns;
	if (!delayed_datagram_send(delayed))
		local_count(delayed->engine, LOCAL_DATAGRAMS_LOST);
	delayed_datagram_free(delayed);
}

/* Constant delays keep the order of datagrams. */
static uint64_t delayed_datagram_deadline_ns(struct local *local, uint64_t delay_ns)
{
	uint64_t deadline_ns = clock_now_ns() + delay_ns;

	if (deadline_ns <= local->delayed_until_ns &&
	    local->delayed_until_ns - deadline_ns < SAME_DELAY_NS)
		deadline_ns = local->delayed_until_ns + 1;
	local->delayed_until_ns = deadline_ns;
	return deadline_ns;
}

int local_fault_delay_datagram(struct engine *engine, uint32_t src_qpn,
			       const struct datagram_tx *datagram, const uint8_t grh[GRH_BYTES],
			       uint64_t delay_ns)
{
	struct local *local = local_of(engine);
	struct delayed_datagram *delayed;
	uint8_t *at;

	engine_assert_locked(engine);
	delayed = local->delayed_count < DELAYED_MAX ?
			  calloc(1, sizeof(*delayed) + GRH_BYTES + datagram->bytes) :
			  NULL;
	if (!delayed) {
		local_count(engine, LOCAL_DATAGRAMS_LOST);
		return 0;
	}
	at = delayed->bytes + GRH_BYTES;
	if (!user_gather(at, datagram->iov, datagram->iov_count)) {
		free(delayed);
		return -EFAULT;
	}
	delayed->engine = engine;
	delayed->src_qpn = src_qpn;
	delayed->tx = *datagram;
	delayed->payload = (struct iovec){at, datagram->bytes};
	delayed->tx.iov = &delayed->payload;
	delayed->tx.iov_count = 1;
	memcpy(delayed->bytes, grh, GRH_BYTES);
	timer_init(&delayed->timer, delayed_datagram_due);
	list_add_tail(&delayed->node, &local->delayed);
	local->delayed_count++;
	timer_add(&engine->timers, &delayed->timer, delayed_datagram_deadline_ns(local, delay_ns));
	engine_timer_added(engine);
	return 0;
}

void local_fault_drop_datagrams(struct local *local)
{
	while (!list_is_empty(&local->delayed)) {
		struct delayed_datagram *delayed = list_first_entry(&local->delayed,
								    struct delayed_datagram, node);

		timer_cancel(&local->engine->timers, &delayed->timer);
		delayed_datagram_free(delayed);
	}
}
