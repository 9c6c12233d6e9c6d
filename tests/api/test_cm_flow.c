/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sequences of calls that the manual pages of both sides list, with nothing left out, and what
 * the objects of a sequence hold at its end.
 */
#include "cm_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 10000

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct ibv_qp_init_attr init_attr(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	return attr;
}

/*
 * The server of a sequence, which runs in a thread. The listener exists before the thread starts.
 */
struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	char message[16];
	bool is_good;
};

/* Retrieves an event of this type. Threads cannot assert. */
static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		return NULL;
	return event->event == type && event->status == 0 ? event : NULL;
}

static bool server_receives(struct server *server, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event = next(server->channel, RDMA_CM_EVENT_ESTABLISHED);
	struct ibv_wc wc;

	return event && event->id == id && !rdma_ack_cm_event(event) &&
	       rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
}

static void *serve(void *arg)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct server *server = arg;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	event = next(server->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!event || event->listen_id != server->listener || event->id == server->listener)
		return NULL;
	id = event->id;
	if (!id->verbs || rdma_create_qp(id, NULL, &attr))
		return NULL;
	mr = rdma_reg_msgs(id, server->message, sizeof(server->message));
	if (!mr || rdma_post_recv(id, NULL, server->message, sizeof(server->message), mr) ||
	    rdma_accept(id, NULL) || rdma_ack_cm_event(event))
		return NULL;
	if (!server_receives(server, id))
		return NULL;
	event = next(server->channel, RDMA_CM_EVENT_DISCONNECTED);
	if (!event || event->id != id || rdma_ack_cm_event(event) || rdma_disconnect(id))
		return NULL;
	rdma_dereg_mr(mr);
	rdma_destroy_qp(id);
	server->is_good = !rdma_destroy_id(id) && !rdma_destroy_id(server->listener);
	rdma_destroy_event_channel(server->channel);
	return NULL;
}

static void server_start(struct server *server, char *port, size_t port_bytes, pthread_t *thread)
{
	struct sockaddr_storage addr = cm_loopback(0);

	memset(server, 0, sizeof(*server));
	server->channel = cm_channel();
	server->listener = cm_id(server->channel);
	assert_int_equal(rdma_bind_addr(server->listener, sa(&addr)), 0);
	assert_int_equal(rdma_listen(server->listener, 4), 0);
	snprintf(port, port_bytes, "%u", ntohs(rdma_get_src_port(server->listener)));
	assert_int_equal(pthread_create(thread, NULL, serve, server), 0);
}

static void client_sends(struct rdma_cm_id *id)
{
	static char message[16] = "in sequence";
	struct ibv_mr *mr = rdma_reg_msgs(id, message, sizeof(message));
	struct ibv_wc wc;

	assert_non_null(mr);
	assert_int_equal(rdma_post_send(id, NULL, message, sizeof(message), mr, 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_dereg_mr(mr), 0);
}

static void rdmacm_asynchronous_sequences_complete(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct server server;
	pthread_t thread;
	char port[8];

	(void)state;
	server_start(&server, port, sizeof(port), &thread);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &info), 0);
	channel = cm_channel();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, info->ai_dst_addr, TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_connect(id, &(struct rdma_conn_param){.retry_count = 7}), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ESTABLISHED);
	client_sends(id);
	assert_int_equal(rdma_disconnect(id), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(server.is_good);
	assert_string_equal(server.message, "in sequence");
}

