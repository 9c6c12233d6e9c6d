/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The calls by which rsockets wait: the waiting thread runs the transports. The doorbell of a peer
 * is an eventfd.
 */

#include "base/librdmacm_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/engine/channel.h"
#include "core/engine/engine_run.h"
#include "core/object/event_fd.h"
#include "fake.h"

static struct fake fake;
static struct ibv_comp_channel *channel;
static struct cq *cq;
static struct usrdma_serve *serve;
static int peer_fd, other_fd;
static uint64_t peer_watch;
static unsigned int doorbells;
static bool is_flooding; /* the peer rings all the time */
static struct cq
	*completes; /* the doorbell stands for a completion of this CQ; NULL: for other work */

static void on_peer(struct engine *engine, void *arg)
{
	(void)engine;
	(void)arg;
	if (!is_flooding)
		assert_int_equal(event_fd_try(peer_fd), 0);
	doorbells++;
	assert_int_equal(fake.engine.progress.servers, 1);
	if (completes)
		channel_post(completes->channel, completes);
}

static void add(int fd, uint64_t handle)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SERVE_HANDLE_MIN | handle};

	assert_int_equal(epoll_ctl(serve->epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
}

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	fake.engine.watches.doorbell_fd = event_fd_open();
	fake.engine.watches.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	fake.engine.watches.timer_armed_ns = TIMER_NEVER_NS;
	fake.engine.watches.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	id_table_init(&fake.engine.watches.table, WATCHES_MAX);
	fake.engine.has_thread = true;
	fake.engine.progress.state = PROGRESS_THREAD;
	channel = ibv_create_comp_channel(fake.ctx);
	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	cq = to_cq(ibv_create_cq(fake.ctx, 16, NULL, channel, 0));
	peer_fd = event_fd_open();
	other_fd = event_fd_open();
	assert_int_equal(usrdma_serve_open(fake.ctx, &serve), 0);
	LOCKED(assert_int_equal(
		engine_watch(&fake.engine, peer_fd, WATCH_BY_ANY, on_peer, NULL, &peer_watch), 0));
	add(channel->fd, 1);
	add(other_fd, 2);
	doorbells = 0;
	is_flooding = false;
	completes = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	usrdma_serve_close(serve);
	assert_int_equal(fake.engine.serve.set_count, 0);
	LOCKED(engine_unwatch(&fake.engine, peer_watch));
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	close(peer_fd);
	close(other_fd);
	close(fake.engine.watches.doorbell_fd);
	close(fake.engine.watches.timer_fd);
	close(fake.engine.watches.epoll_fd);
	id_table_fini(&fake.engine.watches.table);
	fake_close(&fake);
	return 0;
}

static void expect_event(int timeout_ms, uint64_t handle)
{
	struct epoll_event events[4];

	assert_int_equal(usrdma_serve_wait(serve, events, 4, timeout_ms), 1);
	assert_int_equal(events[0].data.u64, SERVE_HANDLE_MIN | handle);
	assert_int_equal(fake.engine.progress.servers, 0);
}

static void usrdma_serve_wait_returns_events_of_callers_descriptors(void **state)
{
	(void)state;
	event_fd_post(other_fd, 1);
	expect_event(-1, 2);
}

static void usrdma_serve_wait_runs_transports_after_doorbell(void **state)
{
	(void)state;
	completes = cq;
	event_fd_post(peer_fd, 1);
	expect_event(-1, 1);
	assert_int_equal(doorbells, 1);
	assert_int_equal(usrdma_take_cq_event(channel), 0);
	ibv_ack_cq_events(&cq->pub, 1);
}

static void usrdma_serve_wait_does_not_return_for_doorbell_only(void **state)
{
	struct epoll_event events[4];

	(void)state;
	event_fd_post(peer_fd, 1);
	assert_int_equal(usrdma_serve_wait(serve, events, 4, 10), 0);
	assert_int_equal(doorbells, 1);
}

