/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "core/async.h"
#include "core/device.h"
#include "core/lent_socket.h"
#include "core/qp.h"
#include "core/transport.h"
#include "ipc/segment.h"

/* While the application polls, the thread looks this often whether it still does. */
#define TICK_MS 1
/* So many polls in vain, with no sign of wanting to block, count as spinning: doorbells go off. */
#define SPIN_POLLS 256
/* So often one of them looks at the clock. */
#define TIMER_POLLS 64
/* One turn of the thread with the lock held. */
#define RUN_ROUNDS 16

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
	id_table_init_bits(&engine->xrc_srqs, MAX_SRQS, XRC_SRQN_BITS);
	list_init(&engine->xrc_domains);
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
	errno = -ret;
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

/* The daemon died: nothing will be introduced or watched any more, so every object of this engine is over. */
static void engine_die(struct engine *engine)
{
	struct context *context;

	if (engine->is_fatal)
		return;
	log_warn("the daemon is gone: every device of this process fails");
	engine->is_fatal = true;
	lent_socket_leave(engine->lent_fd);
	for (uint32_t i = 0; i < IPC_SLOT_QPNS; i++) {
		if (engine->qps[i])
			qp_enter_error(engine->qps[i], QP_NO_EVENT);
	}
	list_for_each_entry(context, &engine->contexts, node)
		async_device_fatal(context);
}

/* Datagrams from other hosts; without the socket there is none of them to talk to, and bind() says so. */
static void take_socket(struct engine *engine, int fd)
{
	if (transports_take_socket(engine, fd)) {
		log_warn("no RoCE to other hosts: %m");
		close(fd);
		return;
	}
	engine->lent_fd = fd;
	if (engine_watch(engine, fd))
		log_warn("RoCE socket: %m");
}

static void take_notice(struct engine *engine, const struct ipc_hdr *hdr, uint32_t len,
			const int *fds, int nfds)
{
	if (hdr->type == IPC_LEND && len == sizeof(struct ipc_lend) && nfds == 1 &&
	    engine->lent_fd < 0) {
		take_socket(engine, fds[0]);
		return;
	}
	if (hdr->type == IPC_DEVICE_NOTICE && len == sizeof(struct ipc_device_notice) && !nfds) {
		device_notice(engine, (const struct ipc_device_notice *)(const void *)hdr);
		return;
	}
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->notice) {
			transports[i]->notice(engine, hdr, fds, nfds);
			return;
		}
	}
	fdpass_close(fds, nfds);
}

void engine_take_notices(struct engine *engine)
{
	union {
		struct ipc_hdr hdr;
		struct ipc_peer peer;
		struct ipc_peer_gone gone;
		struct ipc_device_notice device;
		struct ipc_lend lend;
	} msg;
	int fds[IPC_FDS_MAX];
	int nfds, ret;

	while (!engine->is_fatal && engine->notice_fd >= 0) {
		ret = ipc_recv(engine->notice_fd, true, &msg, sizeof(msg), fds, &nfds);
		if (ret == -EAGAIN)
			return;
		if (ret == -EINTR)
			continue;
		if (ret < 0) {
			engine_die(engine);
			return;
		}
		take_notice(engine, &msg.hdr, (uint32_t)ret, fds, nfds);
	}
}

int engine_introduce(struct engine *engine, uint32_t slot)
{
	struct ipc_introduce req = {.hdr.type = IPC_INTRODUCE, .slot = slot};
	struct ipc_reply reply;
	int ret = ipc_call(&engine->client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply));

	if (ret)
		return ret;
	engine_take_notices(engine);
	return 0;
}

static unsigned int run_transports(struct engine *engine, uint64_t now_ns)
{
	unsigned int done = 0;

	for (size_t i = 0; transports[i]; i++)
		done += transports[i]->run(engine, now_ns);
	return done;
}

static bool sleep_transports(struct engine *engine, bool want_doorbell)
{
	bool is_busy = want_doorbell && datagram_is_due(engine);

	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->sleep && transports[i]->sleep(engine, want_doorbell))
			is_busy = true;
	}
	return is_busy;
}

static void expire_timers(struct engine *engine)
{
	if (timer_next_deadline(&engine->timers) == TIMER_NEVER_NS)
		return;
	timer_expire(&engine->timers, clock_now_ns());
	engine_timer_added(engine);
}

