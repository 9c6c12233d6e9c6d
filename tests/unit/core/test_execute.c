/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The effects of inbound requests on memory, receives and completions, with any transport; and
 * forbidden effects.
 */

#include "queues.h"

#include <string.h>

#include "core/qp/qp.h"
#include "core/queue/execute.h"
#include "ipc/segment.h"

#define REGION_BYTES 256u
#define IOVA	     UINT64_C(0xfffffffffffffe00) /* near the end of the address space */

#define ACCESS_ALL                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* An iova has the page offset of the address. */
static uint64_t area[8192 / 8] __attribute__((aligned(4096)));
static uint64_t *const words = &area[IOVA % 4096 / 8];
static uint8_t *const memory = (uint8_t *)&area[IOVA % 4096 / 8];
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct inbound in;

static int open_region(void **state)
{
	queues_open(state);
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	fake_walk(qp, IBV_QPS_RTS);
	to_qp(qp)->attr.qp_access_flags = ACCESS_ALL;
	mr = ibv_reg_mr_iova2(fake.pd, memory, REGION_BYTES, IOVA, ACCESS_ALL);
	assert_non_null(mr);
	memset(words, 0x5a, REGION_BYTES);
	memset(&in, 0, sizeof(in));
	engine_lock(&fake.engine);
	return 0;
}

static int close_region(void **state)
{
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return queues_close(state);
}

/* A receive with a WR of its own for parts of the region. */
static void post_recv_of(uint64_t wr_id, const struct ibv_sge *sge, int count)
{
	struct ibv_recv_wr wr = {
		.wr_id = wr_id, .sg_list = (struct ibv_sge *)(uintptr_t)sge, .num_sge = count};
	struct ibv_recv_wr *bad;

	engine_unlock(&fake.engine);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	engine_lock(&fake.engine);
}

static struct ibv_wc wc_of(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	engine_unlock(&fake.engine);
	wc = expect_wc(wr_id, status);
	engine_lock(&fake.engine);
	return wc;
}

static void expect(enum access_result result, enum access_result wanted)
{
	assert_string_equal(access_result_name(result), access_result_name(wanted));
}

static void access_result_name_every_value_has_a_name(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ACCESS_RESULT_COUNT; i++) {
		assert_true(strlen(access_result_name((enum access_result)i)) > 1);
		assert_true(i == ACCESS_OK || access_vendor_err((enum access_result)i));
	}
	assert_string_equal(access_result_name(ACCESS_RESULT_COUNT), "unknown");
	assert_int_equal(access_vendor_err(ACCESS_RESULT_COUNT), VENDOR_ERR_NO_RESPONSE);
}

static void inbound_data_send_fills_receive_in_order(void **state)
{
	const struct ibv_sge sge[3] = {{IOVA + 100, 3, mr->lkey},
				       {IOVA, 0, mr->lkey ^ 0x5a5a5a},
				       {IOVA + 8, 20, mr->lkey}};
	const struct inbound_end end = {
		.has_imm = true, .imm_data_be = 0x01020304, .src_qpn = 0x77, .has_grh = true};
	struct ibv_wc wc;

	(void)state;
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_RNR);
	post_recv_of(5, sge, 3);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "ab", 2), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "", 0), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "cdef", 4), ACCESS_OK);
	assert_memory_equal(memory + 100, "abc\x5a", 4);
	assert_memory_equal(memory + 8, "def\x5a", 4);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_OK);
	wc = wc_of(5, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 6);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM | IBV_WC_GRH);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.src_qp, 0x77);
	assert_int_equal(wc.qp_num, qp->qp_num);
	assert_false(in.has_recv);
}

static void inbound_begin_recv_empty_send_consumes_receive(void **state)
{
	const struct inbound_end end = {.src_qpn = 1};

	(void)state;
	post_recv_of(6, NULL, 0);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_OK);
	assert_int_equal(wc_of(6, IBV_WC_SUCCESS).byte_len, 0);
}

static void inbound_data_longer_than_receive_fails(void **state)
{
	const struct ibv_sge sge = {IOVA, 4, mr->lkey};
	struct ibv_wc wc;

	(void)state;
	post_recv_of(7, &sge, 1);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "abcde", 5), ACCESS_LENGTH);
	assert_memory_equal(memory, "abcd\x5a", 5);
	inbound_fail(to_qp(qp), &in, ACCESS_LENGTH);
	wc = wc_of(7, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.vendor_err, VENDOR_ERR_RECV_TOO_SHORT);
	/* The failure is reported once. */
	inbound_fail(to_qp(qp), &in, ACCESS_LENGTH);
	engine_unlock(&fake.engine);
	expect_cq_empty();
	engine_lock(&fake.engine);
}

