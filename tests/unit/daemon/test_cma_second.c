/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A second connection manager, which connects the ids of a device of another transport: it costs a
 * table of operations and its entry in the list of cma_open(). This one connects ids of one process
 * by a queue of messages.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cma_desk.h"
#include "daemon/cma_priv.h"

#define IW_ADDR	    "192.168.0.1"
#define RESPONSE_NS CLOCK_NS_PER_MS

enum message { REQUEST, RESPONSE, ESTABLISHED, REJECTED, DISCONNECTED };

/* One side of a connection; id->conn. */
struct queue_conn {
	struct list_head node; /* queue_cm.conns */
	struct cma_id *id;
	struct queue_conn *peer;
	uint64_t deadline_ns; /* for the response to the request */
};

/* A message on its way. */
struct queued {
	struct list_head node;
	enum message type;
	struct queue_conn *to; /* REQUEST: the sender */
	struct ipc_cm_param param;
};

static struct queue_cm {
	struct cma_cm base;
	struct list_head conns;
	struct list_head queue;
	unsigned listeners;
	unsigned opened;
	int listen_error;
	bool is_silent; /* drops requests */
} queue_cm;

static void queue_send(struct queue_conn *to, enum message type, const struct ipc_cm_param *param)
{
	struct queued *queued = calloc(1, sizeof(*queued));

	assert_non_null(queued);
	queued->type = type;
	queued->to = to;
	if (param)
		queued->param = *param;
	list_add_tail(&queued->node, &queue_cm.queue);
	cma_wake(desk_cma);
}

static struct queue_conn *queue_conn_new(struct cma_id *id, struct queue_conn *peer)
{
	struct queue_conn *conn = calloc(1, sizeof(*conn));

	assert_non_null(conn);
	conn->id = id;
	conn->peer = peer;
	conn->deadline_ns = TIMER_NEVER_NS;
	list_add_tail(&conn->node, &queue_cm.conns);
	return conn;
}

static void queue_conn_free(struct queue_conn *conn)
{
	struct queued *queued, *next;

	list_for_each_entry_safe(queued, next, &queue_cm.queue, node) {
		if (queued->to != conn)
			continue;
		list_del(&queued->node);
		free(queued);
	}
	if (conn->peer)
		conn->peer->peer = NULL;
	list_del(&conn->node);
	free(conn);
}

static int queue_open(struct cma *cma, struct cma_cm **cm)
{
	(void)cma;
	list_init(&queue_cm.conns);
	list_init(&queue_cm.queue);
	queue_cm.listeners = 0;
	queue_cm.listen_error = 0;
	queue_cm.is_silent = false;
	queue_cm.opened++;
	*cm = &queue_cm.base;
	return 0;
}

static void queue_close(struct cma_cm *cm)
{
	(void)cm;
	while (!list_is_empty(&queue_cm.conns))
		queue_conn_free(list_first_entry(&queue_cm.conns, struct queue_conn, node));
	queue_cm.opened--;
}

static void deliver_request(struct queue_conn *active, const struct ipc_cm_param *param)
{
	struct cma_request request = {
		.cm = &queue_cm.base,
		.service_id = active->id->service_id,
		.dev_id = active->id->route.dev_id,
		.qp = {.remote_qpn = param->qp_num, .path_mtu = IBV_MTU_1024},
		.addrs = {.theirs = active->id->route.src, .ours = active->id->route.dst},
		.event = {.param = *param},
	};
	struct queue_conn *passive;
	struct cma_id *id;
	int ret;

	if (queue_cm.is_silent)
		return;
	memcpy(request.sgid, active->id->route.dgid, GID_BYTES);
	memcpy(request.dgid, active->id->route.sgid, GID_BYTES);
	request.event.param.responder_resources = param->initiator_depth;
	request.event.param.initiator_depth = param->responder_resources;
	passive = queue_conn_new(NULL, active);
	request.conn = passive;
	ret = cma_on_request(&request, &id);
	if (ret) {
		passive->peer = NULL;
		queue_conn_free(passive);
		queue_send(active, REJECTED, param);
		return;
	}
	passive->id = id;
	active->peer = passive;
}