void engine_timer_added(struct engine *engine)
{
	uint64_t next_ns = timer_next_deadline(&engine->timers);
	struct itimerspec when = {0};

	/* Who polls, and the thread's tick, see to them. */
	if (engine->is_polled || next_ns >= engine->timer_armed_ns)
		return;
	when.it_value.tv_sec = (time_t)(next_ns / CLOCK_NS_PER_S);
	when.it_value.tv_nsec = (long)(next_ns % CLOCK_NS_PER_S);
	timerfd_settime(engine->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	engine->timer_armed_ns = next_ns;
}

void engine_wake(struct engine *engine)
{
	eventfd_write(engine->doorbell_fd, 1);
}

void engine_poll(struct engine *engine)
{
	unsigned int streak;

	atomic_store_explicit(&engine->polls,
			      atomic_load_explicit(&engine->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	streak = atomic_load_explicit(&engine->poll_streak, memory_order_relaxed) + 1;
	atomic_store_explicit(&engine->poll_streak, streak, memory_order_relaxed);
	if (pthread_mutex_trylock(&engine->lock))
		return;
	if (!engine->is_orphan && !engine->is_fatal) {
		if (streak >= SPIN_POLLS && !engine->is_polled && engine->has_thread) {
			engine->is_polled = true;
			sleep_transports(engine, false);
			engine_wake(engine);
		}
		if (streak % TIMER_POLLS == 0)
			expire_timers(engine);
		engine->is_inline = engine->is_polled;
		run_transports(engine, 0);
		engine->is_inline = false;
	}
	engine_unlock(engine);
}

/* Enough for what rings and sockets hold; a peer that never stops sending must not keep the caller here. */
#define CATCH_UP_TURNS 32

void engine_catch_up(struct engine *engine)
{
	for (int i = 0; i < CATCH_UP_TURNS && run_transports(engine, 0); i++)
		;
}

void engine_will_block(struct engine *engine)
{
	engine_lock(engine);
	atomic_store_explicit(&engine->poll_streak, 0, memory_order_relaxed);
	if (engine->is_polled && !engine->is_orphan && !engine->is_fatal) {
		engine->is_polled = false;
		engine_timer_added(engine);
		while (sleep_transports(engine, true) && run_transports(engine, 0))
			;
	}
	engine_unlock(engine);
}

/* Whether somebody polled since the last tick; if nobody did, the thread is the one that listens again. */
static bool is_polled_still(struct engine *engine)
{
	unsigned int polls = atomic_load_explicit(&engine->polls, memory_order_relaxed);

	if (!engine->is_polled)
		return false;
	if (polls != engine->polls_seen) {
		engine->polls_seen = polls;
		return true;
	}
	engine->is_polled = false;
	atomic_store_explicit(&engine->poll_streak, 0, memory_order_relaxed);
	return false;
}

/*
 * What the thread does between two sleeps. Answers how long the next may last: -1 until something is heard. Beside an
 * application that polls it does next to nothing: that one would wait for the lock meanwhile.
 */
static int thread_turn(struct engine *engine)
{
	bool is_done = false;

	if (is_polled_still(engine)) {
		expire_timers(engine);
		run_transports(engine, 0);
		return TICK_MS;
	}
	expire_timers(engine);
	engine_timer_added(engine);
	for (int round = 0; round < RUN_ROUNDS && !is_done; round++)
		is_done = !run_transports(engine, 0);
	/* What a link has in hand already rings no bell. */
	return sleep_transports(engine, true) || !is_done ? 0 : -1;
}

/* A peer rang. At its end, or if it writes what it should not, it is heard no more: the daemon tells of its death. */
static void hear_doorbell(struct engine *engine, int fd)
{
	uint8_t ring[2];
	ssize_t n;

	do {
		n = recv(fd, ring, sizeof(ring), MSG_DONTWAIT);
	} while (n == 1);
	if (n >= 0)
		epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void thread_hear(struct engine *engine, int fd)
{
	uint64_t count;

	if (fd == engine->doorbell_fd) {
		eventfd_read(fd, &count);
	} else if (fd == engine->timer_fd) {
		engine->timer_armed_ns = TIMER_NEVER_NS;
		if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			log_warn("timer: %m");
		expire_timers(engine);
		engine_timer_added(engine);
	} else if (fd == engine->notice_fd) {
		engine_take_notices(engine);
	} else if (fd == engine->lent_fd) {
		engine->lent_is_readable = true;
	} else {
		hear_doorbell(engine, fd);
	}
}

/*
 * Sleeps until something is to be heard; how many events, as epoll_wait. While the application polls, what comes from peers
 * and from the network is its to find: only the daemon and this process itself wake the thread then.
 */
static int thread_wait(struct engine *engine, struct epoll_event *events, int max, int timeout_ms)
{
	const int own[] = {engine->notice_fd, engine->doorbell_fd};
	struct pollfd fds[sizeof(own) / sizeof(own[0])];
	int n = 0;

	if (timeout_ms != TICK_MS)
		return epoll_wait(engine->epoll_fd, events, max, timeout_ms);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		fds[i] = (struct pollfd){.fd = own[i], .events = POLLIN};
	poll(fds, sizeof(own) / sizeof(own[0]), timeout_ms);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]) && n < max; i++) {
		if (fds[i].revents)
			events[n++].data.fd = fds[i].fd;
	}
	return n;
}

/* Sleeps, without the lock, until there is something to do; how many events. A tick that finds the lock taken is over: the
 * application is at it. */
static int thread_sleep(struct engine *engine, struct epoll_event *events, int max, int timeout_ms)
{
	int n;

	engine_unlock(engine);
	do {
		n = thread_wait(engine, events, max, timeout_ms);
		if (n > 0 || timeout_ms != TICK_MS) {
			engine_lock(engine);
			return n;
		}
	} while (pthread_mutex_trylock(&engine->lock));
	return 0;
}

static void *thread_main(void *arg)
{
	struct engine *engine = arg;
	struct epoll_event events[4];

	pthread_setname_np(pthread_self(), "usrdma");
	engine_lock(engine);
	while (!engine->is_fatal) {
		int timeout_ms = thread_turn(engine);
		int n = thread_sleep(engine, events, sizeof(events) / sizeof(events[0]),
				     timeout_ms);

		for (int i = 0; i < n; i++)
			thread_hear(engine, events[i].data.fd);
	}
	engine_unlock(engine);
	return NULL;
}

static int start_thread(struct engine *engine)
{
	sigset_t all, old;
	int ret;

	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&engine->thread, NULL, thread_main, engine);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return -ret;
	pthread_detach(engine->thread);
	engine->has_thread = true;
	return 0;
}

