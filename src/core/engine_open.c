/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/syscalls.h"
#include "base/thread_id.h"
#include "base/trace_ring.h"
#include "base/util.h"
#include "core/core_notice.h"
#include "core/device/device.h"
#include "core/engine/discard.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/qp/xrc.h"
#include "core/report/usage.h"
#include "ipc/segment.h"

/*
 * Held by the thread that creates or starts an engine, also while it waits for the daemon. fork()
 * does not take this lock: the child reinitialises it and closes its copy of the connection of
 * `making`.
 */
static pthread_mutex_t making_lock = PTHREAD_MUTEX_INITIALIZER;
/* Guards `current` and `making`. Never held while waiting. */
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine *current;
static struct engine *making; /* an engine that is connecting to the daemon; NULL: none */

static void lock_all(void);
static void unlock_all(void);
static void orphan_child(void);

/* All fork handlers of this module: an engine exists before all other objects of the module. */
static void hook_fork(void)
{
	/*
	 * Fails only if there is no memory. Consequence: a child that is forked while another
	 * thread holds a lock may deadlock.
	 */
	(void)pthread_atfork(lock_all, unlock_all, orphan_child);
}

static int make_fds(struct engine *engine)
{
	engine->watches.doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	engine->watches.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->watches.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (engine->watches.doorbell_fd < 0 || engine->watches.epoll_fd < 0 ||
	    engine->watches.timer_fd < 0)
		return -errno;
	return 0;
}

static void close_fds(struct engine *engine)
{
	int *const fds[] = {&engine->watches.doorbell_fd, &engine->notices.fd,
			    &engine->watches.epoll_fd,	  &engine->watches.timer_fd,
			    &engine->segment.new_fd,	  &engine->notices.new_fd};

	struct watch_set *set, *tmp;

	for (size_t i = 0; i < COUNT(fds); i++) {
		if (*fds[i] >= 0)
			sys_close(*fds[i]);
		*fds[i] = -1;
	}
	list_for_each_entry_safe(set, tmp, &engine->watches.sets, node)
		watch_set_close(engine, set);
}

static void set_making(struct engine *engine)
{
	pthread_mutex_lock(&current_lock);
	making = engine;
	pthread_mutex_unlock(&current_lock);
}

static int connect_daemon(struct engine *engine)
{
	int ret;

	engine->client.fd = -1;
	set_making(engine);
	ret = ipc_client_open(&engine->client, IPC_ROLE_VERBS);
	/*
	 * After success engine_make() replaces `making` by `current`: a fork() in between finds the
	 * connection too.
	 */
	if (ret)
		set_making(NULL);
	return ret;
}

static struct engine *engine_new(void)
{
	static pthread_once_t hooked = PTHREAD_ONCE_INIT;
	struct engine *engine = calloc(1, sizeof(*engine));
	int ret;

	if (!engine)
		return NULL;
	pthread_once(&hooked, hook_fork);
	barrier_register();
	biased_lock_init(&engine->lock);
	engine->watches.doorbell_fd = engine->notices.fd = engine->watches.epoll_fd =
		engine->watches.timer_fd = -1;
	engine->segment.new_fd = engine->notices.new_fd = -1;
	engine->watches.timer_armed_ns = TIMER_NEVER_NS;
	id_table_init(&engine->watches.table, WATCHES_MAX);
	timer_heap_init(&engine->timers);
	engine_init_lists(engine);
	datagrams_init(&engine->datagrams);
	ret = random_open(&engine->tables.random);
	if (ret)
		goto err_engine;
	id_table_init_random(&engine->tables.mrs, MAX_MRS, MR_KEY_BITS, &engine->tables.random);
	id_table_init_random(&engine->tables.mws, MAX_MWS, MW_HANDLE_BITS, &engine->tables.random);
	xrc_domains_init(engine);
	engine_send_init(engine);
	xrc_forward_init(&engine->xrc_forward);
	xrc_remote_init(&engine->xrc_remote);
	engine->xrc.srqn_cursor = random_u32(&engine->tables.random);
	id_table_init32(&engine->tables.pds, MAX_PDS);
	id_table_init32(&engine->tables.dms, MAX_DMS);
	ret = qp_table_init(&engine->tables.qps);
	if (ret)
		goto err_engine;
	ret = transport_choose(engine);
	if (!ret)
		ret = connect_daemon(engine);
	if (ret)
		goto err_qps;
	engine->slot = engine->client.hello.slot;
	engine->pid = getpid();
	failure_open(&engine->failures);
	return engine;

err_qps:
	qp_table_fini(&engine->tables.qps);
err_engine:
	biased_lock_fini(&engine->lock);
	free(engine);
	/* Without a daemon there are no devices; the cause is logged. */
	errno = ret == -ENOENT ? ENODEV : -ret;
	return NULL;
}

