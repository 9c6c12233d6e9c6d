/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/*
 * Ids of datagram QPs: how an id resolves the QP of another id, and which calls both then permit.
 */

#define SIDR_REQ_BYTES 180
#define SIDR_REP_BYTES 136
#define GRH_BYTES      40
#define STATUS_NOBODY  1
#define STATUS_NO      2
#define TEXT_BYTES     64

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static int setup(void **state)
{
	(void)state;
	cm_ps = RDMA_PS_UDP;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cm_ps = RDMA_PS_TCP;
	return 0;
}

static uint32_t qkey_of(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_QKEY, &init), 0);
	return attr.qkey;
}

/* A buffer for one datagram, registered in the PD of an id. */
struct buffer {
	char bytes[GRH_BYTES + TEXT_BYTES];
	struct ibv_mr *mr;
};

static void buffer_post(struct buffer *buffer, struct rdma_cm_id *id)
{
	memset(buffer->bytes, 0, sizeof(buffer->bytes));
	buffer->mr = rdma_reg_msgs(id, buffer->bytes, sizeof(buffer->bytes));
	assert_non_null(buffer->mr);
	assert_int_equal(rdma_post_recv(id, NULL, buffer->bytes, sizeof(buffer->bytes), buffer->mr),
			 0);
}

static struct ibv_wc buffer_wait(struct buffer *buffer, struct rdma_cm_id *id, const char *text)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(wc.byte_len, GRH_BYTES + TEXT_BYTES);
	assert_string_equal(buffer->bytes + GRH_BYTES, text);
	return wc;
}

static void send_text(struct rdma_cm_id *id, struct ibv_ah *ah, uint32_t qpn, const char *text)
{
	char bytes[TEXT_BYTES] = {0};
	struct ibv_mr *mr = rdma_reg_msgs(id, bytes, sizeof(bytes));
	struct ibv_wc wc;

	strncpy(bytes, text, sizeof(bytes) - 1);
	assert_non_null(mr);
	assert_non_null(ah);
	assert_int_equal(rdma_post_ud_send(id, NULL, bytes, sizeof(bytes), mr, IBV_SEND_SIGNALED,
					   ah, qpn),
			 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_dereg_mr(mr), 0);
}

static void rdma_create_qp_udp_port_space_is_ud(void **state)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_UDP, RDMA_PS_IPOIB};
	struct sockaddr_storage addr = cm_loopback(0);
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_event_channel *channel = cm_channel();
		struct rdma_cm_id *id;

		assert_int_equal(rdma_create_id(channel, &id, NULL, spaces[i]), 0);
		assert_int_equal(id->qp_type, IBV_QPT_UD);
		assert_int_equal(id->ps, spaces[i]);
		assert_int_equal(rdma_bind_addr(id, sa(&addr)), 0);
		/* The QP is usable immediately, because it has no peer. */
		ends_create_qp(id);
		assert_int_equal(cm_qp_state(id), IBV_QPS_RTS);
		assert_int_equal(qkey_of(id), RDMA_UDP_QKEY);
		rdma_destroy_qp(id);
		assert_minus1_errno(rdma_create_qp(id, NULL, &attr), EINVAL);
		assert_null(id->qp);
		assert_int_equal(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(channel);
	}
}

static void expect_way(const struct ends *ends, const struct rdma_cm_event *event)
{
	const struct rdma_ud_param *ud = &event->param.ud;
	const struct rdma_addr *addr = &ends->active->route.addr;

	assert_int_equal(ud->qp_num, ends->passive->qp->qp_num);
	assert_int_equal(ud->qkey, RDMA_UDP_QKEY);
	assert_int_equal(ud->ah_attr.is_global, 1);
	assert_int_equal(ud->ah_attr.port_num, ends->active->port_num);
	assert_memory_equal(ud->ah_attr.grh.dgid.raw, addr->addr.ibaddr.dgid.raw, 16);
	assert_true(ud->ah_attr.grh.hop_limit > 0);
}