/* A client that fills in the addresses of both ends itself, as the programming guide shows. */
static void rdma_resolve_addr_literal_addresses_of_both_ends_bind_id(void **state)
{
	const char *client_host = "127.0.0.2", *server_host = "127.0.0.1";
	struct rdma_event_channel *cm_event_channel = rdma_create_event_channel();
	struct sockaddr_in server_sockaddr, client_sockaddr;
	struct rdma_cm_id *cm_client_id;
	int server_port = 20021, timeout_ms = 2000;
	const struct sockaddr_in *local, *peer;

	(void)state;
	assert_non_null(cm_event_channel);
	assert_int_equal(rdma_create_id(cm_event_channel, &cm_client_id, NULL, RDMA_PS_TCP), 0);
	memset(&server_sockaddr, 0, sizeof(server_sockaddr));
	server_sockaddr.sin_family = AF_INET;
	server_sockaddr.sin_addr.s_addr = inet_addr(server_host);
	server_sockaddr.sin_port = htons((uint16_t)server_port);
	memset(&client_sockaddr, 0, sizeof(client_sockaddr));
	client_sockaddr.sin_family = AF_INET;
	client_sockaddr.sin_addr.s_addr = inet_addr(client_host);
	assert_int_equal(rdma_resolve_addr(cm_client_id, (struct sockaddr *)&client_sockaddr,
					   (struct sockaddr *)&server_sockaddr, timeout_ms),
			 0);
	cm_pass(cm_event_channel, cm_client_id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_non_null(cm_client_id->verbs);
	local = (struct sockaddr_in *)(void *)rdma_get_local_addr(cm_client_id);
	peer = (struct sockaddr_in *)(void *)rdma_get_peer_addr(cm_client_id);
	assert_int_equal(local->sin_addr.s_addr, inet_addr(client_host));
	assert_int_equal(peer->sin_addr.s_addr, inet_addr(server_host));
	assert_int_equal(ntohs(peer->sin_port), server_port);
	assert_int_equal(rdma_destroy_id(cm_client_id), 0);
	rdma_destroy_event_channel(cm_event_channel);
}

/*
 * The resolution keeps the address and the port to which the id is bound, and ignores another
 * source, as on Linux.
 */
static void rdma_resolve_addr_bound_id_keeps_address_and_port(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage own = cm_loopback(0), dst = cm_loopback(CM_PORT_NOBODY);
	struct sockaddr_storage ignored = cm_loopback(CM_PORT_NOBODY + 1);
	struct rdma_cm_id *id = cm_id(channel);
	__be16 port;

	(void)state;
	((struct sockaddr_in *)&own)->sin_addr.s_addr = inet_addr("127.0.0.2");
	assert_int_equal(rdma_bind_addr(id, sa(&own)), 0);
	port = rdma_get_src_port(id);
	assert_int_not_equal(port, 0);
	assert_int_equal(rdma_resolve_addr(id, sa(&ignored), sa(&dst), TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_set_port(&own, port);
	assert_memory_equal(rdma_get_local_addr(id), &own, sizeof(struct sockaddr_in));
	assert_memory_equal(rdma_get_peer_addr(id), &dst, sizeof(struct sockaddr_in));
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_destroy_event_channel_closes_descriptor(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	int fd = channel->fd;

	(void)state;
	assert_true(fcntl(fd, F_GETFD) >= 0);
	rdma_destroy_event_channel(channel);
	assert_minus1_errno(fcntl(fd, F_GETFD), EBADF);
}

/*
 * Only rdma_disconnect() moves a QP to ERR. Manuals that promise it for both sides describe two
 * calls; Linux does the same.
 */
static void rdma_disconnect_qp_of_other_side_keeps_state(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_ERR);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	ends_close(&ends);
}

/* The QP of an ended connection, which the application resets, carries the next connection. */
static void rdma_connect_qp_after_timewait_exit_is_reused(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, attr = {.qp_state = IBV_QPS_INIT};
	struct rdma_cm_id *first;
	struct ends ends;
	struct ibv_qp *qp;
	int mask;

	(void)state;
	ends_open(&ends, NULL);
	first = ends.active;
	qp = first->qp;
	assert_int_equal(rdma_disconnect(first), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	cm_pass(ends.client, first, RDMA_CM_EVENT_DISCONNECTED);
	cm_pass(ends.client, first, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	rdma_destroy_qp(ends.passive);
	assert_int_equal(rdma_destroy_id(ends.passive), 0);

	first->qp = NULL;
	ends.active = cm_id(ends.client);
	assert_int_equal(rdma_resolve_addr(ends.active, NULL, sa(&ends.addr), TIMEOUT_MS), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(ends.active, TIMEOUT_MS), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(rdma_init_qp_attr(ends.active, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	ends.active->qp = qp;
	ends_request(&ends, NULL);
	assert_int_equal(ends.request->param.conn.qp_num, qp->qp_num);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_RTS);

	/* The CQs belong to the first id. */
	ends.active->qp = NULL;
	assert_int_equal(rdma_destroy_id(ends.active), 0);
	first->qp = qp;
	ends.active = first;
	ends_close(&ends);
}

/* The private data of a multicast event is the context of the join. */
static void rdma_get_cm_event_ud_join_without_context_has_null(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(0), group = cm_loopback(0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	((struct sockaddr_in *)&group)->sin_addr.s_addr = inet_addr("239.78.1.9");
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, sa(&addr)), 0);
	assert_int_equal(rdma_join_multicast(id, sa(&group), NULL), 0);
	event = cm_get(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_null(event->param.ud.private_data);
	assert_int_equal(event->param.ud.private_data_len, 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static int datagrams(void **state)
{
	(void)state;
	cm_ps = RDMA_PS_IPOIB;
	return 0;
}

static int connections(void **state)
{
	(void)state;
	cm_ps = RDMA_PS_TCP;
	return 0;
}

#define SIDR_REQ_BYTES 180
#define SIDR_REP_BYTES 136

/* One byte was sent. The rest of the message's field is zero. */
static void expect_padded(const struct rdma_ud_param *param, size_t field)
{
	const char *data = param->private_data;

	assert_int_equal(param->private_data_len, field);
	assert_int_equal(data[0], 'q');
	for (size_t i = 1; i < field; i++)
		assert_int_equal(data[i], 0);
}

/*
 * The datagram ids of RDMA_PS_IPOIB report the members of struct rdma_ud_param as those of
 * RDMA_PS_UDP do.
 */
static void rdma_get_cm_event_ipoib_established_has_ud_param(void **state)
{
	struct rdma_conn_param param = {.private_data = "q", .private_data_len = 1};
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, &param);
	expect_padded(&ends.request->param.ud, SIDR_REQ_BYTES);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, ends.passive->qp->qp_num);
	assert_int_not_equal(event->param.ud.qkey, 0);
	assert_int_equal(event->param.ud.ah_attr.is_global, 1);
	expect_padded(&event->param.ud, SIDR_REP_BYTES);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdmacm_asynchronous_sequences_complete),
		cmocka_unit_test(rdma_resolve_addr_literal_addresses_of_both_ends_bind_id),
		cmocka_unit_test(rdma_resolve_addr_bound_id_keeps_address_and_port),
		cmocka_unit_test(rdma_destroy_event_channel_closes_descriptor),
		cmocka_unit_test(rdma_disconnect_qp_of_other_side_keeps_state),
		cmocka_unit_test(rdma_connect_qp_after_timewait_exit_is_reused),
		cmocka_unit_test(rdma_get_cm_event_ud_join_without_context_has_null),
		cmocka_unit_test_setup_teardown(rdma_get_cm_event_ipoib_established_has_ud_param,
						datagrams, connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
