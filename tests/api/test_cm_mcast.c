/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast by the rdma_cm: which groups an id may join, and the delivery of datagrams to a group.
 */
#include "cm_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define GRH_BYTES 40
#define BYTES	  512
#define GROUP	  "239.78.1.1"
#define GROUP6	  "ff0e::78:1"

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage addr = {0};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		addr.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		addr.ss_family = AF_INET6;
	assert_int_not_equal(addr.ss_family, 0);
	return addr;
}

static int join(struct rdma_cm_id *id, const char *text, void *context)
{
	struct sockaddr_storage addr = address(text);

	return rdma_join_multicast(id, (struct sockaddr *)&addr, context);
}

static int leave(struct rdma_cm_id *id, const char *text)
{
	struct sockaddr_storage addr = address(text);

	return rdma_leave_multicast(id, (struct sockaddr *)&addr);
}

static struct rdma_cm_id *datagram_id(struct rdma_event_channel *channel, const char *local)
{
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	if (!local)
		return id;
	addr = address(local);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
	return id;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

/* An id with a QP and a buffer, a member of the group. */
struct node {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint8_t buf[GRH_BYTES + BYTES];
};

static void node_open(struct node *node, const char *local, const char *group)
{
	const struct rdma_ud_param *param;

	node->id = datagram_id(NULL, local);
	create_qp(node->id);
	node->mr = rdma_reg_msgs(node->id, node->buf, sizeof(node->buf));
	assert_non_null(node->mr);
	assert_int_equal(rdma_post_recv(node->id, node, node->buf, sizeof(node->buf), node->mr), 0);
	assert_int_equal(join(node->id, group, node), 0);
	assert_int_equal(node->id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	param = &node->id->event->param.ud;
	assert_ptr_equal(param->private_data, node);
	assert_int_equal(param->qp_num, 0xffffff);
	assert_int_equal(param->qkey, RDMA_UDP_QKEY);
	assert_int_equal(param->ah_attr.is_global, 1);
	assert_int_equal(param->ah_attr.port_num, node->id->port_num);
	node->ah = ibv_create_ah(node->id->pd, (struct ibv_ah_attr *)&param->ah_attr);
	assert_non_null(node->ah);
}

static void node_close(struct node *node, const char *group)
{
	assert_int_equal(ibv_destroy_ah(node->ah), 0);
	assert_int_equal(ibv_destroy_qp(node->id->qp), EBUSY);
	assert_int_equal(leave(node->id, group), 0);
	assert_minus1_errno(leave(node->id, group), EADDRNOTAVAIL);
	rdma_destroy_qp(node->id);
	assert_int_equal(rdma_dereg_mr(node->mr), 0);
	assert_int_equal(rdma_destroy_id(node->id), 0);
}

static void expect(struct node *node, const struct node *from, uint8_t seed)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(node->id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.src_qp, from->id->qp->qp_num);
	assert_int_equal(wc.byte_len, GRH_BYTES + BYTES);
	assert_ptr_equal((void *)(uintptr_t)wc.wr_id, node);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(node->buf[GRH_BYTES + i], (uint8_t)(seed + i));
}

/* Both are members; one sends, and both receive the datagram. */
static void members_hear(const char *local, const char *group)
{
	static struct node a, b;
	static uint8_t sent[BYTES];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	node_open(&a, local, group);
	node_open(&b, local, group);
	for (int i = 0; i < BYTES; i++)
		sent[i] = (uint8_t)(7 + i);
	mr = rdma_reg_msgs(a.id, sent, sizeof(sent));
	assert_non_null(mr);
	assert_int_equal(rdma_post_ud_send(a.id, &a, sent, sizeof(sent), mr, IBV_SEND_SIGNALED,
					   a.ah, 0xffffff),
			 0);
	assert_int_equal(rdma_get_send_comp(a.id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	expect(&a, &a, 7);
	expect(&b, &a, 7);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	node_close(&a, group);
	node_close(&b, group);
}

static void rdma_join_multicast_loopback_group_receives(void **state)
{
	(void)state;
	members_hear("127.0.0.1", GROUP);
}

/* Uses the addresses of this host on any interface. */
static void rdma_join_multicast_own_addresses_group_receives(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addrs[i];
		const struct sockaddr_in *in = (const struct sockaddr_in *)&addrs[i];
		char text[INET6_ADDRSTRLEN];

		if (addrs[i].ss_family == AF_INET) {
			inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
			members_hear(text, GROUP);
		} else if (!IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)) {
			inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
			members_hear(text, GROUP6);
		}
	}
}

static void rdma_join_multicast_unbound_id_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = datagram_id(channel, NULL), *connected;
	struct sockaddr_storage any = address("0.0.0.0"), loopback = cm_loopback(0);

