/* SPDX-License-Identifier: BSD-2-Clause */
#include "cma_desk.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/neigh_wait.h"

uv_loop_t desk_loop;
struct cma *desk_cma;
struct desk_client root, user;
uint32_t desk_ps;
uint8_t desk_qp_type;
const struct cm_ops *desk_cms[] = {&cma_ib_ops, NULL, NULL};

static void client_open(struct desk_client *client, uid_t uid)
{
	struct cma_peer peer = {.uid = uid, .pid = (pid_t)(1000 + uid)};

	client->client = cma_client_new(desk_cma, &peer);
	assert_non_null(client->client);
	assert_int_equal(desk_channel(client, &client->fd, &client->channel), 0);
}

static void client_close(struct desk_client *client)
{
	if (client->client)
		cma_client_gone(client->client);
	client->client = NULL;
	close(client->fd);
}

int desk_open(void **state)
{
	(void)state;
	fake_netdev_reset();
	desk_ps = RDMA_PS_TCP;
	desk_qp_type = IBV_QPT_RC;
	assert_int_equal(uv_loop_init(&desk_loop), 0);
	assert_int_equal(neigh_waits_open(&desk_loop), 0);
	desk_cma = cma_open(&desk_loop, desk_cms);
	assert_non_null(desk_cma);
	client_open(&root, 0);
	client_open(&user, 1000);
	return 0;
}

int desk_close(void **state)
{
	(void)state;
	client_close(&root);
	client_close(&user);
	cma_close(desk_cma);
	neigh_waits_close();
	while (uv_run(&desk_loop, UV_RUN_NOWAIT))
		;
	assert_int_equal(uv_loop_close(&desk_loop), 0);
	return 0;
}

void desk_client_dies(struct desk_client *client)
{
	cma_client_gone(client->client);
	client->client = NULL;
}

void desk_run(void)
{
	for (int i = 0; i < 20; i++)
		uv_run(&desk_loop, UV_RUN_NOWAIT);
}

void desk_wait_event(const struct desk_client *client)
{
	struct pollfd fd = {.fd = client->fd, .events = POLLIN};

	while (poll(&fd, 1, 0) == 0)
		uv_run(&desk_loop, UV_RUN_ONCE);
}

static int ask_with(struct desk_client *client, void *req, uint16_t type, uint32_t len, void *reply,
		    int *client_end)
{
	static union {
		struct ipc_hdr hdr;
		uint8_t bytes[IPC_MSG_MAX];
	} response;
	struct ipc_hdr *hdr = req;
	uint32_t got;

	hdr->type = type;
	hdr->seq = 77;
	hdr->len = len;
	got = cma_request(client->client, hdr, &response, client_end);
	assert_int_equal(response.hdr.type, type);
	assert_int_equal(response.hdr.seq, 77);
	assert_int_equal(response.hdr.len, got);
	if (reply && response.hdr.status == 0)
		memcpy(reply, &response, got);
	return response.hdr.status;
}

int desk_ask(struct desk_client *client, void *req, uint16_t type, uint32_t len, void *reply)
{
	int client_end, ret = ask_with(client, req, type, len, reply, &client_end);

	assert_int_equal(client_end, -1);
	return ret;
}

int desk_channel(struct desk_client *client, int *fd, uint32_t *channel)
{
	struct ipc_hdr req = {0};
	struct ipc_cm_channel_reply reply;
	int ret = ask_with(client, &req, IPC_CM_CHANNEL_CREATE, sizeof(req), &reply, fd);

	if (ret)
		return ret;
	assert_true(*fd >= 0);
	assert_int_equal(fcntl(*fd, F_SETFL, O_NONBLOCK), 0);
	*channel = reply.channel;
	return 0;
}

int desk_create(struct desk_client *client, uint32_t *id, uint64_t cookie)
{
	struct ipc_cm_create req = {
		.channel = client->channel,
		.ps = desk_ps,
		.qp_type = desk_qp_type,
		.cookie = cookie,
	};
	struct ipc_cm_create_reply reply = {0};
	int ret = desk_ask(client, &req, IPC_CM_CREATE, sizeof(req), &reply);

	*id = reply.id;
	return ret;
}

int desk_id_call(struct desk_client *client, uint16_t type, uint32_t id)
{
	struct ipc_cm_id req = {.id = id};

	return desk_ask(client, &req, type, sizeof(req), NULL);
}

void desk_addr(struct sockaddr_storage *out, const char *text, uint16_t port)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *sin = (struct sockaddr_in *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &sin->sin_addr) == 1) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		return;
	}
	assert_int_equal(inet_pton(AF_INET6, text, &sin6->sin6_addr), 1);
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(port);
}

int desk_bind(struct desk_client *client, uint32_t id, const char *addr, uint16_t port,
	      struct ipc_cm_route *route)
{
	struct ipc_cm_bind req = {.id = id};
	struct ipc_cm_route_reply reply = {0};
	int ret;

	desk_addr(&req.addr, addr, port);
	ret = desk_ask(client, &req, IPC_CM_BIND, sizeof(req), &reply);
	if (route)
		*route = reply.route;
	return ret;
}

int desk_listen(struct desk_client *client, uint32_t id, uint32_t backlog)
{
	struct ipc_cm_listen req = {.id = id, .backlog = backlog};

	return desk_ask(client, &req, IPC_CM_LISTEN, sizeof(req), NULL);
}

int desk_resolve(struct desk_client *client, uint32_t id, const char *dst, uint16_t port)
{
	struct ipc_cm_resolve_addr req = {.id = id, .timeout_ms = 1000};

	desk_addr(&req.dst, dst, port);
	return desk_ask(client, &req, IPC_CM_RESOLVE_ADDR, sizeof(req), NULL);
}

