/* SPDX-License-Identifier: BSD-2-Clause */

/* The events of a completion channel: their descriptor, and the events of destroyed CQs. */

#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "core/engine/channel.h"
#include "core/object/event_fd.h"

static struct fake fake;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_cq *make(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(fake.ctx, 16, NULL, channel, 0);

	assert_non_null(cq);
	return cq;
}

static void post(struct ibv_comp_channel *channel, struct cq *cq)
{
	engine_lock(&fake.engine);
	channel_post(to_channel(channel), cq);
	engine_unlock(&fake.engine);
}

static bool is_readable(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return poll(&pollfd, 1, 0) == 1;
}

static void ibv_destroy_cq_removes_unread_events(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(fake.ctx);
	struct cq *gone = to_cq(make(channel));
	struct cq *stays = to_cq(make(channel));
	struct ibv_cq *got;
	void *user;

	(void)state;
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 3; i++) {
		post(channel, gone);
		post(channel, stays);
	}
	assert_int_equal(ibv_destroy_cq(&gone->pub), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
		assert_ptr_equal(got, &stays->pub);
	}
	errno = 0;
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(is_readable(channel->fd));
	ibv_ack_cq_events(&stays->pub, 3);
	assert_int_equal(ibv_destroy_cq(&stays->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/*
 * A thread that polls takes events without the descriptor. Those that it leaves are in the
 * descriptor when it ends.
 */
static void channel_spin_take_takes_events_before_they_are_signalled(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(fake.ctx);
	struct cq *cq = to_cq(make(channel));

	(void)state;
	channel_spin_begin(to_channel(channel));
	assert_false(channel_spin_take(to_channel(channel)));
	for (int i = 0; i < 3; i++)
		post(channel, cq);
	assert_false(is_readable(channel->fd));
	assert_true(channel_spin_take(to_channel(channel)));
	assert_true(channel_spin_take(to_channel(channel)));
	channel_spin_end(to_channel(channel));
	assert_true(is_readable(channel->fd));
	assert_int_equal(event_fd_try(channel->fd), 0);
	assert_int_equal(event_fd_try(channel->fd), -EAGAIN);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* An event that was signalled before the thread began to poll. */
static void channel_spin_take_takes_event_of_the_descriptor(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(fake.ctx);
	struct cq *cq = to_cq(make(channel));

	(void)state;
	post(channel, cq);
	assert_true(is_readable(channel->fd));
	channel_spin_begin(to_channel(channel));
	assert_true(channel_spin_take(to_channel(channel)));
	assert_false(channel_spin_take(to_channel(channel)));
	channel_spin_end(to_channel(channel));
	assert_false(is_readable(channel->fd));
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void *ack_later(void *arg)
{
	struct cq *cq = arg;

	/*
	 * The destroying thread waits when only the fixture's CQ is on the engine's list and the
	 * lock is free.
	 */
	for (;;) {
		engine_lock(&fake.engine);
		if (fake.engine.tables.cq_count == 1) {
			engine_unlock(&fake.engine);
			break;
		}
		engine_unlock(&fake.engine);
		sched_yield();
	}
	ibv_ack_cq_events(&cq->pub, 2);
	return NULL;
}

static void ibv_destroy_cq_unacknowledged_event_waits(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(fake.ctx);
	struct cq *cq = to_cq(make(channel));
	struct ibv_cq *got;
	pthread_t thread;
	void *user;

	(void)state;
	for (int i = 0; i < 2; i++) {
		post(channel, cq);
		assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	}
	assert_int_equal(pthread_create(&thread, NULL, ack_later, cq), 0);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/*
 * On a busy machine each sched_yield() can take some milliseconds, so that the time is limited,
 * too.
 */
#define PASSES_MAX 1000
#define PASSES_NS  (5 * CLOCK_NS_PER_S)

static atomic_uint passes = PASSES_MAX, staying_seen, looked_after;

struct waiter {
	struct ibv_comp_channel *channel;
	struct ibv_cq *stays;
};

/*
 * Acknowledges all events and counts those of the remaining CQ; then the other thread checks that
 * no eventfd unit remains.
 */
static void *fetch_all(void *arg)
{
	struct waiter *waiter = arg;
	struct ibv_cq *got;
	void *user;

	while (atomic_load(&staying_seen) < atomic_load(&passes)) {
		assert_int_equal(ibv_get_cq_event(waiter->channel, &got, &user), 0);
		ibv_ack_cq_events(got, 1);
		if (got == waiter->stays)
			atomic_fetch_add(&staying_seen, 1);
		while (atomic_load(&looked_after) != atomic_load(&staying_seen))
			sched_yield();
	}
	return NULL;
}

/*
 * When a CQ is destroyed, a waiting thread may have taken the eventfd unit, or the event, or
 * neither.
 */
static void ibv_destroy_cq_during_get_cq_event_leaves_descriptor_unreadable(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(fake.ctx);
	struct waiter waiter = {.channel = channel, .stays = make(channel)};
	uint64_t start_ns = clock_now_ns();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, fetch_all, &waiter), 0);
	for (unsigned int i = 0; i < atomic_load(&passes); i++) {
		struct ibv_cq *goes = make(channel);

		if (clock_now_ns() - start_ns > PASSES_NS)
			atomic_store(&passes, i + 1);
		post(channel, to_cq(goes));
		/*
		 * The thread is mostly delayed between taking the unit and the event. It may also
		 * wait to begin.
		 */
		pthread_mutex_lock(&to_channel(channel)->lock);
		for (int turn = 0; turn < 100 && is_readable(channel->fd); turn++)
			sched_yield();
		pthread_mutex_unlock(&to_channel(channel)->lock);
		assert_int_equal(ibv_destroy_cq(goes), 0);
		post(channel, to_cq(waiter.stays));
		while (atomic_load(&staying_seen) == i)
			sched_yield();
		assert_false(is_readable(channel->fd));
		atomic_store(&looked_after, i + 1);
	}
	pthread_join(thread, NULL);
	assert_int_equal(ibv_destroy_cq(waiter.stays), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

#define CHANNEL_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANNEL_TEST(channel_spin_take_takes_events_before_they_are_signalled),
		CHANNEL_TEST(channel_spin_take_takes_event_of_the_descriptor),
		CHANNEL_TEST(ibv_destroy_cq_removes_unread_events),
		CHANNEL_TEST(ibv_destroy_cq_unacknowledged_event_waits),
		CHANNEL_TEST(ibv_destroy_cq_during_get_cq_event_leaves_descriptor_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
