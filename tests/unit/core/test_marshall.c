/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Conversion of kernel structures to those of the API. Every source byte differs from its
 * neighbours, so a wrong offset or length is detected.
 */

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/compat.h"

static void fill(void *p, size_t bytes)
{
	unsigned char *byte = p;
	size_t i;

	for (i = 0; i < bytes; i++)
		byte[i] = (unsigned char)(1 + i % 251);
}

#define CHECK(field) assert_true((uint64_t)dst->field == (uint64_t)src->field)

static void check_ah(const struct ibv_ah_attr *dst, const struct ib_uverbs_ah_attr *src)
{
	assert_memory_equal(dst->grh.dgid.raw, src->grh.dgid, 16);
	CHECK(grh.flow_label);
	CHECK(grh.sgid_index);
	CHECK(grh.hop_limit);
	CHECK(grh.traffic_class);
	CHECK(dlid);
	CHECK(sl);
	CHECK(src_path_bits);
	CHECK(static_rate);
	CHECK(is_global);
	CHECK(port_num);
}

static void ibv_copy_ah_attr_from_kern_copies_every_member(void **state)
{
	struct ib_uverbs_ah_attr src;
	struct ibv_ah_attr dst;

	(void)state;
	fill(&src, sizeof(src));
	memset(&dst, 0, sizeof(dst));
	ibv_copy_ah_attr_from_kern(&dst, &src);
	check_ah(&dst, &src);
}

static void check_qp(const struct ibv_qp_attr *dst, const struct ib_uverbs_qp_attr *src)
{
	CHECK(cur_qp_state);
	CHECK(path_mtu);
	CHECK(path_mig_state);
	CHECK(qkey);
	CHECK(rq_psn);
	CHECK(sq_psn);
	CHECK(dest_qp_num);
	CHECK(pkey_index);
	CHECK(alt_pkey_index);
	CHECK(en_sqd_async_notify);
	CHECK(sq_draining);
	CHECK(max_rd_atomic);
	CHECK(max_dest_rd_atomic);
	CHECK(min_rnr_timer);
	CHECK(port_num);
	CHECK(timeout);
	CHECK(retry_cnt);
	CHECK(rnr_retry);
	CHECK(alt_port_num);
	CHECK(alt_timeout);
	assert_int_equal((uint32_t)dst->qp_access_flags, src->qp_access_flags);
	assert_int_equal(dst->cap.max_send_wr, src->max_send_wr);
	assert_int_equal(dst->cap.max_recv_wr, src->max_recv_wr);
	assert_int_equal(dst->cap.max_send_sge, src->max_send_sge);
	assert_int_equal(dst->cap.max_recv_sge, src->max_recv_sge);
	assert_int_equal(dst->cap.max_inline_data, src->max_inline_data);
	check_ah(&dst->ah_attr, &src->ah_attr);
	check_ah(&dst->alt_ah_attr, &src->alt_ah_attr);
}

static void ibv_copy_qp_attr_from_kern_copies_every_member(void **state)
{
	struct ib_uverbs_qp_attr src;
	struct ibv_qp_attr dst;

	(void)state;
	fill(&src, sizeof(src));
	memset(&dst, 0, sizeof(dst));
	dst.qp_state = IBV_QPS_RTR;
	dst.rate_limit = 77;
	ibv_copy_qp_attr_from_kern(&dst, &src);
	check_qp(&dst, &src);
	assert_int_equal(dst.qp_state, IBV_QPS_RTR);
	assert_int_equal(dst.rate_limit, 77);
}

static void check_path(const struct ibv_sa_path_rec *dst, const struct ib_user_path_rec *src)
{
	assert_memory_equal(dst->dgid.raw, src->dgid, 16);
	assert_memory_equal(dst->sgid.raw, src->sgid, 16);
	CHECK(dlid);
	CHECK(slid);
	CHECK(raw_traffic);
	CHECK(flow_label);
	CHECK(hop_limit);
	CHECK(traffic_class);
	CHECK(reversible);
	CHECK(numb_path);
	CHECK(pkey);
	CHECK(sl);
	CHECK(mtu_selector);
	CHECK(mtu);
	CHECK(rate_selector);
	CHECK(rate);
	CHECK(packet_life_time_selector);
	CHECK(packet_life_time);
	CHECK(preference);
}

static void ibv_copy_path_rec_to_kern_reverses_from_kern(void **state)
{
	struct ib_user_path_rec kernel, again;
	struct ibv_sa_path_rec path;

	(void)state;
	fill(&kernel, sizeof(kernel));
	kernel.mtu = IBV_MTU_2048;
	ibv_copy_path_rec_from_kern(&path, &kernel);
	check_path(&path, &kernel);

	memset(&again, 0xaa, sizeof(again));
	ibv_copy_path_rec_to_kern(&again, &path);
	assert_memory_equal(&again, &kernel, sizeof(kernel));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_copy_ah_attr_from_kern_copies_every_member),
		cmocka_unit_test(ibv_copy_qp_attr_from_kern_copies_every_member),
		cmocka_unit_test(ibv_copy_path_rec_to_kern_reverses_from_kern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