int desk_resolve_route(struct desk_client *client, uint32_t id)
{
	struct ipc_cm_resolve_route req = {.id = id, .timeout_ms = 1000};

	return desk_ask(client, &req, IPC_CM_RESOLVE_ROUTE, sizeof(req), NULL);
}

void desk_param(struct ipc_cm_param *param, uint32_t qp_num, const char *private_data)
{
	memset(param, 0, sizeof(*param));
	param->qp_num = qp_num;
	param->qp_type = desk_qp_type;
	param->responder_resources = 4;
	param->initiator_depth = 2;
	param->retry_count = 7;
	param->rnr_retry_count = 7;
	param->private_len = (uint32_t)strlen(private_data);
	memcpy(param->private_data, private_data, param->private_len);
}

int desk_connect(struct desk_client *client, uint32_t id, struct ipc_cm_param *param)
{
	struct ipc_cm_connect req = {.id = id, .param = *param};

	return desk_ask(client, &req, IPC_CM_CONNECT, sizeof(req), NULL);
}

int desk_accept(struct desk_client *client, uint32_t id, uint64_t cookie,
		struct ipc_cm_param *param)
{
	struct ipc_cm_connect req = {.id = id, .cookie = cookie, .param = *param};

	return desk_ask(client, &req, IPC_CM_ACCEPT, sizeof(req), NULL);
}

int desk_reject(struct desk_client *client, uint32_t id, uint32_t reason, const void *data,
		uint32_t len)
{
	struct ipc_cm_reject req = {.id = id, .reason = reason, .private_len = len};

	if (data)
		memcpy(req.private_data, data, len);
	return desk_ask(client, &req, IPC_CM_REJECT, sizeof(req), NULL);
}

int desk_option(struct desk_client *client, uint32_t id, uint32_t level, uint32_t name, int value,
		uint32_t len)
{
	struct ipc_cm_set_option req = {.id = id, .level = level, .name = name, .value_len = len};

	memcpy(req.value, &value, sizeof(value));
	return desk_ask(client, &req, IPC_CM_SET_OPTION, sizeof(req), NULL);
}

int desk_destroy(struct desk_client *client, uint32_t id, uint64_t *events)
{
	struct ipc_cm_id req = {.id = id};
	struct ipc_cm_destroy_reply reply = {0};
	int ret = desk_ask(client, &req, IPC_CM_DESTROY, sizeof(req), &reply);

	if (events)
		*events = reply.events_sent;
	return ret;
}

uint32_t desk_listener(struct desk_client *client, const char *addr)
{
	uint32_t id;

	assert_int_equal(desk_create(client, &id, 0x1157), 0);
	assert_int_equal(desk_bind(client, id, addr, DESK_PORT, NULL), 0);
	assert_int_equal(desk_listen(client, id, 8), 0);
	return id;
}

uint32_t desk_resolved(struct desk_client *client, const char *dst, uint16_t port)
{
	struct ipc_cm_event event;
	uint32_t id;

	assert_int_equal(desk_create(client, &id, 0xac71), 0);
	assert_int_equal(desk_resolve(client, id, dst, port), 0);
	assert_int_equal(desk_resolve_route(client, id), 0);
	desk_run();
	desk_take(client->fd, &event, RDMA_CM_EVENT_ADDR_RESOLVED);
	desk_take(client->fd, &event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

void desk_take(int fd, struct ipc_cm_event *event, uint32_t type)
{
	ssize_t len = recv(fd, event, sizeof(*event), MSG_DONTWAIT);

	assert_int_equal(len, sizeof(*event));
	assert_int_equal(event->hdr.type, IPC_CM_EVENT);
	assert_int_equal(event->hdr.len, sizeof(*event));
	assert_int_equal(event->event, type);
}

void desk_expect_none(int fd)
{
	uint8_t byte;

	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
}

void desk_connection(struct desk_client *from, struct desk_client *to, uint32_t *active,
		     uint32_t *passive, uint32_t *listener)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;

	*listener = desk_listener(to, "0.0.0.0");
	*active = desk_resolved(from, "10.0.0.1", DESK_PORT);
	desk_param(&param, 0x8002, "");
	assert_int_equal(desk_connect(from, *active, &param), 0);
	desk_run();
	desk_take(to->fd, &event, RDMA_CM_EVENT_CONNECT_REQUEST);
	*passive = event.id;
	desk_param(&param, 0x10002, "");
	assert_int_equal(desk_accept(to, *passive, 0xacce, &param), 0);
	desk_run();
	desk_take(from->fd, &event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(desk_id_call(from, IPC_CM_ESTABLISH, *active), 0);
	desk_run();
	desk_take(to->fd, &event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event.cookie, 0xacce);
}

void desk_report(json_object *report, json_object *counters)
{
	static const char *const names[] = {
		[CMA_LISTENERS] = "listeners",
		[CMA_CONNECTIONS] = "connections",
		[CMA_JOINS] = "multicast_joins",
	};

	for (enum cma_listed listed = CMA_LISTENERS; listed <= CMA_JOINS; listed++) {
		json_object *all = json_object_new_array(), *some;
		uint32_t cursor = 0;

		while ((some = cma_report_ids(desk_cma, listed, 0, &cursor))) {
			for (size_t i = 0; i < json_object_array_length(some); i++)
				json_object_array_add(
					all, json_object_get(json_object_array_get_idx(some, i)));
			json_object_put(some);
		}
		json_object_object_add(report, names[listed], all);
	}
	json_object_object_add(report, "cm", cma_report_counters(desk_cma, counters));
}
