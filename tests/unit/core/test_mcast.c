/* SPDX-License-Identifier: BSD-2-Clause */

/* Multicast group memberships of QPs, and which QPs get a copy of a datagram. */

#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/mcast.h"
#include "core/queue/datagram.h"

#define IFINDEX 7 /* ifindex of the fake device */
#define QKEY	0x1234u

static const union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
static const union ibv_gid ipv4_group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
static const union ibv_gid other_group = {.raw = {0xff, 0x0e, [15] = 2}};

static struct fake fake;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_qp *ud_qp(uint32_t create_flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.cap = {.max_recv_wr = 4, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = fake.pd,
		.create_flags = create_flags,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(fake.ctx, &attr);

	assert_non_null(qp);
	return qp;
}

static void ibv_attach_mcast_several_qps_join_once(void **state)
{
	struct ibv_qp *a = ud_qp(0), *b = ud_qp(0);

	(void)state;
	assert_int_equal(ibv_attach_mcast(a, &group, 0), 0);
	assert_int_equal(fake_calls.join, 1);
	assert_int_equal(fake_calls.joined_ifindex, IFINDEX);
	assert_memory_equal(&fake_calls.joined, &group, sizeof(group));
	assert_int_equal(ibv_attach_mcast(b, &group, 0), 0);
	assert_int_equal(fake_calls.join, 1);
	assert_int_equal(ibv_attach_mcast(b, &ipv4_group, 0), 0);
	assert_int_equal(fake_calls.join, 2);

	assert_int_equal(ibv_detach_mcast(a, &group, 0), 0);
	assert_int_equal(fake_calls.leave, 0);
	assert_int_equal(ibv_detach_mcast(b, &group, 0), 0);
	assert_int_equal(fake_calls.leave, 1);
	assert_int_equal(fake_calls.left_ifindex, IFINDEX);
	assert_memory_equal(&fake_calls.left, &group, sizeof(group));
	assert_int_equal(ibv_detach_mcast(b, &ipv4_group, 0), 0);
	assert_int_equal(fake_calls.leave, 2);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
}

static void ibv_attach_mcast_twice_has_one_membership(void **state)
{
	struct ibv_qp *qp = ud_qp(0);

	(void)state;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(qp, &group, 3), 0);
	assert_int_equal(fake_calls.join, 1);
	assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(qp, &group, 3), EINVAL);
	assert_int_equal(fake_calls.leave, 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void ibv_attach_mcast_invalid_argument_fails(void **state)
{
	static const union ibv_gid unicast = {.raw = {[10] = 0xff, 0xff, 10, 1, 2, 3}};
	static const union ibv_gid nothing;
	struct ibv_qp *ud = ud_qp(0), *rc = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	assert_int_equal(ibv_attach_mcast(rc, &group, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(rc, &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud, &unicast, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud, &nothing, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(ud, &group, 0), EINVAL);
	assert_int_equal(fake_calls.join, 0);

	fake_calls.join_error = -ENODEV;
	assert_int_equal(ibv_attach_mcast(ud, &group, 0), ENODEV);
	assert_null(fake.engine.mcast);
	fake_calls.join_error = -EOPNOTSUPP;
	assert_int_equal(ibv_attach_mcast(ud, &group, 0), EOPNOTSUPP);
	fake_calls.join_error = 0;
	/* Only one transport is permitted, which does not support the group. */
	fake.engine.only_transport = transports[0];
	assert_int_equal(ibv_attach_mcast(ud, &group, 0), EOPNOTSUPP);
	fake.engine.only_transport = NULL;

	fake.engine.is_fatal = true;
	assert_int_equal(ibv_attach_mcast(ud, &group, 0), EIO);
	fake.engine.is_fatal = false;
	assert_int_equal(fake_calls.join, 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	assert_int_equal(ibv_destroy_qp(rc), 0);
}

static void ibv_destroy_qp_attached_fails_with_ebusy(void **state)
{
	struct ibv_qp *qp = ud_qp(0);

	(void)state;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	/* In every state of the QP and the engine the QP can leave the group. */
	fake.engine.is_fatal = true;
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
	assert_int_equal(fake_calls.leave, 1);
	fake.engine.is_fatal = false;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/*
 * After fork() the membership is the parent's: the child frees its copy and has no socket on which
 * to leave.
 */
static void ibv_detach_mcast_in_forked_child_leaves_no_group(void **state)
{
	struct ibv_qp *qp = ud_qp(0);

	(void)state;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(qp, &ipv4_group, 0), 0);
	fake.engine.is_orphan = true;
	assert_int_equal(ibv_attach_mcast(qp, &other_group, 0), EIO);
	assert_int_equal(ibv_detach_mcast(qp, &group, 0), EIO);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(fake_calls.leave, 0);
	fake.engine.is_orphan = false;
}

/* The requests to the daemon, which owns the receiving socket. */
static struct {
	unsigned int join;
	unsigned int leave;
	int join_error;
	/* a thread destroys and detaches it during the request; NULL: no thread */
	struct ibv_qp *being_attached;
} asked;

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);
int __wrap_ipc_send_in_order(struct ipc_client *client, const void *req, uint32_t req_len,
			     struct ipc_queued *memory);

static void *use_qp(void *arg)
{
	/* Another thread can take engine.lock. */
	assert_int_equal(ibv_destroy_qp(arg), EBUSY);
	assert_int_equal(ibv_detach_mcast(arg, &group, 0), EINVAL);
	return NULL;
}

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	const struct ipc_group *request = req;
	pthread_t user;

	(void)reply;
	assert_ptr_equal(client, &fake.engine.client);
	assert_int_equal(request->hdr.type, IPC_GROUP_JOIN);
	assert_int_equal(req_len, sizeof(*request));
	assert_int_equal(reply_len, sizeof(struct ipc_reply));
	assert_true(!fds && !nfds);
	assert_int_equal(request->ifindex, IFINDEX);
	assert_memory_equal(request->gid, &group, sizeof(group));
	asked.join++;
	if (asked.being_attached) {
		assert_int_equal(pthread_create(&user, NULL, use_qp, asked.being_attached), 0);
		assert_int_equal(pthread_join(user, NULL), 0);
	}
	return asked.join_error;
}

int __wrap_ipc_send_in_order(struct ipc_client *client, const void *req, uint32_t req_len,
			     struct ipc_queued *memory)
{
	const struct ipc_group *request = req;

	assert_ptr_equal(client, &fake.engine.client);
	assert_int_equal(request->hdr.type, IPC_GROUP_LEAVE);
	assert_int_equal(req_len, sizeof(*request));
	assert_int_equal(request->ifindex, IFINDEX);
	assert_memory_equal(request->gid, &group, sizeof(group));
	asked.leave++;
	free(memory);
	return 0;
}

static void daemon_joins_without_the_engine_lock(void **state)
{
	struct ibv_qp *a = ud_qp(0), *b = ud_qp(0);

	(void)state;
	memset(&asked, 0, sizeof(asked));
	fake_calls.join_error = -EREMOTE;
	asked.being_attached = a;
	assert_int_equal(ibv_attach_mcast(a, &group, 0), 0);
	assert_int_equal(asked.join, 1);
	asked.being_attached = NULL;
	assert_int_equal(ibv_attach_mcast(b, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(b, &group, 0), 0);
	assert_int_equal(asked.join, 1);
	assert_int_equal(ibv_detach_mcast(a, &group, 0), 0);
	assert_int_equal(asked.leave, 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_detach_mcast(b, &group, 0), 0);
	assert_int_equal(asked.leave, 1);
	assert_int_equal(fake_calls.leave, 0);
	fake_calls.join_error = 0;
	assert_int_equal(ibv_destroy_qp(b), 0);
}

static void ibv_attach_mcast_daemon_error_is_returned(void **state)
{
	struct ibv_qp *qp = ud_qp(0);

	(void)state;
	memset(&asked, 0, sizeof(asked));
	fake_calls.join_error = -EREMOTE;
	asked.join_error = -EDQUOT;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), EDQUOT);
	assert_null(fake.engine.mcast);
	asked.join_error = -ENODEV;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), ENODEV);
	fake.engine.client.fd = -1;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), EIO);
	fake.engine.client.fd = 0;
	assert_null(fake.engine.mcast);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	/* No membership to leave. */
	assert_int_equal(asked.leave, 0);
	fake_calls.join_error = 0;
}

