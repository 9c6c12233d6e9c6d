/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <string.h>

/*
 * Queue pairs, completion queues and SRQs of an id, and connections whose QP the application
 * modifies.
 */

static struct ibv_qp_init_attr init_attr(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return attr;
}

static void bound_id(struct ends *ends)
{
	ends_listen(ends, NULL, 1);
	ends_resolve(ends);
}

static void rdma_create_qp_null_members_are_created(void **state)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	bound_id(&ends);
	id = ends.active;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_ptr_equal(id->qp->pd, id->pd);
	assert_ptr_equal(id->qp->context, id->verbs);
	assert_int_equal(cm_qp_state(id), IBV_QPS_INIT);
	assert_ptr_equal(id->qp->send_cq, id->send_cq);
	assert_ptr_equal(id->qp->recv_cq, id->recv_cq);
	assert_ptr_equal(id->send_cq->cq_context, id);
	assert_ptr_equal(id->recv_cq->cq_context, id);
	assert_ptr_equal(id->send_cq->channel, id->send_cq_channel);
	assert_ptr_equal(id->recv_cq->channel, id->recv_cq_channel);
	assert_true(id->send_cq->cqe >= 3);
	assert_true(id->recv_cq->cqe >= 5);
	assert_true(attr.cap.max_send_wr >= 3);
	assert_true(attr.cap.max_recv_wr >= 5);
	/* An id can have one QP. */
	assert_minus1_errno(rdma_create_qp(id, NULL, &attr), EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->recv_cq);
	assert_null(id->send_cq_channel);
	assert_null(id->recv_cq_channel);
	rdma_destroy_qp(id);
	ends_close(&ends);
}

static void rdma_create_qp_given_pd_and_cqs_are_used(void **state)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_cm_id *id;
	struct ends ends;
	struct ibv_pd *pd;

	(void)state;
	bound_id(&ends);
	id = ends.active;
	pd = ibv_alloc_pd(id->verbs);
	assert_non_null(pd);
	attr.send_cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	attr.recv_cq = attr.send_cq;
	assert_non_null(attr.send_cq);
	assert_int_equal(rdma_create_qp(id, pd, &attr), 0);
	assert_ptr_equal(id->qp->pd, pd);
	assert_ptr_equal(id->pd, pd);
	assert_null(id->send_cq);
	assert_null(id->recv_cq);
	rdma_destroy_qp(id);
	/* The CQ still exists: the application owns it. */
	assert_int_equal(ibv_destroy_cq(attr.send_cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	ends_close(&ends);
}

static void rdma_create_qp_invalid_argument_fails(void **state)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct ibv_device **list;
	struct ibv_context *other;
	struct rdma_cm_id *unbound;
	struct ends ends;
	struct ibv_pd *pd;
	int count;

	(void)state;
	bound_id(&ends);
	unbound = cm_id(ends.client);
	assert_minus1_errno(rdma_create_qp(unbound, NULL, &attr), EINVAL);
	assert_int_equal(rdma_destroy_id(unbound), 0);
	assert_minus1_errno(rdma_create_qp(NULL, NULL, &attr), EINVAL);
	assert_minus1_errno(rdma_create_qp(ends.active, NULL, NULL), EINVAL);

	/* The same device, but another context than that of the ids. */
	list = ibv_get_device_list(&count);
	assert_true(list && count > 0);
	other = ibv_open_device(list[0]);
	assert_non_null(other);
	pd = ibv_alloc_pd(other);
	assert_non_null(pd);
	assert_minus1_errno(rdma_create_qp(ends.active, pd, &attr), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
	ibv_free_device_list(list);

	attr.cap.max_send_wr = UINT32_MAX / 2;
	assert_int_equal(rdma_create_qp(ends.active, NULL, &attr), -1);
	assert_null(ends.active->send_cq);
	assert_null(ends.active->recv_cq);
	assert_null(ends.active->qp);
	ends_close(&ends);
}

static void rdma_create_qp_ex_sets_send_ops(void **state)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ends ends;

	(void)state;
	bound_id(&ends);
	assert_int_equal(rdma_create_qp_ex(ends.active, &attr), 0);
	assert_int_equal(attr.comp_mask, IBV_QP_INIT_ATTR_PD);
	assert_ptr_equal(attr.pd, ends.active->pd);
	assert_ptr_equal(attr.send_cq, ends.active->send_cq);
	rdma_destroy_qp(ends.active);

	attr = (struct ibv_qp_init_attr_ex){
		.cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = ends.active->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	assert_int_equal(rdma_create_qp_ex(ends.active, &attr), 0);
	assert_non_null(ibv_qp_to_qp_ex(ends.active->qp));
	assert_minus1_errno(rdma_create_qp_ex(NULL, &attr), EINVAL);
	assert_minus1_errno(rdma_create_qp_ex(ends.active, NULL), EINVAL);
	ends_close(&ends);
}

/* As in Linux since 6.2. */
static void rdma_connect_permits_flush_of_peer(void **state)
{
	static uint8_t memory[4096];
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH,
	};
	struct ibv_qp_ex *ex;
	struct ends ends;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	(void)state;
	ends_listen(&ends, NULL, 8);
	ends_resolve(&ends);
	attr.pd = ends.active->pd;
	assert_int_equal(rdma_create_qp_ex(ends.active, &attr), 0);
	ends_request(&ends, NULL);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	mr = ibv_reg_mr(ends.passive->pd, memory, sizeof(memory), IBV_ACCESS_FLUSH_GLOBAL);
	assert_non_null(mr);

	ex = ibv_qp_to_qp_ex(ends.active->qp);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(ex, mr->rkey, (uintptr_t)memory, sizeof(memory), IBV_FLUSH_GLOBAL,
		     IBV_FLUSH_RANGE);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(rdma_get_send_comp(ends.active, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, sizeof(memory));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ends_close(&ends);
}

static void rdma_create_srq_is_used_by_qp(void **state)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 33, .max_sge = 1}};
	struct ibv_srq_init_attr_ex srq_ex = {.attr = {.max_wr = 10, .max_sge = 1},
					      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
					      .srq_type = IBV_SRQT_TM};
	struct ibv_qp_init_attr attr = init_attr();
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	bound_id(&ends);
	id = ends.active;
	assert_minus1_errno(rdma_create_srq_ex(id, &srq_ex), EOPNOTSUPP);
	assert_int_equal(rdma_create_srq(id, NULL, &srq_attr), 0);
	assert_non_null(id->srq);
	assert_minus1_errno(rdma_create_srq(id, NULL, &srq_attr), EINVAL);
	assert_minus1_errno(rdma_create_srq(NULL, NULL, &srq_attr), EINVAL);
	assert_minus1_errno(rdma_create_srq(id, NULL, NULL), EINVAL);
	attr.cap.max_recv_wr = 0;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_ptr_equal(id->qp->srq, id->srq);
	assert_true(id->recv_cq->cqe >= 33);
	ends_request(&ends, NULL);
	assert_int_equal(ends.request->param.conn.srq, 1);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_null(id->srq);
	rdma_destroy_srq(id);
	srq_ex.srq_type = IBV_SRQT_BASIC;
	assert_int_equal(rdma_create_srq_ex(id, &srq_ex), 0);
	rdma_destroy_srq(id);
	ends_close(&ends);
}