/* A request and a response: one datagram in each direction. */
static void speak(const struct sockaddr_storage *addr)
{
	char question[SIDR_REQ_BYTES], response[SIDR_REP_BYTES];
	struct rdma_conn_param param = {0};
	struct buffer there = {0}, back = {0};
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ends ends;
	struct ibv_wc wc;

	memset(question, 'q', sizeof(question));
	memset(response, 'a', sizeof(response));
	ends_listen(&ends, addr, 8);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	param.private_data = question;
	param.private_data_len = sizeof(question);
	ends_request(&ends, &param);
	assert_int_equal(ends.request->param.ud.private_data_len, SIDR_REQ_BYTES);
	assert_memory_equal(ends.request->param.ud.private_data, question, sizeof(question));
	assert_int_equal(ends.passive->qp_type, IBV_QPT_UD);
	assert_int_equal(ends.passive->ps, RDMA_PS_UDP);
	assert_non_null(ends.passive->verbs);

	ends_create_qp(ends.passive);
	buffer_post(&there, ends.passive);
	param.private_data = response;
	param.private_data_len = sizeof(response);
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	assert_int_equal(rdma_ack_cm_event(ends.request), 0);
	ends.request = NULL;
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, ends.active);
	assert_int_equal(event->status, 0);
	assert_int_equal(event->param.ud.private_data_len, SIDR_REP_BYTES);
	assert_memory_equal(event->param.ud.private_data, response, sizeof(response));
	expect_way(&ends, event);
	assert_false(cm_readable(ends.server, 0));

	buffer_post(&back, ends.active);
	ah = ibv_create_ah(ends.active->pd, &event->param.ud.ah_attr);
	send_text(ends.active, ah, event->param.ud.qp_num, "there");
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	wc = buffer_wait(&there, ends.passive, "there");
	assert_int_equal(wc.src_qp, ends.active->qp->qp_num);
	ah = ibv_create_ah_from_wc(ends.passive->pd, &wc, (struct ibv_grh *)(void *)there.bytes,
				   ends.passive->port_num);
	send_text(ends.passive, ah, wc.src_qp, "and back");
	assert_int_equal(ibv_destroy_ah(ah), 0);
	buffer_wait(&back, ends.active, "and back");
	assert_int_equal(rdma_dereg_mr(there.mr), 0);
	assert_int_equal(rdma_dereg_mr(back.mr), 0);
	ends_close(&ends);
}

static void rdma_connect_ud_datagrams_are_exchanged(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++)
		speak(&addrs[i]);
}

static void rdma_reject_ud_reports_unreachable(void **state)
{
	struct rdma_cm_event *event;
	char words[SIDR_REP_BYTES + 1];
	struct ends ends;

	(void)state;
	memset(words, 'n', sizeof(words));
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	assert_minus1_errno(rdma_reject(ends.passive, words, sizeof(words)), EINVAL);
	assert_int_equal(rdma_reject(ends.passive, words, SIDR_REP_BYTES), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(event->status, STATUS_NO);
	assert_int_equal(event->param.ud.private_data_len, SIDR_REP_BYTES);
	assert_memory_equal(event->param.ud.private_data, words, SIDR_REP_BYTES);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	/* The QP is not affected. */
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_RTS);
	ends_close(&ends);
}

static void rdma_connect_ud_without_listener_reports_unreachable(void **state)
{
	struct rdma_conn_param param = {0};
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	assert_int_equal(rdma_destroy_id(ends.listener), 0);
	ends.listener = NULL;
	assert_int_equal(rdma_connect(ends.active, &param), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_UNREACHABLE, STATUS_NOBODY);
	ends_close(&ends);
}

/*
 * The requests are reported as rejected: requests that the application did not take, and requests
 * that it took without a reply.
 */
static void rdma_destroy_id_ud_listener_rejects_requests(void **state)
{
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *second;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	second = ends.active;
	ends_resolve(&ends);
	ends_request(&ends, &param);
	assert_int_equal(rdma_connect(second, &param), 0);
	assert_true(cm_readable(ends.server, 10000));
	assert_int_equal(rdma_ack_cm_event(ends.request), 0);
	ends.request = NULL;
	assert_int_equal(rdma_destroy_id(ends.listener), 0);
	ends.listener = NULL;
	cm_fail(ends.client, RDMA_CM_EVENT_UNREACHABLE, STATUS_NO);
	assert_int_equal(rdma_destroy_id(ends.passive), 0);
	ends.passive = NULL;
	cm_fail(ends.client, RDMA_CM_EVENT_UNREACHABLE, STATUS_NO);
	assert_int_equal(rdma_destroy_id(second), 0);
	ends_close(&ends);
}

