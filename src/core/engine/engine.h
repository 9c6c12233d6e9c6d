/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_H
#define USRDMA_CORE_ENGINE_ENGINE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/biased_lock.h"
#include "base/list.h"
#include "base/timer.h"
#include "core/device/av_call.h"
#include "core/engine/channel.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine_notice.h"
#include "core/engine/engine_serve.h"
#include "core/engine/engine_tables.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/engine/polling.h"
#include "core/engine/progress.h"
#include "core/engine/run_by.h"
#include "core/engine/shard.h"
#include "core/engine/wake.h"
#include "core/object/objects.h"
#include "core/qp/xrc.h"
#include "core/qp/xrc_forward.h"
#include "core/qp/xrc_remote.h"
#include "core/queue/datagram.h"
#include "core/report/failure.h"
#include "core/report/usage.h"
#include "ipc/client.h"

#define TRANSPORTS_MAX 8

/*
 * The engine: the state of the library in one process, with one lock, one thread and one daemon
 * connection. The first call that needs a device creates it; it exists until the process ends.
 * After fork() the parent's engine continues unchanged. The child's copy is marked `is_orphan` and
 * calls on its objects fail with EIO. The next ibv_get_device_list() of the child creates a new
 * engine.
 *
 * engine.lock guards the members, unless their comments or those of their types state otherwise.
 *
 * Progress: a thread that finds a CQ empty runs the transports inline (engine_poll). While the
 * application polls, the engine thread only ticks; it runs the transports when no thread polls.
 * Peers ring the doorbell only on request (transport.sleep). Doorbells are requested unless the
 * application is spinning. `progress` states which threads run the transports
 * (core/engine/progress_state.h).
 */
struct engine {
	struct biased_lock lock; /* shard.h */
	struct shards shards;
	bool is_orphan;	      /* the copy in the child of a fork() */
	atomic_bool is_fatal; /* daemon connection lost; engine_get() reads it without the lock */
	struct engine *older; /* a preceding engine that lost its daemon; NULL: none */
	bool has_thread;
	pthread_t thread;
	/*
	 * engine_start_thread() waits here until the thread has started or failed (thread_error:
	 * -errno). A barrier, because pthread_barrier_wait() is not a cancellation point. It is
	 * never destroyed: the thread may still be returning from it.
	 */
	pthread_barrier_t thread_begins;
	int thread_error;
	struct ipc_client client;
	uint32_t slot;
	pid_t pid;				/* the process that created the engine */
	struct engine_watches watches;		/* descriptors and epoll; engine_watch.h */
	struct engine_notices notices;		/* engine_notice.h */
	struct timer_heap timers;		/* watches.timer_fd wakes the thread for them */
	const struct transport *only_transport; /* USRDMA_TRANSPORT; NULL: any */
	struct engine_segment segment;		/* core/report/usage.h */
	/*
	 * [number of the transport]: its state, set by its open(), cleared by its close(); NULL:
	 * not open
	 */
	void *transport_state[TRANSPORTS_MAX];
	struct datagrams datagrams;
	uint64_t pkey_violations; /* received packets with a P_Key that does not match */
	struct mcast *mcast;	  /* multicast groups (core/device/mcast.c); NULL: no group */
	/* next attempt to send the requests queued by engine_send_in_order() */
	struct timer notify_timer;
	struct engine_tables tables; /* verbs objects; engine_tables.h */
	struct engine_xrc xrc;	     /* domains and SRQs; core/qp/xrc.h */
	struct xrc_forward xrc_forward;
	struct xrc_remote xrc_remote; /* XRC target QPs that are open in several processes */
	struct av_calls av_calls;     /* addresses that the daemon resolves */
	/* Stored by each poll, in other cache lines than what the data path of all shards reads. */
	uint8_t unused_before[64];
	struct engine_polling polling;
	enum run_by run_by;
	/*
	 * run() left work of other users' processes, which must not make the threads of this one
	 * wait for the lock
	 */
	bool has_foreign_rest;
	uint8_t unused_after[64];
	struct progress_now progress;
	struct list_head discards; /* struct discard (discard.h) */
	struct engine_serve serve;
	struct direct_wake direct_wake;
	/* struct comp_channel with units that engine_unlock() adds to the descriptor */
	struct list_head signals;
	struct wakes wakes;
	struct failure_reports failures;
};

/*
 * Returns the engine; creates and connects it first if necessary. NULL with errno: ENODEV (no
 * daemon), EACCES, ENOENT, ENOMEM …
 */
struct engine *engine_get(void) __attribute__((warn_unused_result));

