/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_DIRECT_WAKE_H
#define USRDMA_CORE_ENGINE_DIRECT_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/engine/progress_state.h"

struct comp_channel;
struct cq;
struct engine;

/*
 * Direct wake-ups: a process of this host whose message completes a receive wakes the thread that
 * waits for the completion channel with poll(2) or epoll_wait(2), instead of the engine thread,
 * which would wake it in turn (docs/adr/0064). It adds the unit of the event to the channel's
 * descriptor (local/channel_wake.h). The woken thread calls ibv_get_cq_event(), which runs the
 * transports and generates the event.
 *
 * While direct wake-ups are on, the engine thread also looks for messages once in a tick. They are
 * on while messages arrive for channels whose application waits by other means than
 * ibv_get_cq_event().
 *
 * A descriptor that is readable always has an event, because applications do not expect EAGAIN from
 * ibv_get_cq_event() then. A message for which its sender adds the unit (it promises the unit)
 * therefore has an event, whatever becomes of it: promise_begin() and promise_end() enclose its
 * execution. The event can be one without a completion, as ibv_req_notify_cq(3) permits.
 *
 * Guarded by engine.lock.
 */
struct direct_wake {
	unsigned int pauses; /* threads that have called direct_wake_pause() */
	atomic_uint
		turns; /* of threads that were woken; the engine thread reads it without the lock */
	unsigned int turns_seen;
	/* received for CQs of external channels, also while direct wake-ups were off */
	unsigned int messages;
	unsigned int messages_seen;
	uint64_t message_ns; /* when the engine thread last saw that there was a new one */
	uint64_t check_ns;   /* of the last check of `unchecked` */
	uint32_t channels;   /* the last assigned comp_channel.number */
	/*
	 * channel of the message that is being executed, whose sender promised the unit: from
	 * promise_begin() to the next event of the channel, or promise_end()
	 */
	struct comp_channel *promised;
	struct list_head unchecked; /* comp_channel.promise_node: a unit of these was promised */
};

void direct_wake_init(struct engine *engine);

/*
 * The application waits for the channel by other means than ibv_get_cq_event(), or not any more.
 * engine.lock held.
 */
void direct_wake_set_external(struct engine *engine, struct comp_channel *channel,
			      bool is_external);

/* The channel is destroyed. engine.lock held. */
void direct_wake_forget(struct comp_channel *channel);

/* The next completion generates an event: peers may wake the application. cq.lock held. */
void direct_wake_offer(struct cq *cq);

/* The event was generated. cq.lock held. */
void direct_wake_withdraw(struct cq *cq);

/* Whether the application waits for the CQ's channel by other means. */
bool direct_wake_is_possible(const struct cq *cq);

/*
 * A message from a process of the same user and host arrived. `cq`: of its receive completion.
 * engine.lock held.
 */
void direct_wake_note_message(struct engine *engine, const struct cq *cq);

/*
 * The same message is executed next, and its sender has promised the unit of its event. engine.lock
 * held.
 */
void promise_begin(struct engine *engine, struct cq *cq);
void promise_end(struct engine *engine, struct cq *cq);

/* An event of the channel was queued. Returns whether a peer adds its unit. engine.lock held. */
bool promise_keeps(struct engine *engine, struct comp_channel *channel);

/*
 * For ibv_get_cq_event() when no event is queued: runs the transports once if direct wake-ups are
 * on and the channel has them. false: they are off. *has_unit: a unit of the channel was taken
 * before it was added to the descriptor. Takes and releases engine.lock.
 */
bool direct_wake_run(struct engine *engine, struct comp_channel *channel, bool *has_unit);

/*
 * The calling thread runs the transports all the time until direct_wake_resume(): peers add no
 * units for other threads, which it wakes when it has executed their messages. engine.lock held.
 */
void direct_wake_pause(struct engine *engine);
void direct_wake_resume(struct engine *engine);

/*
 * The answers to PROGRESS_DO_LOOK and PROGRESS_DO_CHECK (core/engine/progress_state.h). The first
 * one also checks promises once in REST_NS. engine.lock held.
 */
enum progress_input direct_wake_look(struct engine *engine);
enum progress_input direct_wake_check(const struct engine *engine);

/*
 * Tell peers whether they may add units, after engine.progress has changed. direct_wake_end() also
 * adds the promised units that are missing; it is also called while direct wake-ups are off.
 * engine.lock held.
 */
void direct_wake_begin(struct engine *engine);
void direct_wake_end(struct engine *engine);

/*
 * For the engine thread, without the lock: whether woken threads have run the transports since the
 * last call. The end of a tick then needs no turn.
 */
bool direct_wake_has_turned(struct engine *engine);

#endif
