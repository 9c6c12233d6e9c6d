/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/channel_wake.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/engine/lock_check.h"
#include "local/channel_copy.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/ring.h"

/* Number of CQs of one peer whose applications this process wakes. */
#define WAKES 16
/*
 * A CQ takes the entry of another one after this many messages without one for that CQ in between.
 */
#define MISSES 256

/* The completion channel of one CQ of the peer. */
struct channel_wake {
	uint32_t place;	       /* of the CQ in the peer's table */
	uint32_t channel;      /* segment_cq_channel() */
	struct doorbell *bell; /* the copy of its eventfd; NULL: none yet */
	uint32_t uses;	       /* while there is no copy */
	uint32_t taken;	       /* peer.channels_taken when the copy was last searched for */
	uint64_t word;	       /* segment_cq.wake when the last unit was added */
	uint32_t position;     /* peer.tx.head after the message of that unit */
	uint32_t misses;       /* messages for other CQs since the last use */
};

struct channel_wakes {
	struct channel_wake by_place[WAKES];
};

static bool peer_takes_wakes(const struct peer *peer)
{
	return atomic_load_explicit(&peer->segment->cqs.takes_wakes, memory_order_relaxed);
}

static void forget_wake(struct channel_wake *wake)
{
	doorbell_put(wake->bell);
	*wake = (struct channel_wake){0};
}

/* The entry of the CQ's channel. NULL: other CQs use it, or no memory. */
static struct channel_wake *find_wake(struct peer *peer, uint32_t place, uint64_t word)
{
	struct channel_wake *wake;

	if (!peer->wakes)
		peer->wakes = calloc(1, sizeof(*peer->wakes));
	if (!peer->wakes)
		return NULL;
	wake = &peer->wakes->by_place[place % WAKES];
	if (wake->place != place && wake->bell && ++wake->misses < MISSES)
		return NULL;
	wake->misses = 0;
	if (wake->place != place || wake->channel != segment_cq_channel(word)) {
		forget_wake(wake);
		wake->place = place;
		wake->channel = segment_cq_channel(word);
	}
	return wake;
}

/* Whether there is a copy of the channel. */
static bool has_copy(struct peer *peer, struct channel_wake *wake)
{
	uint32_t taken = atomic_load_explicit(&peer->main->channels_taken, memory_order_acquire);

	if (!wake->bell && (wake->taken != taken || !wake->uses)) {
		wake->taken = taken;
		wake->bell = channel_copy_find(peer, wake->channel);
	}
	return wake->bell;
}

/*
 * After twice as many uses each time: the FIFO may have no space, and the answer may be lost. A
 * peer that does not answer receives few requests.
 */
static void request_copy(struct peer *peer, struct channel_wake *wake)
{
	uint32_t uses = ++wake->uses;

	if (!(uses & (uses - 1)))
		channel_copy_request(peer, wake->channel);
}

/* The place of the CQ of a QP's receive completions; 0: unknown. */
static uint32_t recv_cq_place(const struct segment *segment, uint32_t qpn)
{
	const struct segment_qp *entry = segment_qp_entry(segment, qpn);
	uint32_t place;

	if (segment_qp_qpn(atomic_load_explicit(&entry->word, memory_order_acquire)) != qpn)
		return 0;
	/* Read once: the peer can change it between the check and the use. */
	place = __atomic_load_n(&segment->qp_usage[entry - segment->qps].recv_cq, __ATOMIC_RELAXED);
	return place - 1 < SEGMENT_CQS ? place : 0;
}

/*
 * The message was refused before. Each of its retries would generate an event without a completion.
 */
static bool is_retried(const struct local_qp *lqp)
{
	return lqp->tx.rnr_until_ns || lqp->tx.has_waited_last ||
	       lqp->tx.retries_left < lqp->qp->attr.retry_cnt;
}

struct channel_wake *local_wake_choose(struct local_qp *lqp, const struct cell *cell,
				       unsigned int *flags)
{
	struct peer *peer = lqp->peer;
	struct channel_wake *wake;
	uint32_t place;
	uint64_t word;

	if ((cell->type != CELL_SEND && !(*flags & CELL_IMM)) || !peer->may_reach_ours ||
	    !peer->segment || !peer->doorbell || peer->is_gone || !peer_takes_wakes(peer) ||
	    is_retried(lqp))
		return NULL;
	place = recv_cq_place(peer->segment, cell->dst_qpn);
	word = place ? atomic_load(&peer->segment->cqs.entries[place - 1].wake) : 0;
	wake = word ? find_wake(peer, place, word) : NULL;
	if (!wake || !has_copy(peer, wake))
		return wake;
	/* The application was woken, and has not read the FIFO since then. */
	if (wake->word == word && !ring_has_passed(&peer->tx, wake->position))
		return wake;
	wake->word = word;
	*flags |= CELL_WAKES;
	return wake;
}

void local_wake_send(struct peer *peer, struct channel_wake *wake, unsigned int flags)
{
	engine_assert_locked(peer->engine);
	if (!wake->bell) {
		request_copy(peer, wake);
		return;
	}
	peer->woken_end = peer->tx.head;
	if (!(flags & CELL_WAKES))
		return;
	wake->position = peer->tx.head;
	engine_lock_base(peer->engine);
	doorbell_ring_late(peer->engine, wake->bell);
	engine_unlock_base(peer->engine);
}

bool local_wake_covers(const struct peer *peer)
{
	return peer->wakes && peer->woken_end == peer->tx.head && peer_takes_wakes(peer);
}

void local_wakes_close(struct peer *peer)
{
	engine_assert_locked(peer->engine);
	if (!peer->wakes)
		return;
	for (size_t i = 0; i < WAKES; i++)
		forget_wake(&peer->wakes->by_place[i]);
	free(peer->wakes);
	peer->wakes = NULL;
}

void local_wakes_disown(struct peer *peer)
{
	for (size_t i = 0; peer->wakes && i < WAKES; i++) {
		if (peer->wakes->by_place[i].bell)
			doorbell_disown(peer->wakes->by_place[i].bell);
	}
}
