/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

/* Synchronous ids and endpoints: every call blocks until its event, so each side has a thread. */

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

/* The behaviour of the server's thread after a request, and the result. */
struct server {
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	enum { ACCEPT, REJECT, DROP } response;
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
		  /* The peer disconnects first; this call waits for the event of that. */
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
	/* The request can be read until it is answered. */
	server->is_good = server->id->event &&
			  server->id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
			  server->id->event->listen_id == server->listener &&
			  server->id->channel != server->listener->channel;
	if (server->response == ACCEPT)
		server->is_good = accept_request(server) && server->is_good;
	else if (server->response == REJECT)
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

static void rdma_create_ep_endpoints_exchange_messages(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct server server = {.response = ACCEPT};
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

static void rdma_connect_rejected_fails_with_econnrefused(void **state)
{
	struct server server = {.response = REJECT};
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
	/* The id gets no further event. */
	assert_int_equal(rdma_disconnect(id), 0);
	rdma_destroy_ep(id);
}

static void rdma_connect_unanswered_request_fails(void **state)
{
	struct server server = {.response = DROP};
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

static void rdma_create_id_synchronous_steps_succeed(void **state)
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

static void rdma_migrate_id_to_synchronous_and_back_succeeds(void **state)
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

static void rdma_create_ep_invalid_argument_fails(void **state)
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

	/* The endpoint still has the port. */
	assert_int_equal(rdma_create_ep(&listener, info, NULL, NULL), 0);
	/* The id is bound and does not listen. */
	assert_minus1_errno(rdma_get_request(listener, &request), EINVAL);
	cm_set_port(&addr, rdma_get_src_port(listener));
	rdma_freeaddrinfo(info);
	info = info_of(&addr, RAI_PASSIVE);
	assert_minus1_errno(rdma_create_ep(&id, info, NULL, NULL), EADDRINUSE);
	rdma_destroy_ep(listener);
	rdma_destroy_ep(NULL);
	rdma_freeaddrinfo(info);
}

static void rdma_connect_ai_connect_precedes_private_data(void **state)
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

/*
 * Returns a synchronous id without a QP whose rdma_connect() was interrupted and whose request was
 * then accepted. With O_NONBLOCK the wait of a call ends with EAGAIN, as a signal ends it with
 * EINTR.
 */
static struct rdma_cm_id *connect_without_qp(struct ends *ends, struct rdma_conn_param *param)
{
	struct rdma_cm_id *id;

	ends_listen(ends, NULL, 8);
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&ends->addr), 1000), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(fcntl(id->channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_minus1_errno(rdma_connect(id, param), EAGAIN);
	ends->request = cm_get(ends->server, RDMA_CM_EVENT_CONNECT_REQUEST);
	ends->passive = ends->request->id;
	assert_int_equal(rdma_accept(ends->passive, param), 0);
	assert_int_equal(rdma_ack_cm_event(ends->request), 0);
	ends->request = NULL;
	assert_true(cm_readable(id->channel, 10000));
	return id;
}

static void rdma_connect_without_qp_ends_with_connect_response(void **state)
{
	struct rdma_conn_param param = {.qp_num = 1000};
	struct ends ends;
	struct rdma_cm_id *id = connect_without_qp(&ends, &param);

	(void)state;
	/* The call does not wait, and the attempt continues. */
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(id), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_ep(id);
	ends_close(&ends);
}

/* The wait of the interrupted call ends when the application reads the event. */
static void rdma_connect_after_application_read_event_fails(void **state)
{
	struct rdma_conn_param param = {.qp_num = 1000};
	struct ends ends;
	struct rdma_cm_id *id = connect_without_qp(&ends, &param);

	(void)state;
	cm_pass(id->channel, id, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_minus1_errno(rdma_connect(id, &param), EINVAL);
	rdma_destroy_ep(id);
	ends_close(&ends);
}

/* Connects a synchronous id to an asynchronous one. */
static struct rdma_cm_id *sync_open(struct ends *ends)
{
	ends_open(ends, NULL);
	assert_int_equal(rdma_migrate_id(ends->passive, NULL), 0);
	return ends->passive;
}

static void rdma_disconnect_after_application_read_event_waits_for_timewait_exit(void **state)
{
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	id = sync_open(&ends);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(id->channel, id, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	ends_close(&ends);
}

static void rdma_disconnect_repeated_calls_return(void **state)
{
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	id = sync_open(&ends);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	/* No event follows. */
	assert_int_equal(rdma_disconnect(id), 0);
	ends_close(&ends);
}

static void hear_signal(int number)
{
	(void)number;
}

/* Interrupts the test's thread until its call has returned, then answers the request. */
struct interrupter {
	struct ends *ends;
	pthread_t target;
	_Atomic bool is_interrupted;
	bool is_good;
};

static void *interrupt_and_accept(void *arg)
{
	struct interrupter *interrupter = arg;
	struct ends *ends = interrupter->ends;
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(ends->server, &event))
		return NULL;
	while (!interrupter->is_interrupted) {
		pthread_kill(interrupter->target, SIGUSR1);
		sched_yield();
	}
	ends->passive = event->id;
	interrupter->is_good = event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
			       !rdma_ack_cm_event(event);
	ends_create_qp(ends->passive);
	interrupter->is_good = !rdma_accept(ends->passive, NULL) && interrupter->is_good;
	return NULL;
}

static void rdma_connect_continues_after_signal(void **state)
{
	struct sigaction action = {.sa_handler = hear_signal}, before;
	struct interrupter interrupter = {.target = pthread_self()};
	struct ends ends = {0};
	struct rdma_cm_id *id;
	pthread_t thread;
	int ret;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	ends_listen(&ends, NULL, 8);
	id = client_open(&ends.addr);
	interrupter.ends = &ends;
	assert_int_equal(pthread_create(&thread, NULL, interrupt_and_accept, &interrupter), 0);
	assert_minus1_errno(rdma_connect(id, NULL), EINTR);
	interrupter.is_interrupted = true;
	/* Signals may still be pending. */
	do
		ret = rdma_connect(id, NULL);
	while (ret && errno == EINTR);
	assert_int_equal(ret, 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(interrupter.is_good);
	/* The connection is established: the call no longer waits. */
	assert_minus1_errno(rdma_connect(id, NULL), EINVAL);
	rdma_destroy_ep(id);
	ends_close(&ends);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_ep_endpoints_exchange_messages),
		cmocka_unit_test(rdma_connect_rejected_fails_with_econnrefused),
		cmocka_unit_test(rdma_connect_unanswered_request_fails),
		cmocka_unit_test(rdma_create_id_synchronous_steps_succeed),
		cmocka_unit_test(rdma_migrate_id_to_synchronous_and_back_succeeds),
		cmocka_unit_test(rdma_create_ep_invalid_argument_fails),
		cmocka_unit_test(rdma_connect_ai_connect_precedes_private_data),
		cmocka_unit_test(rdma_connect_without_qp_ends_with_connect_response),
		cmocka_unit_test(rdma_connect_after_application_read_event_fails),
		cmocka_unit_test(
			rdma_disconnect_after_application_read_event_waits_for_timewait_exit),
		cmocka_unit_test(rdma_disconnect_repeated_calls_return),
		cmocka_unit_test(rdma_connect_continues_after_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
