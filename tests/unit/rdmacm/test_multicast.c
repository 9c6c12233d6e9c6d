/* SPDX-License-Identifier: BSD-2-Clause */

/* Joining and leaving multicast groups: events, the attached QP, and errors. */

#include "steps.h"

#include <infiniband/ib.h>
#include <pthread.h>
#include <string.h>

#define CONTEXT ((void *)0xc0ffee)
#define QPN	0xffffffu
#define QKEY	0x01234567u

static const uint8_t group_gid[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static uint64_t cookie;

static struct sockaddr *group(void)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010203)};
	return (struct sockaddr *)&addr;
}

static struct sockaddr *other_group(void)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010204)};
	return (struct sockaddr *)&addr;
}

/* An id that is bound to the fake device. */
static int setup(void **state)
{
	(void)state;
	channel = channel_open();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	cookie = fake_daemon_last_cookie();
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_RESOLVED);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	fake_mcast_calls();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake_daemon_ids(), 0);
	return 0;
}

static void create_qp(struct rdma_cm_id *of)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};

	assert_int_equal(rdma_create_qp(of, NULL, &attr), 0);
}

static void push_outcome(uint64_t join_cookie, uint32_t type, int status)
{
	struct ipc_cm_event event = {
		.cookie = cookie,
		.event = type,
		.status = status,
		.join_cookie = join_cookie,
		.route = {.sgid_index = 3, .hop_limit = 64, .traffic_class = 0x28},
		.param = {.qp_num = QPN, .qkey = QKEY, .qp_type = IBV_QPT_UD},
	};

	memcpy(event.route.dgid, group_gid, sizeof(group_gid));
	fake_daemon_push(&event);
}

static int join(uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags,
		.addr = group(),
	};

	return rdma_join_multicast_ex(id, &attr, CONTEXT);
}

#define FAILS(call, error)                      \
	do {                                    \
		errno = 0;                      \
		assert_int_equal(call, -1);     \
		assert_int_equal(errno, error); \
	} while (0)

static void check_param(const struct rdma_ud_param *param)
{
	assert_ptr_equal(param->private_data, CONTEXT);
	assert_int_equal(param->private_data_len, 0);
	assert_int_equal(param->qp_num, QPN);
	assert_int_equal(param->qkey, QKEY);
	assert_int_equal(param->ah_attr.is_global, 1);
	assert_int_equal(param->ah_attr.port_num, 1);
	assert_int_equal(param->ah_attr.grh.sgid_index, 3);
	assert_int_equal(param->ah_attr.grh.hop_limit, 64);
	assert_int_equal(param->ah_attr.grh.traffic_class, 0x28);
	assert_memory_equal(param->ah_attr.grh.dgid.raw, group_gid, sizeof(group_gid));
}

static void rdma_join_multicast_attaches_qp_until_leave(void **state)
{
	struct rdma_cm_event *event;
	struct fake_mcast mcast;

	(void)state;
	create_qp(id);
	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	nothing_left(channel);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(fake_mcast_calls().attached, 0);
	event = take(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->id, id);
	assert_int_equal(event->status, 0);
	check_param(&event->param.ud);
	mcast = fake_mcast_calls();
	assert_int_equal(mcast.attached, 1);
	assert_ptr_equal(mcast.qp, id->qp);
	assert_memory_equal(&mcast.group, group_gid, sizeof(group_gid));
	assert_int_equal(rdma_ack_cm_event(event), 0);

	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	mcast = fake_mcast_calls();
	assert_int_equal(mcast.detached, 1);
	assert_ptr_equal(mcast.qp, id->qp);
	assert_memory_equal(&mcast.group, group_gid, sizeof(group_gid));
	FAILS(rdma_leave_multicast(id, group()), EADDRNOTAVAIL);
	rdma_destroy_qp(id);
}