	(void)state;
	assert_minus1_errno(join(id, GROUP, NULL), EINVAL);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	assert_minus1_errno(join(id, GROUP, NULL), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);

	connected = cm_id(channel);
	assert_int_equal(rdma_bind_addr(connected, (struct sockaddr *)&loopback), 0);
	assert_minus1_errno(join(connected, GROUP, NULL), EINVAL);
	assert_minus1_errno(leave(connected, GROUP), EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(connected), 0);

	id = datagram_id(channel, "127.0.0.1");
	assert_minus1_errno(join(id, "127.0.0.1", NULL), EINVAL);
	assert_minus1_errno(join(id, GROUP6, NULL), EINVAL);
	assert_minus1_errno(join(id, "0.0.0.0", NULL), EINVAL);
	assert_minus1_errno(leave(id, GROUP), EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_resolve_addr_group_uses_device_of_id(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = datagram_id(channel, "127.0.0.1"), *connected = cm_id(channel);
	struct sockaddr_storage group = address(GROUP);
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&group, 2000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_string_equal(ibv_get_device_name(id->verbs->device), "lo");
	assert_int_equal(join(id, GROUP, &group), 0);
	event = cm_get(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->id, id);
	assert_ptr_equal(event->param.ud.private_data, &group);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	/* A connection to a group address fails. */
	assert_int_equal(rdma_resolve_addr(connected, NULL, (struct sockaddr *)&group, 2000), 0);
	cm_fail(channel, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
	assert_int_equal(rdma_destroy_id(connected), 0);
	/* The id is destroyed while it is a member. */
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_multicast_join_attaches_qp(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = datagram_id(channel, "127.0.0.1");
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
	};
	struct sockaddr_storage group = address(GROUP);
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff, 239, 78, 1, 1}};

	(void)state;
	create_qp(id);
	attr.addr = (struct sockaddr *)&group;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), EINVAL);
	assert_int_equal(leave(id, GROUP), 0);

	assert_int_equal(join(id, GROUP, NULL), 0);
	assert_true(cm_readable(channel, 10000));
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), EINVAL);
	cm_pass(channel, id, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), 0);
	/* The application has already left the group with its own call: not an error. */
	assert_int_equal(leave(id, GROUP), 0);

	/*
	 * Left before the join event was read: the event is discarded, and no group was attached.
	 */
	assert_int_equal(join(id, GROUP, NULL), 0);
	assert_true(cm_readable(channel, 10000));
	assert_int_equal(leave(id, GROUP), 0);
	assert_false(cm_readable(channel, 0));
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), EINVAL);

	/* Destroying the QP ends the memberships of its id. */
	assert_int_equal(join(id, GROUP, NULL), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_MULTICAST_JOIN);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_int_equal(leave(id, GROUP), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* The completion of a message is in the CQ when its receiver leaves the group. */
static void rdma_leave_multicast_received_message_completes(void **state)
{
	static uint8_t sent[BYTES];
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct node node;
	struct ibv_wc wc;
	void *context;

	(void)state;
	node_open(&node, "127.0.0.1", GROUP);
	assert_int_equal(ibv_req_notify_cq(node.id->recv_cq, 0), 0);
	mr = rdma_reg_msgs(node.id, sent, sizeof(sent));
	assert_non_null(mr);
	assert_int_equal(rdma_post_ud_send(node.id, NULL, sent, sizeof(sent), mr, IBV_SEND_SIGNALED,
					   node.ah, 0xffffff),
			 0);
	assert_int_equal(rdma_get_send_comp(node.id, &wc), 1);
	assert_int_equal(ibv_get_cq_event(node.id->recv_cq_channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(leave(node.id, GROUP), 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, GRH_BYTES + BYTES);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_ah(node.ah), 0);
	rdma_destroy_qp(node.id);
	assert_int_equal(rdma_dereg_mr(node.mr), 0);
	assert_int_equal(rdma_destroy_id(node.id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_join_multicast_loopback_group_receives),
		cmocka_unit_test(rdma_join_multicast_own_addresses_group_receives),
		cmocka_unit_test(rdma_join_multicast_unbound_id_fails),
		cmocka_unit_test(rdma_resolve_addr_group_uses_device_of_id),
		cmocka_unit_test(rdma_get_cm_event_multicast_join_attaches_qp),
		cmocka_unit_test(rdma_leave_multicast_received_message_completes),
	};

	return cmocka_run_group_tests_name("cm_mcast", tests, NULL, NULL);
}