static void deliver_one(struct queued *queued)
{
	struct ipc_cm_event event = {.param = queued->param};
	struct queue_conn *to = queued->to;

	switch (queued->type) {
	case REQUEST:
		deliver_request(to, &queued->param);
		break;
	case RESPONSE:
		to->deadline_ns = TIMER_NEVER_NS;
		cma_on_response(to->id, &event);
		break;
	case ESTABLISHED:
		cma_on_established(to->id);
		break;
	case REJECTED:
		to->deadline_ns = TIMER_NEVER_NS;
		cma_on_rejected(to->id, ECONNREFUSED, queued->param.private_data,
				queued->param.private_len);
		break;
	case DISCONNECTED:
		cma_on_disconnected(to->id, 0);
		break;
	}
}

static bool queue_deliver(struct cma_cm *cm, uint64_t now_ns)
{
	(void)cm;
	(void)now_ns;
	if (!list_is_empty(&queue_cm.queue)) {
		struct queued *queued = list_first_entry(&queue_cm.queue, struct queued, node);

		list_del(&queued->node);
		deliver_one(queued);
		free(queued);
	}
	return !list_is_empty(&queue_cm.queue);
}

static uint64_t queue_next_deadline(const struct cma_cm *cm)
{
	uint64_t first_ns = TIMER_NEVER_NS;
	struct queue_conn *conn;

	(void)cm;
	list_for_each_entry(conn, &queue_cm.conns, node) {
		if (conn->deadline_ns < first_ns)
			first_ns = conn->deadline_ns;
	}
	return first_ns;
}

static void queue_run_timers(struct cma_cm *cm, uint64_t now_ns)
{
	struct queue_conn *conn;

	(void)cm;
	list_for_each_entry(conn, &queue_cm.conns, node) {
		if (conn->deadline_ns > now_ns)
			continue;
		conn->deadline_ns = TIMER_NEVER_NS;
		cma_on_unreachable(conn->id, -ETIMEDOUT);
	}
}

static int queue_listen(struct cma_cm *cm, uint64_t service_id)
{
	(void)cm;
	(void)service_id;
	if (queue_cm.listen_error)
		return queue_cm.listen_error;
	queue_cm.listeners++;
	return 0;
}

static void queue_unlisten(struct cma_cm *cm, uint64_t service_id)
{
	(void)cm;
	(void)service_id;
	assert_true(queue_cm.listeners > 0);
	queue_cm.listeners--;
}

static bool queue_reaches(const struct cma_cm *cm, const uint8_t gid[GID_BYTES])
{
	(void)cm;
	return netdev_by_gid(gid, NULL);
}

static int queue_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns)
{
	struct queue_conn *conn = queue_conn_new(id, NULL);

	conn->deadline_ns = clock_now_ns() + (timeout_ns ? timeout_ns : 1000 * RESPONSE_NS);
	id->conn = conn;
	queue_send(conn, REQUEST, param);
	return 0;
}

static int queue_accept(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns)
{
	struct queue_conn *conn = id->conn;

	(void)timeout_ns;
	if (conn->peer)
		queue_send(conn->peer, RESPONSE, param);
	return 0;
}

static int queue_reject(struct cma_id *id, const struct ipc_cm_reject *req)
{
	struct ipc_cm_param param = {.private_len = req->private_len};
	struct queue_conn *conn = id->conn;

	memcpy(param.private_data, req->private_data, req->private_len);
	if (conn->peer)
		queue_send(conn->peer, REJECTED, &param);
	return 0;
}

static int send_to_peer(struct cma_id *id, enum message type)
{
	struct queue_conn *conn = id->conn;

	if (!conn->peer)
		return -ENOTCONN;
	queue_send(conn->peer, type, NULL);
	return 0;
}

static int queue_establish(struct cma_id *id)
{
	return send_to_peer(id, ESTABLISHED);
}

static int queue_disconnect(struct cma_id *id)
{
	return send_to_peer(id, DISCONNECTED);
}

static int queue_notify(struct cma_id *id)
{
	(void)id;
	return 0;
}

static void queue_destroy(struct cma_id *id)
{
	struct queue_conn *conn = id->conn;

	if (conn->peer)
		queue_send(conn->peer, id->state == CMA_REQUESTED ? REJECTED : DISCONNECTED, NULL);
	queue_conn_free(conn);
}

static const char *queue_state_name(const struct cma_id *id)
{
	const struct queue_conn *conn = id->conn;

	return conn->peer ? "paired" : "single";
}

