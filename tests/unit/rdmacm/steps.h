/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_RDMACM_STEPS_H
#define USRDMA_TESTS_RDMACM_STEPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "fake_daemon.h"

/*
 * Steps that the tests of ids and events share; each asserts success. Channels are non-blocking:
 * events that the fake daemon pushes are available immediately.
 */
static inline struct rdma_event_channel *channel_open(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	return channel;
}

static inline struct rdma_cm_id *id_open(struct rdma_event_channel *channel, uint64_t *cookie)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	*cookie = fake_daemon_last_cookie();
	return id;
}

static inline struct rdma_cm_event *take(struct rdma_event_channel *channel,
					 enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, type);
	return event;
}

static inline void take_and_ack(struct rdma_event_channel *channel, struct rdma_cm_id *id,
				enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = take(channel, type);

	assert_ptr_equal(event->id, id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static inline void nothing_left(struct rdma_event_channel *channel)
{
	struct pollfd pollfd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	assert_int_equal(poll(&pollfd, 1, 0), 0);
	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static inline struct rdma_cm_event *take_request(struct rdma_event_channel *channel,
						 struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);

	assert_ptr_equal(event->listen_id, listener);
	assert_ptr_not_equal(event->id, listener);
	assert_ptr_equal(event->id->channel, listener->channel);
	assert_ptr_equal(event->id->context, listener->context);
	assert_int_equal(event->id->ps, listener->ps);
	assert_int_equal(event->id->qp_type, listener->qp_type);
	assert_non_null(event->id->verbs);
	return event;
}

#endif
