/* SPDX-License-Identifier: BSD-2-Clause */

/* Direct wake-ups of an application that waits with poll(2) for a completion channel (docs/adr/0064). Node 1 receives. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "core/cq.h"
#include "core/event_fd.h"
#include "events.h"
#include "local/channel_copy.h"
#include "local/channel_wake.h"

static struct events events;

#define RECEIVER (&events.pair.nodes[1])

static int channel_fd(void)
{
	return events.channels[1]->fd;
}

static bool is_readable(void)
{
	return event_fd_is_readable(channel_fd());
}

/* Returns whether ibv_get_cq_event() has returned an event. It must do so if the descriptor is readable. */
static bool get_event(void)
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

static unsigned int poll_receiver(void)
{
	unsigned int count = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(RECEIVER->cq, 1, &wc) == 1)
		count++;
	return count;
}

static enum direct_wake_rest rest(void)
{
	enum direct_wake_rest rest;

	events_sleep(&events, 1);
	engine_lock(&RECEIVER->engine);
	rest = direct_wake_rest(&RECEIVER->engine);
	engine_unlock(&RECEIVER->engine);
	return rest;
}

/* The application waits with poll(2) from now on. */
static void wait_for_channel(void)
{
	assert_int_equal(fcntl(channel_fd(), F_SETFL, O_NONBLOCK), 0);
	assert_false(get_event());
	events_expect(&events, 1);
	events_sleep(&events, 1);
}

static void send_by_doorbell(void)
{
	events_send(&events, 0);
	assert_false(is_readable());
	assert_true(events_has_doorbell(&events, 1));
	assert_int_equal(rest(), DIRECT_WAKE_TICK);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	pair_settle(&events.pair);
	events_expect(&events, 1);
	events_sleep(&events, 1);
	events_sleep(&events, 0);
}

/* Direct wake-ups are on after the first message. With the second one, the sender requests the descriptor. */
static void turn_on(void)
{
	wait_for_channel();
	send_by_doorbell();
	send_by_doorbell();
}

/* As if node 0 had not received the descriptor. */
static void forget_copies(void)
{
	local_wakes_close(events_peer(&events, 0));
	channel_copies_close(events_peer(&events, 0));
}

static int setup(void **state)
{
	(void)state;
	events_open(&events, true);
	turn_on();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	events_close(&events);
	return 0;
}

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
	assert_int_equal(rest(), DIRECT_WAKE_TICK);
	assert_false(is_readable());
	wake->check_ns = 0;
	assert_int_equal(rest(), DIRECT_WAKE_TICK);
	assert_true(is_readable());
	/* An event that the application does not fetch keeps no thread awake. */
	wake->message_ns = 0;
	assert_int_equal(rest(), DIRECT_WAKE_ENDED);
	assert_int_equal(rest(), DIRECT_WAKE_OFF);
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
	rest();
	wake->message_ns = 0;
	assert_int_equal(rest(), DIRECT_WAKE_ENDED);
	assert_int_equal(rest(), DIRECT_WAKE_OFF);
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

/* The application waits for the CQ again, with another channel whose descriptor has the same number. */
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

static unsigned int count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* The peer sends the descriptor. */
static void direct_wake_writes_to_no_other_file(void **state)
{
	struct channel_answer answer = {.channel = to_channel(events.channels[1])->number};
	unsigned int before;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	forget_copies();
	before = count_descriptors();
	assert_int_equal(fdpass_send(events_peer(&events, 1)->doorbell->fd, &answer, sizeof(answer),
				     &ends[1], 1, MSG_DONTWAIT),
			 0);
	assert_false(events_has_doorbell(&events, 0));
	assert_int_equal(count_descriptors(), before);
	events_send(&events, 0);
	assert_false(is_readable());
	assert_int_equal(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0), 0);
	assert_true(events_has_doorbell(&events, 1));
	pair_settle(&events.pair);
	close(ends[0]);
	close(ends[1]);
}

