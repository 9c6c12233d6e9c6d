/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_CHANNEL_H
#define USRDMA_CORE_ENGINE_CHANNEL_H

#include <stdbool.h>

struct comp_channel;
struct cq;
struct engine;

/*
 * Queues one completion event of the CQ on its channel; engine_unlock() makes the descriptor
 * readable. engine.lock held.
 */
void channel_post(struct comp_channel *channel, struct cq *cq);

/*
 * A peer adds a unit, and the message has generated no event. If an event of the CQ is queued, it
 * gets the unit instead of its own, or the unit is taken from the descriptor when it arrives.
 * false: no event of the CQ is queued. engine.lock held.
 */
bool channel_absorb_promise(struct comp_channel *channel, const struct cq *cq);

/* units_check_promise() of the channel. engine.lock held. */
bool channel_check_promise(struct comp_channel *channel, bool at_once);

/* Removes the CQ's events that were not fetched; for ibv_destroy_cq(). */
void channel_forget(struct comp_channel *channel, struct cq *cq);

/*
 * Takes a unit of the channel that is not added to its descriptor yet; false: it has no such unit.
 * engine.lock held.
 */
bool channel_take_due(struct comp_channel *channel);

/*
 * Between the first two calls the calling thread polls for an event of the channel: units of new
 * events are not added to the descriptor. channel_spin_take() takes one, also one that is in the
 * descriptor; false: there is no event.
 */
void channel_spin_begin(struct comp_channel *channel);
void channel_spin_end(struct comp_channel *channel);
bool channel_spin_take(struct comp_channel *channel);

/*
 * Takes an event that is in the channel's descriptor, for which no thread waits in the library. 0
 * or -EAGAIN.
 */
int channel_try(struct comp_channel *channel) __attribute__((warn_unused_result));

/*
 * Releases engine.lock, which is not nested, and then adds the units of the channels in
 * engine.signals to their descriptors.
 */
void channels_signal(struct engine *engine);

#endif