static union ibv_gid numbered_group(uint32_t number)
{
	union ibv_gid gid = group;

	gid.raw[13] = (uint8_t)(number >> 16);
	gid.raw[14] = (uint8_t)(number >> 8);
	gid.raw[15] = (uint8_t)number;
	return gid;
}

static void ibv_attach_mcast_above_device_limits_fails(void **state)
{
	struct ibv_device_attr attr;
	struct ibv_qp *qp = ud_qp(0), *other = ud_qp(0);
	union ibv_gid gid;

	(void)state;
	assert_int_equal(ibv_query_device(fake.ctx, &attr), 0);
	assert_true(attr.max_mcast_grp > 0);
	assert_true(attr.max_mcast_qp_attach > 0);
	assert_true(attr.max_total_mcast_qp_attach >= attr.max_mcast_grp);
	for (uint32_t i = 0; i < (uint32_t)attr.max_mcast_grp; i++) {
		gid = numbered_group(i);
		assert_int_equal(ibv_attach_mcast(qp, &gid, 0), 0);
	}
	gid = numbered_group((uint32_t)attr.max_mcast_grp);
	assert_int_equal(ibv_attach_mcast(qp, &gid, 0), ENOMEM);
	/* A QP can always join an existing group. */
	gid = numbered_group(0);
	assert_int_equal(ibv_attach_mcast(other, &gid, 0), 0);
	assert_int_equal(ibv_detach_mcast(other, &gid, 0), 0);
	for (uint32_t i = 0; i < (uint32_t)attr.max_mcast_grp; i++) {
		gid = numbered_group(i);
		assert_int_equal(ibv_detach_mcast(qp, &gid, 0), 0);
	}
	assert_int_equal(fake_calls.leave, fake_calls.join);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(other), 0);
}