static size_t queue_conn_count(const struct cma_cm *cm)
{
	(void)cm;
	return list_is_empty(&queue_cm.conns) ? 0 : 1;
}

static void queue_report(const struct cma_cm *cm, json_object *out, json_object *counters)
{
	(void)cm;
	(void)counters;
	json_object_object_add(out, "queue_listeners", json_object_new_int64(queue_cm.listeners));
}

static const struct cm_ops queue_ops = {
	.transport_type = IBV_TRANSPORT_IWARP,
	.private_bytes = {.request = 16, .accept = 16, .reject = 16},
	.open = queue_open,
	.close = queue_close,
	.deliver = queue_deliver,
	.next_deadline = queue_next_deadline,
	.run_timers = queue_run_timers,
	.listen = queue_listen,
	.unlisten = queue_unlisten,
	.reaches = queue_reaches,
	.connect = queue_connect,
	.accept = queue_accept,
	.reject = queue_reject,
	.establish = queue_establish,
	.disconnect = queue_disconnect,
	.notify = queue_notify,
	.destroy = queue_destroy,
	.state_name = queue_state_name,
	.conn_count = queue_conn_count,
	.report = queue_report,
};

static int open_one(void **state)
{
	int ret;

	desk_cms[1] = NULL;
	ret = desk_open(state);
	fake_netdev_add_iwarp();
	return ret;
}

static int open_two(void **state)
{
	int ret;

	desk_cms[1] = &queue_ops;
	ret = desk_open(state);
	fake_netdev_add_iwarp();
	assert_int_equal(queue_cm.opened, 1);
	return ret;
}

static int close_two(void **state)
{
	int ret = desk_close(state);

	assert_int_equal(queue_cm.opened, 0);
	return ret;
}

static const char *state_of(size_t index)
{
	json_object *report = json_object_new_object(), *counters = json_object_new_object();
	json_object *list, *name;
	static char text[64];

	desk_report(report, counters);
	assert_true(json_object_object_get_ex(report, "connections", &list));
	assert_true(
		json_object_object_get_ex(json_object_array_get_idx(list, index), "state", &name));
	strncpy(text, json_object_get_string(name), sizeof(text) - 1);
	json_object_put(report);
	json_object_put(counters);
	return text;
}

/* Sends a request to root's listener; returns the id of the passive side. */
static uint32_t request_from(uint32_t active)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	desk_param(&param, 0x8002, "ask");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	desk_expect_none(root.fd);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.route.dev_id, FAKE_IW);
	assert_int_equal(event.param.qp_num, 0x8002);
	assert_int_equal(event.param.responder_resources, 2);
	assert_int_equal(event.param.initiator_depth, 4);
	assert_memory_equal(event.param.private_data, "ask", 3);
	return event.id;
}