/*
 * A request has detected that the daemon connection is lost: what the engine thread does when it
 * detects this. Called without engine.lock.
 */
void engine_lose_daemon(struct engine *engine);

/* Starts the engine thread unless it is running. */
int engine_start(struct engine *engine) __attribute__((warn_unused_result));

/* Starts the thread only. engine.lock held. */
int engine_start_thread(struct engine *engine) __attribute__((warn_unused_result));

/*
 * engine.lock is recursive: functions of the data path that hold it call others that acquire it,
 * because the QPs of other shards hold the lock of their shard only. No call returns with it held
 * (ADR 0061). A thread that is the only one to use the engine acquires it without an atomic
 * operation (ADR 0043).
 */
static inline void engine_lock_base(struct engine *engine)
{
	biased_lock_acquire(&engine->lock);
}

/* Acquires all locks (shard.h). */
static inline void engine_lock(struct engine *engine)
{
	bool had_shards;

	for (;;) {
		had_shards = atomic_load_explicit(&engine->shards.are_open, memory_order_acquire);
		if (__builtin_expect(had_shards, 0))
			shards_lock(engine);
		biased_lock_acquire(&engine->lock);
		if (__builtin_expect(had_shards == engine->shards.are_open, 1))
			break;
		biased_lock_release(&engine->lock);
	}
	engine->shards.all_depth++;
}

/* As engine_lock(), but does not wait. false: another thread holds a lock. */
static inline bool engine_try_lock(struct engine *engine)
{
	bool had_shards = atomic_load_explicit(&engine->shards.are_open, memory_order_acquire);

	if (__builtin_expect(had_shards, 0) && !shards_try_lock(engine))
		return false;
	if (biased_lock_try(&engine->lock)) {
		if (__builtin_expect(had_shards == engine->shards.are_open, 1)) {
			engine->shards.all_depth++;
			return true;
		}
		biased_lock_release(&engine->lock);
	}
	if (had_shards)
		shards_unlock(engine);
	return false;
}

