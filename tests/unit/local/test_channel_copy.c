/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The copies of the descriptors of completion channels (docs/adr/0064). Node 0 requests them, node
 * 1 sends them.
 */

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../with_locks.h"
#include "base/fdpass.h"
#include "core/engine/engine_watch.h"
#include "core/object/event_fd.h"
#include "descriptors.h"
#include "local/channel_copy.h"
#include "local/channel_wake.h"
#include "local/peer.h"
#include "wake_kit.h"

/* As if node 0 had not received the descriptor. */
static void forget_copies(void)
{
	struct peer *peer = events_peer(&events, 0);

	WITH_LOCKS(peer->engine, local_wakes_close(peer); channel_copies_close(peer));
}

/* A peer can send any descriptor. Units are written to those of eventfds only. */
static void channel_copy_of_other_file_is_refused(void **state)
{
	struct channel_answer answer = {.channel = to_channel(events.channels[1])->number};
	int before, ends[2];

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

static void channel_copy_request_of_other_user_is_refused(void **state)
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

static void channel_copy_request_with_unknown_number_has_no_effect(void **state)
{
	(void)state;
	assert_false(request_channel(0));
	assert_false(request_channel(to_channel(events.channels[1])->number + 1));
	assert_false(request_channel(UINT32_MAX));
}

static void channel_copy_answer_that_was_lost_is_requested_again(void **state)
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

/* Node 0 has a copy already, and closes the second one. */
static void channel_copy_answer_without_request_leaves_no_descriptor(void **state)
{
	int before = count_descriptors();

	(void)state;
	assert_true(request_channel(to_channel(events.channels[1])->number));
	assert_false(events_has_doorbell(&events, 0));
	assert_int_equal(count_descriptors(), before);
}

/*
 * Node 1 sends the message through the doorbell, with copies of the descriptor; node 0 receives it.
 */
static void send_to_sender(const void *message, size_t bytes, int fd, int copies)
{
	struct engine *engine = &events.pair.nodes[0].engine;
	int fds[] = {fd, fd};

	assert_int_equal(fdpass_send(events_peer(&events, 1)->doorbell->fd, message, bytes, fds,
				     copies, MSG_DONTWAIT),
			 0);
	engine_lock(engine);
	engine_watch_dispatch(engine, events_peer(&events, 0)->doorbell_watch);
	engine_unlock(engine);
}

static void channel_copy_answers_beyond_limit_replace_unused_copies(void **state)
{
	int fd = event_fd_open(), before;

	(void)state;
	assert_true(fd >= 0);
	events_send(&events, 0);
	assert_true(get_event());
	assert_int_equal(poll_receiver(), 1);
	before = count_descriptors();
	for (uint32_t i = 0; i < 40; i++) {
		struct channel_answer answer = {.channel = 1000 + i};

		send_to_sender(&answer, sizeof(answer), fd, 1);
	}
	assert_int_equal(count_descriptors(), before + 15);
	/* The copy that is used is still there. */
	events_expect(&events, 1);
	events_sleep(&events, 1);
	events_send(&events, 0);
	assert_true(is_readable());
	assert_true(get_event());
	close(fd);
}

static void peer_read_doorbell_malformed_message_ends_watch(void **state)
{
	static const struct {
		size_t bytes;
		int copies;
	} messages[] = {{2, 0}, {4, 0}, {5, 0}, {1, 1}, {3, 1}, {5, 1}, {4, 2}, {1, 2}};

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		int before = count_descriptors();

		send_to_sender("\1\0\0\0", messages[i].bytes, channel_fd(), messages[i].copies);
		assert_int_equal(events_peer(&events, 0)->doorbell_watch, 0);
		assert_int_equal(count_descriptors(), before);
		wake_kit_teardown(state);
		wake_kit_setup(state);
	}
}

static void channel_copies_of_gone_peer_are_closed(void **state)
{
	int before = count_descriptors();

	(void)state;
	events_send(&events, 0);
	assert_true(get_event());
	forget_copies();
	assert_int_equal(count_descriptors(), before - 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, wake_kit_setup, wake_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(channel_copy_of_other_file_is_refused),
		TEST(channel_copy_request_of_other_user_is_refused),
		TEST(channel_copy_request_with_unknown_number_has_no_effect),
		TEST(channel_copy_answer_that_was_lost_is_requested_again),
		TEST(channel_copy_answer_without_request_leaves_no_descriptor),
		TEST(channel_copy_answers_beyond_limit_replace_unused_copies),
		TEST(peer_read_doorbell_malformed_message_ends_watch),
		TEST(channel_copies_of_gone_peer_are_closed),
	};

	return cmocka_run_group_tests_name("local/channel_copy", tests, NULL, NULL);
}
