/* SPDX-License-Identifier: BSD-2-Clause */

/* Look-up and checks of the SGEs of a WQE. */

#include "queues.h"

#include <string.h>

#include "core/qp/qp.h"
#include "core/queue/sge.h"

#define REGION_BYTES 256u

static uint8_t memory[REGION_BYTES];
static struct ibv_qp *qp;
static struct ibv_mr *mr;
/*
 * A WQE with room for its SGEs. GCC 14 takes the array in a union for one without elements
 * (-fsanitize=bounds).
 */
static _Alignas(struct send_wqe) uint8_t room[sizeof(struct send_wqe) + 8 * sizeof(struct ibv_sge)];
static struct send_wqe *const slot = (struct send_wqe *)(void *)room;

static int open_region(void **state)
{
	queues_open(state);
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	mr = ibv_reg_mr(fake.pd, memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	memset(room, 0, sizeof(room));
	return 0;
}

static int close_region(void **state)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return queues_close(state);
}

static void name(unsigned index, size_t at, uint32_t length)
{
	slot->sge[index] = (struct ibv_sge){(uintptr_t)memory + at, length, mr->lkey};
	if (slot->num_sge <= index)
		slot->num_sge = (uint8_t)(index + 1);
}

static enum vendor_err gather(uint32_t offset, uint32_t length, struct sge_iovs *iovs)
{
	enum vendor_err err;

	engine_lock(&fake.engine);
	err = sge_gather(to_qp(qp), slot, offset, length, false, iovs);
	engine_unlock(&fake.engine);
	return err;
}

/* The check with the cache of the send queue, which remains from one check to the next. */
static enum vendor_err check_cached(const struct ibv_sge *sge, bool for_write)
{
	enum vendor_err err;
	uint8_t *at = NULL;

	engine_lock(&fake.engine);
	err = sge_check_cached(&to_qp(qp)->sq.sge_cache, to_qp(qp)->pd, sge, for_write, &at);
	engine_unlock(&fake.engine);
	if (!err && sge->length)
		assert_ptr_equal(at, (uint8_t *)(uintptr_t)sge->addr);
	return err;
}

static enum vendor_err check(const struct ibv_sge *sge, bool for_write)
{
	enum vendor_err err;
	uint8_t *at = NULL;

	engine_lock(&fake.engine);
	err = sge_check(to_qp(qp)->pd, sge, for_write, &at);
	engine_unlock(&fake.engine);
	if (!err)
		assert_non_null(at);
	/* The first check may fill the cache, and the second one then uses it. */
	assert_int_equal(check_cached(sge, for_write), err);
	assert_int_equal(check_cached(sge, for_write), err);
	return err;
}

/* Every range of a WQE's bytes is returned exactly, also with empty SGEs. */
static void sge_gather_every_range_is_exact(void **state)
{
	static const uint32_t lengths[] = {0, 5, 1, 0, 7, 0};
	uint8_t whole[13];
	uint32_t length = 0;

	(void)state;
	for (unsigned i = 0; i < REGION_BYTES; i++)
		memory[i] = (uint8_t)i;
	for (unsigned i = 0; i < 6; i++) {
		/* In descending order in memory. */
		name(i, 200 - 30 * i, lengths[i]);
		memcpy(whole + length, memory + 200 - 30 * i, lengths[i]);
		length += lengths[i];
	}
	assert_int_equal(length, sizeof(whole));
	for (uint32_t from = 0; from <= length; from++) {
		for (uint32_t to = from; to <= length; to++) {
			struct iovec iov[8];
			struct sge_iovs iovs = {.iov = iov, .max = 8};
			uint32_t at = from;

			assert_int_equal(gather(from, to - from, &iovs), VENDOR_ERR_NONE);
			assert_in_range(iovs.count, 0, 3);
			assert_int_equal(iovs.bytes, to - from);
			for (int i = 0; i < iovs.count; i++) {
				assert_memory_equal(iov[i].iov_base, whole + at, iov[i].iov_len);
				at += (uint32_t)iov[i].iov_len;
			}
			assert_int_equal(at, to);
		}
	}
}