static void rdma_join_multicast_without_qp_attaches_nothing(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(join(RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	event = take(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	check_param(&event->param.ud);
	rdma_ack_cm_event(event);
	create_qp(id);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);

	assert_int_equal(join(RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	event = take(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	check_param(&event->param.ud);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	assert_int_equal(fake_mcast_calls().attached, 0);
	assert_int_equal(fake_mcast_calls().detached, 0);
	rdma_destroy_qp(id);
}

static void rdma_join_multicast_gid_address_joins_group(void **state)
{
	struct sockaddr_ib addr = {.sib_family = AF_IB};
	struct sockaddr *sa = (struct sockaddr *)&addr;

	(void)state;
	memcpy(&addr.sib_addr, group_gid, sizeof(group_gid));
	assert_int_equal(rdma_join_multicast(id, sa, CONTEXT), 0);
	assert_int_equal(fake_daemon_last_group().ss_family, AF_INET);
	assert_int_equal(rdma_leave_multicast(id, group()) == -1 && errno == EADDRNOTAVAIL, 1);
	assert_int_equal(rdma_leave_multicast(id, sa), 0);
	memset(&addr.sib_addr, 0xff, sizeof(addr.sib_addr));
	assert_int_equal(rdma_join_multicast(id, sa, CONTEXT), 0);
	assert_int_equal(fake_daemon_last_group().ss_family, AF_INET6);
	assert_int_equal(rdma_leave_multicast(id, sa), 0);
}

static void rdma_join_multicast_failure_is_reported_as_event(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	create_qp(id);
	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_ERROR, -ENETDOWN);
	event = take(channel, RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_int_equal(event->status, -ENETDOWN);
	assert_ptr_equal(event->param.ud.private_data, CONTEXT);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);

	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	fake_mcast_fail(ENOMEM);
	event = take(channel, RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_int_equal(event->status, -ENOMEM);
	assert_ptr_equal(event->param.ud.private_data, CONTEXT);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	assert_int_equal(fake_mcast_calls().detached, 0);
	rdma_destroy_qp(id);
}

static void rdma_join_multicast_invalid_argument_fails(void **state)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.addr = group(),
	};
	struct sockaddr none = {.sa_family = AF_UNIX};

	(void)state;
	FAILS(rdma_join_multicast(NULL, group(), NULL), EINVAL);
	FAILS(rdma_join_multicast(id, NULL, NULL), EINVAL);
	FAILS(rdma_join_multicast(id, &none, NULL), EINVAL);
	FAILS(rdma_leave_multicast(NULL, group()), EINVAL);
	FAILS(rdma_leave_multicast(id, NULL), EINVAL);
	FAILS(rdma_leave_multicast(id, &none), EINVAL);
	FAILS(rdma_leave_multicast(id, group()), EADDRNOTAVAIL);
	FAILS(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), ENOTSUP);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	FAILS(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	FAILS(join(RDMA_MC_JOIN_FLAG_RESERVED), EINVAL);
	fake_daemon_fail(IPC_CM_JOIN, -EINVAL);
	FAILS(join(RDMA_MC_JOIN_FLAG_FULLMEMBER), EINVAL);
	FAILS(rdma_leave_multicast(id, group()), EADDRNOTAVAIL);
}

/* The event is still in the socket, with events of other ids before and after it. */
static void rdma_leave_multicast_removes_unread_event(void **state)
{
	uint64_t first, second;

	(void)state;
	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	first = fake_daemon_last_join();
	assert_int_equal(rdma_join_multicast(id, other_group(), CONTEXT), 0);
	second = fake_daemon_last_join();
	assert_int_not_equal(first, second);
	push_outcome(first, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	nothing_left(channel);
	push_outcome(second, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_int_equal(rdma_leave_multicast(id, other_group()), 0);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_CHANGE);
	nothing_left(channel);
}

/* Of equal memberships the newest is left first; each has its own event and context. */
static void rdma_leave_multicast_two_joins_ends_newest(void **state)
{
	struct rdma_cm_event *event;
	int contexts[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdma_join_multicast(id, group(), &contexts[i]), 0);
		push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	}
	for (int i = 0; i < 2; i++) {
		event = take(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
		assert_ptr_equal(event->param.ud.private_data, &contexts[i]);
		rdma_ack_cm_event(event);
	}
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	FAILS(rdma_leave_multicast(id, group()), EADDRNOTAVAIL);
}

static void *leave_group(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)rdma_leave_multicast(id, group());
}

static void rdma_leave_multicast_unacknowledged_event_waits(void **state)
{
	struct rdma_cm_event *event;
	pthread_t thread;
	void *left;

	(void)state;
	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	event = take(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(pthread_create(&thread, NULL, leave_group, NULL), 0);
	while (!fake_daemon_requests(IPC_CM_LEAVE))
		sched_yield();
	/* The context is still the application's. */
	assert_ptr_equal(event->param.ud.private_data, CONTEXT);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(pthread_join(thread, &left), 0);
	assert_null(left);
}

/* A QP in a group cannot be destroyed: it is detached first. The membership stays. */
static void rdma_destroy_qp_detaches_from_group(void **state)
{
	struct ibv_qp *qp;
	struct fake_mcast mcast;

	(void)state;
	create_qp(id);
	qp = id->qp;
	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	take_and_ack(channel, id, RDMA_CM_EVENT_MULTICAST_JOIN);
	fake_mcast_calls();
	rdma_destroy_qp(id);
	mcast = fake_mcast_calls();
	assert_int_equal(mcast.detached, 1);
	assert_ptr_equal(mcast.qp, qp);
	assert_int_equal(rdma_leave_multicast(id, group()), 0);
	assert_int_equal(fake_mcast_calls().detached, 0);
}

static void rdma_destroy_id_leaves_groups(void **state)
{
	(void)state;
	assert_int_equal(rdma_join_multicast(id, group(), CONTEXT), 0);
	assert_int_equal(rdma_join_multicast(id, other_group(), CONTEXT), 0);
	push_outcome(fake_daemon_last_join(), RDMA_CM_EVENT_MULTICAST_JOIN, 0);
}

/* A join event without a join. */
static void rdma_get_cm_event_join_event_without_join_is_dropped(void **state)
{
	(void)state;
	push_outcome(77, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	push_outcome(0, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	push_outcome(0, RDMA_CM_EVENT_MULTICAST_ERROR, 0);
	FAILS(rdma_get_cm_event(channel, &(struct rdma_cm_event *){NULL}), EAGAIN);
}

static void rdma_join_multicast_synchronous_id_waits_for_event(void **state)
{
	struct rdma_cm_id *sync;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_UDP), 0);
	fake_daemon_answer_joins(RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(rdma_join_multicast(sync, group(), CONTEXT), 0);
	assert_non_null(sync->event);
	assert_int_equal(sync->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(sync->event->param.ud.private_data, CONTEXT);
	/* On a synchronous id only the library can acknowledge the event. */
	assert_int_equal(rdma_leave_multicast(sync, group()), 0);
	assert_null(sync->event);

	fake_daemon_answer_joins(RDMA_CM_EVENT_MULTICAST_ERROR);
	FAILS(rdma_join_multicast(sync, group(), CONTEXT), EIO);
	assert_int_equal(rdma_leave_multicast(sync, group()), 0);
	fake_daemon_answer_joins(0);
	assert_int_equal(rdma_destroy_id(sync), 0);
}

static int end(void **state)
{
	(void)state;
	fake_daemon_kill();
	return 0;
}

#define MC_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MC_TEST(rdma_join_multicast_attaches_qp_until_leave),
		MC_TEST(rdma_join_multicast_without_qp_attaches_nothing),
		MC_TEST(rdma_join_multicast_gid_address_joins_group),
		MC_TEST(rdma_join_multicast_failure_is_reported_as_event),
		MC_TEST(rdma_join_multicast_invalid_argument_fails),
		MC_TEST(rdma_leave_multicast_removes_unread_event),
		MC_TEST(rdma_leave_multicast_two_joins_ends_newest),
		MC_TEST(rdma_leave_multicast_unacknowledged_event_waits),
		MC_TEST(rdma_destroy_qp_detaches_from_group),
		MC_TEST(rdma_destroy_id_leaves_groups),
		MC_TEST(rdma_get_cm_event_join_event_without_join_is_dropped),
		MC_TEST(rdma_join_multicast_synchronous_id_waits_for_event),
	};

	return cmocka_run_group_tests_name("multicast", tests, NULL, end);
}
