/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Programs that wait for a completion channel with poll(2): whenever the descriptor is readable,
 * ibv_get_cq_event() returns an event, and no event is lost, whatever becomes of the sender
 * (docs/adr/0064).
 */

#include "polling.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES 2000u
#define ROUNDS	 20
/* Longer than an event usually takes. */
#define SHORT_MS 50

/* The peer sends one message after another until one fails. */
static void storm_open(struct polling *polling, struct api *api)
{
	struct peer_command storm = {.op = PEER_STORM,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED,
				     .length = 64};

	polling_open(polling, api);
	peer_tell(&polling->link.peer, storm);
}

/* The sender's last message fails. */
static void end_storm(struct polling *polling)
{
	assert_int_equal(qp_to_err(polling->link.side->qp), 0);
	while (peer_answer(&polling->link.peer).wc.status == IBV_WC_SUCCESS)
		;
}

/* A completion that is found without an event has one that is late. */
static void take_rest(struct polling *polling)
{
	struct ibv_wc wc;

	do {
		while (polling_take(polling, SHORT_MS))
			;
		if (ibv_poll_cq(polling->link.side->cq, 1, &wc) != 1)
			return;
		polling->received++;
		polling_post(polling);
	} while (polling_take(polling, POLLING_LONG_MS));
	fail_msg("no event for a completion");
}

static void poll_readable_channel_has_event(void **state)
{
	struct polling polling;

	storm_open(&polling, *state);
	polling_take_until(&polling, MESSAGES);
	end_storm(&polling);
	polling_close(&polling);
}

/* The tick of the engine thread executes messages, too. */
static void poll_slow_receiver_has_event_for_each_message(void **state)
{
	struct polling polling;

	storm_open(&polling, *state);
	for (unsigned int i = 1; i < 200; i++) {
		usleep(i % 4 * 500);
		polling_take_until(&polling, i);
	}
	end_storm(&polling);
	polling_close(&polling);
}

static void poll_killed_sender_leaves_no_completion_without_event(void **state)
{
	struct polling polling;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		storm_open(&polling, *state);
		polling_take_until(&polling, 100 + round * 7);
		kill(polling.link.peer.pid, SIGKILL);
		take_rest(&polling);
		polling_close(&polling);
	}
}

static void poll_stopped_sender_leaves_no_completion_without_event(void **state)
{
	struct polling polling;
	int status;

	storm_open(&polling, *state);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		polling_take_until(&polling, polling.received + 100 + round);
		assert_int_equal(kill(polling.link.peer.pid, SIGSTOP), 0);
		assert_int_equal(waitpid(polling.link.peer.pid, &status, WUNTRACED),
				 polling.link.peer.pid);
		take_rest(&polling);
		assert_int_equal(kill(polling.link.peer.pid, SIGCONT), 0);
	}
	end_storm(&polling);
	polling_close(&polling);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_readable_channel_has_event),
		cmocka_unit_test(poll_slow_receiver_has_event_for_each_message),
		cmocka_unit_test(poll_killed_sender_leaves_no_completion_without_event),
		cmocka_unit_test(poll_stopped_sender_leaves_no_completion_without_event),
	};
	int status;

	return peer_main(argc, argv, &status) ?
		       status :
		       cmocka_run_group_tests(tests, api_setup, api_teardown);
}