static int connect_notices(struct engine *engine, int segment_fd, uint64_t segment_bytes)
{
	struct ipc_segment req = {.hdr.type = IPC_SEGMENT, .segment_bytes = segment_bytes};
	struct ipc_reply reply;
	int pair[2];
	int ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	ret = ipc_call(&engine->client, &req, sizeof(req), (int[]){segment_fd, pair[1]}, 2, &reply,
		       sizeof(reply));
	close(pair[1]);
	if (ret) {
		close(pair[0]);
		return ret;
	}
	engine->notice_fd = pair[0];
	return 0;
}

static int engine_start_locked(struct engine *engine)
{
	int segment_fd = -1;
	int ret;

	if (engine->has_thread)
		return engine->is_fatal ? -ENODEV : 0;
	ret = make_fds(engine);
	if (ret)
		goto err_fds;
	for (size_t i = 0; transports[i]; i++) {
		ret = transports[i]->open(engine, &segment_fd);
		if (ret)
			goto err_fds;
	}
	ret = connect_notices(engine, segment_fd, SEGMENT_BYTES);
	close(segment_fd);
	if (ret)
		goto err_transports;
	ret = engine_watch(engine, engine->doorbell_fd);
	if (!ret)
		ret = engine_watch(engine, engine->notice_fd);
	if (!ret)
		ret = engine_watch(engine, engine->timer_fd);
	if (!ret)
		ret = start_thread(engine);
	if (ret)
		goto err_transports;
	return 0;

err_transports:
	for (size_t i = 0; transports[i]; i++)
		transports[i]->close(engine);
err_fds:
	close_fds(engine);
	return ret;
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
	for (int round = 0; round < RUN_ROUNDS && !engine->is_fatal; round++) {
		if (!run_transports(engine, 0))
			break;
	}
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
