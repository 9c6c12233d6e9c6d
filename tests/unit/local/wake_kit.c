/* SPDX-License-Identifier: BSD-2-Clause */
#include "wake_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/engine/engine_run.h"
#include "core/object/event_fd.h"
#include "core/queue/cq.h"

struct events events;

int channel_fd(void)
{
	return events.channels[1]->fd;
}

bool is_readable(void)
{
	return event_fd_is_readable(channel_fd());
}

bool get_event(void)
{
	bool was_readable = is_readable();
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(events.channels[1], &cq, &context)) {
		assert_int_equal(errno, EAGAIN);
		assert_false(was_readable);
		return false;
	}
	assert_ptr_equal(cq, RECEIVER->cq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

unsigned int poll_receiver(void)
{
	unsigned int count = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(RECEIVER->cq, 1, &wc) == 1)
		count++;
	return count;
}

enum progress_wait rest(void)
{
	enum progress_wait rest;

	events_sleep(&events, 1);
	engine_lock(&RECEIVER->engine);
	rest = engine_thread_rest(&RECEIVER->engine);
	engine_unlock(&RECEIVER->engine);
	return rest;
}

void wait_for_channel(void)
{
	assert_int_equal(fcntl(channel_fd(), F_SETFL, O_NONBLOCK), 0);
	assert_false(get_event());
	events_expect(&events, 1);
	events_sleep(&events, 1);
}

void send_by_doorbell(void)
{
	events_send(&events, 0);
	assert_false(is_readable());
	assert_true(events_has_doorbell(&events, 1));
	assert_int_equal(rest(), PROGRESS_WAIT_ALL_TICK);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	pair_settle(&events.pair);
	events_expect(&events, 1);
	events_sleep(&events, 1);
	events_sleep(&events, 0);
}

/*
 * Direct wake-ups are on after the first message. With the second one, the sender requests the
 * descriptor.
 */
static void turn_on(void)
{
	wait_for_channel();
	send_by_doorbell();
	send_by_doorbell();
}

int wake_kit_setup(void **state)
{
	(void)state;
	events_open(&events, true);
	turn_on();
	return 0;
}

int wake_kit_teardown(void **state)
{
	(void)state;
	events_close(&events);
	return 0;
}