static void inbound_data_invalid_receive_fails_as_responder_error(void **state)
{
	const struct ibv_sge sge = {IOVA + 1, REGION_BYTES, mr->lkey};
	static const uint8_t data[REGION_BYTES];

	(void)state;
	post_recv_of(8, &sge, 1);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, data, REGION_BYTES), ACCESS_LOCAL);
	inbound_fail(to_qp(qp), &in, ACCESS_LOCAL);
	assert_int_equal(wc_of(8, IBV_WC_LOC_PROT_ERR).vendor_err, VENDOR_ERR_LKEY_BOUNDS);
	assert_int_equal(memory[1], 0x5a);
}

/* The part of the SGE that receives no data is not checked. */
static void inbound_data_shorter_than_receive_checks_filled_part(void **state)
{
	const struct ibv_sge sge = {IOVA + REGION_BYTES - 8, 4096, mr->lkey};
	const struct inbound_end end = {.src_qpn = 1};

	(void)state;
	post_recv_of(9, &sge, 1);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "abc", 3), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "defgh", 5), ACCESS_OK);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_OK);
	assert_int_equal(wc_of(9, IBV_WC_SUCCESS).byte_len, 8);
	assert_memory_equal(memory + REGION_BYTES - 8, "abcdefgh", 8);
	post_recv_of(10, &sge, 1);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "ijklmnop", 8), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "q", 1), ACCESS_LOCAL);
	inbound_fail(to_qp(qp), &in, ACCESS_LOCAL);
	assert_int_equal(wc_of(10, IBV_WC_LOC_PROT_ERR).vendor_err, VENDOR_ERR_LKEY_BOUNDS);
}

static void inbound_fail_completes_receive_with_cause(void **state)
{
	(void)state;
	post_recv_of(1, NULL, 0);
	post_recv_of(2, NULL, 0);
	expect(inbound_take_recv(to_qp(qp), &in), ACCESS_OK);
	inbound_fail(to_qp(qp), &in, ACCESS_OK);
	assert_int_equal(wc_of(1, IBV_WC_WR_FLUSH_ERR).vendor_err, VENDOR_ERR_FLUSHED);
	expect(inbound_take_recv(to_qp(qp), &in), ACCESS_OK);
	inbound_fail(to_qp(qp), &in, ACCESS_RKEY);
	assert_int_equal(wc_of(2, IBV_WC_LOC_ACCESS_ERR).vendor_err, VENDOR_ERR_RKEY);
	expect(inbound_take_recv(to_qp(qp), &in), ACCESS_RNR);
}

static void inbound_begin_write_stores_at_remote_address(void **state)
{
	const struct inbound_end end = {.src_qpn = 1};

	(void)state;
	expect(inbound_begin_write(to_qp(qp), &in, IOVA + 10, mr->rkey, 6), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "abcd", 4), ACCESS_OK);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_LENGTH);
	expect(inbound_data(to_qp(qp), &in, "efg", 3), ACCESS_LENGTH);
	expect(inbound_data(to_qp(qp), &in, "ef", 2), ACCESS_OK);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_OK);
	assert_memory_equal(memory + 9,
			    "\x5a"
			    "abcdef\x5a",
			    8);
	engine_unlock(&fake.engine);
	expect_cq_empty();
	engine_lock(&fake.engine);
}

static void inbound_take_recv_write_with_immediate_completes_receive(void **state)
{
	const struct inbound_end end = {.has_imm = true, .imm_data_be = 9};
	struct ibv_wc wc;

	(void)state;
	post_recv_of(3, NULL, 0);
	expect(inbound_begin_write(to_qp(qp), &in, IOVA, mr->rkey, 2), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "ab", 2), ACCESS_OK);
	expect(inbound_take_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_OK);
	wc = wc_of(3, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 2);
	post_recv_of(4, NULL, 0);
	expect(inbound_take_recv(to_qp(qp), &in), ACCESS_OK);
	inbound_begin_placed(&in, 1000);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_OK);
	assert_int_equal(wc_of(4, IBV_WC_SUCCESS).byte_len, 1000);
}