/* The QPs that got a copy, in order. */
static struct qp *heard[4];
static unsigned int heard_count;

static void hear(struct qp *qp, void *arg)
{
	assert_ptr_equal(arg, &fake);
	heard[heard_count++] = qp;
}

static unsigned int spread(const union ibv_gid *to, uint32_t ifindex, const struct ibv_qp *from,
			   const uint8_t source[16])
{
	const struct mcast_origin origin = {
		.group = to->raw, .source = source, .ifindex = ifindex, .src_qpn = from->qp_num};
	unsigned int count;

	heard_count = 0;
	LOCKED(count = mcast_for_each(&fake.engine, &origin, hear, &fake));
	return count;
}

static void ibv_attach_mcast_members_get_copies(void **state)
{
	static const uint8_t elsewhere[16] = {[15] = 9};
	const uint8_t *own = fake.device.info.gids[0].raw;
	struct ibv_qp *a = ud_qp(0), *b = ud_qp(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);

	(void)state;
	assert_int_equal(spread(&group, IFINDEX, a, own), 0);
	assert_int_equal(ibv_attach_mcast(a, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(b, &group, 0), 0);
	assert_int_equal(spread(&group, IFINDEX, a, own), 2);
	assert_ptr_equal(heard[0], to_qp(a));
	assert_ptr_equal(heard[1], to_qp(b));
	/*
	 * A sender without loopback gets no copy; a QP with the same number elsewhere is a
	 * different QP.
	 */
	assert_int_equal(spread(&group, IFINDEX, b, own), 1);
	assert_ptr_equal(heard[0], to_qp(a));
	assert_int_equal(spread(&group, IFINDEX, b, elsewhere), 2);
	/* Another group, and the same group on another interface. */
	assert_int_equal(spread(&other_group, IFINDEX, a, own), 0);
	assert_int_equal(spread(&group, IFINDEX + 1, a, own), 0);
	assert_int_equal(ibv_detach_mcast(a, &group, 0), 0);
	assert_int_equal(spread(&group, IFINDEX, a, own), 1);
	assert_int_equal(ibv_detach_mcast(b, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
}

static void ibv_create_qp_ex_unsupported_multicast_flags_fail(void **state)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = fake.cq,
		.recv_cq = fake.cq,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = fake.pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};

	(void)state;
	errno = 0;
	assert_null(ibv_create_qp_ex(fake.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.qp_type = IBV_QPT_UD;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_null(ibv_create_qp_ex(fake.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static struct datagram_rx to_group(uint32_t qpn)
{
	struct datagram_rx rx = {
		.dest_qpn = qpn, .src_qpn = 99, .qkey = QKEY, .ifindex = IFINDEX, .payload = "x"};

	memcpy(rx.local_gid, group.raw, sizeof(rx.local_gid));
	return rx;
}

static enum datagram_result deliver(uint32_t qpn, uint32_t qkey, uint32_t ifindex)
{
	struct datagram_rx rx = to_group(qpn);
	enum datagram_result result;

	rx.qkey = qkey;
	rx.ifindex = ifindex;
	LOCKED(result = datagram_deliver(&fake.engine, &rx));
	return result;
}

static void datagram_deliver_to_group_reaches_members_only(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
	struct ibv_qp *ready = ud_qp(0), *early = ud_qp(0);

	(void)state;
	to_rtr(ready);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX), DATAGRAM_UNKNOWN_QPN);
	assert_int_equal(ibv_attach_mcast(ready, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(early, &group, 0), 0);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX + 1), DATAGRAM_UNKNOWN_QPN);
	/* A unicast QPN in a multicast datagram. */
	assert_int_equal(deliver(ready->qp_num, QKEY, IFINDEX), DATAGRAM_UNKNOWN_QPN);
	/*
	 * Each QP has its own reason for the drop; the last one is reported when no QP accepted the
	 * datagram.
	 */
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX), DATAGRAM_QP_STATE);
	to_rtr(early);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY + 1, IFINDEX), DATAGRAM_QKEY);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX), DATAGRAM_NO_RECV);
	assert_int_equal(ibv_post_recv(early, &wr, &bad), 0);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX), DATAGRAM_RECV_TOO_SHORT);
	assert_int_equal(ibv_detach_mcast(ready, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(early, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(ready), 0);
	assert_int_equal(ibv_destroy_qp(early), 0);
}

#define MCAST_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MCAST_TEST(ibv_attach_mcast_several_qps_join_once),
		MCAST_TEST(ibv_attach_mcast_twice_has_one_membership),
		MCAST_TEST(ibv_attach_mcast_invalid_argument_fails),
		MCAST_TEST(ibv_destroy_qp_attached_fails_with_ebusy),
		MCAST_TEST(ibv_detach_mcast_in_forked_child_leaves_no_group),
		MCAST_TEST(ibv_attach_mcast_above_device_limits_fails),
		MCAST_TEST(ibv_attach_mcast_members_get_copies),
		MCAST_TEST(ibv_create_qp_ex_unsupported_multicast_flags_fail),
		MCAST_TEST(datagram_deliver_to_group_reaches_members_only),
		cmocka_unit_test_setup_teardown(daemon_joins_without_the_engine_lock, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ibv_attach_mcast_daemon_error_is_returned, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
