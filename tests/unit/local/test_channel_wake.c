/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Direct wake-ups of an application that waits with poll(2) for a completion channel
 * (docs/adr/0064). Node 1 receives.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/object/event_fd.h"
#include "core/queue/cq.h"
#include "local/local.h"
#include "wake_kit.h"

static void direct_wake_adds_one_unit_and_no_doorbell(void **state)
{
	(void)state;
	assert_false(is_readable());
	events_send(&events, 0);
	assert_true(is_readable());
	assert_false(events_has_doorbell(&events, 1));
	assert_true(get_event());
	assert_false(is_readable());
	assert_false(get_event());
	assert_int_equal(poll_receiver(), 1);
}

static void direct_wake_adds_one_unit_for_one_request(void **state)
{
	(void)state;
	events_post_recv(&events, 1);
	events_send(&events, 0);
	events_send(&events, 0);
	assert_false(events_has_doorbell(&events, 1));
	assert_true(get_event());
	assert_false(is_readable());
	assert_int_equal(poll_receiver(), 2);
	/* Again after the application has read the FIFO. */
	events_expect(&events, 1);
	events_send(&events, 0);
	assert_true(is_readable());
	assert_true(get_event());
}

/* The tick of the engine thread comes first. */
static void direct_wake_of_executed_message_has_one_event(void **state)
{
	(void)state;
	events_send(&events, 0);
	events_sleep(&events, 1);
	assert_true(get_event());
	assert_false(is_readable());
	assert_int_equal(poll_receiver(), 1);
}

static void direct_wake_by_message_without_completion_has_event(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	events_send(&events, 0);
	assert_int_equal(ibv_modify_qp(events.qps[1], &attr, IBV_QP_STATE), 0);
	assert_true(is_readable());
	assert_true(get_event());
	while (get_event())
		;
	assert_false(is_readable());
}

/* The first completion of the run generates the event, without a unit; the message brings one. */
static void direct_wake_shares_event_with_completion_before(void **state)
{
	(void)state;
	events_post_recv(&events, 0);
	events_send(&events, 1);
	node_turn(&events.pair.nodes[0]);
	events_send(&events, 0);
	assert_true(get_event());
	assert_false(is_readable());
	assert_int_equal(poll_receiver(), 2);
}

static void direct_wake_that_was_not_added_is_missing_for_two_ticks(void **state)
{
	struct direct_wake *wake = &RECEIVER->engine.direct_wake;

	(void)state;
	events_send(&events, 0);
	/* As if the sender had been killed before. */
	assert_int_equal(event_fd_try(channel_fd()), 0);
	events_sleep(&events, 1);
	wake->check_ns = 0;
	assert_int_equal(rest(), PROGRESS_WAIT_ALL_TICK);
	assert_false(is_readable());
	wake->check_ns = 0;
	assert_int_equal(rest(), PROGRESS_WAIT_ALL_TICK);
	assert_true(is_readable());
	/* An event that the application does not fetch keeps no thread awake. */
	wake->message_ns = 0;
	assert_int_equal(rest(), PROGRESS_WAIT_AGAIN);
	assert_int_equal(rest(), PROGRESS_WAIT_ALL);
	assert_true(get_event());
	assert_false(is_readable());
	assert_int_equal(poll_receiver(), 1);
}

/* The message is executed when direct wake-ups are off, and no other one follows. */
static void direct_wake_after_end_that_was_not_added_is_missing_for_two_ticks(void **state)
{
	struct engine *engine = &RECEIVER->engine;

	(void)state;
	events_send(&events, 0);
	/* As if the sender had been killed before. */
	assert_int_equal(event_fd_try(channel_fd()), 0);
	engine_lock(engine);
	direct_wake_set_external(engine, to_channel(events.channels[1]), false);
	engine->progress.state = PROGRESS_THREAD;
	direct_wake_end(engine);
	engine_unlock(engine);
	events_sleep(&events, 1);
	for (int tick = 0; tick < 2; tick++) {
		assert_false(is_readable());
		engine->direct_wake.check_ns = 0;
		rest();
	}
	assert_true(is_readable());
	assert_int_equal(rest(), PROGRESS_WAIT_ALL);
	assert_true(get_event());
	assert_false(is_readable());
	assert_int_equal(poll_receiver(), 1);
}

static void direct_wake_without_message_is_an_event(void **state)
{
	(void)state;
	event_fd_post(channel_fd(), 1);
	assert_true(get_event());
	assert_false(is_readable());
	assert_int_equal(poll_receiver(), 0);
}

static void direct_wake_without_messages_goes_off(void **state)
{
	struct direct_wake *wake = &RECEIVER->engine.direct_wake;

	(void)state;
	/* The last message arrived long ago, and was seen, whatever time this test takes. */
	wake->messages_seen = wake->messages;
	wake->message_ns = 0;
	assert_int_equal(rest(), PROGRESS_WAIT_AGAIN);
	assert_int_equal(rest(), PROGRESS_WAIT_ALL);
	events_send(&events, 0);
	assert_false(is_readable());
	assert_true(events_has_doorbell(&events, 1));
	pair_settle(&events.pair);
}

static void direct_wake_needs_request_for_any_completion(void **state)
{
	(void)state;
	events_send(&events, 0);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	events_sleep(&events, 1);
	events_post_recv(&events, 1);
	/* No request. */
	events_send(&events, 0);
	assert_true(events_has_doorbell(&events, 1));
	assert_int_equal(poll_receiver(), 1);
	events_post_recv(&events, 1);
	assert_int_equal(ibv_req_notify_cq(RECEIVER->cq, 1), 0);
	events_sleep(&events, 1);
	events_send(&events, 0);
	assert_true(events_has_doorbell(&events, 1));
	assert_false(is_readable());
	pair_settle(&events.pair);
}

