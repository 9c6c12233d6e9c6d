/* SPDX-License-Identifier: BSD-2-Clause */

/* Pieces of memory that a WQE names, found and checked. */

#include "queues.h"

#include <string.h>

#include "core/qp.h"
#include "core/sge.h"

#define REGION_BYTES 256u

static uint8_t memory[REGION_BYTES];
static struct ibv_qp *qp;
static struct ibv_mr *mr;
/* A WQE with room for its pieces. */
static union {
	struct send_wqe wqe;
	uint8_t room[sizeof(struct send_wqe) + 8 * sizeof(struct ibv_sge)];
} slot;

static int open_region(void **state)
{
	queues_open(state);
	qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	mr = ibv_reg_mr(fake.pd, memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	memset(&slot, 0, sizeof(slot));
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
	slot.wqe.sge[index] = (struct ibv_sge){(uintptr_t)memory + at, length, mr->lkey};
	if (slot.wqe.num_sge <= index)
		slot.wqe.num_sge = (uint8_t)(index + 1);
}

static int gather(uint32_t offset, uint32_t length, bool for_write, struct iovec *iov, int max,
		  uint32_t *covered)
{
	int n;

	engine_lock(&fake.engine);
	n = sge_gather(to_qp(qp), &slot.wqe, offset, length, for_write, iov, max, covered);
	engine_unlock(&fake.engine);
	return n;
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
	return err;
}

/* Every range of bytes of a WQE in pieces, empty ones among them, is just those bytes. */
static void every_range_is_found(void **state)
{
	static const uint32_t lengths[] = {0, 5, 1, 0, 7, 0};
	uint8_t whole[13];
	uint32_t length = 0;

	(void)state;
	for (unsigned i = 0; i < REGION_BYTES; i++)
		memory[i] = (uint8_t)i;
	for (unsigned i = 0; i < 6; i++) {
		/* Backwards in memory. */
		name(i, 200 - 30 * i, lengths[i]);
		memcpy(whole + length, memory + 200 - 30 * i, lengths[i]);
		length += lengths[i];
	}
	assert_int_equal(length, sizeof(whole));
	for (uint32_t from = 0; from <= length; from++) {
		for (uint32_t to = from; to <= length; to++) {
			struct iovec iov[8];
			uint32_t covered, at = from;
			int n = gather(from, to - from, false, iov, 8, &covered);

			assert_in_range(n, 0, 3);
			assert_int_equal(covered, to - from);
			for (int i = 0; i < n; i++) {
				assert_memory_equal(iov[i].iov_base, whole + at, iov[i].iov_len);
				at += (uint32_t)iov[i].iov_len;
			}
			assert_int_equal(at, to);
		}
	}
}

static void short_room_covers_what_it_can(void **state)
{
	struct iovec iov[2];
	uint32_t covered;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		name(i, 10 * i, 10);
	assert_int_equal(gather(5, 35, false, iov, 2, &covered), 2);
	assert_int_equal(covered, 15);
	assert_ptr_equal(iov[0].iov_base, memory + 5);
	assert_int_equal(iov[1].iov_len, 10);
	/* And no more than there is. */
	assert_int_equal(gather(35, 100, false, iov, 2, &covered), 1);
	assert_int_equal(covered, 5);
	assert_int_equal(gather(40, 1, false, iov, 2, &covered), 0);
	assert_int_equal(covered, 0);
}

static void inline_bytes_are_the_wqes_own(void **state)
{
	struct iovec iov[1];
	uint32_t covered;

	(void)state;
	slot.wqe.is_inline = true;
	slot.wqe.length_bytes = 20;
	assert_int_equal(gather(3, 9, false, iov, 1, &covered), 1);
	assert_int_equal(covered, 9);
	assert_ptr_equal(iov[0].iov_base, slot.wqe.data + 3);
	assert_int_equal(iov[0].iov_len, 9);
	assert_int_equal(gather(20, 0, false, iov, 1, &covered), 0);
}

/* Each way in which a piece can be wrong, in the order in which that is looked at. */
static void wrong_pieces_are_told_apart(void **state)
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

static void pieces_lie_inside(void **state)
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

/* Only pieces that are reached are looked at; a piece that is reached is looked at whole. */
static void only_reached_pieces_are_checked(void **state)
{
	struct iovec iov[4];
	uint32_t covered;

	(void)state;
	name(0, 0, 10);
	name(1, 10, 10);
	name(2, 20, 10);
	slot.wqe.sge[1].lkey ^= 0x5a5a5a;
	assert_int_equal(gather(0, 10, false, iov, 4, &covered), 1);
	assert_int_equal(gather(20, 10, false, iov, 4, &covered), 1);
	assert_int_equal(gather(0, 11, false, iov, 4, &covered), -(int)VENDOR_ERR_LKEY);
	slot.wqe.sge[1].lkey ^= 0x5a5a5a;
	slot.wqe.sge[2].length = REGION_BYTES;
	assert_int_equal(gather(20, 1, false, iov, 4, &covered), -(int)VENDOR_ERR_LKEY_BOUNDS);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_region, close_region)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_range_is_found),
		TEST(short_room_covers_what_it_can),
		TEST(inline_bytes_are_the_wqes_own),
		TEST(wrong_pieces_are_told_apart),
		TEST(pieces_lie_inside),
		TEST(only_reached_pieces_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