/* The region may be deregistered between two packets of a message. */
static void inbound_data_write_after_dereg_mr_fails(void **state)
{
	(void)state;
	expect(inbound_begin_write(to_qp(qp), &in, IOVA, mr->rkey, 8), ACCESS_OK);
	expect(inbound_data(to_qp(qp), &in, "abcd", 4), ACCESS_OK);
	to_mr(mr)->access &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	expect(inbound_data(to_qp(qp), &in, "efgh", 4), ACCESS_RIGHTS);
	assert_memory_equal(memory, "abcd\x5a", 5);
}

static void inbound_end_invalidate_of_mr_fails(void **state)
{
	const struct inbound_end end = {.has_invalidate = true, .invalidate_rkey = mr->rkey};

	(void)state;
	post_recv_of(1, NULL, 0);
	expect(inbound_begin_recv(to_qp(qp), &in), ACCESS_OK);
	expect(inbound_end(to_qp(qp), &in, &end), ACCESS_INVALIDATE);
	assert_true(in.has_recv);
	inbound_fail(to_qp(qp), &in, ACCESS_INVALIDATE);
	(void)wc_of(1, IBV_WC_LOC_ACCESS_ERR);
}

/* QP, key, domain, rights, bounds: the first failed check determines the error. */
static void inbound_begin_write_first_failed_check_determines_error(void **state)
{
	struct ibv_pd *pd;
	struct ibv_mr *foreign;
	const uint8_t *from;

	(void)state;
	engine_unlock(&fake.engine);
	pd = ibv_alloc_pd(fake.ctx);
	foreign = ibv_reg_mr(pd, memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	engine_lock(&fake.engine);
	to_qp(qp)->attr.qp_access_flags = 0;
	expect(execute_read(to_qp(qp), 0, 1, 1, &from), ACCESS_QP_RIGHTS);
	expect(execute_read(to_qp(qp), 0, 1, 0, &from), ACCESS_QP_RIGHTS);
	to_qp(qp)->attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	expect(execute_read(to_qp(qp), 0, mr->rkey ^ 0x5a5a5a, 1, &from), ACCESS_RKEY);
	/* With a length of 0 the key is not checked (IBA 1.x §9.7.4.1.5). */
	expect(execute_read(to_qp(qp), 0, mr->rkey ^ 0x5a5a5a, 0, &from), ACCESS_OK);
	assert_null(from);
	expect(execute_read(to_qp(qp), 0, foreign->rkey, 1, &from), ACCESS_PD);
	to_mr(mr)->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	expect(execute_read(to_qp(qp), 0, mr->rkey, 1, &from), ACCESS_RIGHTS);
	to_mr(mr)->access = IBV_ACCESS_REMOTE_READ;
	expect(execute_read(to_qp(qp), 0, mr->rkey, 1, &from), ACCESS_BOUNDS);
	expect(execute_read(to_qp(qp), IOVA + 1, mr->rkey, REGION_BYTES - 1, &from), ACCESS_OK);
	assert_ptr_equal(from, memory + 1);
	expect(execute_read(to_qp(qp), IOVA + 1, mr->rkey, REGION_BYTES, &from), ACCESS_BOUNDS);
	/* A range that wraps at the end of the address space is invalid. */
	expect(execute_read(to_qp(qp), UINT64_MAX, mr->rkey, 2, &from), ACCESS_BOUNDS);
	expect(execute_read(to_qp(qp), IOVA, mr->rkey, UINT32_MAX, &from), ACCESS_BOUNDS);
	expect(inbound_begin_write(to_qp(qp), &in, IOVA, mr->rkey, 1), ACCESS_QP_RIGHTS);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	engine_lock(&fake.engine);
}

static void execute_atomic_changes_one_word(void **state)
{
	uint64_t original = 0;

	(void)state;
	words[1] = 40;
	expect(execute_atomic(to_qp(qp), false, IOVA + 8, mr->rkey, 2, 0, &original), ACCESS_OK);
	assert_int_equal(original, 40);
	assert_int_equal(words[1], 42);
	expect(execute_atomic(to_qp(qp), true, IOVA + 8, mr->rkey, 41, 7, &original), ACCESS_OK);
	assert_int_equal(original, 42);
	assert_int_equal(words[1], 42);
	expect(execute_atomic(to_qp(qp), true, IOVA + 8, mr->rkey, 42, 7, &original), ACCESS_OK);
	assert_int_equal(original, 42);
	assert_int_equal(words[1], 7);
	/* The sum wraps. */
	expect(execute_atomic(to_qp(qp), false, IOVA + 8, mr->rkey, UINT64_MAX, 0, &original),
	       ACCESS_OK);
	assert_int_equal(words[1], 6);
	assert_memory_equal(memory, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
	assert_memory_equal(memory + 16, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
}

static void execute_atomic_unaligned_or_outside_fails(void **state)
{
	uint64_t original = 0;
	struct ibv_mr *odd;

	(void)state;
	expect(execute_atomic(to_qp(qp), false, IOVA + 4, mr->rkey, 1, 0, &original), ACCESS_ALIGN);
	expect(execute_atomic(to_qp(qp), false, IOVA + REGION_BYTES, mr->rkey, 1, 0, &original),
	       ACCESS_BOUNDS);
	to_mr(mr)->access &= ~(unsigned)IBV_ACCESS_REMOTE_ATOMIC;
	expect(execute_atomic(to_qp(qp), false, IOVA, mr->rkey, 1, 0, &original), ACCESS_RIGHTS);
	engine_unlock(&fake.engine);
	odd = ibv_reg_mr_iova2(fake.pd, memory + 4, 64, 0,
			       (unsigned)ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	engine_lock(&fake.engine);
	assert_non_null(odd);
	/* The remote address is aligned, but the local one is not. */
	expect(execute_atomic(to_qp(qp), true, 0, odd->rkey, 1, 0, &original), ACCESS_ALIGN);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_dereg_mr(odd), 0);
	engine_lock(&fake.engine);
	for (unsigned i = 0; i < REGION_BYTES; i++)
		assert_int_equal(memory[i], 0x5a);
}

static void execute_atomic_write_stores_one_word(void **state)
{
	uint8_t unaligned[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

	(void)state;
#define PUTS(va, key, bytes) execute_atomic_write(to_qp(qp), va, key, unaligned + 1, bytes)
	expect(PUTS(IOVA + 8, mr->rkey, 8), ACCESS_OK);
	assert_memory_equal(memory + 8, unaligned + 1, 8);
	assert_memory_equal(memory, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
	assert_memory_equal(memory + 16, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
	expect(PUTS(IOVA, mr->rkey, 4), ACCESS_ALIGN);
	expect(PUTS(IOVA, mr->rkey, 0), ACCESS_ALIGN);
	expect(PUTS(IOVA, mr->rkey, 16), ACCESS_ALIGN);
	expect(PUTS(IOVA + 4, mr->rkey, 8), ACCESS_ALIGN);
	expect(PUTS(IOVA + REGION_BYTES, mr->rkey, 8), ACCESS_BOUNDS);
	expect(PUTS(IOVA, mr->rkey ^ 0x5a5a5a, 8), ACCESS_RKEY);
	to_mr(mr)->access &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	expect(PUTS(IOVA, mr->rkey, 8), ACCESS_RIGHTS);
	to_qp(qp)->attr.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
	expect(PUTS(IOVA, mr->rkey, 8), ACCESS_QP_RIGHTS);
#undef PUTS
	assert_memory_equal(memory, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
}

static void execute_flush_first_failed_check_determines_error(void **state)
{
	const unsigned both = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT;
	struct ibv_mr *foreign;
	struct ibv_pd *pd;

	(void)state;
	engine_unlock(&fake.engine);
	pd = ibv_alloc_pd(fake.ctx);
	foreign = ibv_reg_mr(pd, memory, REGION_BYTES, IBV_ACCESS_FLUSH_GLOBAL);
	assert_non_null(foreign);
	engine_lock(&fake.engine);
#define FLUSHES(va, key, bytes, types, level) execute_flush(to_qp(qp), va, key, bytes, types, level)
	expect(FLUSHES(IOVA, mr->rkey, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), ACCESS_QP_RIGHTS);
	to_qp(qp)->attr.qp_access_flags = IBV_ACCESS_FLUSH_GLOBAL;
	expect(FLUSHES(IOVA, mr->rkey, 8, 0, IBV_FLUSH_RANGE), ACCESS_QP_RIGHTS);
	expect(FLUSHES(IOVA, mr->rkey, 8, 4, IBV_FLUSH_RANGE), ACCESS_QP_RIGHTS);
	expect(FLUSHES(IOVA, mr->rkey, 8, IBV_FLUSH_GLOBAL, 2), ACCESS_QP_RIGHTS);
	/* Both placement types are requested and one is permitted. */
	expect(FLUSHES(IOVA, mr->rkey, 8, both, IBV_FLUSH_RANGE), ACCESS_QP_RIGHTS);
	expect(FLUSHES(IOVA, mr->rkey ^ 0x5a5a5a, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
	       ACCESS_RKEY);
	expect(FLUSHES(IOVA, SEGMENT_WINDOW_KEY, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
	       ACCESS_RKEY);
	expect(FLUSHES((uintptr_t)memory, foreign->rkey, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR),
	       ACCESS_PD);
	expect(FLUSHES(IOVA, mr->rkey, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), ACCESS_RIGHTS);
	to_mr(mr)->access |= IBV_ACCESS_FLUSH_GLOBAL;
	expect(FLUSHES(IOVA, mr->rkey, REGION_BYTES, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), ACCESS_OK);
	expect(FLUSHES(IOVA + 1, mr->rkey, REGION_BYTES, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE),
	       ACCESS_BOUNDS);
	expect(FLUSHES(IOVA - 1, mr->rkey, 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), ACCESS_BOUNDS);
	expect(FLUSHES(0, mr->rkey, UINT32_MAX, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR), ACCESS_OK);
	/* The queue pair permits both, and the region, as every region, only one. */
	to_qp(qp)->attr.qp_access_flags |= IBV_ACCESS_FLUSH_PERSISTENT;
	expect(FLUSHES(IOVA, mr->rkey, 8, both, IBV_FLUSH_RANGE), ACCESS_RIGHTS);
#undef FLUSHES
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	engine_lock(&fake.engine);
	for (unsigned i = 0; i < REGION_BYTES; i++)
		assert_int_equal(memory[i], 0x5a);
}

/* Each opcode is executed by its own function, with the operands of the request. */
static void execute_requests_are_executed_by_opcode(void **state)
{
	const uint64_t value = 7;
	struct remote_request request = {
		.opcode = IBV_WR_ATOMIC_WRITE,
		.rkey = mr->rkey,
		.remote_addr = IOVA + 8,
		.length_bytes = sizeof(value),
		.flush_types = IBV_FLUSH_GLOBAL,
		.flush_level = IBV_FLUSH_RANGE,
		.compare_add = 7,
		.swap = 40,
		.data = &value,
	};
	uint64_t original = 0;

	(void)state;
	to_mr(mr)->access |= IBV_ACCESS_FLUSH_GLOBAL;
	to_qp(qp)->attr.qp_access_flags |= IBV_ACCESS_FLUSH_GLOBAL;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_OK);
	assert_int_equal(words[1], 7);
	request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_OK);
	assert_int_equal(original, 7);
	assert_int_equal(words[1], 40);
	request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_OK);
	assert_int_equal(original, 40);
	assert_int_equal(words[1], 47);
	request.opcode = IBV_WR_RDMA_READ;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_OK);
	request.length_bytes = REGION_BYTES;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_BOUNDS);
	request.opcode = IBV_WR_FLUSH;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_BOUNDS);
	request.flush_level = IBV_FLUSH_MR;
	expect(execute_request(to_qp(qp), &request, &original), ACCESS_OK);
	assert_int_equal(words[1], 47);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_region, close_region)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(access_result_name_every_value_has_a_name),
		TEST(inbound_data_send_fills_receive_in_order),
		TEST(inbound_begin_recv_empty_send_consumes_receive),
		TEST(inbound_data_longer_than_receive_fails),
		TEST(inbound_data_invalid_receive_fails_as_responder_error),
		TEST(inbound_data_shorter_than_receive_checks_filled_part),
		TEST(inbound_fail_completes_receive_with_cause),
		TEST(inbound_begin_write_stores_at_remote_address),
		TEST(inbound_take_recv_write_with_immediate_completes_receive),
		TEST(inbound_data_write_after_dereg_mr_fails),
		TEST(inbound_end_invalidate_of_mr_fails),
		TEST(inbound_begin_write_first_failed_check_determines_error),
		TEST(execute_atomic_changes_one_word),
		TEST(execute_atomic_unaligned_or_outside_fails),
		TEST(execute_atomic_write_stores_one_word),
		TEST(execute_flush_first_failed_check_determines_error),
		TEST(execute_requests_are_executed_by_opcode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