/* The event belongs to another thread, so this one goes on to wait. */
static void usrdma_serve_wait_event_of_other_channel_continues(void **state)
{
	struct ibv_comp_channel *others = ibv_create_comp_channel(fake.ctx);
	struct epoll_event events[4];

	(void)state;
	completes = to_cq(ibv_create_cq(fake.ctx, 16, NULL, others, 0));
	event_fd_post(peer_fd, 1);
	assert_int_equal(usrdma_serve_wait(serve, events, 4, 10), 0);
	assert_int_equal(usrdma_take_cq_event(others), 0);
	ibv_ack_cq_events(&completes->pub, 1);
	assert_int_equal(ibv_destroy_cq(&completes->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(others), 0);
}

static void usrdma_serve_wait_without_event_ends_at_timeout(void **state)
{
	struct epoll_event events[4];

	(void)state;
	assert_int_equal(usrdma_serve_wait(serve, events, 4, 0), 0);
	assert_int_equal(usrdma_serve_wait(serve, events, 4, 10), 0);
}

static void usrdma_serve_wait_flooding_peer_does_not_prolong_it(void **state)
{
	struct epoll_event events[4];

	(void)state;
	is_flooding = true;
	event_fd_post(peer_fd, 1);
	assert_int_equal(usrdma_serve_wait(serve, events, 4, 10), 0);
	assert_true(doorbells > 0);
	event_fd_post(other_fd, 1);
	expect_event(-1, 2);
}

static void usrdma_serve_wait_fails_when_the_daemon_is_lost(void **state)
{
	struct epoll_event events[4];

	(void)state;
	fake.engine.is_fatal = true;
	(void)progress_daemon_lost(&fake.engine.progress);
	assert_int_equal(usrdma_serve_wait(serve, events, 4, -1), -EIO);
	fake.engine.is_fatal = false;
	fake.engine.progress.state = PROGRESS_THREAD;
}

static void usrdma_serve_open_has_a_limit(void **state)
{
	struct usrdma_serve *sets[ENGINE_SETS_MAX];
	struct usrdma_serve *more;

	(void)state;
	for (int i = 1; i < ENGINE_SETS_MAX; i++)
		assert_int_equal(usrdma_serve_open(fake.ctx, &sets[i]), 0);
	assert_int_equal(usrdma_serve_open(fake.ctx, &more), -EMFILE);
	for (int i = 1; i < ENGINE_SETS_MAX; i++)
		usrdma_serve_close(sets[i]);
}

/* The engine thread left the doorbells to a thread that serves. */
static void usrdma_wait_begins_recalls_engine_thread(void **state)
{
	(void)state;
	fake.engine.progress.state = PROGRESS_TICKS;
	usrdma_wait_begins(fake.ctx);
	assert_int_equal(event_fd_try(fake.engine.watches.doorbell_fd), 0);
	LOCKED(assert_int_equal(engine_thread_rest(&fake.engine), PROGRESS_WAIT_ALL));
	usrdma_wait_ends(fake.ctx);
	assert_int_equal(fake.engine.progress.external_waits, 0);
}

/* A failed call does not mark the channel as one whose application waits by other means. */
static void usrdma_take_cq_event_without_event_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(usrdma_take_cq_event(channel), -EAGAIN);
	assert_int_equal(fake.engine.progress.external_channels, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(usrdma_serve_wait_returns_events_of_callers_descriptors),
		TEST(usrdma_serve_wait_runs_transports_after_doorbell),
		TEST(usrdma_serve_wait_does_not_return_for_doorbell_only),
		TEST(usrdma_serve_wait_event_of_other_channel_continues),
		TEST(usrdma_serve_wait_without_event_ends_at_timeout),
		TEST(usrdma_serve_wait_flooding_peer_does_not_prolong_it),
		TEST(usrdma_serve_wait_fails_when_the_daemon_is_lost),
		TEST(usrdma_serve_open_has_a_limit),
		TEST(usrdma_wait_begins_recalls_engine_thread),
		TEST(usrdma_take_cq_event_without_event_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
