/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/transport.h"
#include "ipc/segment.h"

static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine *current;

static void lock_all(void);
static void unlock_all(void);
static void orphan_child(void);

static void hook_fork(void)
{
	pthread_atfork(lock_all, unlock_all, orphan_child);
}

static int make_fds(struct engine *engine)
{
	engine->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (engine->doorbell_fd < 0 || engine->epoll_fd < 0 || engine->timer_fd < 0)
		return -errno;
	return 0;
}

static void close_fds(struct engine *engine)
{
	int *const fds[] = {&engine->lent_fd, &engine->doorbell_fd, &engine->notice_fd,
			    &engine->epoll_fd, &engine->timer_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static struct engine *engine_new(void)
{
	static pthread_once_t hooked = PTHREAD_ONCE_INIT;
	struct engine *engine = calloc(1, sizeof(*engine));
	int ret;

	if (!engine)
		return NULL;
	pthread_once(&hooked, hook_fork);
	engine_lock_init(engine);
	engine->doorbell_fd = engine->notice_fd = engine->epoll_fd = engine->timer_fd = -1;
	engine->lent_fd = -1;
	engine->timer_armed_ns = TIMER_NEVER_NS;
	timer_heap_init(&engine->timers);
	list_init(&engine->contexts);
	list_init(&engine->cqs);
	datagrams_init(&engine->datagrams);
	id_table_init_bits(&engine->mrs, MAX_MRS, MR_KEY_BITS);
	id_table_init_bits(&engine->mws, MAX_MWS, MW_HANDLE_BITS);
	list_init(&engine->xrc_domains);
	xrc_fars_init(&engine->xrc_fars);
	id_table_init32(&engine->pds, MAX_PDS);
	id_table_init32(&engine->dms, MAX_DMS);
	engine->qps = calloc(IPC_SLOT_QPNS, sizeof(*engine->qps));
	if (!engine->qps) {
		ret = -ENOMEM;
		goto err_engine;
	}
	ret = transport_choose(engine);
	if (!ret)
		ret = ipc_client_open(&engine->client, IPC_ROLE_VERBS);
	if (ret)
		goto err_qps;
	engine->slot = engine->client.hello.slot;
	return engine;

err_qps:
	free(engine->qps);
err_engine:
	pthread_mutex_destroy(&engine->lock);
	free(engine);
	/* Without its daemon a machine has no devices; the log says what is missing. */
	errno = ret == -ENOENT ? ENODEV : -ret;
	return NULL;
}

struct engine *engine_get(void)
{
	struct engine *engine;

	pthread_mutex_lock(&current_lock);
	engine = current;
	/* An engine whose daemon died stays behind for its objects; whoever comes now gets a new one. */
	if (!current || current->is_fatal) {
		engine = engine_new();
		if (engine) {
			engine->older = current;
			current = engine;
		}
	}
	pthread_mutex_unlock(&current_lock);
	return engine;
}

int engine_watch(struct engine *engine, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int connect_notices(struct engine *engine, int segment_fd, uint64_t segment_bytes)
{
	struct ipc_segment req = {.hdr.type = IPC_SEGMENT, .segment_bytes = segment_bytes};
	struct ipc_reply reply;
	int pair[2];
	int ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	engine->notice_fd = pair[0];
	ret = engine_watch(engine, engine->notice_fd);
	if (!ret)
		ret = ipc_call(&engine->client, &req, sizeof(req), (int[]){segment_fd, pair[1]}, 2,
			       &reply, sizeof(reply));
	close(pair[1]);
	return ret;
}

/* What needs no thread. The last step is what the daemon lets each client do once (ipc/msg.h): nothing fails behind it. */
static int engine_prepare(struct engine *engine)
{
	int segment_fd = -1;
	int ret = make_fds(engine);

	if (!ret)
		ret = engine_watch(engine, engine->doorbell_fd);
	if (!ret)
		ret = engine_watch(engine, engine->timer_fd);
	for (size_t i = 0; !ret && transports[i]; i++)
		ret = transports[i]->open(engine, &segment_fd);
	if (!ret)
		ret = connect_notices(engine, segment_fd, SEGMENT_BYTES);
	if (segment_fd >= 0)
		close(segment_fd);
	if (!ret)
		return 0;
	for (size_t i = 0; transports[i]; i++)
		transports[i]->close(engine);
	close_fds(engine);
	return ret;
}

static int engine_start_locked(struct engine *engine)
{
	int ret = 0;

	if (engine->has_thread)
		return engine->is_fatal ? -ENODEV : 0;
	/* A thread that could not be started is all that is missing then. */
	if (engine->notice_fd < 0)
		ret = engine_prepare(engine);
	return ret ? ret : engine_start_thread(engine);
}

int engine_start(struct engine *engine)
{
	int ret;

	engine_lock(engine);
	ret = engine_start_locked(engine);
	engine_unlock(engine);
	return ret;
}

/*
 * The process ends. What has come in by now was received, and its sender gets to know it, as from a NIC, which does not ask
 * whether a process is about to leave.
 */
__attribute__((destructor)) static void take_last_turn(void)
{
	struct engine *engine = current;

	if (!engine || !engine->has_thread || engine->is_orphan ||
	    pthread_mutex_trylock(&engine->lock))
		return;
	if (!engine->is_fatal)
		engine_catch_up(engine);
	engine_unlock(engine);
}

static void unlock_cqs(struct engine *engine)
{
	struct cq *cq;

	list_for_each_entry(cq, &engine->cqs, node)
		pthread_spin_unlock(&cq->lock);
}

/* fork(): locks are taken in their order, so that the child finds every structure whole. */
static void lock_all(void)
{
	struct cq *cq;

	pthread_mutex_lock(&current_lock);
	for (struct engine *engine = current; engine; engine = engine->older) {
		engine_lock(engine);
		list_for_each_entry(cq, &engine->cqs, node)
			pthread_spin_lock(&cq->lock);
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

/* The child owns nothing of the parent's: it closes its copies, so that the daemon sees the parent's end when it comes. */
static void orphan_child(void)
{
	for (struct engine *engine = current; engine; engine = engine->older) {
		engine->is_orphan = true;
		ipc_client_forget(&engine->client);
		close_fds(engine);
		unlock_cqs(engine);
		/* It is held by a thread of the parent's, by its number, which the child's one thread does not have. */
		engine_lock_init(engine);
	}
	current = NULL;
	pthread_mutex_unlock(&current_lock);
}