static void cm_ops_second_cm_connects_ids_of_its_transport(void **state)
{
	uint32_t active, passive;
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	active = desk_resolved(&user, IW_ADDR, DESK_PORT);
	passive = request_from(active);
	desk_param(&param, 0x10002, "yes");
	param.responder_resources = 1;
	assert_int_equal(desk_accept(&root, passive, 0xacce, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event.qp.remote_qpn, 0x10002);
	assert_memory_equal(event.param.private_data, "yes", 3);
	assert_int_equal(desk_id_call(&user, IPC_CM_ESTABLISH, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event.cookie, 0xacce);
	assert_string_equal(state_of(0), "paired");
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	/* The InfiniBand CM has no connection. */
	assert_int_equal(desk_cma->cms.list[0]->ops->conn_count(desk_cma->cms.list[0]), 0);
}

static void infiniband_cm_connects_the_other_devices(void **state)
{
	uint32_t active, passive, listener;

	(void)state;
	desk_connection(&user, &root, &active, &passive, &listener);
	assert_int_equal(desk_cma->cms.list[0]->ops->conn_count(desk_cma->cms.list[0]), 2);
	assert_int_equal(queue_conn_count(&queue_cm.base), 0);
}

static void cm_ops_second_cm_rejects(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t active, passive;

	(void)state;
	active = desk_resolved(&user, IW_ADDR, DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	desk_listener(&root, IW_ADDR);
	active = desk_resolved(&user, IW_ADDR, DESK_PORT);
	passive = request_from(active);
	assert_int_equal(desk_reject(&root, passive, 28, "too long to fit in it", 21), -EINVAL);
	assert_int_equal(desk_reject(&root, passive, 28, "no", 2), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_memory_equal(event.param.private_data, "no", 2);
}

static void timer_of_second_cm_reports_unreachable(void **state)
{
	struct ipc_cm_connect req = {.timeout_ms = 1};
	struct ipc_cm_event event;

	(void)state;
	queue_cm.is_silent = true;
	req.id = desk_resolved(&user, IW_ADDR, DESK_PORT);
	desk_param(&req.param, 0x8002, "");
	assert_int_equal(desk_ask(&user, &req, IPC_CM_CONNECT, sizeof(req), NULL), 0);
	desk_wait_event(&user);
	desk_take(user.fd, &event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event.status, -ETIMEDOUT);
}

/*
 * A wildcard listener receives requests of all transports, a listener of a device only those of its
 * transport.
 */
static void cm_ops_listener_is_added_to_cm_of_its_device(void **state)
{
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&root, &id, 1), 0);
	assert_int_equal(desk_listen(&root, id, 8), 0);
	assert_int_equal(queue_cm.listeners, 1);
	assert_int_equal(desk_create(&root, &id, 2), 0);
	assert_int_equal(desk_bind(&root, id, "10.0.0.1", DESK_PORT, NULL), 0);
	/* The backlog linger of a bound port covers all transports. */
	assert_int_equal(queue_cm.listeners, 2);
	assert_int_equal(desk_listen(&root, id, 8), 0);
	assert_int_equal(queue_cm.listeners, 1);
}

static void cm_ops_failed_listen_of_one_cm_leaves_no_listener(void **state)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	queue_cm.listen_error = -EADDRINUSE;
	assert_int_equal(desk_create(&root, &id, 1), 0);
	assert_int_equal(desk_bind(&root, id, "0.0.0.0", DESK_PORT, NULL), 0);
	assert_int_equal(desk_listen(&root, id, 8), -EADDRINUSE);
	id = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, 8);
}

static void datagram_id_of_transport_without_datagrams_is_not_supported(void **state)
{
	struct ipc_cm_param param;
	uint32_t id;

	(void)state;
	desk_ps = RDMA_PS_UDP;
	desk_qp_type = IBV_QPT_UD;
	id = desk_resolved(&user, IW_ADDR, DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(&user, id, &param), -EOPNOTSUPP);
}

static void cm_ops_removal_of_device_destroys_its_connections(void **state)
{
	struct ipc_cm_event event;

	(void)state;
	desk_listener(&root, "0.0.0.0");
	request_from(desk_resolved(&user, IW_ADDR, DESK_PORT));
	assert_int_equal(queue_conn_count(&queue_cm.base), 1);
	fake_netdev_remove(FAKE_IW);
	cma_netdev_changed(desk_cma, FAKE_IW, IPC_DEVICE_REMOVED);
	assert_int_equal(queue_conn_count(&queue_cm.base), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	desk_take(root.fd, &event, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

static void device_without_a_cm_has_no_route(void **state)
{
	struct ipc_cm_event event;
	uint32_t id;

	(void)state;
	assert_int_equal(desk_create(&user, &id, 1), 0);
	assert_int_equal(desk_resolve(&user, id, IW_ADDR, DESK_PORT), 0);
	assert_int_equal(desk_resolve_route(&user, id), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	desk_take(user.fd, &event, RDMA_CM_EVENT_ROUTE_ERROR);
	assert_int_equal(event.status, -EHOSTUNREACH);
}

#define TWO(name) cmocka_unit_test_setup_teardown(name, open_two, close_two)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(cm_ops_second_cm_connects_ids_of_its_transport),
		TWO(infiniband_cm_connects_the_other_devices),
		TWO(cm_ops_second_cm_rejects),
		TWO(timer_of_second_cm_reports_unreachable),
		TWO(cm_ops_listener_is_added_to_cm_of_its_device),
		TWO(cm_ops_failed_listen_of_one_cm_leaves_no_listener),
		TWO(datagram_id_of_transport_without_datagrams_is_not_supported),
		TWO(cm_ops_removal_of_device_destroys_its_connections),
		cmocka_unit_test_setup_teardown(device_without_a_cm_has_no_route, open_one,
						desk_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