/*
 * The current engine, or NULL if no engine exists or its daemon connection was lost. A fatal engine
 * remains for its objects.
 */
static struct engine *current_alive(void)
{
	struct engine *engine;

	pthread_mutex_lock(&current_lock);
	engine = current && !current->is_fatal ? current : NULL;
	pthread_mutex_unlock(&current_lock);
	return engine;
}

static struct engine *engine_make(void)
{
	struct engine *engine = engine_new();

	if (!engine)
		return NULL;
	pthread_mutex_lock(&current_lock);
	engine->older = current;
	current = engine;
	making = NULL;
	pthread_mutex_unlock(&current_lock);
	return engine;
}

struct engine *engine_get(void)
{
	struct engine *engine = current_alive();

	if (engine)
		return engine;
	pthread_mutex_lock(&making_lock);
	/* Another thread may have created an engine while this thread waited for the lock. */
	engine = current_alive();
	if (!engine)
		engine = engine_make();
	pthread_mutex_unlock(&making_lock);
	return engine;
}

/*
 * Called without engine.lock, so that fork() does not wait for the daemon. The engine has no
 * objects and no thread yet.
 */
static int connect_notices(struct engine *engine)
{
	struct ipc_segment req = {.hdr.type = IPC_SEGMENT, .segment_bytes = SEGMENT_BYTES};
	struct ipc_reply reply;

	engine_assert_unlocked(engine);
	return ipc_call_fd(&engine->client, &req, sizeof(req), &engine->segment.new_fd, 1, &reply,
			   sizeof(reply), &engine->notices.new_fd);
}

/* Opens the descriptors and the transports. Needs neither the daemon nor the thread. */
static int engine_open(struct engine *engine, int *segment_fd)
{
	int ret = make_fds(engine);

	if (!ret)
		ret = engine_watch_progress(engine);
	if (!ret)
		ret = core_notices_open(engine);
	for (size_t i = 0; !ret && transports[i]; i++)
		ret = transports[i]->open(engine, segment_fd);
	if (!ret)
		ret = transports_register_notices(engine);
	if (!ret)
		engine_notices_register_counter(engine);
	return ret;
}

static void engine_undo_open(struct engine *engine)
{
	for (size_t i = 0; transports[i]; i++)
		transports[i]->close(engine);
	discard_all(engine);
	engine_unwatch(engine, engine->watches.doorbell_watch);
	engine_unwatch(engine, engine->watches.timer_watch);
	engine_unwatch(engine, engine->notices.watch);
	close_fds(engine);
}

/*
 * Performs the steps before the thread's start. The request to the daemon may be repeated until a
 * peer is connected (ipc/msg.h), so that a failure is not final. engine.lock held, except during
 * that request.
 */
static int engine_prepare(struct engine *engine)
{
	int ret = engine_open(engine, &engine->segment.new_fd);

	engine_assert_locked(engine);
	if (!ret) {
		engine_unlock(engine);
		ret = connect_notices(engine);
		engine_lock(engine);
	}
	if (!ret) {
		engine->notices.fd = engine->notices.new_fd;
		engine->notices.new_fd = -1;
		ret = engine_watch_notices(engine);
	}
	if (engine->segment.new_fd >= 0)
		sys_close(engine->segment.new_fd);
	engine->segment.new_fd = -1;
	if (ret)
		engine_undo_open(engine);
	else
		/*
		 * The daemon has sent the trace ring before its reply: a trace contains the first
		 * calls, too.
		 */
		engine_take_notices(engine);
	return ret;
}

