/* SPDX-License-Identifier: BSD-2-Clause */
/* Delayed completion events: ibv_modify_cq(). */
#include "fixture.h"

#include <errno.h>
#include <time.h>

#define PATIENCE_MS 40000

/* A pair whose CQs report to a channel. */
struct moderated {
	struct ibv_comp_channel *channel;
	struct pair pair;
};

static void open_pair(struct moderated *m, struct api *api)
{
	struct pair_options options = {0};

	m->channel = ibv_create_comp_channel(api->ctx);
	assert_non_null(m->channel);
	options.channel = m->channel;
	pair_open(&m->pair, api, &options);
}

static void close_pair(struct moderated *m)
{
	pair_close(&m->pair);
	assert_int_equal(ibv_destroy_comp_channel(m->channel), 0);
}

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period_us)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = count, .cq_period = period_us},
	};

	return ibv_modify_cq(cq, &attr);
}

/*
 * One completion in a's CQ, which is polled. Its effect on the channel has occurred before the
 * poll.
 */
static void complete_one(struct moderated *m)
{
	struct ibv_sge sge = sge_of(&m->pair.a, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &m->pair.b, 0, 1);

	post_send_ok(&m->pair.a, &wr);
	wc_expect(m->pair.a.cq, 1, IBV_WC_SUCCESS);
}

static void receive_one(struct moderated *m, bool is_solicited)
{
	struct ibv_sge sge = sge_of(&m->pair.a, 0, 8), recv = sge_of(&m->pair.b, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 1);

	wr.send_flags |= is_solicited ? IBV_SEND_SOLICITED : 0u;
	post_recv_ok(&m->pair.b, &recv, 1, 2);
	post_send_ok(&m->pair.a, &wr);
	wc_expect(m->pair.b.cq, 2, IBV_WC_SUCCESS);
	wc_expect(m->pair.a.cq, 1, IBV_WC_SUCCESS);
}

static void no_event(struct moderated *m)
{
	assert_false(readable_within(m->channel->fd, 0));
}

/* Blocks until the event arrives. */
static void expect_event(struct moderated *m, struct ibv_cq *wanted)
{
	struct ibv_cq *cq;
	void *context;

	assert_true(readable_within(m->channel->fd, PATIENCE_MS));
	assert_int_equal(ibv_get_cq_event(m->channel, &cq, &context), 0);
	assert_ptr_equal(cq, wanted);
	ibv_ack_cq_events(cq, 1);
	no_event(m);
}

static void ibv_modify_cq_moderation_event_after_count(void **state)
{
	struct moderated m;

	open_pair(&m, *state);
	assert_int_equal(moderate(m.pair.a.cq, 3, 0), 0);
	/* Completions before the CQ is armed do not count. */
	complete_one(&m);
	complete_one(&m);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
		complete_one(&m);
		complete_one(&m);
		no_event(&m);
		complete_one(&m);
		expect_event(&m, m.pair.a.cq);
		/* The CQ was not armed again. */
		complete_one(&m);
		complete_one(&m);
		complete_one(&m);
		no_event(&m);
	}
	/* A count of 1 is the same as no moderation. */
	assert_int_equal(moderate(m.pair.a.cq, 1, UINT16_MAX), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
	complete_one(&m);
	expect_event(&m, m.pair.a.cq);
	close_pair(&m);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void ibv_modify_cq_moderation_event_after_period(void **state)
{
	static const uint16_t counts[] = {0, 100, UINT16_MAX};
	const uint16_t period_us = 20000;
	struct moderated m;

	open_pair(&m, *state);
	for (int i = 0; i < 3; i++) {
		uint64_t began_us;

		assert_int_equal(moderate(m.pair.a.cq, counts[i], period_us), 0);
		assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
		/* The period begins with the first completion, not with the arming. */
		assert_false(readable_within(m.channel->fd, 2 * period_us / 1000));
		began_us = now_us();
		complete_one(&m);
		complete_one(&m);
		expect_event(&m, m.pair.a.cq);
		assert_true(now_us() - began_us >= period_us);
	}
	close_pair(&m);
}

static void ibv_modify_cq_moderation_counts_solicited_separately(void **state)
{
	struct moderated m;

	open_pair(&m, *state);
	assert_int_equal(moderate(m.pair.b.cq, 2, 0), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.b.cq, 1), 0);
	receive_one(&m, false);
	receive_one(&m, true);
	receive_one(&m, false);
	no_event(&m);
	receive_one(&m, true);
	expect_event(&m, m.pair.b.cq);
	close_pair(&m);
}

static void ibv_modify_cq_moderation_change_applies_to_pending(void **state)
{
	struct moderated m;

	open_pair(&m, *state);
	assert_int_equal(moderate(m.pair.a.cq, 100, 0), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
	complete_one(&m);
	complete_one(&m);
	assert_int_equal(moderate(m.pair.a.cq, 3, 0), 0);
	no_event(&m);
	assert_int_equal(moderate(m.pair.a.cq, 2, 0), 0);
	expect_event(&m, m.pair.a.cq);
	assert_int_equal(moderate(m.pair.a.cq, 100, 0), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
	complete_one(&m);
	assert_int_equal(moderate(m.pair.a.cq, 100, 1000), 0);
	expect_event(&m, m.pair.a.cq);
	assert_int_equal(moderate(m.pair.a.cq, 100, 0), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
	complete_one(&m);
	assert_int_equal(moderate(m.pair.a.cq, 0, 0), 0);
	expect_event(&m, m.pair.a.cq);
	/* Moderation is off. */
	assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
	complete_one(&m);
	expect_event(&m, m.pair.a.cq);
	close_pair(&m);
}

static void ibv_destroy_cq_moderation_drops_pending_event(void **state)
{
	struct moderated m;

	open_pair(&m, *state);
	assert_int_equal(moderate(m.pair.a.cq, 0, 1), 0);
	assert_int_equal(moderate(m.pair.b.cq, 0, UINT16_MAX), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.a.cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(m.pair.b.cq, 0), 0);
	receive_one(&m, false);
	close_pair(&m);
}

static void ibv_modify_cq_unknown_mask_fails(void **state)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_RESERVED};
	struct ibv_device_attr_ex device;
	struct api *api = *state;
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 8, NULL, NULL, 0);

	assert_int_equal(ibv_query_device_ex(api->ctx, NULL, &device), 0);
	assert_int_equal(device.cq_mod_caps.max_cq_count, UINT16_MAX);
	assert_int_equal(device.cq_mod_caps.max_cq_period, UINT16_MAX);
	assert_non_null(cq);
	assert_int_equal(ibv_modify_cq(cq, &attr), EINVAL);
	attr.attr_mask = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	/* Without a channel moderation has no effect. */
	assert_int_equal(moderate(cq, 3, 10), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_modify_cq_moderation_event_after_count),
		cmocka_unit_test(ibv_modify_cq_moderation_event_after_period),
		cmocka_unit_test(ibv_modify_cq_moderation_counts_solicited_separately),
		cmocka_unit_test(ibv_modify_cq_moderation_change_applies_to_pending),
		cmocka_unit_test(ibv_destroy_cq_moderation_drops_pending_event),
		cmocka_unit_test(ibv_modify_cq_unknown_mask_fails),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
