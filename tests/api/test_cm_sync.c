/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Synchronous ids and endpoints: every call waits for its outcome, so each side has a thread. */

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct ibv_qp_init_attr init_attr(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	return attr;
}

static struct rdma_addrinfo *info_of(struct sockaddr_storage *addr, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *info;

	if (flags & RAI_PASSIVE) {
		hints.ai_src_addr = sa(addr);
		hints.ai_src_len = sizeof(*addr);
	} else {
		hints.ai_dst_addr = sa(addr);
		hints.ai_dst_len = sizeof(*addr);
	}
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	return info;
}

/* What the server's thread does with the request that it gets, and what came of it. */
struct server {
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	enum { ACCEPT, REJECT, DROP } answer;
	char buf[64];
	bool is_good;
};

static bool accept_request(struct server *server)
{
	struct ibv_mr *mr = rdma_reg_msgs(server->id, server->buf, sizeof(server->buf));
	struct ibv_wc wc;
	bool is_good;

	is_good = mr && server->id->qp &&
		  !rdma_post_recv(server->id, NULL, server->buf, sizeof(server->buf), mr) &&
		  !rdma_accept(server->id, NULL) &&
		  server->id->event->event == RDMA_CM_EVENT_ESTABLISHED &&
		  rdma_get_recv_comp(server->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
		  /* The peer goes first; its end is the outcome that this call waits for. */
		  !rdma_disconnect(server->id) &&
		  server->id->event->event == RDMA_CM_EVENT_DISCONNECTED;
	if (mr)
		rdma_dereg_mr(mr);
	return is_good;
}

static void *serve(void *arg)
{
	struct server *server = arg;

	if (rdma_get_request(server->listener, &server->id))
		return NULL;
	/* The request stays readable until it is answered. */
	server->is_good = server->id->event &&
			  server->id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
			  server->id->event->listen_id == server->listener &&
			  server->id->channel != server->listener->channel;
	if (server->answer == ACCEPT)
		server->is_good = accept_request(server) && server->is_good;
	else if (server->answer == REJECT)
		server->is_good = !rdma_reject(server->id, "no", 2) && server->is_good;
	rdma_destroy_ep(server->id);
	return NULL;
}

static void server_start(struct server *server, struct sockaddr_storage *addr, pthread_t *thread)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_addrinfo *info = info_of(addr, RAI_PASSIVE);

	assert_int_equal(rdma_create_ep(&server->listener, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_listen(server->listener, 4), 0);
	cm_set_port(addr, rdma_get_src_port(server->listener));
	assert_int_equal(pthread_create(thread, NULL, serve, server), 0);
}

static void server_end(struct server *server, pthread_t thread)
{
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(server->is_good);
	rdma_destroy_ep(server->listener);
}

static struct rdma_cm_id *client_open(struct sockaddr_storage *addr)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_addrinfo *info = info_of(addr, 0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(attr.qp_type, IBV_QPT_RC);
	assert_non_null(id->qp);
	assert_non_null(id->verbs);
	assert_int_equal(id->route.num_paths, 1);
	return id;
}

static void endpoints_talk(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct server server = {.answer = ACCEPT};
		char message[64] = "to an endpoint";
		struct rdma_cm_id *id;
		struct ibv_mr *mr;
		struct ibv_wc wc;
		pthread_t thread;

		server_start(&server, &addrs[i], &thread);
		id = client_open(&addrs[i]);
		assert_int_equal(rdma_connect(id, NULL), 0);
		assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
		mr = rdma_reg_msgs(id, message, sizeof(message));
		assert_non_null(mr);
		assert_int_equal(rdma_post_send(id, NULL, message, sizeof(message), mr, 0), 0);
		assert_int_equal(rdma_get_send_comp(id, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(rdma_disconnect(id), 0);
		assert_int_equal(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
		assert_int_equal(rdma_dereg_mr(mr), 0);
		rdma_destroy_ep(id);
		server_end(&server, thread);
		assert_string_equal(server.buf, message);
	}
}

static void a_refusal_is_an_errno(void **state)
{
	struct server server = {.answer = REJECT};
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *id;
	pthread_t thread;

	(void)state;
	server_start(&server, &addr, &thread);
	id = client_open(&addr);
	assert_minus1_errno(rdma_connect(id, NULL), ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(id->event->status, 28);
	assert_memory_equal(id->event->param.conn.private_data, "no", 3);
	rdma_destroy_ep(id);
	server_end(&server, thread);

	addr = cm_loopback(CM_PORT_NOBODY);
	id = client_open(&addr);
	assert_minus1_errno(rdma_connect(id, NULL), ECONNREFUSED);
	assert_int_equal(id->event->status, 8);
	rdma_destroy_ep(id);
}

static void an_unanswered_request_is_refused(void **state)
{
	struct server server = {.answer = DROP};
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *id;
	pthread_t thread;

	(void)state;
	server_start(&server, &addr, &thread);
	id = client_open(&addr);
	assert_minus1_errno(rdma_connect(id, NULL), ECONNREFUSED);
	rdma_destroy_ep(id);
	server_end(&server, thread);
}

static void steps_without_endpoints(void **state)
{
	struct sockaddr_storage addr = cm_loopback(CM_PORT_NOBODY);
	struct rdma_event_channel *own;
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	own = id->channel;
	assert_non_null(own);
	assert_null(id->event);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&addr), 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_minus1_errno(rdma_migrate_id(id, NULL), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void to_sync_and_back(void **state)
{
	struct sockaddr_storage addr = cm_loopback(CM_PORT_NOBODY);
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_ptr_not_equal(id->channel, channel);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&addr), 1000), 0);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_ptr_equal(id->channel, channel);
	assert_null(id->event);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void endpoints_refuse(void **state)
{
	struct rdma_addrinfo nothing = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC};
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_addrinfo *info = info_of(&addr, RAI_PASSIVE);
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id, *listener, *request;

	(void)state;
	assert_minus1_errno(rdma_create_ep(&id, NULL, NULL, NULL), EINVAL);
	assert_minus1_errno(rdma_create_ep(NULL, info, NULL, NULL), EINVAL);
	assert_minus1_errno(rdma_create_ep(&id, &nothing, NULL, NULL), EINVAL);
	nothing.ai_port_space = RDMA_PS_UDP;
	assert_minus1_errno(rdma_create_ep(&id, &nothing, NULL, NULL), EINVAL);
	listener = cm_id(channel);
	assert_minus1_errno(rdma_get_request(listener, &request), EINVAL);
	assert_minus1_errno(rdma_get_request(NULL, &request), EINVAL);
	assert_minus1_errno(rdma_get_request(listener, NULL), EINVAL);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);

	/* The port is still taken by the endpoint that has it. */
	assert_int_equal(rdma_create_ep(&listener, info, NULL, NULL), 0);
	cm_set_port(&addr, rdma_get_src_port(listener));
	rdma_freeaddrinfo(info);
	info = info_of(&addr, RAI_PASSIVE);
	assert_minus1_errno(rdma_create_ep(&id, info, NULL, NULL), EADDRINUSE);
	rdma_destroy_ep(listener);
	rdma_destroy_ep(NULL);
	rdma_freeaddrinfo(info);
}

static void connection_data_goes_first(void **state)
{
	struct sockaddr_storage addr;
	char data[CM_REQ_BYTES] = "user";
	struct rdma_conn_param param = {.private_data = data, .private_data_len = 4};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 4);
	addr = ends.addr;
	info = info_of(&addr, 0);
	info->ai_connect = strdup("route:");
	info->ai_connect_len = 6;
	assert_int_equal(rdma_create_ep(&id, info, NULL, NULL), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_migrate_id(id, ends.client), 0);
	ends.active = id;
	ends_create_qp(id);
	param.private_data_len = CM_REQ_BYTES - 5;
	assert_minus1_errno(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 4;
	ends_request(&ends, &param);
	assert_memory_equal(ends.request->param.conn.private_data, "route:user", 11);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoints_talk),
		cmocka_unit_test(a_refusal_is_an_errno),
		cmocka_unit_test(an_unanswered_request_is_refused),
		cmocka_unit_test(steps_without_endpoints),
		cmocka_unit_test(to_sync_and_back),
		cmocka_unit_test(endpoints_refuse),
		cmocka_unit_test(connection_data_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