static void rdma_establish_ud_fails(void **state)
{
	char bytes[UINT8_MAX] = {0};
	struct rdma_conn_param param = {.private_data = bytes};
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	param.private_data_len = SIDR_REQ_BYTES + 1;
	assert_minus1_errno(rdma_connect(ends.active, &param), EINVAL);
	param.private_data_len = SIDR_REQ_BYTES;
	ends_request(&ends, &param);
	assert_minus1_errno(rdma_connect(ends.active, &param), EINVAL);
	assert_minus1_errno(rdma_establish(ends.active), EINVAL);
	assert_minus1_errno(rdma_reject(ends.active, NULL, 0), EINVAL);
	ends_create_qp(ends.passive);
	param.private_data_len = SIDR_REP_BYTES + 1;
	assert_minus1_errno(rdma_accept(ends.passive, &param), EINVAL);
	cm_fail(ends.client, RDMA_CM_EVENT_UNREACHABLE, STATUS_NO);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	ends_close(&ends);
}

static void rdma_disconnect_ud_fails(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	assert_int_equal(rdma_ack_cm_event(ends.request), 0);
	ends.request = NULL;
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ESTABLISHED);
	assert_minus1_errno(rdma_notify(ends.passive, IBV_EVENT_COMM_EST), EINVAL);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_ERR);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	assert_false(cm_readable(ends.client, 0));
	assert_false(cm_readable(ends.server, 0));
	ends_close(&ends);
}

/*
 * The application modifies its own QP with the attributes of rdma_init_qp_attr(), and passes its
 * QPN to the call.
 */
static void rdma_init_qp_attr_ud_moves_own_qp(void **state)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr = {0};
	struct ibv_qp *qp;
	struct ends ends;
	int mask;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	ends_request(&ends, &param);
	init.send_cq = init.recv_cq = ibv_create_cq(ends.passive->verbs, 2, NULL, NULL, 0);
	assert_non_null(init.send_cq);
	qp = ibv_create_qp(ends.passive->pd, &init);
	assert_non_null(qp);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(rdma_init_qp_attr(ends.passive, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(attr.qkey, RDMA_UDP_QKEY);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(ends.passive, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(ends.passive, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_SQD;
	assert_minus1_errno(rdma_init_qp_attr(ends.passive, &attr, &mask), EINVAL);
	param.qp_num = qp->qp_num;
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(init.send_cq), 0);
	ends_close(&ends);
}

/*
 * A SIDR_REQ contains no QPN, so that the active side needs no QP and no parameters. A SIDR_REP
 * contains one.
 */
static void rdma_connect_ud_without_qp_and_parameters_succeeds(void **state)
{
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	ends_request(&ends, NULL);
	assert_minus1_errno(rdma_accept(ends.passive, NULL), EINVAL);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(event->param.ud.qp_num, ends.passive->qp->qp_num);
	assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	ends_close(&ends);
}

static void rdma_bind_addr_port_spaces_have_separate_ports(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *udp = cm_id(channel), *tcp, *other = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_create_id(channel, &tcp, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(udp, sa(&addr)), 0);
	cm_set_port(&addr, rdma_get_src_port(udp));
	assert_int_equal(rdma_bind_addr(tcp, sa(&addr)), 0);
	assert_minus1_errno(rdma_bind_addr(other, sa(&addr)), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(udp), 0);
	assert_int_equal(rdma_destroy_id(tcp), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(channel);
}

/* One end of a synchronous pair: rdma_create_ep() with the result of rdma_getaddrinfo(). */
static struct rdma_cm_id *endpoint(const char *port, int flags)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_UDP};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &info), 0);
	assert_int_equal(info->ai_qp_type, IBV_QPT_UD);
	assert_int_equal(info->ai_port_space, RDMA_PS_UDP);
	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	rdma_freeaddrinfo(info);
	return id;
}

