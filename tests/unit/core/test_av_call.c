/* SPDX-License-Identifier: BSD-2-Clause */

/* The resolution of address vectors. This file replaces the daemon: ipc_call() is wrapped. */

#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/librdmacm_calls.h"
#include "core/core_notice.h"
#include "profile/profile.h"

/* In one expression, because tests/abi/errnos.py searches for this form. */
#define assert_null_errno(call, error)          \
	do {                                    \
		errno = 0;                      \
		assert_null(call);              \
		assert_int_equal(errno, error); \
	} while (0)

#define LINK_LOCAL_INDEX 1
#define IFINDEX		 7

static struct fake fake;

/* The daemon. */
static struct {
	_Atomic unsigned int requests; /* AV_RESOLVE */
	struct ipc_av_resolve last;
	int status; /* of the reply */
	uint32_t flags;
	uint32_t hop_limit;
	bool resolves_first; /* AV_RESOLVED is received before the reply */
	int error;	     /* in AV_RESOLVED */
} host;

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);

static void push_result(void)
{
	const struct ipc_av_resolved msg = {
		.hdr = {.type = IPC_AV_RESOLVED, .len = sizeof(msg)},
		.serial = host.last.serial,
		.error = host.error,
	};

	engine_lock(&fake.engine);
	engine_dispatch_notice(&fake.engine, &msg.hdr, NULL, 0);
	engine_unlock(&fake.engine);
}

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	struct ipc_av_resolve_reply *resolved = reply;

	(void)client;
	(void)fds;
	(void)nfds;
	/* DEVICE_GET: no further device. */
	if (((const struct ipc_hdr *)req)->type != IPC_AV_RESOLVE)
		return -ENOENT;
	assert_int_equal(req_len, sizeof(host.last));
	assert_int_equal(reply_len, sizeof(*resolved));
	memcpy(&host.last, req, sizeof(host.last));
	host.requests++;
	*resolved = (struct ipc_av_resolve_reply){.flags = host.flags, .hop_limit = host.hop_limit};
	if (host.resolves_first)
		push_result();
	return host.status;
}

static void gid_fill(uint8_t gid[16], uint8_t first, uint8_t second, uint8_t last)
{
	memset(gid, 0, 16);
	gid[0] = first;
	gid[1] = second;
	gid[15] = last;
}

static int av_call_setup(void **state)
{
	(void)state;
	fake_open(&fake);
	fake_route(true);
	memset(&host, 0, sizeof(host));
	engine_lock(&fake.engine);
	assert_int_equal(core_notices_open(&fake.engine), 0);
	engine_unlock(&fake.engine);
	fake.device.info.gid_count = 2;
	gid_fill(fake.device.info.gids[0].raw, 0xfd, 0, 1);
	gid_fill(fake.device.info.gids[LINK_LOCAL_INDEX].raw, 0xfe, 0x80, 1);
	for (int i = 0; i < 2; i++) {
		fake.device.info.gids[i].is_valid = 1;
		fake.device.info.gids[i].ifindex = IFINDEX;
	}
	return 0;
}

static int av_call_teardown(void **state)
{
	(void)state;
	assert_true(list_is_empty(&fake.engine.av_calls.list));
	fake_route(false);
	fake_close(&fake);
	return 0;
}

static struct ibv_ah_attr far_attr(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	gid_fill(attr.grh.dgid.raw, 0xfd, 0, 99);
	return attr;
}

