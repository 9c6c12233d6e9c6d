/* SPDX-License-Identifier: BSD-2-Clause */

/* The behaviour of CQs that the profile rxe changes (docs/adr/0076). */

#include "fake.h"

#include <poll.h>
#include <string.h>

#include "core/queue/cq.h"
#include "profile/profile.h"

static struct fake fake;
static struct profile profile;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;

static int cq_profile_open(void **state)
{
	(void)state;
	fake_open(&fake);
	assert_int_equal(profile_by_name("rxe", strlen("rxe"), &profile), 0);
	channel = ibv_create_comp_channel(fake.ctx);
	assert_non_null(channel);
	cq = ibv_create_cq(fake.ctx, 16, NULL, channel, 0);
	assert_non_null(cq);
	return 0;
}

static int cq_profile_close(void **state)
{
	(void)state;
	fake.device.profile = NULL;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	fake_close(&fake);
	return 0;
}

static void deliver(const struct ibv_wc *wc, bool is_solicited)
{
	engine_lock(&fake.engine);
	cq_push(to_cq(cq), wc, is_solicited);
	engine_unlock(&fake.engine);
}

/* Whether there was an event, which is then acknowledged. */
static bool has_event(void)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *got;
	void *user;

	if (poll(&fd, 1, 0) == 0)
		return false;
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	assert_ptr_equal(got, cq);
	ibv_ack_cq_events(cq, 1);
	return true;
}

static const struct ibv_wc good = {.opcode = IBV_WC_RDMA_READ, .byte_len = 4096};
static const struct ibv_wc failed = {.wr_id = 7,
				     .status = IBV_WC_REM_ACCESS_ERR,
				     .opcode = IBV_WC_RDMA_READ,
				     .vendor_err = 11,
				     .byte_len = 4096,
				     .qp_num = 9};

static void req_notify_cq_unpolled_completion_has_no_event_with_rxe(void **state)
{
	(void)state;
	deliver(&good, false);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_true(has_event());
	fake.device.profile = &profile;
	deliver(&good, false);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_false(has_event());
	deliver(&good, false);
	assert_true(has_event());
}

static void req_notify_cq_solicited_error_has_no_event_with_rxe(void **state)
{
	(void)state;
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	deliver(&failed, false);
	assert_true(has_event());
	fake.device.profile = &profile;
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	deliver(&failed, false);
	assert_false(has_event());
	deliver(&good, true);
	assert_true(has_event());
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	deliver(&failed, false);
	assert_true(has_event());
}

static void poll_cq_error_has_no_details_with_rxe(void **state)
{
	struct ibv_wc bare = failed;
	struct ibv_wc wc[3];

	(void)state;
	deliver(&failed, false);
	fake.device.profile = &profile;
	deliver(&failed, false);
	deliver(&good, false);
	assert_int_equal(ibv_poll_cq(cq, 3, wc), 3);
	assert_memory_equal(&wc[0], &failed, sizeof(failed));
	assert_memory_equal(&wc[2], &good, sizeof(good));
	bare.opcode = IBV_WC_SEND;
	bare.byte_len = 0;
	bare.vendor_err = 0;
	assert_memory_equal(&wc[1], &bare, sizeof(bare));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cq_profile_open, cq_profile_close)
		TEST(req_notify_cq_unpolled_completion_has_no_event_with_rxe),
		TEST(req_notify_cq_solicited_error_has_no_event_with_rxe),
		TEST(poll_cq_error_has_no_details_with_rxe),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
