/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The last poll before a program waits for its channel with poll(2) spins (docs/adr/0065). Messages
 * that arrive before, during and after it have an event or are found by the poll: the program never
 * sleeps while there is one.
 */

#include "polling.h"

#include <poll.h>
#include <unistd.h>

#define ROUNDS 300u
/* The pauses of the sender are multiples of this, from none up to longer than a spin. */
#define PAUSE_US 45
#define PAUSES	 6u

static struct peer_command message(void)
{
	return (struct peer_command){.op = PEER_SEND,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED,
				     .length = 64};
}

static void expect_sent(struct polling *polling, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(peer_answer(&polling->link.peer).ret, 0);
	for (unsigned int i = 0; i < count; i++)
		(void)peer_wc(&polling->link.peer, 0, IBV_WC_SUCCESS);
}

/* The second message arrives while the poll after the first one spins, or later. */
static void poll_of_armed_cq_misses_no_message(void **state)
{
	struct polling polling;

	polling_open(&polling, *state);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		peer_tell(&polling.link.peer, message());
		usleep(i % PAUSES * PAUSE_US);
		peer_tell(&polling.link.peer, message());
		polling_take_until(&polling, 2 * (i + 1));
		expect_sent(&polling, 2);
	}
	polling_close(&polling);
}

static void take_of_both(struct polling polling[2])
{
	struct pollfd fds[2] = {{.fd = polling[0].channel->fd, .events = POLLIN},
				{.fd = polling[1].channel->fd, .events = POLLIN}};

	assert_true(poll(fds, 2, POLLING_LONG_MS) > 0);
	for (int k = 0; k < 2; k++) {
		if (fds[k].revents)
			polling_take_event(&polling[k]);
	}
}

/*
 * One thread waits for two channels, and one of them has a message while the poll of the other one
 * spins.
 */
static void poll_of_armed_cq_misses_no_message_of_another_channel(void **state)
{
	struct polling polling[2];

	for (int k = 0; k < 2; k++)
		polling_open(&polling[k], *state);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		peer_tell(&polling[i % 2].link.peer, message());
		usleep(i % PAUSES * PAUSE_US);
		peer_tell(&polling[1 - i % 2].link.peer, message());
		while (polling[0].received + polling[1].received < 2 * (i + 1))
			take_of_both(polling);
		for (int k = 0; k < 2; k++)
			expect_sent(&polling[k], 1);
	}
	for (int k = 0; k < 2; k++)
		polling_close(&polling[k]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_of_armed_cq_misses_no_message),
		cmocka_unit_test(poll_of_armed_cq_misses_no_message_of_another_channel),
	};
	int status;

	return peer_main(argc, argv, &status) ?
		       status :
		       cmocka_run_group_tests(tests, api_setup, api_teardown);
}
