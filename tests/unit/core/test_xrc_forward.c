/* SPDX-License-Identifier: BSD-2-Clause */

/* The queue of messages to another process of the host. */

#include "fake.h"

#include <errno.h>
#include <string.h>

#include "core/qp/xrc_forward.h"

#define OTHER	 200u
#define THIRD	 201u
#define SENT_MAX 16

static struct fake fake;
static struct xrc_forward_msg sent[SENT_MAX];
static unsigned int sent_count;
static unsigned int space; /* number of messages for which the carrier has space */
static int send_error;

static int queue_send(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
		      bool may_connect)
{
	assert_int_equal(count, 1);
	if (send_error)
		return send_error;
	if (!space)
		return -EAGAIN;
	space--;
	assert_true(sent_count < SENT_MAX);
	assert_int_equal(xrc_forward_decode(&sent[sent_count], pieces[0].iov_base,
					    (uint32_t)pieces[0].iov_len, engine->slot, slot),
			 0);
	assert_int_equal(may_connect, sent[sent_count].type == XRC_FORWARD_ATTACH);
	sent_count++;
	return 0;
}

static const struct xrc_forward_carrier carrier = {.send = queue_send};

static int set_up(void **state)
{
	(void)state;
	fake_open(&fake);
	fake.engine.xrc_forward.carrier = &carrier;
	engine_lock(&fake.engine);
	sent_count = 0;
	space = 0;
	send_error = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	engine_unlock(&fake.engine);
	fake_close(&fake);
	return 0;
}

static struct xrc_forward_msg detach_of(uint32_t low)
{
	return (struct xrc_forward_msg){.type = XRC_FORWARD_DETACH,
					.qpn = fake.engine.slot << IPC_SLOT_SHIFT | low};
}

static void post_detach(uint32_t slot, uint32_t low)
{
	const struct xrc_forward_msg msg = detach_of(low);

	xrc_forward_post(&fake.engine, slot, &msg);
}

static void post_report(uint32_t slot, uint32_t low, uint32_t burst)
{
	const struct xrc_forward_msg msg = {.type = XRC_FORWARD_REPORT,
					    .qpn = slot << IPC_SLOT_SHIFT | low,
					    .report.burst = burst};

	xrc_forward_post(&fake.engine, slot, &msg);
}

static void post_event(uint32_t slot, uint32_t low, enum ibv_event_type event)
{
	const struct xrc_forward_msg msg = {.type = XRC_REMOTE_EVENT,
					    .qpn = fake.engine.slot << IPC_SLOT_SHIFT | low,
					    .event.event = event};

	xrc_forward_post(&fake.engine, slot, &msg);
}

static void xrc_forward_messages_are_sent_in_order_of_their_posting(void **state)
{
	const struct xrc_forward_msg msg = detach_of(9);

	(void)state;
	post_detach(OTHER, 1);
	post_detach(OTHER, 2);
	post_detach(OTHER, 3);
	space = 2;
	xrc_forward_space(&fake.engine, OTHER);
	assert_int_equal(sent_count, 2);
	/* A message that is sent directly does not overtake a pending message. */
	assert_int_equal(xrc_forward_send(&fake.engine, OTHER, &msg), -EAGAIN);
	space = 2;
	assert_int_equal(xrc_forward_send(&fake.engine, OTHER, &msg), 0);
	assert_int_equal(sent_count, 4);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sent[i].qpn, detach_of(i + 1).qpn);
	assert_int_equal(sent[3].qpn, msg.qpn);
}

static void queue_of_one_process_does_not_delay_another(void **state)
{
	(void)state;
	post_detach(OTHER, 1);
	space = 2;
	post_detach(THIRD, 2);
	assert_int_equal(sent_count, 1);
	xrc_forward_space(&fake.engine, THIRD);
	assert_int_equal(sent_count, 1);
	xrc_forward_space(&fake.engine, OTHER);
	assert_int_equal(sent_count, 2);
}

