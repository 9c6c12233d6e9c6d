/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enhanced connection establishment: vendor options in both directions, and a rejection because of
 * them.
 */
#include "cm_fixture.h"

#include <errno.h>

#define VENDOR_OPTION 35 /* IBA 1.x §12.6.7.2 */

/* The options of both sides. */
static const struct ibv_ece wish = {.vendor_id = 0x02c903, .options = 0xfedcba98};
static const struct ibv_ece offer = {.vendor_id = 0x010203, .options = 0x10};

static void set_local(struct rdma_cm_id *id, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;

	assert_int_equal(rdma_set_local_ece(id, &copy), 0);
}

static void expect_remote(struct rdma_cm_id *id, const struct ibv_ece *ece)
{
	struct ibv_ece remote = {.vendor_id = 1, .options = 2, .comp_mask = 3};

	assert_int_equal(rdma_get_remote_ece(id, &remote), 0);
	assert_int_equal(remote.vendor_id, ece->vendor_id);
	assert_int_equal(remote.options, ece->options);
	assert_int_equal(remote.comp_mask, 0);
}

/* Creates the QP of a side and detaches it from the id: the connection uses the QPN. */
static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct ibv_qp *qp;

	ends_create_qp(id);
	qp = id->qp;
	id->qp = NULL;
	*param = (struct rdma_conn_param){.retry_count = 7, .qp_num = qp->qp_num};
	return qp;
}

static void requested(struct ends *ends, struct ibv_qp **qp, struct rdma_conn_param *param)
{
	ends_listen(ends, NULL, 1);
	ends_resolve(ends);
	*qp = own_qp(ends->active, param);
	set_local(ends->active, &wish);
	ends_request(ends, param);
}

static void rdma_set_local_ece_options_are_exchanged(void **state)
{
	struct rdma_conn_param param;
	struct ibv_qp *active, *passive;
	struct ends ends;

	(void)state;
	requested(&ends, &active, &param);
	expect_remote(ends.active, &(struct ibv_ece){0});
	expect_remote(ends.passive, &wish);
	passive = own_qp(ends.passive, &param);
	set_local(ends.passive, &wish);
	set_local(ends.passive, &offer);
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	expect_remote(ends.active, &offer);
	assert_int_equal(rdma_establish(ends.active), 0);
	cm_pass(ends.server, ends.passive, RDMA_CM_EVENT_ESTABLISHED);
	ends.active->qp = active;
	ends.passive->qp = passive;
	ends_close(&ends);
}

static void rdma_reject_ece_request_is_rejected_with_reason(void **state)
{
	const char too_much[CM_REJ_BYTES + 1] = {0};
	struct rdma_conn_param param;
	struct rdma_cm_event *event;
	struct ibv_qp *active;
	struct ends ends;

	(void)state;
	requested(&ends, &active, &param);
	assert_minus1_errno(rdma_reject_ece(ends.passive, too_much, sizeof(too_much)), EINVAL);
	assert_int_equal(rdma_reject_ece(ends.passive, "not these", 10), 0);
	event = cm_get(ends.client, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, VENDOR_OPTION);
	assert_memory_equal(event->param.conn.private_data, "not these", 10);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_minus1_errno(rdma_reject_ece(ends.passive, NULL, 0), EINVAL);
	ends.active->qp = active;
	ends_close(&ends);
}

static void rdma_reject_ece_response_is_rejected_with_reason(void **state)
{
	struct rdma_conn_param param;
	struct ibv_qp *active;
	struct ends ends;

	(void)state;
	requested(&ends, &active, &param);
	ends_create_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, NULL), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	/* The id's QP, a QP of this library, has no options. */
	expect_remote(ends.active, &(struct ibv_ece){0});
	assert_int_equal(rdma_reject_ece(ends.active, NULL, 0), 0);
	cm_fail(ends.server, RDMA_CM_EVENT_REJECTED, VENDOR_OPTION);
	assert_int_equal(cm_qp_state(ends.passive), IBV_QPS_ERR);
	ends.active->qp = active;
	ends_close(&ends);
}

/* Options that were set before the id had its QP are not sent for this QP. */
static void ibv_query_ece_own_qp_has_no_options(void **state)
{
	struct ibv_ece ece = wish;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	set_local(ends.active, &wish);
	ends_create_qp(ends.active);
	assert_minus1_errno(rdma_set_local_ece(ends.active, &ece), EINVAL);
	assert_minus1_errno(rdma_get_remote_ece(ends.active, &ece), EINVAL);
	assert_int_equal(ibv_query_ece(ends.active->qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(ends.active->qp, &ece), EOPNOTSUPP);
	assert_int_equal(ece.vendor_id, wish.vendor_id);
	ends_request(&ends, NULL);
	expect_remote(ends.passive, &(struct ibv_ece){0});
	ends_close(&ends);
}

static void rdma_set_local_ece_invalid_argument_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);
	struct ibv_ece ece = wish;

	(void)state;
	assert_minus1_errno(rdma_set_local_ece(NULL, &ece), EINVAL);
	assert_minus1_errno(rdma_set_local_ece(id, NULL), EINVAL);
	assert_minus1_errno(rdma_get_remote_ece(NULL, &ece), EINVAL);
	assert_minus1_errno(rdma_get_remote_ece(id, NULL), EINVAL);
	assert_minus1_errno(rdma_reject_ece(NULL, NULL, 0), EINVAL);
	assert_minus1_errno(rdma_reject_ece(id, NULL, 0), EINVAL);
	ece.comp_mask = 1;
	assert_minus1_errno(rdma_set_local_ece(id, &ece), EINVAL);
	ece.comp_mask = 0;
	ece.vendor_id = 0;
	assert_minus1_errno(rdma_set_local_ece(id, &ece), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_set_local_ece_options_are_exchanged),
		cmocka_unit_test(rdma_reject_ece_request_is_rejected_with_reason),
		cmocka_unit_test(rdma_reject_ece_response_is_rejected_with_reason),
		cmocka_unit_test(ibv_query_ece_own_qp_has_no_options),
		cmocka_unit_test(rdma_set_local_ece_invalid_argument_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
