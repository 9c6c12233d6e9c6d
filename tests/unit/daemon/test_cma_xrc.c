/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of XRC: the parameters of each half, and that neither matches another kind of
 * connection.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cma_desk.h"

#define SEND_QPN 0x8002
#define RECV_QPN 0x10002

#define REJECTED_TRANSPORT 9 /* IBA 1.x §12.6.7.2 */

static uint32_t make_sender(void)
{
	desk_qp_type = IBV_QPT_XRC_SEND;
	return desk_resolved(&user, "10.0.0.1", DESK_PORT);
}

static uint32_t make_listener(uint8_t qp_type)
{
	desk_qp_type = qp_type;
	return desk_listener(&root, "10.0.0.1");
}

static void ask_again(uint32_t qpn, uint32_t *active, struct ipc_cm_event *event)
{
	struct ipc_cm_param param;

	*active = make_sender();
	desk_param(&param, qpn, "ask");
	assert_int_equal(desk_connect(&user, *active, &param), 0);
	desk_run();
	desk_take(root.fd, event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* Sends a request for XRC to root's listener. */
static void ask(uint32_t *active, struct ipc_cm_event *event)
{
	make_listener(IBV_QPT_XRC_RECV);
	ask_again(SEND_QPN, active, event);
}

static void cma_connect_xrc_initiator_finds_target(void **state)
{
	struct ipc_cm_event request, event;
	struct ipc_cm_param param;
	uint32_t active;

	(void)state;
	ask(&active, &request);
	assert_int_equal(request.param.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(request.qp.remote_qpn, SEND_QPN);
	/* The sender has no responder resources; this side must accept its initiator depth. */
	assert_int_equal(request.param.responder_resources, 2);
	assert_int_equal(request.param.initiator_depth, 0);
	assert_int_equal(request.param.retry_count, 0);
	assert_int_equal(request.param.srq, 0);

	desk_qp_type = IBV_QPT_XRC_RECV;
	desk_param(&param, RECV_QPN, "number");
	assert_int_equal(desk_accept(&root, request.id, 0xacce, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event.param.qp_num, RECV_QPN);
	assert_int_equal(event.qp.remote_qpn, RECV_QPN);
	assert_int_equal(event.param.srq, 1);
	assert_int_equal(event.qp.max_rd_atomic, 2);
	assert_int_equal(event.qp.max_dest_rd_atomic, 0);
	assert_int_equal(event.qp.retry_count, 7);
	assert_int_equal(event.qp.rq_psn, request.qp.sq_psn);
	assert_memory_equal(event.param.private_data, "number", 6);
	assert_int_equal(desk_id_call(&user, IPC_CM_ESTABLISH, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_ESTABLISHED);

	/* A DREQ contains the QPN of the other side, too. */
	assert_int_equal(desk_id_call(&user, IPC_CM_DISCONNECT, active), 0);
	desk_run();
	desk_take(root.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(desk_id_call(&root, IPC_CM_DISCONNECT, request.id), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_DISCONNECTED);
}

static void cma_connect_xrc_sides_have_their_qp_types(void **state)
{
	struct ipc_cm_event request, event;
	struct ipc_cm_param param;
	uint32_t active, other;

	(void)state;
	ask(&active, &request);
	desk_param(&param, RECV_QPN, "");
	param.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(desk_accept(&root, request.id, 1, &param), -EINVAL);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	ask_again(SEND_QPN + 2, &active, &request);
	param.qp_type = IBV_QPT_RC;
	assert_int_equal(desk_accept(&root, request.id, 1, &param), -EINVAL);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	ask_again(SEND_QPN + 4, &active, &request);
	param.qp_type = IBV_QPT_XRC_RECV;
	assert_int_equal(desk_accept(&root, request.id, 1, &param), 0);

	other = make_sender();
	desk_param(&param, SEND_QPN, "");
	param.qp_type = IBV_QPT_XRC_RECV;
	assert_int_equal(desk_connect(&user, other, &param), -EINVAL);
}

/* A listener for one kind and a request of another. */
static void expect_refused(uint8_t listens, uint8_t asks)
{
	struct ipc_cm_event event;
	struct ipc_cm_param param;
	uint32_t listener, active;

	listener = make_listener(listens);
	desk_qp_type = asks;
	active = desk_resolved(&user, "10.0.0.1", DESK_PORT);
	desk_param(&param, SEND_QPN, "");
	assert_int_equal(desk_connect(&user, active, &param), 0);
	desk_run();
	desk_take(user.fd, &event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event.status, REJECTED_TRANSPORT);
	desk_expect_none(root.fd);
	assert_int_equal(desk_destroy(&root, listener, &(uint64_t){0}), 0);
}

static void cma_connect_xrc_other_qp_type_is_rejected(void **state)
{
	(void)state;
	expect_refused(IBV_QPT_RC, IBV_QPT_XRC_SEND);
	expect_refused(IBV_QPT_XRC_RECV, IBV_QPT_RC);
	expect_refused(IBV_QPT_XRC_RECV, IBV_QPT_UC);
	expect_refused(IBV_QPT_XRC_SEND, IBV_QPT_XRC_SEND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cma_connect_xrc_initiator_finds_target, desk_open,
						desk_close),
		cmocka_unit_test_setup_teardown(cma_connect_xrc_sides_have_their_qp_types,
						desk_open, desk_close),
		cmocka_unit_test_setup_teardown(cma_connect_xrc_other_qp_type_is_rejected,
						desk_open, desk_close),
	};

	return cmocka_run_group_tests_name("daemon/cma_xrc", tests, NULL, NULL);
}