static void creates(struct ibv_ah_attr attr)
{
	struct ibv_ah *ah = ibv_create_ah(fake.pd, &attr);

	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void ibv_create_ah_sends_one_request_with_both_gids(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	creates(attr);
	assert_int_equal(host.requests, 1);
	assert_int_equal(host.last.ifindex, IFINDEX);
	assert_int_equal(host.last.flags, 0);
	assert_memory_equal(host.last.sgid, fake.device.info.gids[0].raw, 16);
	assert_memory_equal(host.last.dgid, attr.grh.dgid.raw, 16);
}

static void ibv_create_ah_reports_error_of_kernel(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	host.status = -ENETUNREACH;
	assert_null_errno(ibv_create_ah(fake.pd, &attr), ENETUNREACH);
	assert_int_equal(fake_calls.ah_open, 0);
}

static void ibv_create_ah_above_limit_fails_with_eagain(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	host.status = -EDQUOT;
	assert_null_errno(ibv_create_ah(fake.pd, &attr), EAGAIN);
}

static void ibv_create_ah_result_before_reply_is_used(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	host.flags = IPC_AV_WAITS;
	host.resolves_first = true;
	creates(attr);
	host.error = -ETIMEDOUT;
	assert_null_errno(ibv_create_ah(fake.pd, &attr), ETIMEDOUT);
}

/* Waits until the other thread has sent its request. */
static void wait_for_call(void)
{
	bool has_call = false;

	while (!has_call) {
		sched_yield();
		engine_lock(&fake.engine);
		has_call = host.requests && !list_is_empty(&fake.engine.av_calls.list);
		engine_unlock(&fake.engine);
	}
}

static void *push_later(void *arg)
{
	wait_for_call();
	push_result();
	return arg;
}

static void ibv_create_ah_waits_for_result(void **state)
{
	struct ibv_ah_attr attr = far_attr();
	pthread_t thread;

	(void)state;
	host.flags = IPC_AV_WAITS;
	host.error = -EHOSTUNREACH;
	assert_int_equal(pthread_create(&thread, NULL, push_later, NULL), 0);
	assert_null_errno(ibv_create_ah(fake.pd, &attr), EHOSTUNREACH);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *end_daemon(void *arg)
{
	wait_for_call();
	engine_lock(&fake.engine);
	fake.engine.is_fatal = true;
	av_calls_end(&fake.engine);
	engine_unlock(&fake.engine);
	return arg;
}

static void ibv_create_ah_fails_if_daemon_ends_during_wait(void **state)
{
	struct ibv_ah_attr attr = far_attr();
	pthread_t thread;

	(void)state;
	host.flags = IPC_AV_WAITS;
	assert_int_equal(pthread_create(&thread, NULL, end_daemon, NULL), 0);
	assert_null_errno(ibv_create_ah(fake.pd, &attr), EIO);
	assert_int_equal(pthread_join(thread, NULL), 0);
	fake.engine.is_fatal = false;
}

/* The engine thread has not received the end of the notices yet. */
static void ibv_create_ah_fails_if_connection_is_lost(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	host.status = -ENODEV;
	fake.engine.client.fd = -1;
	assert_null_errno(ibv_create_ah(fake.pd, &attr), EIO);
	/* The daemon knows no device for the route. */
	fake.engine.client.fd = 0;
	assert_null_errno(ibv_create_ah(fake.pd, &attr), ENODEV);
}

static void ibv_create_ah_resolves_link_local_only_with_roce_v2(void **state)
{
	struct ibv_ah_attr attr = far_attr();
	struct profile profile;

	(void)state;
	assert_int_equal(profile_by_name("connectx-6", strlen("connectx-6"), &profile), 0);
	fake.device.profile = &profile;
	gid_fill(attr.grh.dgid.raw, 0xfe, 0x80, 99);
	/* The entries of the link-local GID: RoCE v1, then RoCE v2. */
	attr.grh.sgid_index = 2 * LINK_LOCAL_INDEX;
	creates(attr);
	assert_int_equal(host.requests, 0);
	attr.grh.sgid_index++;
	creates(attr);
	assert_int_equal(host.requests, 1);
	fake.device.profile = NULL;
}

static void ibv_create_ah_without_need_sends_no_request(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	host.status = -ENETUNREACH;
	/* A multicast group. */
	gid_fill(attr.grh.dgid.raw, 0xff, 0x0e, 1);
	creates(attr);
	fake_route(false); /* as with USRDMA_TRANSPORT=local */
	creates(far_attr());
	fake_route(true);
	/* UDP port 4791 is in use. */
	fake.engine.client.hello.wire_errno = EADDRINUSE;
	creates(far_attr());
	assert_int_equal(host.requests, 0);
}

static void ibv_modify_qp_to_unreachable_peer_stays_in_init(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = fake_attr(IBV_QPS_RTR);
	int mask = fake_mask(IBV_QPT_RC, IBV_QPS_RTR);

	(void)state;
	fake_walk(qp, IBV_QPS_INIT);
	attr.ah_attr = far_attr();
	host.status = -EDQUOT;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), EAGAIN);
	host.status = -ENETUNREACH;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), ENETUNREACH);
	host.status = -EHOSTUNREACH;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), EHOSTUNREACH);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(fake_calls.bind, 0);
	host.status = 0;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	assert_int_equal(qp->state, IBV_QPS_RTR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static uint8_t hop_limit_of_ah(struct ibv_ah_attr attr, uint8_t hop_limit)
{
	struct ibv_ah *ah;

	attr.grh.hop_limit = hop_limit;
	ah = ibv_create_ah(fake.pd, &attr);
	assert_non_null(ah);
	/* The caller's struct is not changed. */
	assert_int_equal(attr.grh.hop_limit, hop_limit);
	hop_limit = to_ah(ah)->attr.grh.hop_limit;
	assert_int_equal(ibv_destroy_ah(ah), 0);
	return hop_limit;
}

static void ibv_create_ah_uses_hop_limit_of_route(void **state)
{
	struct ibv_ah_attr attr = far_attr();

	(void)state;
	host.hop_limit = 33;
	assert_int_equal(hop_limit_of_ah(attr, 1), 33);
	/* An address of this host, as the daemon knows and as the library knows. */
	host.hop_limit = 0;
	host.flags = IPC_AV_IS_LOCAL;
	assert_int_equal(hop_limit_of_ah(attr, 1), 64);
	memcpy(attr.grh.dgid.raw, fake.device.info.gids[0].raw, 16);
	assert_int_equal(hop_limit_of_ah(attr, 1), 64);
	/* Linux does not resolve multicast groups. */
	gid_fill(attr.grh.dgid.raw, 0xff, 0x0e, 1);
	assert_int_equal(hop_limit_of_ah(attr, 7), 7);
}

static void ibv_query_qp_reports_hop_limit_of_route(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = fake_attr(IBV_QPS_RTR);
	struct ibv_qp_init_attr init;

	(void)state;
	fake_walk(qp, IBV_QPS_INIT);
	attr.ah_attr = far_attr();
	attr.ah_attr.grh.hop_limit = 1;
	host.hop_limit = 33;
	assert_int_equal(ibv_modify_qp(qp, &attr, fake_mask(IBV_QPT_RC, IBV_QPS_RTR)), 0);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 1);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 33);
	/*
	 * In SQD only an unchanged path is accepted. The hop limit is compared with the one that
	 * the caller has set, which is 1, and not with that of the route.
	 */
	assert_int_equal(fake_modify(qp, IBV_QPS_RTS), 0);
	assert_int_equal(fake_modify(qp, IBV_QPS_SQD), 0);
	attr.ah_attr.grh.hop_limit = 1;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_AV), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void usrdma_modify_qp_requests_only_the_route(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	struct ibv_qp_attr attr = fake_attr(IBV_QPS_RTR);

	(void)state;
	fake_walk(qp, IBV_QPS_INIT);
	attr.ah_attr = far_attr();
	assert_int_equal(usrdma_modify_qp(qp, &attr, fake_mask(IBV_QPT_RC, IBV_QPS_RTR)), 0);
	assert_int_equal(host.requests, 1);
	assert_int_equal(host.last.flags, IPC_AV_ROUTE_ONLY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, av_call_setup, av_call_teardown)
		TEST(ibv_create_ah_sends_one_request_with_both_gids),
		TEST(ibv_create_ah_reports_error_of_kernel),
		TEST(ibv_create_ah_above_limit_fails_with_eagain),
		TEST(ibv_create_ah_result_before_reply_is_used),
		TEST(ibv_create_ah_waits_for_result),
		TEST(ibv_create_ah_fails_if_daemon_ends_during_wait),
		TEST(ibv_create_ah_fails_if_connection_is_lost),
		TEST(ibv_create_ah_resolves_link_local_only_with_roce_v2),
		TEST(ibv_create_ah_without_need_sends_no_request),
		TEST(ibv_modify_qp_to_unreachable_peer_stays_in_init),
		TEST(ibv_create_ah_uses_hop_limit_of_route),
		TEST(ibv_query_qp_reports_hop_limit_of_route),
		TEST(usrdma_modify_qp_requests_only_the_route),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