/* To be called with the lock of the shard held. */
static inline void shard_used(struct shard *shard)
{
	biased_lock_assert_locked(&shard->lock);
	atomic_store_explicit(&shard->uses,
			      atomic_load_explicit(&shard->uses, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/*
 * Initializes the engine's lists, and marks the standby set as not open. Each transport initializes
 * its own lists.
 */
static inline void engine_init_lists(struct engine *engine)
{
	list_init(&engine->tables.contexts);
	list_init(&engine->tables.cqs);
	list_init(&engine->watches.list);
	list_init(&engine->watches.sets);
	engine->watches.standby.epoll_fd = -1;
	list_init(&engine->signals);
	list_init(&engine->discards);
	av_calls_init(&engine->av_calls);
	direct_wake_init(engine);
}

/*
 * Whether objects may be created and changed: 0, or -EIO in a fork()ed child and after the daemon
 * connection was lost. Destroying is always permitted. engine.lock or the lock of a shard held:
 * is_fatal changes with all locks held.
 */
static inline int engine_usable(const struct engine *engine)
{
	engine_assert_any_locked(engine);
	return engine->is_orphan || engine->is_fatal ? -EIO : 0;
}

/*
 * Whether the engine thread runs the transports at its next tick unless the application runs them
 * before. Work that is not urgent may then wait for the next call of the application. engine.lock
 * held.
 */
static inline bool engine_ticks(const struct engine *engine)
{
	enum progress_state state = progress_state(&engine->progress);

	engine_assert_locked(engine);
	return progress_is_polled(state) || progress_has_wakes(state) ||
	       (progress_is_in(state, PROGRESS_BIT(TICKS) | PROGRESS_BIT(SPIN)) &&
		!progress_has_external(&engine->progress));
}

/*
 * Whether the engine thread waits for the peers and the network, unless it is running. engine.lock
 * held.
 */
static inline bool engine_thread_waits(const struct engine *engine)
{
	engine_assert_locked(engine);
	return progress_thread_waits(progress_state(&engine->progress));
}

/* The application is considered polling: no doorbells are requested. */
static inline bool engine_is_polled(const struct engine *engine)
{
	return progress_is_polled(progress_state(&engine->progress));
}

/* Whether a thread that begins to wait may run the transports itself. engine.lock held. */
static inline bool engine_may_serve(const struct engine *engine)
{
	engine_assert_locked(engine);
	return progress_may_serve(progress_state(&engine->progress));
}

/*
 * Releases engine.lock, and then wakes the threads that wait for completion events, and the peers
 * (core/engine/wake.h).
 */
static inline void engine_unlock_base(struct engine *engine)
{
	if (__builtin_expect(!list_is_empty(&engine->signals) || engine->wakes.doorbell_count ||
				     engine->wakes.wakes_thread,
			     0))
		engine_unlock_and_wake(engine);
	else
		biased_lock_release(&engine->lock);
}

/* Releases what engine_lock() or engine_try_lock() acquired; otherwise as engine_unlock_base(). */
static inline void engine_unlock(struct engine *engine)
{
	engine->shards.all_depth--;
	if (__builtin_expect(engine->shards.are_open, 0))
		shards_unlock(engine);
	engine_unlock_base(engine);
}

/*
 * As engine_unlock(), for a thread that will acquire the lock again at once. If the transports have
 * left work of other users, threads that wait for a lock go first (biased_lock_let_waiters()). All
 * locks held, once.
 */
static inline void engine_unlock_in_turn(struct engine *engine)
{
	bool has_rest = engine->has_foreign_rest;
	bool had_shards = engine->shards.are_open;

	engine_assert_once_locked(engine);
	engine_unlock(engine);
	if (__builtin_expect(!has_rest, 1))
		return;
	biased_lock_let_waiters(&engine->lock);
	if (had_shards)
		shards_let_waiters(engine);
}

/*
 * To be called when a CQ was found empty whose QPs belong to these shards (struct cq). Runs the
 * transports unless another thread holds the locks. Takes and releases engine.lock and the locks of
 * the shards.
 */
void engine_poll(struct engine *engine, uint32_t shards);

/*
 * To be called when the application posts WRs in quick succession without a run of the transports.
 * It will probably poll for their completions: the call counts as a poll of an empty CQ.
 * engine.lock held.
 */
void engine_expect_polls(struct engine *engine);

/*
 * Processes the messages that have arrived. To be called before a queue is flushed, so that
 * received responses complete their WQEs first. engine.lock held.
 */
void engine_catch_up(struct engine *engine);

/*
 * One turn of a thread that waits for doorbells between its turns: runs timers and transports and
 * requests doorbells from the peers. Returns whether work is pending. engine.lock held.
 */
bool engine_turn(struct engine *engine);

/*
 * As engine_turn(), for a thread that returns to the application, which may reply: doorbells and
 * packets that only acknowledge wait for the next call that sends or runs the transports
 * (run_by_replier()). Unless others_wait, no doorbells are requested: the thread will poll, or the
 * tick of the engine thread finds further messages.
 */
bool engine_turn_before_reply(struct engine *engine, bool others_wait);

/* Runs the timers that are due. engine.lock held. */
void engine_expire_timers(struct engine *engine);

/* For a thread that polls: one round without timers. engine.lock held. */
void engine_run(struct engine *engine);

/* The same; acknowledgements wait as in engine_turn_before_reply(). */
void engine_run_before_reply(struct engine *engine);

/*
 * Carries out the actions of a cell of the table (core/engine/progress.h), except PROGRESS_DO_LOOK
 * and PROGRESS_DO_CHECK, to which only the engine thread replies. engine.lock held; all locks for
 * PROGRESS_DO_REQUEST_DOORBELLS.
 */
void engine_progress_do(struct engine *engine, struct progress_cell cell);

/*
 * The application is about to block, for example in ibv_get_cq_event() or after
 * ibv_req_notify_cq(): requests doorbells from the peers again.
 */
void engine_will_block(struct engine *engine);

/* To be called after a timer was added under engine.lock. Arms timer_fd if necessary. */
void engine_timer_added(struct engine *engine);

/*
 * Makes the engine thread run the transports soon, for pending work that might otherwise not be
 * processed.
 */
void engine_wake(struct engine *engine);

/* Watches doorbell_fd and timer_fd. 0 or -errno. engine.lock held. */
int engine_watch_progress(struct engine *engine) __attribute__((warn_unused_result));

/*
 * Sends the daemon a request without a reply. Never blocks; engine.lock may be held. -EAGAIN:
 * another thread uses the connection, or its send buffer is full; nothing was sent. Any other
 * -errno: the connection to the daemon has failed.
 */
int engine_try_send_request(struct engine *engine, void *request, uint32_t bytes)
	__attribute__((warn_unused_result));

/*
 * Sends the daemon a request without a reply after all earlier requests and before all later ones.
 * Never blocks: if the request cannot be sent now, a timer sends it. If the connection to the
 * daemon is lost, the request is dropped. `memory` as in ipc_send_in_order(). engine.lock held.
 */
void engine_send_in_order(struct engine *engine, const void *request, uint32_t bytes,
			  struct ipc_queued *memory);

/* Initializes the members of engine_send_in_order(). */
void engine_send_init(struct engine *engine);

#endif