/* Sends a request of node 0, which node 1 executes. Returns whether the answer is in the socket. */
static bool request_channel(uint32_t number)
{
	struct peer *peer = events_peer(&events, 0);
	char byte;

	channel_copy_request(peer, number);
	node_turn(RECEIVER);
	return recv(peer->doorbell->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

static void channel_request_needs_same_user(void **state)
{
	uint32_t number = to_channel(events.channels[1])->number;
	struct peer *peer = events_peer(&events, 1);
	uint64_t before = peer->counters[LOCAL_BAD_CELLS];

	(void)state;
	peer->may_reach_ours = false;
	assert_false(request_channel(number));
	assert_int_equal(peer->counters[LOCAL_BAD_CELLS], before + 1);
	peer->may_reach_ours = true;
	assert_true(request_channel(number));
	assert_false(events_has_doorbell(&events, 0));
}

static void channel_request_with_unknown_number_has_no_effect(void **state)
{
	(void)state;
	assert_false(request_channel(0));
	assert_false(request_channel(to_channel(events.channels[1])->number + 1));
	assert_false(request_channel(UINT32_MAX));
}

static void channel_answer_that_was_lost_is_requested_again(void **state)
{
	unsigned int answers = 0;

	(void)state;
	forget_copies();
	for (int i = 0; i < 8; i++) {
		char bytes[2];
		ssize_t n;

		events_send(&events, 0);
		events_sleep(&events, 1);
		assert_true(get_event());
		assert_int_equal(poll_receiver(), 1);
		do {
			n = recv(events_peer(&events, 0)->doorbell->fd, bytes, 2, MSG_DONTWAIT);
			answers += n == 2;
		} while (n > 0);
		events_expect(&events, 1);
		events_sleep(&events, 1);
	}
	/* After 1, 2, 4 and 8 messages. */
	assert_int_equal(answers, 4);
}

/* The second one is not kept. */
static void channel_answer_without_request_leaves_no_descriptor(void **state)
{
	unsigned int before = count_descriptors();

	(void)state;
	assert_true(request_channel(to_channel(events.channels[1])->number));
	assert_false(events_has_doorbell(&events, 0));
	assert_int_equal(count_descriptors(), before);
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

static void direct_wake_of_gone_peer_leaves_no_descriptor(void **state)
{
	unsigned int before = count_descriptors();

	(void)state;
	events_send(&events, 0);
	assert_true(get_event());
	forget_copies();
	assert_int_equal(count_descriptors(), before - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(direct_wake_adds_one_unit_and_no_doorbell, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_adds_one_unit_for_one_request, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_of_executed_message_has_one_event,
						setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_by_message_without_completion_has_event,
						setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_shares_event_with_completion_before,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			direct_wake_that_was_not_added_is_missing_for_two_ticks, setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_without_message_is_an_event, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_without_messages_goes_off, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_needs_request_for_any_completion, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_needs_cq_without_moderation, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_promise_of_other_user_does_not_count,
						setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_goes_to_new_channel, setup, teardown),
		cmocka_unit_test_setup_teardown(
			direct_wake_for_destroyed_cq_does_not_end_other_events, setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_by_refused_message_is_the_only_one,
						setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_writes_to_no_other_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(direct_wake_with_invalid_place_rings_doorbell,
						setup, teardown),
		cmocka_unit_test_setup_teardown(direct_wake_of_gone_peer_leaves_no_descriptor,
						setup, teardown),
		cmocka_unit_test_setup_teardown(channel_request_needs_same_user, setup, teardown),
		cmocka_unit_test_setup_teardown(channel_request_with_unknown_number_has_no_effect,
						setup, teardown),
		cmocka_unit_test_setup_teardown(channel_answer_that_was_lost_is_requested_again,
						setup, teardown),
		cmocka_unit_test_setup_teardown(channel_answer_without_request_leaves_no_descriptor,
						setup, teardown),
	};

	return cmocka_run_group_tests_name("local/channel_wake", tests, NULL, NULL);
}
