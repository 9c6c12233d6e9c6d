/* SPDX-License-Identifier: BSD-2-Clause */

/* Which QPs are in which multicast groups, and who gets a copy of a datagram to one. */

#include "fake.h"

#include <errno.h>
#include <string.h>

#include "core/datagram.h"
#include "core/mcast.h"

#define IFINDEX 7 /* of the fake device */
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

static void one_join_for_all_members(void **state)
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

static void twice_is_once(void **state)
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

static void what_cannot_be_attached(void **state)
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
	/* One transport alone may be used, and it is not the one that can. */
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

static void an_attached_qp_stays(void **state)
{
	struct ibv_qp *qp = ud_qp(0);

	(void)state;
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	/* Whatever becomes of the QP or of the engine, it can leave. */
	fake.engine.is_fatal = true;
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
	assert_int_equal(fake_calls.leave, 1);
	fake.engine.is_fatal = false;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* After fork() the group is the parent's: its child frees its copy and has no socket to leave with. */
static void a_childs_copy_leaves_nothing(void **state)
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

static union ibv_gid numbered_group(uint32_t number)
{
	union ibv_gid gid = group;

	gid.raw[13] = (uint8_t)(number >> 16);
	gid.raw[14] = (uint8_t)(number >> 8);
	gid.raw[15] = (uint8_t)number;
	return gid;
}

static void limits_are_what_is_said(void **state)
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
	/* Groups that are there have room. */
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

/* Who was told, in order. */
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

	heard_count = 0;
	return mcast_for_each(&fake.engine, &origin, hear, &fake);
}

static void copies_go_to_members(void **state)
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
	/* The one that does not want to hear itself; a QP of that number elsewhere is another. */
	assert_int_equal(spread(&group, IFINDEX, b, own), 1);
	assert_ptr_equal(heard[0], to_qp(a));
	assert_int_equal(spread(&group, IFINDEX, b, elsewhere), 2);
	/* Another group, and the same one on another interface. */
	assert_int_equal(spread(&other_group, IFINDEX, a, own), 0);
	assert_int_equal(spread(&group, IFINDEX + 1, a, own), 0);
	assert_int_equal(ibv_detach_mcast(a, &group, 0), 0);
	assert_int_equal(spread(&group, IFINDEX, a, own), 1);
	assert_int_equal(ibv_detach_mcast(b, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
}

static void flags_that_do_not_exist(void **state)
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

	rx.qkey = qkey;
	rx.ifindex = ifindex;
	return datagram_deliver(&fake.engine, &rx);
}

static void datagrams_to_a_group(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
	struct ibv_qp *ready = ud_qp(0), *early = ud_qp(0);

	(void)state;
	to_rtr(ready);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX), DATAGRAM_UNKNOWN_QPN);
	assert_int_equal(ibv_attach_mcast(ready, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(early, &group, 0), 0);
	assert_int_equal(deliver(DATAGRAM_QPN_MULTICAST, QKEY, IFINDEX + 1), DATAGRAM_UNKNOWN_QPN);
	/* A QPN that is one QP's, in a datagram that was sent to many. */
	assert_int_equal(deliver(ready->qp_num, QKEY, IFINDEX), DATAGRAM_UNKNOWN_QPN);
	/* Each QP has its own reason; the last one is told when none took it. */
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
		MCAST_TEST(one_join_for_all_members),	  MCAST_TEST(twice_is_once),
		MCAST_TEST(what_cannot_be_attached),	  MCAST_TEST(an_attached_qp_stays),
		MCAST_TEST(a_childs_copy_leaves_nothing), MCAST_TEST(limits_are_what_is_said),
		MCAST_TEST(copies_go_to_members),	  MCAST_TEST(flags_that_do_not_exist),
		MCAST_TEST(datagrams_to_a_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