static int engine_start_locked(struct engine *engine)
{
	int ret = 0;

	if (engine->has_thread)
		return engine->is_fatal ? -ENODEV : 0;
	/* notices.fd >= 0: only the start of the thread failed. */
	if (engine->notices.fd < 0)
		ret = engine_prepare(engine);
	return ret ? ret : engine_start_thread(engine);
}

static bool is_started(struct engine *engine)
{
	bool has_thread;

	engine_lock(engine);
	has_thread = engine->has_thread && !engine->is_fatal;
	engine_unlock(engine);
	return has_thread;
}

int engine_start(struct engine *engine)
{
	int ret;

	if (is_started(engine))
		return 0;
	pthread_mutex_lock(&making_lock);
	engine_lock(engine);
	ret = engine_start_locked(engine);
	engine_unlock(engine);
	pthread_mutex_unlock(&making_lock);
	return ret;
}

/*
 * The process exits. Processes the messages that have arrived, so that their senders receive ACKs,
 * as from a NIC.
 */
__attribute__((destructor)) static void take_last_turn(void)
{
	struct engine *engine = current;

	/* A child of clone(2) without the fork() handlers has a copy of its parent's engine. */
	if (!engine || !engine->has_thread || engine->is_orphan || engine->pid != getpid() ||
	    !engine_try_lock(engine))
		return;
	if (!engine->is_fatal)
		engine_catch_up(engine);
	engine_unlock(engine);
}

static void unlock_cqs(struct engine *engine)
{
	struct cq *cq;

	list_for_each_entry(cq, &engine->tables.cqs, node)
		biased_lock_release(&cq->lock);
}

/*
 * In the child of a fork(). The child's thread holds all locks, but a thread of the parent, which
 * the child does not have, may wait for one of them and have acquired its mutex.
 */
static void init_locks(struct engine *engine)
{
	struct cq *cq;

	list_for_each_entry(cq, &engine->tables.cqs, node)
		biased_lock_init(&cq->lock);
	biased_lock_init(&engine->lock);
	shards_init_locks_in_child(engine);
}

/*
 * Before fork(): takes the locks in their order, so that the child's copy of all structures is
 * consistent.
 */
static void lock_all(void)
{
	struct cq *cq;

	pthread_mutex_lock(&current_lock);
	for (struct engine *engine = current; engine; engine = engine->older) {
		engine_lock(engine);
		list_for_each_entry(cq, &engine->tables.cqs, node)
			biased_lock_acquire(&cq->lock);
	}
}

static void unlock_all(void)
{
	for (struct engine *engine = current; engine; engine = engine->older) {
		unlock_cqs(engine);
		engine_unlock(engine);
	}
	pthread_mutex_unlock(&current_lock);
}

/*
 * In the child of a fork(): closes the copies of the parent's descriptors, so that the daemon can
 * detect the parent's exit.
 */
static void orphan_child(void)
{
	thread_id_forget();
	trace_ring_detach();
	barrier_register();
	pthread_mutex_init(&making_lock, NULL);
	if (making)
		ipc_client_forget(&making->client);
	making = NULL;
	for (struct engine *engine = current; engine; engine = engine->older) {
		engine->is_orphan = true;
		(void)progress_forked(&engine->progress);
		ipc_client_forget(&engine->client);
		for (size_t i = 0; transports[i]; i++) {
			if (transports[i]->disown)
				transports[i]->disown(engine);
		}
		close_fds(engine);
		wakes_forget(engine);
		usage_hide_cqs_in_child(engine);
		init_locks(engine);
	}
	current = NULL;
	pthread_mutex_unlock(&current_lock);
	device_after_fork_in_child();
}