/* A QP that is not attached to the id, modified with the attributes of rdma_init_qp_attr(). */
static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct ibv_qp *qp;

	*cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	assert_non_null(*cq);
	attr.send_cq = *cq;
	attr.recv_cq = *cq;
	qp = ibv_create_qp(id->pd, &attr);
	assert_non_null(qp);
	return qp;
}

static void move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.qp_state, state);
	assert_true(mask & IBV_QP_STATE);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

/*
 * Half of all QPNs away from a QP's: a process that has this QPN range later could not connect to
 * the same host.
 */
#define FAR_AWAY (1u << 23)

static void rdma_connect_qpn_without_process_fails(void **state)
{
	struct rdma_conn_param param = {.responder_resources = 1};
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ends ends;

	(void)state;
	bound_id(&ends);
	qp = own_qp(ends.active, &cq);
	param.qp_num = qp->qp_num ^ FAR_AWAY;
	assert_minus1_errno(rdma_connect(ends.active, &param), EPERM);
	param.qp_num = qp->qp_num;
	ends_request(&ends, &param);
	param.qp_num ^= FAR_AWAY;
	assert_minus1_errno(rdma_accept(ends.passive, &param), EPERM);
	cm_fail(ends.client, RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	ends_close(&ends);
}

static void rdma_init_qp_attr_application_moves_qp(void **state)
{
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct ibv_qp *active_qp, *passive_qp;
	struct ibv_cq *active_cq, *passive_cq;
	struct rdma_cm_event *event;
	struct ends ends;

	(void)state;
	bound_id(&ends);
	active_qp = own_qp(ends.active, &active_cq);
	param.qp_num = active_qp->qp_num;
	param.srq = 1;
	ends_request(&ends, &param);
	assert_int_equal(ends.request->param.conn.qp_num, active_qp->qp_num);
	assert_int_equal(ends.request->param.conn.srq, 1);

	passive_qp = own_qp(ends.passive, &passive_cq);
	move(ends.passive, passive_qp, IBV_QPS_INIT);
	move(ends.passive, passive_qp, IBV_QPS_RTR);
	move(ends.passive, passive_qp, IBV_QPS_RTS);
	param.qp_num = passive_qp->qp_num;
	assert_int_equal(rdma_accept(ends.passive, &param), 0);

	event = cm_get(ends.client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event->status, 0);
	assert_int_equal(event->param.conn.qp_num, passive_qp->qp_num);
	move(ends.active, active_qp, IBV_QPS_INIT);
	move(ends.active, active_qp, IBV_QPS_RTR);
	move(ends.active, active_qp, IBV_QPS_RTS);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_establish(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);

	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(ends.passive), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(ibv_destroy_qp(active_qp), 0);
	assert_int_equal(ibv_destroy_qp(passive_qp), 0);
	assert_int_equal(ibv_destroy_cq(active_cq), 0);
	assert_int_equal(ibv_destroy_cq(passive_cq), 0);
	ends_close(&ends);
}

/* The QP received a message before the RTU arrived (communication established). */
static void rdma_notify_comm_est_establishes(void **state)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct ibv_qp *active_qp, *passive_qp;
	struct ibv_cq *active_cq, *passive_cq;
	struct ends ends;

	(void)state;
	bound_id(&ends);
	active_qp = own_qp(ends.active, &active_cq);
	param.qp_num = active_qp->qp_num;
	ends_request(&ends, &param);
	passive_qp = own_qp(ends.passive, &passive_cq);
	param.qp_num = passive_qp->qp_num;
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_notify(ends.passive, IBV_EVENT_COMM_EST), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
	assert_minus1_errno(rdma_notify(ends.passive, IBV_EVENT_COMM_EST), EISCONN);
	assert_int_equal(rdma_establish(ends.active), 0);
	assert_int_equal(ibv_destroy_qp(active_qp), 0);
	assert_int_equal(ibv_destroy_qp(passive_qp), 0);
	assert_int_equal(ibv_destroy_cq(active_cq), 0);
	assert_int_equal(ibv_destroy_cq(passive_cq), 0);
	ends_close(&ends);
}

