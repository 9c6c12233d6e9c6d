/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Programs that wait for a completion channel with poll(2): whenever the descriptor is readable, ibv_get_cq_event() returns an event, and
 * no event is lost, whatever becomes of the sender (docs/adr/0064).
 */

#include "link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES 2000u
#define RECEIVES 16
#define ROUNDS	 20
/* Longer than an event usually takes, and longer than it takes on a busy machine. */
#define SHORT_MS 50
#define LONG_MS	 60000

struct polling {
	struct link link;
	struct ibv_comp_channel *channel;
	unsigned int received;
};

static void post_one(struct polling *polling)
{
	struct ibv_sge sge = sge_of(polling->link.side, 0, 64);

	post_recv_ok(polling->link.side, &sge, 1, 1);
}

/* The peer sends one message after another until one fails. */
static void polling_open(struct polling *polling, struct api *api)
{
	struct peer_command storm = {.op = PEER_STORM,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED,
				     .length = 64};
	struct pair_options options = {.rnr_retry = 7};

	*polling = (struct polling){.channel = ibv_create_comp_channel(api->ctx)};
	assert_non_null(polling->channel);
	assert_int_equal(fcntl(polling->channel->fd, F_SETFL, O_NONBLOCK), 0);
	options.channel = polling->channel;
	link_open(&polling->link, api, PEER_PLAIN, options);
	for (int i = 0; i < RECEIVES; i++)
		post_one(polling);
	assert_int_equal(ibv_req_notify_cq(polling->link.side->cq, 0), 0);
	peer_tell(&polling->link.peer, storm);
}

static void polling_close(struct polling *polling)
{
	link_close(&polling->link);
	assert_int_equal(ibv_destroy_comp_channel(polling->channel), 0);
}

/* The sender's last message fails. */
static void end_storm(struct polling *polling)
{
	assert_int_equal(qp_to_err(polling->link.side->qp), 0);
	while (peer_answer(&polling->link.peer).wc.status == IBV_WC_SUCCESS)
		;
}

/* Waits for one event and takes all completions. false: no event in this time. */
static bool take(struct polling *polling, int timeout_ms)
{
	struct pollfd fd = {.fd = polling->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (poll(&fd, 1, timeout_ms) != 1)
		return false;
	assert_int_equal(ibv_get_cq_event(polling->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		polling->received++;
		post_one(polling);
	}
	return true;
}

static void take_until(struct polling *polling, unsigned int count)
{
	while (polling->received < count)
		assert_true(take(polling, LONG_MS));
}

/* A completion that is found without an event has one that is late. */
static void take_rest(struct polling *polling)
{
	struct ibv_wc wc;

	do {
		while (take(polling, SHORT_MS))
			;
		if (ibv_poll_cq(polling->link.side->cq, 1, &wc) != 1)
			return;
		polling->received++;
		post_one(polling);
	} while (take(polling, LONG_MS));
	fail_msg("no event for a completion");
}

static void poll_readable_channel_has_event(void **state)
{
	struct polling polling;

	polling_open(&polling, *state);
	take_until(&polling, MESSAGES);
	end_storm(&polling);
	polling_close(&polling);
}

/* The tick of the engine thread executes messages, too. */
static void poll_slow_receiver_has_event_for_each_message(void **state)
{
	struct polling polling;

	polling_open(&polling, *state);
	for (unsigned int i = 1; i < 200; i++) {
		usleep(i % 4 * 500);
		take_until(&polling, i);
	}
	end_storm(&polling);
	polling_close(&polling);
}

static void poll_killed_sender_leaves_no_completion_without_event(void **state)
{
	struct polling polling;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		polling_open(&polling, *state);
		take_until(&polling, 100 + round * 7);
		kill(polling.link.peer.pid, SIGKILL);
		take_rest(&polling);
		polling_close(&polling);
	}
}

static void poll_stopped_sender_leaves_no_completion_without_event(void **state)
{
	struct polling polling;
	int status;

	polling_open(&polling, *state);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		take_until(&polling, polling.received + 100 + round);
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