struct server {
	struct rdma_cm_id *listener;
	struct buffer buffer;
	bool is_rejecting;
	bool is_good;
};

static void *serve(void *arg)
{
	struct server *server = arg;
	struct rdma_cm_id *id;
	struct ibv_wc wc;

	if (rdma_get_request(server->listener, &id))
		return NULL;
	server->is_good = id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
			  id->event->param.ud.private_data_len == SIDR_REQ_BYTES && id->qp;
	if (server->is_rejecting) {
		server->is_good = !rdma_reject(id, NULL, 0) && server->is_good;
		rdma_destroy_ep(id);
		return NULL;
	}
	server->buffer.mr = rdma_reg_msgs(id, server->buffer.bytes, sizeof(server->buffer.bytes));
	server->is_good = server->is_good && server->buffer.mr &&
			  !rdma_post_recv(id, NULL, server->buffer.bytes,
					  sizeof(server->buffer.bytes), server->buffer.mr) &&
			  /* No reply follows: the call returns when the response has been sent. */
			  !rdma_accept(id, NULL) && !id->event &&
			  rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
	if (server->buffer.mr)
		rdma_dereg_mr(server->buffer.mr);
	rdma_destroy_ep(id);
	return NULL;
}

static struct rdma_cm_id *ask_endpoint(struct server *server, pthread_t *thread)
{
	char port[8];

	server->listener = endpoint("0", RAI_PASSIVE);
	assert_int_equal(rdma_listen(server->listener, 4), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(server->listener)));
	assert_int_equal(pthread_create(thread, NULL, serve, server), 0);
	return endpoint(port, 0);
}

static void rdma_create_ep_ud_endpoints_connect(void **state)
{
	struct server server = {0};
	struct rdma_cm_id *client;
	pthread_t thread;
	struct ibv_ah *ah;

	(void)state;
	client = ask_endpoint(&server, &thread);
	assert_int_equal(cm_qp_state(client), IBV_QPS_RTS);
	assert_int_equal(rdma_connect(client, NULL), 0);
	assert_int_equal(client->event->event, RDMA_CM_EVENT_ESTABLISHED);
	ah = ibv_create_ah(client->pd, &client->event->param.ud.ah_attr);
	send_text(client, ah, client->event->param.ud.qp_num, "sync");
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(server.is_good);
	assert_string_equal(server.buffer.bytes + GRH_BYTES, "sync");
	assert_int_equal(ibv_destroy_ah(ah), 0);
	rdma_destroy_ep(client);
	rdma_destroy_ep(server.listener);
}

static void rdma_create_ep_ud_rejected_fails_with_econnrefused(void **state)
{
	struct server server = {.is_rejecting = true};
	struct rdma_cm_id *client;
	pthread_t thread;

	(void)state;
	client = ask_endpoint(&server, &thread);
	assert_minus1_errno(rdma_connect(client, NULL), ECONNREFUSED);
	assert_int_equal(client->event->event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(client->event->status, STATUS_NO);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(server.is_good);
	rdma_destroy_ep(client);
	rdma_destroy_ep(server.listener);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rdma_create_qp_udp_port_space_is_ud),
		TEST(rdma_connect_ud_datagrams_are_exchanged),
		TEST(rdma_reject_ud_reports_unreachable),
		TEST(rdma_connect_ud_without_listener_reports_unreachable),
		TEST(rdma_destroy_id_ud_listener_rejects_requests),
		TEST(rdma_establish_ud_fails),
		TEST(rdma_disconnect_ud_fails),
		TEST(rdma_init_qp_attr_ud_moves_own_qp),
		TEST(rdma_connect_ud_without_qp_and_parameters_succeeds),
		TEST(rdma_bind_addr_port_spaces_have_separate_ports),
		TEST(rdma_create_ep_ud_endpoints_connect),
		TEST(rdma_create_ep_ud_rejected_fails_with_econnrefused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
