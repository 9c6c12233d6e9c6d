/* SPDX-License-Identifier: BSD-2-Clause */
#include "queues.h"

#include "core/object/objects.h"
#include "core/object/vendor_err.h"

struct fake fake;

int queues_open(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

int queues_close(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

void post_sends(struct ibv_qp *qp, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .opcode = IBV_WR_SEND};
		struct ibv_send_wr *bad;

		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	}
}

void post_recvs(struct ibv_qp *qp, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_recv_wr wr = {.wr_id = 100 + (uint64_t)i};
		struct ibv_recv_wr *bad;

		assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	}
}

struct ibv_wc expect_wc(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	return wc;
}

void expect_flushed(uint64_t wr_id, int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_wc wc = expect_wc(wr_id + (uint64_t)i, IBV_WC_WR_FLUSH_ERR);

		assert_int_equal(wc.vendor_err, VENDOR_ERR_FLUSHED);
	}
}

void expect_cq_empty(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(fake.cq, 1, &wc), 0);
}
