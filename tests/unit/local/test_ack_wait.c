/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The doorbell for an ACK waits for the reply of an application that waits for completion events
 * (docs/adr/0063).
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/queue/cq.h"
#include "core/queue/reply_wait.h"
#include "events.h"
#include "local/local.h"

static struct events events;

/* Longer than an ACK waits. */
#define LONG_NS (2 * REPLY_WAIT_NS)

static int setup(void **state)
{
	struct ibv_cq *cq;
	void *context;

	(void)state;
	events_open(&events, false);
	/* The application waits with poll(2). */
	assert_int_equal(fcntl(events.channels[1]->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(events.channels[1], &cq, &context), -1);
	for (int i = 0; i < 4; i++)
		events_post_recv(&events, 1);
	events_post_recv(&events, 0);
	events_sleep(&events, 0);
	events_sleep(&events, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	events_close(&events);
	return 0;
}

static unsigned int poll_receiver(void)
{
	struct ibv_wc wc;

	return (unsigned int)ibv_poll_cq(events.pair.nodes[1].cq, 1, &wc);
}

/* The engine thread of node 1 receives the message. */
static void receive_message(void)
{
	events_send(&events, 0);
	events_sleep(&events, 1);
}

static void local_ack_doorbell_waits_for_reply(void **state)
{
	(void)state;
	receive_message();
	assert_false(events_has_doorbell(&events, 0));
	assert_int_equal(poll_receiver(), 1);
	events_sleep(&events, 1);
	assert_false(events_has_doorbell(&events, 0));
	events_send(&events, 1);
	assert_true(events_has_doorbell(&events, 0));
	assert_false(events_has_doorbell(&events, 0));
}

/* The ACK itself is there. */
static void local_ack_does_not_wait_for_peer_that_polls(void **state)
{
	struct ibv_wc wc;

	(void)state;
	receive_message();
	assert_int_equal(ibv_poll_cq(events.pair.nodes[0].cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void local_ack_doorbell_waits_until_cq_is_empty(void **state)
{
	(void)state;
	receive_message();
	assert_int_equal(poll_receiver(), 1);
	assert_false(events_has_doorbell(&events, 0));
	assert_int_equal(poll_receiver(), 0);
	assert_true(events_has_doorbell(&events, 0));
}

static void local_ack_doorbell_waits_until_next_message(void **state)
{
	(void)state;
	receive_message();
	assert_false(events_has_doorbell(&events, 0));
	receive_message();
	assert_true(events_has_doorbell(&events, 0));
}

static void local_ack_doorbell_waits_until_timer(void **state)
{
	struct engine *engine = &events.pair.nodes[1].engine;

	(void)state;
	receive_message();
	assert_false(events_has_doorbell(&events, 0));
	assert_true(local_of(engine)->ack_timer.is_pending);
	engine_lock(engine);
	timer_expire(&engine->timers, clock_now_ns() + LONG_NS);
	engine_unlock(engine);
	assert_true(events_has_doorbell(&events, 0));
}

static void local_ack_doorbell_waits_until_engine_catches_up(void **state)
{
	struct engine *engine = &events.pair.nodes[1].engine;

	(void)state;
	receive_message();
	engine_lock(engine);
	engine_catch_up(engine);
	engine_unlock(engine);
	assert_true(events_has_doorbell(&events, 0));
}

static void local_ack_doorbell_waits_until_qp_ends(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	receive_message();
	assert_false(events_has_doorbell(&events, 0));
	assert_int_equal(ibv_modify_qp(events.qps[1], &attr, IBV_QP_STATE), 0);
	assert_true(events_has_doorbell(&events, 0));
}

/* The message is executed while the QP is destroyed. */
static void local_ack_doorbell_waits_not_for_destroyed_qp(void **state)
{
	(void)state;
	events_send(&events, 0);
	assert_int_equal(ibv_destroy_qp(events.qps[1]), 0);
	assert_true(events_has_doorbell(&events, 0));
	pair_settle(&events.pair);
	events.qps[1] = pair_create_qp(&events.pair.nodes[1], IBV_QPT_RC, NULL);
}

static void local_nak_doorbell_does_not_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		receive_message();
	while (events_has_doorbell(&events, 0))
		;
	events_sleep(&events, 0);
	while (poll_receiver())
		;
	while (events_has_doorbell(&events, 0))
		;
	events_sleep(&events, 0);
	receive_message();
	assert_true(events_has_doorbell(&events, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_for_reply, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_ack_does_not_wait_for_peer_that_polls, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_until_cq_is_empty, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_until_next_message, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_until_timer, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_until_engine_catches_up,
						setup, teardown),
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_until_qp_ends, setup,
						teardown),
		cmocka_unit_test_setup_teardown(local_ack_doorbell_waits_not_for_destroyed_qp,
						setup, teardown),
		cmocka_unit_test_setup_teardown(local_nak_doorbell_does_not_wait, setup, teardown),
	};

	return cmocka_run_group_tests_name("local/ack_wait", tests, NULL, NULL);
}
