/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids of datagram QPs: the contents of their events, and the transitions of their QP. */
#include <string.h>

#include "steps.h"

static struct rdma_cm_id *datagram_id(struct rdma_event_channel *channel, uint64_t *cookie)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	*cookie = fake_daemon_last_cookie();
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	return id;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1}};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static void rdma_create_qp_ud_is_in_rts(void **state)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD};
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *id = datagram_id(channel, &cookie);

	(void)state;
	fake_daemon_push_type(cookie, RDMA_CM_EVENT_ADDR_RESOLVED);
	take_and_ack(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	/* Whichever transition fails, no object is left. */
	for (int failing = IBV_QPS_INIT; failing <= IBV_QPS_RTS; failing++) {
		fake_qp_fail(failing);
		errno = 0;
		assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
		assert_int_equal(errno, EIO);
		assert_null(id->qp);
		assert_null(id->send_cq);
		fake_qp_moves();
	}
	create_qp(id);
	assert_string_equal(fake_qp_moves(), "IRS");
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_ud_established_has_address_attributes(void **state)
{
	struct ipc_cm_event msg = {
		.event = RDMA_CM_EVENT_ESTABLISHED,
		.route = {.has_path = 1,
			  .dgid = {[0] = 0xfd, [15] = 9},
			  .sgid_index = 3,
			  .flow_label = 0x12345,
			  .hop_limit = 64,
			  .traffic_class = 0x20,
			  .sl = 2,
			  .rate = IBV_RATE_10_GBPS},
		.param = {.qp_num = 77, .qkey = 0xabcd, .private_len = 136, .private_data = "hello"},
	};
	struct rdma_event_channel *channel = channel_open();
	const struct rdma_ud_param *ud;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	id = datagram_id(channel, &msg.cookie);
	msg.event = RDMA_CM_EVENT_ROUTE_RESOLVED;
	fake_daemon_push(&msg);
	take_and_ack(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	msg.event = RDMA_CM_EVENT_ESTABLISHED;
	fake_daemon_push(&msg);
	event = take(channel, RDMA_CM_EVENT_ESTABLISHED);
	ud = &event->param.ud;
	assert_int_equal(ud->qp_num, 77);
	assert_int_equal(ud->qkey, 0xabcd);
	assert_int_equal(ud->private_data_len, 136);
	assert_string_equal(ud->private_data, "hello");
	assert_int_equal(ud->ah_attr.is_global, 1);
	assert_int_equal(ud->ah_attr.port_num, id->port_num);
	assert_memory_equal(ud->ah_attr.grh.dgid.raw, id->route.addr.addr.ibaddr.dgid.raw, 16);
	rdma_ack_cm_event(event);
	nothing_left(channel);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_get_cm_event_ud_unreachable_has_private_data(void **state)
{
	struct ipc_cm_event msg = {
		.event = RDMA_CM_EVENT_UNREACHABLE,
		.status = 2,
		.param = {.private_len = 136, .private_data = "no"},
	};
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	id = datagram_id(channel, &msg.cookie);
	fake_daemon_push(&msg);
	event = take(channel, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event->status, 2);
	assert_int_equal(event->param.ud.private_data_len, 136);
	assert_string_equal(event->param.ud.private_data, "no");
	assert_int_equal(event->param.ud.qp_num, 0);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_accept_ud_request_causes_no_event(void **state)
{
	unsigned accepts = fake_daemon_requests(IPC_CM_ACCEPT);
	struct rdma_event_channel *channel = channel_open();
	uint64_t cookie;
	struct rdma_cm_id *listener = datagram_id(channel, &cookie), *id;
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(rdma_listen(listener, 1), 0);
	fake_daemon_push_request(cookie);
	event = take_request(channel, listener);
	id = event->id;
	create_qp(id);
	assert_string_equal(fake_qp_moves(), "IRS");
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(fake_daemon_requests(IPC_CM_ACCEPT), accepts + 1);
	/* The QP was in RTS before. */
	assert_string_equal(fake_qp_moves(), "");
	fake_daemon_fail(IPC_CM_ACCEPT, -EINVAL);
	errno = 0;
	assert_int_equal(rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	rdma_ack_cm_event(event);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_connect_ud_synchronous_id_waits_for_established(void **state)
{
	struct ipc_cm_event msg = {.event = RDMA_CM_EVENT_UNREACHABLE, .status = 1};
	struct rdma_cm_id *id = datagram_id(NULL, &msg.cookie);
	struct rdma_conn_param param = {0};

	(void)state;
	fake_daemon_push_type(msg.cookie, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(
		rdma_resolve_addr(id, NULL,
				  (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET},
				  1),
		0);
	fake_daemon_push(&msg);
	errno = 0;
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(id->event->status, 1);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_qp_ud_is_in_rts),
		cmocka_unit_test(rdma_get_cm_event_ud_established_has_address_attributes),
		cmocka_unit_test(rdma_get_cm_event_ud_unreachable_has_private_data),
		cmocka_unit_test(rdma_accept_ud_request_causes_no_event),
		cmocka_unit_test(rdma_connect_ud_synchronous_id_waits_for_established),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
