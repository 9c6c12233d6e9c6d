/* SPDX-License-Identifier: BSD-2-Clause */

/* Async events: their order, their descriptor, and the events of destroyed objects. */

#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/device/async.h"
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

static void event_fd_post_and_take_back_keep_count(void **state)
{
	int fd = event_fd_open();

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(event_fd_try(fd), -EAGAIN);
	for (int i = 0; i < 5; i++)
		event_fd_post(fd, 1);
	assert_int_equal(event_fd_wait(fd), 0);
	assert_int_equal(event_fd_try(fd), 0);
	assert_int_equal(event_fd_drain(fd, 2), 0);
	assert_int_equal(event_fd_try(fd), 0);
	assert_int_equal(event_fd_try(fd), -EAGAIN);
	assert_int_equal(event_fd_drain(fd, 100), 100);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(event_fd_wait(fd), -EAGAIN);
	close(fd);
	assert_int_equal(event_fd_wait(fd), -EBADF);
}

static void ibv_get_async_event_returns_events_in_order(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_async_event event;

	(void)state;
	async_qp_event(to_qp(qp), IBV_EVENT_COMM_EST);
	async_port_event(&fake.context, IBV_EVENT_GID_CHANGE);
	async_cq_event(to_cq(fake.cq), IBV_EVENT_CQ_ERR);
	async_device_fatal(&fake.context);
	fake_expect_event(&fake, IBV_EVENT_COMM_EST, qp);
	assert_int_equal(ibv_get_async_event(fake.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.element.port_num, 1);
	ibv_ack_async_event(&event);
	fake_expect_event(&fake, IBV_EVENT_CQ_ERR, fake.cq);
	assert_int_equal(ibv_get_async_event(fake.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	assert_int_equal(fcntl(fake.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(ibv_get_async_event(fake.ctx, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void *ack_when_gone(void *arg)
{
	struct ibv_async_event *event = arg;

	/* The destroying thread waits once the engine no longer has the QP. */
	for (;;) {
		engine_lock(&fake.engine);
		if (!fake.engine.tables.qps.count) {
			engine_unlock(&fake.engine);
			break;
		}
		engine_unlock(&fake.engine);
		sched_yield();
	}
	ibv_ack_async_event(event);
	return NULL;
}

static void ibv_destroy_qp_unacknowledged_event_waits(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_async_event event;
	pthread_t thread;

	(void)state;
	async_qp_event(to_qp(qp), IBV_EVENT_COMM_EST);
	async_qp_event(to_qp(qp), IBV_EVENT_QP_FATAL);
	assert_int_equal(ibv_get_async_event(fake.ctx, &event), 0);
	assert_int_equal(pthread_create(&thread, NULL, ack_when_gone, &event), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	pthread_join(thread, NULL);
}

#define PASSING_COUNT 1000

static atomic_uint seen, looked_after;

/*
 * Acknowledges all events and counts those of the port; then the other thread checks that no
 * eventfd unit remains.
 */
static void *fetch_all(void *arg)
{
	struct ibv_async_event event;

	(void)arg;
	while (atomic_load(&seen) < PASSING_COUNT) {
		assert_int_equal(ibv_get_async_event(fake.ctx, &event), 0);
		ibv_ack_async_event(&event);
		if (event.event_type == IBV_EVENT_PORT_ACTIVE)
			atomic_fetch_add(&seen, 1);
		while (atomic_load(&looked_after) != atomic_load(&seen))
			sched_yield();
	}
	return NULL;
}

/*
 * When an event is removed, a waiting thread may have taken the eventfd unit, or the event, or
 * neither.
 */
static void event_fd_take_back_leaves_descriptor_unreadable(void **state)
{
	struct pollfd pollfd = {.fd = fake.ctx->async_fd, .events = POLLIN};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, fetch_all, NULL), 0);
	for (unsigned int i = 0; i < PASSING_COUNT; i++) {
		struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);

		async_qp_event(to_qp(qp), IBV_EVENT_COMM_EST);
		/* The thread is mostly delayed between taking the unit and the event. */
		pthread_mutex_lock(&fake.context.events_lock);
		while (poll(&pollfd, 1, 0))
			sched_yield();
		pthread_mutex_unlock(&fake.context.events_lock);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		async_port_event(&fake.context, IBV_EVENT_PORT_ACTIVE);
		while (atomic_load(&seen) == i)
			sched_yield();
		fake_expect_no_event(&fake);
		atomic_store(&looked_after, i + 1);
	}
	pthread_join(thread, NULL);
}

static void async_close_later_events_are_dropped(void **state)
{
	(void)state;
	async_close(&fake.context);
	assert_int_equal(fake.ctx->async_fd, -1);
	async_port_event(&fake.context, IBV_EVENT_PORT_ERR);
	async_device_fatal(&fake.context);
	assert_true(list_is_empty(&fake.context.events));
	fake.ctx->async_fd = event_fd_open();
	async_port_event(&fake.context, IBV_EVENT_PORT_ERR);
	async_drop_all(&fake.context);
	assert_true(list_is_empty(&fake.context.events));
	assert_int_equal(event_fd_drain(fake.ctx->async_fd, 1), 0);
}

static void ibv_get_async_event_in_forked_child_fails(void **state)
{
	struct ibv_async_event event;

	(void)state;
	async_port_event(&fake.context, IBV_EVENT_PORT_ERR);
	fake.engine.is_orphan = true;
	errno = 0;
	assert_int_equal(ibv_get_async_event(fake.ctx, &event), -1);
	assert_int_equal(errno, EIO);
	fake.engine.is_orphan = false;
	assert_int_equal(ibv_get_async_event(fake.ctx, &event), 0);
	ibv_ack_async_event(&event);
}

#define ASYNC_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ASYNC_TEST(event_fd_post_and_take_back_keep_count),
		ASYNC_TEST(ibv_get_async_event_returns_events_in_order),
		ASYNC_TEST(ibv_destroy_qp_unacknowledged_event_waits),
		ASYNC_TEST(event_fd_take_back_leaves_descriptor_unreadable),
		ASYNC_TEST(async_close_later_events_are_dropped),
		ASYNC_TEST(ibv_get_async_event_in_forked_child_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