static void rdma_init_qp_attr_in_wrong_state_fails(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct rdma_cm_id *unbound;
	struct ends ends;
	int mask;

	(void)state;
	bound_id(&ends);
	unbound = cm_id(ends.client);
	assert_minus1_errno(rdma_init_qp_attr(unbound, &attr, &mask), EINVAL);
	assert_int_equal(rdma_destroy_id(unbound), 0);
	assert_minus1_errno(rdma_init_qp_attr(NULL, &attr, &mask), EINVAL);
	assert_minus1_errno(rdma_init_qp_attr(ends.active, NULL, &mask), EINVAL);
	assert_minus1_errno(rdma_init_qp_attr(ends.active, &attr, NULL), EINVAL);
	attr.qp_state = IBV_QPS_RTR;
	assert_minus1_errno(rdma_init_qp_attr(ends.active, &attr, &mask), EINVAL);
	attr.qp_state = IBV_QPS_SQD;
	assert_minus1_errno(rdma_init_qp_attr(ends.active, &attr, &mask), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(rdma_init_qp_attr(ends.active, &attr, &mask), 0);
	assert_int_equal(mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr.port_num, 1);
	ends_close(&ends);
}

static void rdma_create_qp_uc_connects(void **state)
{
	struct ibv_qp_init_attr attr = init_attr();
	struct ends ends;

	(void)state;
	attr.qp_type = IBV_QPT_UC;
	bound_id(&ends);
	assert_int_equal(rdma_create_qp(ends.active, NULL, &attr), 0);
	ends_request(&ends, NULL);
	attr = init_attr();
	attr.qp_type = IBV_QPT_UC;
	assert_int_equal(rdma_create_qp(ends.passive, NULL, &attr), 0);
	ends_establish(&ends);
	assert_int_equal(cm_qp_state(ends.active), IBV_QPS_RTS);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_RTS);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_qp_null_members_are_created),
		cmocka_unit_test(rdma_create_qp_given_pd_and_cqs_are_used),
		cmocka_unit_test(rdma_create_qp_invalid_argument_fails),
		cmocka_unit_test(rdma_create_qp_ex_sets_send_ops),
		cmocka_unit_test(rdma_connect_permits_flush_of_peer),
		cmocka_unit_test(rdma_create_srq_is_used_by_qp),
		cmocka_unit_test(rdma_connect_qpn_without_process_fails),
		cmocka_unit_test(rdma_init_qp_attr_application_moves_qp),
		cmocka_unit_test(rdma_notify_comm_est_establishes),
		cmocka_unit_test(rdma_init_qp_attr_in_wrong_state_fails),
		cmocka_unit_test(rdma_create_qp_uc_connects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