static void sge_gather_few_iovecs_cover_a_prefix(void **state)
{
	struct iovec iov[2];
	struct sge_iovs iovs = {.iov = iov, .max = 2};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		name(i, 10 * i, 10);
	assert_int_equal(gather(5, 35, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 2);
	assert_int_equal(iovs.bytes, 15);
	assert_ptr_equal(iov[0].iov_base, memory + 5);
	assert_int_equal(iov[1].iov_len, 10);
	/* And no more bytes than the SGEs have. */
	assert_int_equal(gather(35, 100, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 1);
	assert_int_equal(iovs.bytes, 5);
	assert_int_equal(gather(40, 1, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 0);
	assert_int_equal(iovs.bytes, 0);
}

static void sge_gather_inline_data_is_in_wqe(void **state)
{
	struct iovec iov[1];
	struct sge_iovs iovs = {.iov = iov, .max = 1};

	(void)state;
	slot->is_inline = true;
	slot->length_bytes = 20;
	assert_int_equal(gather(3, 9, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 1);
	assert_int_equal(iovs.bytes, 9);
	assert_ptr_equal(iov[0].iov_base, slot->data + 3);
	assert_int_equal(iov[0].iov_len, 9);
	assert_int_equal(gather(20, 0, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 0);
}

static enum vendor_err copy_from(uint32_t offset, void *to, uint32_t bytes)
{
	enum vendor_err err;

	engine_lock(&fake.engine);
	err = sge_copy_from(to_qp(qp), slot, offset, to, bytes);
	engine_unlock(&fake.engine);
	return err;
}

static enum vendor_err copy_to(uint32_t offset, const void *from, uint32_t bytes)
{
	enum vendor_err err;

	engine_lock(&fake.engine);
	err = sge_copy_to(to_qp(qp), slot, offset, from, bytes);
	engine_unlock(&fake.engine);
	return err;
}

/* More SGEs than one look-up returns. */
static void sge_copies_reach_all_sges(void **state)
{
	uint8_t bytes[24] = {0}, pattern[22];

	(void)state;
	for (unsigned i = 0; i < REGION_BYTES; i++)
		memory[i] = (uint8_t)i;
	for (unsigned i = 0; i < 8; i++)
		name(i, 20 * i, i % 2 ? 5 : 1);
	assert_int_equal(copy_from(0, bytes, 24), VENDOR_ERR_NONE);
	assert_int_equal(bytes[0], 0);
	for (unsigned i = 1; i < 6; i++)
		assert_int_equal(bytes[i], 19 + i);
	assert_int_equal(bytes[23], 144);
	memset(pattern, 0xa5, sizeof(pattern));
	assert_int_equal(copy_to(1, pattern, 22), VENDOR_ERR_NONE);
	assert_int_equal(memory[0], 0);
	assert_int_equal(memory[20], 0xa5);
	assert_int_equal(memory[143], 0xa5);
	assert_int_equal(memory[144], 144);
}

static void sge_copies_beyond_sges_fail(void **state)
{
	uint8_t bytes[16] = {0};

	(void)state;
	name(0, 0, 10);
	assert_int_equal(copy_from(0, bytes, 0), VENDOR_ERR_NONE);
	assert_int_equal(copy_from(3, bytes, 8), VENDOR_ERR_LKEY_BOUNDS);
	assert_int_equal(copy_to(10, bytes, 1), VENDOR_ERR_LKEY_BOUNDS);
}

static void sge_copies_report_error_of_sge(void **state)
{
	uint8_t bytes[16] = {0};

	(void)state;
	name(0, 0, 10);
	name(1, 10, 10);
	slot->sge[1].lkey ^= 0x5a5a5a;
	assert_int_equal(copy_to(0, bytes, 10), VENDOR_ERR_NONE);
	assert_int_equal(copy_to(0, bytes, 11), VENDOR_ERR_LKEY);
	assert_int_equal(copy_from(9, bytes, 2), VENDOR_ERR_LKEY);
}

static void sge_inline_data_are_copied_from_wqe(void **state)
{
	uint8_t bytes[4];

	(void)state;
	slot->is_inline = true;
	slot->length_bytes = 8;
	memcpy(slot->data, "01234567", 8);
	assert_int_equal(copy_from(3, bytes, 4), VENDOR_ERR_NONE);
	assert_memory_equal(bytes, "3456", 4);
}

/* Each error of an SGE, in the order of the checks. */
static void sge_gather_invalid_sge_reports_its_cause(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(fake.ctx);
	struct ibv_mr *foreign = ibv_reg_mr(pd, memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *constant = ibv_reg_mr(fake.pd, memory, REGION_BYTES, 0);
	struct ibv_sge sge = {(uintptr_t)memory, REGION_BYTES, mr->lkey};

	(void)state;
	assert_non_null(foreign);
	assert_non_null(constant);
	assert_int_equal(check(&sge, true), VENDOR_ERR_NONE);
	sge.lkey = mr->lkey ^ 0x5a5a5a;
	assert_int_equal(check(&sge, false), VENDOR_ERR_LKEY);
	sge.lkey = foreign->lkey;
	assert_int_equal(check(&sge, false), VENDOR_ERR_LKEY_PD);
	sge.lkey = constant->lkey;
	assert_int_equal(check(&sge, true), VENDOR_ERR_LKEY_ACCESS);
	assert_int_equal(check(&sge, false), VENDOR_ERR_NONE);
	assert_int_equal(ibv_dereg_mr(constant), 0);
	assert_int_equal(check(&sge, false), VENDOR_ERR_LKEY);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* Each change of an MR invalidates the cache. */
static void sge_check_cached_sees_changed_mr(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(fake.ctx);
	struct ibv_mr *changed = ibv_reg_mr(fake.pd, memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)memory, REGION_BYTES, changed->lkey};

	(void)state;
	assert_int_equal(check(&sge, true), VENDOR_ERR_NONE);
	assert_int_equal(ibv_rereg_mr(changed, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	assert_int_equal(check(&sge, true), VENDOR_ERR_LKEY_ACCESS);
	assert_int_equal(check(&sge, false), VENDOR_ERR_NONE);
	assert_int_equal(ibv_rereg_mr(changed, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory,
				      REGION_BYTES / 2, 0),
			 0);
	assert_int_equal(check(&sge, false), VENDOR_ERR_LKEY_BOUNDS);
	sge.length = REGION_BYTES / 2;
	assert_int_equal(check(&sge, false), VENDOR_ERR_NONE);
	assert_int_equal(ibv_rereg_mr(changed, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	assert_int_equal(check(&sge, false), VENDOR_ERR_LKEY_PD);
	assert_int_equal(ibv_rereg_mr(changed, IBV_REREG_MR_CHANGE_PD, fake.pd, NULL, 0, 0), 0);
	assert_int_equal(check(&sge, false), VENDOR_ERR_NONE);
	assert_int_equal(ibv_dereg_mr(changed), 0);
	assert_int_equal(check(&sge, false), VENDOR_ERR_LKEY);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void sge_gather_pieces_lie_in_memory_region(void **state)
{
	static const struct {
		int64_t from;
		uint32_t length;
		bool is_inside;
	} table[] = {
		{0, REGION_BYTES, true},
		{0, REGION_BYTES + 1, false},
		{-1, 1, false},
		{-1, 2, false},
		{1, REGION_BYTES - 1, true},
		{1, REGION_BYTES, false},
		{REGION_BYTES, 0, true},
		{REGION_BYTES, 1, false},
		{REGION_BYTES - 1, 1, true},
		{0, UINT32_MAX, false},
		{-(int64_t)UINT32_MAX, UINT32_MAX, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ibv_sge sge = {(uintptr_t)memory + (uint64_t)table[i].from, table[i].length,
				      mr->lkey};

		assert_int_equal(check(&sge, false),
				 table[i].is_inside ? VENDOR_ERR_NONE : VENDOR_ERR_LKEY_BOUNDS);
	}
}

/* Only SGEs in the range are checked; each of these is checked completely. */
static void sge_gather_checks_sges_of_range_only(void **state)
{
	struct iovec iov[4];
	struct sge_iovs iovs = {.iov = iov, .max = 4};

	(void)state;
	name(0, 0, 10);
	name(1, 10, 10);
	name(2, 20, 10);
	slot->sge[1].lkey ^= 0x5a5a5a;
	assert_int_equal(gather(0, 10, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 1);
	assert_int_equal(gather(20, 10, &iovs), VENDOR_ERR_NONE);
	assert_int_equal(iovs.count, 1);
	assert_int_equal(gather(0, 11, &iovs), VENDOR_ERR_LKEY);
	slot->sge[1].lkey ^= 0x5a5a5a;
	slot->sge[2].length = REGION_BYTES;
	assert_int_equal(gather(20, 1, &iovs), VENDOR_ERR_LKEY_BOUNDS);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_region, close_region)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sge_gather_every_range_is_exact),
		TEST(sge_gather_few_iovecs_cover_a_prefix),
		TEST(sge_gather_inline_data_is_in_wqe),
		TEST(sge_copies_reach_all_sges),
		TEST(sge_copies_beyond_sges_fail),
		TEST(sge_copies_report_error_of_sge),
		TEST(sge_inline_data_are_copied_from_wqe),
		TEST(sge_gather_invalid_sge_reports_its_cause),
		TEST(sge_check_cached_sees_changed_mr),
		TEST(sge_gather_pieces_lie_in_memory_region),
		TEST(sge_gather_checks_sges_of_range_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
