/* SPDX-License-Identifier: BSD-2-Clause */
#include "polling.h"

#include <fcntl.h>
#include <poll.h>

#define RECEIVES 16

void polling_post(struct polling *polling)
{
	struct ibv_sge sge = sge_of(polling->link.side, 0, 64);

	post_recv_ok(polling->link.side, &sge, 1, 1);
}

void polling_open(struct polling *polling, struct api *api)
{
	struct pair_options options = {.rnr_retry = 7};

	*polling = (struct polling){.channel = ibv_create_comp_channel(api->ctx)};
	assert_non_null(polling->channel);
	assert_int_equal(fcntl(polling->channel->fd, F_SETFL, O_NONBLOCK), 0);
	options.channel = polling->channel;
	link_open(&polling->link, api, PEER_PLAIN, options);
	for (int i = 0; i < RECEIVES; i++)
		polling_post(polling);
	assert_int_equal(ibv_req_notify_cq(polling->link.side->cq, 0), 0);
}

void polling_close(struct polling *polling)
{
	link_close(&polling->link);
	assert_int_equal(ibv_destroy_comp_channel(polling->channel), 0);
}

void polling_take_event(struct polling *polling)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	assert_int_equal(ibv_get_cq_event(polling->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		polling->received++;
		polling_post(polling);
	}
}

bool polling_take(struct polling *polling, int timeout_ms)
{
	struct pollfd fd = {.fd = polling->channel->fd, .events = POLLIN};

	if (poll(&fd, 1, timeout_ms) != 1)
		return false;
	polling_take_event(polling);
	return true;
}

void polling_take_until(struct polling *polling, unsigned int count)
{
	while (polling->received < count)
		assert_true(polling_take(polling, POLLING_LONG_MS));
}
