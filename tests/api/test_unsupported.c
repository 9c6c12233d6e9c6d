/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unsupported features: every call for one returns EOPNOTSUPP, so that programs fall back as with
 * hardware without it. Objects that cannot be created are simulated here, because calls that take
 * such objects must check them, too.
 */
#include "fixture.h"

#include <errno.h>

static void ibv_create_counters_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_counters_init_attr init = {0};
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS};
	struct ibv_counters counters = {.context = api->ctx};
	struct ibv_flow flow = {.context = api->ctx};
	uint64_t value = 4711;

	assert_null_errno(ibv_create_counters(api->ctx, &init), EOPNOTSUPP);
	assert_int_equal(ibv_attach_counters_point_flow(&counters, &attach, &flow), EOPNOTSUPP);
	assert_int_equal(ibv_read_counters(&counters, &value, 1, 0), EOPNOTSUPP);
	assert_int_equal(ibv_read_counters(&counters, &value, 1,
					   IBV_READ_COUNTERS_ATTR_PREFER_CACHED),
			 EOPNOTSUPP);
	assert_int_equal(value, 4711);
	assert_int_equal(ibv_destroy_counters(&counters), EOPNOTSUPP);
}

static void ibv_create_flow_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_flow_attr attr = {.size = sizeof(attr), .port = 1};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_flow_action action = {.context = api->ctx};
	struct ibv_flow flow = {.context = api->ctx};
	struct pair pair;

	pair_open(&pair, api, NULL);
	assert_null_errno(ibv_create_flow(pair.a.qp, &attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_flow(&flow), EOPNOTSUPP);
	assert_null_errno(ibv_create_flow_action_esp(api->ctx, &esp), EOPNOTSUPP);
	assert_int_equal(ibv_modify_flow_action_esp(&action, &esp), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_flow_action(&action), EOPNOTSUPP);
	pair_close(&pair);
}

static void ibv_create_wq_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_wq_init_attr wq_init = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1};
	struct ibv_rwq_ind_table_init_attr table_init = {0};
	struct ibv_wq wq = {.context = api->ctx};
	struct ibv_wq_attr wq_attr = {0};
	struct ibv_rwq_ind_table table = {.context = api->ctx};

	wq_init.pd = api->pd;
	assert_null_errno(ibv_create_wq(api->ctx, &wq_init), EOPNOTSUPP);
	assert_int_equal(ibv_modify_wq(&wq, &wq_attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_wq(&wq), EOPNOTSUPP);
	assert_null_errno(ibv_create_rwq_ind_table(api->ctx, &table_init), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_rwq_ind_table(&table), EOPNOTSUPP);
}

static void ibv_modify_qp_rate_limit_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_init_attr_ex tagged = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_TM,
		.pd = api->pd,
	};
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 1000};
	struct ibv_ops_wr op = {0}, *bad = NULL;
	struct ibv_srq *srq = ibv_create_srq(api->pd, &srq_init);
	struct pair pair;

	assert_non_null(srq);
	assert_int_equal(ibv_post_srq_ops(srq, &op, &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &op);
	assert_null_errno(ibv_create_srq_ex(api->ctx, &tagged), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	pair_open(&pair, api, NULL);
	assert_int_equal(ibv_modify_qp_rate_limit(pair.a.qp, &limit), EOPNOTSUPP);
	pair_close(&pair);
}

static void ibv_create_qp_raw_packet_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	assert_non_null(cq);
	assert_null_errno(ibv_create_qp(api->pd, &attr), EOPNOTSUPP);
	attr.qp_type = IBV_QPT_DRIVER;
	assert_null(ibv_create_qp(api->pd, &attr));
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void ibv_alloc_dmah_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_dmah_init_attr init = {0};
	struct ibv_dmah dmah = {.context = api->ctx};
	struct ibv_mr_init_attr mr = {
		.length = sizeof(mr),
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH,
		.addr = &mr,
		.dmah = &dmah,
	};

	assert_null_errno(ibv_alloc_dmah(api->ctx, &init), EOPNOTSUPP);
	assert_null_errno(ibv_reg_mr_ex(api->pd, &mr), EOPNOTSUPP);
	assert_int_equal(ibv_dealloc_dmah(&dmah), EOPNOTSUPP);
}

static void ibv_dm_export_dmabuf_fd_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_alloc_dm_attr init = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(api->ctx, &init);

	assert_non_null(dm);
	assert_minus1_errno(ibv_dm_export_dmabuf_fd(dm), EOPNOTSUPP);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void ibv_resolve_eth_l2_from_gid_fails_with_eopnotsupp(void **state)
{
	struct api *api = *state;
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = api->gid}};
	uint8_t mac[ETHERNET_LL_SIZE];
	uint16_t vid;

	assert_int_equal(ibv_resolve_eth_l2_from_gid(api->ctx, &attr, mac, &vid), EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_counters_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_create_flow_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_create_wq_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_modify_qp_rate_limit_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_create_qp_raw_packet_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_alloc_dmah_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_dm_export_dmabuf_fd_fails_with_eopnotsupp),
		cmocka_unit_test(ibv_resolve_eth_l2_from_gid_fails_with_eopnotsupp),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