static void direct_wake_needs_cq_without_moderation(void **state)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {.cq_count = 4, .cq_period = 1000}};

	(void)state;
	events_send(&events, 0);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	assert_int_equal(ibv_modify_cq(RECEIVER->cq, &attr), 0);
	events_expect(&events, 1);
	events_sleep(&events, 1);
	events_send(&events, 0);
	assert_true(events_has_doorbell(&events, 1));
	assert_false(is_readable());
	pair_settle(&events.pair);
}

/* A process of another user could promise units that it never adds. */
static void direct_wake_promise_of_other_user_does_not_count(void **state)
{
	(void)state;
	events_send(&events, 0);
	assert_int_equal(event_fd_try(channel_fd()), 0);
	events_peer(&events, 1)->may_reach_ours = false;
	events_sleep(&events, 1);
	assert_true(is_readable());
	assert_true(get_event());
	events_peer(&events, 1)->may_reach_ours = true;
}

/*
 * The application waits for the CQ again, with another channel whose descriptor has the same
 * number.
 */
static void direct_wake_goes_to_new_channel(void **state)
{
	struct ibv_context *context = &RECEIVER->context.pub.context;
	int fd = channel_fd();
	int copy = dup(fd);

	(void)state;
	events_send(&events, 0);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	pair_settle(&events.pair);
	assert_int_equal(ibv_destroy_qp(events.qps[1]), 0);
	assert_int_equal(ibv_destroy_cq(RECEIVER->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(events.channels[1]), 0);
	events.channels[1] = ibv_create_comp_channel(context);
	assert_non_null(events.channels[1]);
	assert_int_equal(channel_fd(), fd);
	events_replace(&events);
	wait_for_channel();
	send_by_doorbell();
	events_send(&events, 0);
	assert_true(is_readable());
	assert_false(event_fd_is_readable(copy));
	assert_true(get_event());
	close(copy);
}

/* A unit that was promised for an event of a destroyed CQ never comes, or late. */
static void direct_wake_for_destroyed_cq_does_not_end_other_events(void **state)
{
	(void)state;
	for (int is_late = 0; is_late < 2; is_late++) {
		events_send(&events, 0);
		assert_int_equal(event_fd_try(channel_fd()), 0);
		events_sleep(&events, 1);
		assert_int_equal(ibv_destroy_qp(events.qps[1]), 0);
		assert_int_equal(ibv_destroy_cq(RECEIVER->cq), 0);
		events_replace(&events);
		if (is_late) {
			event_fd_post(channel_fd(), 1);
			assert_true(get_event());
		}
		events_expect(&events, 1);
		events_sleep(&events, 1);
		events_send(&events, 0);
		events_sleep(&events, 1);
		assert_true(is_readable());
		assert_true(get_event());
		assert_int_equal(poll_receiver(), 1);
		events_sleep(&events, 0);
		events_expect(&events, 1);
		events_sleep(&events, 1);
	}
}

/* Each retry would generate an event without a completion. */
static void direct_wake_by_refused_message_is_the_only_one(void **state)
{
	(void)state;
	events_send(&events, 0);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	pair_settle(&events.pair);
	assert_int_equal(ibv_req_notify_cq(RECEIVER->cq, 0), 0);
	events_sleep(&events, 1);
	events_send(&events, 0);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 0);
	assert_int_equal(ibv_req_notify_cq(RECEIVER->cq, 0), 0);
	events_sleep(&events, 1);
	/* RNR, and the receive that makes the sender retry at once. */
	events_sleep(&events, 0);
	events_post_recv(&events, 1);
	events_sleep(&events, 0);
	assert_false(is_readable());
	events_sleep(&events, 1);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
}

/* The place of the CQ is read from memory of the peer, too. */
static void direct_wake_with_invalid_place_rings_doorbell(void **state)
{
	static const uint32_t places[] = {0, SEGMENT_CQS + 1, UINT32_MAX};
	struct segment *segment = local_of(&RECEIVER->engine)->segment;
	const struct segment_qp *entry = segment_qp_entry(segment, events.qps[1]->qp_num);
	uint32_t *place = &segment->qp_usage[entry - segment->qps].recv_cq;

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		*place = places[i];
		events_send(&events, 0);
		assert_true(events_has_doorbell(&events, 1));
		assert_true(is_readable() == (i > 0));
		events_sleep(&events, 1);
		events_post_recv(&events, 1);
	}
	assert_true(get_event());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(direct_wake_adds_one_unit_and_no_doorbell,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_adds_one_unit_for_one_request,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_of_executed_message_has_one_event,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_by_message_without_completion_has_event,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_shares_event_with_completion_before,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(
			direct_wake_that_was_not_added_is_missing_for_two_ticks, wake_kit_setup,
			wake_kit_teardown),
		cmocka_unit_test_setup_teardown(
			direct_wake_after_end_that_was_not_added_is_missing_for_two_ticks,
			wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_without_message_is_an_event,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_without_messages_goes_off,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_needs_request_for_any_completion,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_needs_cq_without_moderation,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_promise_of_other_user_does_not_count,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_goes_to_new_channel, wake_kit_setup,
						wake_kit_teardown),
		cmocka_unit_test_setup_teardown(
			direct_wake_for_destroyed_cq_does_not_end_other_events, wake_kit_setup,
			wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_by_refused_message_is_the_only_one,
						wake_kit_setup, wake_kit_teardown),
		cmocka_unit_test_setup_teardown(direct_wake_with_invalid_place_rings_doorbell,
						wake_kit_setup, wake_kit_teardown),
	};

	return cmocka_run_group_tests_name("local/channel_wake", tests, NULL, NULL);
}