static void xrc_forward_pending_report_is_replaced_and_event_is_merged(void **state)
{
	(void)state;
	post_report(OTHER, 1, 1);
	post_event(OTHER, 1, IBV_EVENT_COMM_EST);
	post_report(OTHER, 2, 1);
	post_report(OTHER, 1, 2);
	post_event(OTHER, 1, IBV_EVENT_QP_FATAL);
	post_event(OTHER, 1, IBV_EVENT_COMM_EST);
	post_event(OTHER, 2, IBV_EVENT_COMM_EST);
	space = SENT_MAX;
	xrc_forward_space(&fake.engine, OTHER);
	assert_int_equal(sent_count, 5);
	assert_int_equal(sent[0].event.event, IBV_EVENT_COMM_EST);
	assert_int_equal(sent[1].qpn & 0xff, 2);
	assert_int_equal(sent[2].report.burst, 2);
	assert_int_equal(sent[3].event.event, IBV_EVENT_QP_FATAL);
	assert_int_equal(sent[4].qpn & 0xff, 2);
}

static void message_to_unknown_process_is_dropped(void **state)
{
	const struct xrc_forward_msg msg = detach_of(1);

	(void)state;
	post_detach(OTHER, 1);
	send_error = -ENOENT;
	xrc_forward_space(&fake.engine, OTHER);
	assert_true(list_is_empty(&fake.engine.xrc_forward.queues[OTHER].pending));
	assert_int_equal(xrc_forward_send(&fake.engine, OTHER, &msg), -ENOENT);
	assert_int_equal(xrc_forward_send(&fake.engine, IPC_SLOTS, &msg), -ENOENT);
}

static struct counted_waiter {
	struct xrc_forward_waiter waiter;
	unsigned int calls;
	bool waits_again;
} waiter;

static void on_space(struct xrc_forward_waiter *base)
{
	struct counted_waiter *counted = container_of(base, struct counted_waiter, waiter);

	counted->calls++;
	if (counted->waits_again)
		xrc_forward_wait(&fake.engine, OTHER, base);
}

static void xrc_forward_waiter_is_notified_after_pending_messages(void **state)
{
	(void)state;
	memset(&waiter, 0, sizeof(waiter));
	xrc_forward_waiter_init(&waiter.waiter, on_space);
	post_detach(OTHER, 1);
	xrc_forward_wait(&fake.engine, OTHER, &waiter.waiter);
	xrc_forward_space(&fake.engine, OTHER);
	xrc_forward_space(&fake.engine, THIRD);
	assert_int_equal(waiter.calls, 0);
	space = 1;
	waiter.waits_again = true;
	xrc_forward_space(&fake.engine, OTHER);
	assert_int_equal(waiter.calls, 1);
	waiter.waits_again = false;
	xrc_forward_peer_exited(&fake.engine, OTHER);
	assert_int_equal(waiter.calls, 2);
	xrc_forward_space(&fake.engine, OTHER);
	assert_int_equal(waiter.calls, 2);
}

static void exit_of_the_process_discards_its_queue(void **state)
{
	(void)state;
	post_detach(OTHER, 1);
	post_detach(THIRD, 2);
	xrc_forward_peer_exited(&fake.engine, OTHER);
	assert_true(list_is_empty(&fake.engine.xrc_forward.queues[OTHER].pending));
	assert_false(list_is_empty(&fake.engine.xrc_forward.queues[THIRD].pending));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc_forward_messages_are_sent_in_order_of_their_posting),
		TEST(queue_of_one_process_does_not_delay_another),
		TEST(xrc_forward_pending_report_is_replaced_and_event_is_merged),
		TEST(message_to_unknown_process_is_dropped),
		TEST(xrc_forward_waiter_is_notified_after_pending_messages),
		TEST(exit_of_the_process_discards_its_queue),
	};

	return cmocka_run_group_tests_name("core-xrc_forward", tests, NULL, NULL);
}
