/* SPDX-License-Identifier: BSD-2-Clause */

/* Address handles, and the address handle of a reply to a received GRH. */

#include "fake.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "core/device/ah.h"

static struct fake fake;

/*
 * The device's GIDs: its link-local one, its IPv4 address 10.1.2.3 and its IPv6 address
 * 2001:db8::1.
 */
static const uint8_t gids[3][16] = {
	{0xfe, 0x80, [15] = 9},
	{[10] = 0xff, 0xff, 10, 1, 2, 3},
	{0x20, 0x01, 0x0d, 0xb8, [15] = 1},
};

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	fake.device.info.gid_count = 4;
	for (int i = 0; i < 3; i++) {
		/* The entry in between is empty. */
		int at = i < 2 ? i : 3;

		memcpy(fake.device.info.gids[at].raw, gids[i], sizeof(gids[i]));
		fake.device.info.gids[at].is_valid = 1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_ah_attr good_attr(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3, .hop_limit = 1}};

	return attr;
}

static void ibv_create_ah_invalid_attr_fails(void **state)
{
	struct ibv_ah_attr attr;

	(void)state;
#define REFUSES(change, error)                              \
	do {                                                \
		attr = good_attr();                         \
		change;                                     \
		errno = 0;                                  \
		assert_null(ibv_create_ah(fake.pd, &attr)); \
		assert_int_equal(errno, error);             \
	} while (0)
	REFUSES(attr.is_global = 0, EINVAL);
	REFUSES(attr.port_num = 0, EINVAL);
	REFUSES(attr.port_num = 2, EINVAL);
	REFUSES(attr.sl = 16, EINVAL);
	REFUSES(attr.grh.sgid_index = 2, EINVAL);
	REFUSES(attr.grh.sgid_index = 4, EINVAL);
	REFUSES(attr.grh.sgid_index = 255, EINVAL);
	/* From an IPv6 source to an IPv4 destination. */
	REFUSES((attr.grh.dgid.raw[10] = 0xff, attr.grh.dgid.raw[11] = 0xff), EINVAL);
	REFUSES(fake_calls.ah_error = -EOPNOTSUPP, EOPNOTSUPP); /* no transport has a route */
	REFUSES(fake_calls.ah_error = -ENOMEM, ENOMEM);
	fake_calls.ah_error = 0;
	REFUSES(fake.engine.is_orphan = true, EIO);
	fake.engine.is_orphan = false;
#undef REFUSES
}

static void ibv_create_ah_makes_dealloc_pd_fail_with_ebusy(void **state)
{
	struct ibv_ah_attr attr = good_attr();
	struct ibv_ah *ah = ibv_create_ah(fake.pd, &attr);

	(void)state;
	assert_non_null(ah);
	assert_ptr_equal(ah->pd, fake.pd);
	assert_memory_equal(&to_ah(ah)->attr, &attr, sizeof(attr));
	assert_int_equal(ibv_dealloc_pd(fake.pd), EBUSY);
	assert_int_equal(fake_calls.ah_open, 1);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(fake_calls.ah_close, 1);
}

static void ibv_destroy_ah_in_forked_child_closes_nothing(void **state)
{
	struct ibv_ah_attr attr = good_attr();
	struct ibv_ah *ah = ibv_create_ah(fake.pd, &attr);

	(void)state;
	assert_non_null(ah);
	fake.engine.is_orphan = true;
	assert_int_equal(ibv_destroy_ah(ah), 0);
	fake.engine.is_orphan = false;
	assert_int_equal(fake_calls.ah_close, 0);
}

static void ibv_init_ah_from_wc_ipv6_grh_sets_both_gids(void **state)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .sl = 3};
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28 | 0x45u << 20 | 0xabcde)};
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	(void)state;
	memcpy(grh.dgid.raw, gids[2], 16);
	grh.sgid.raw[0] = 0x20;
	grh.sgid.raw[15] = 0x77;
	assert_int_equal(ibv_init_ah_from_wc(fake.ctx, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.sl, 3);
	assert_int_equal(attr.grh.sgid_index, 3);
	assert_int_equal(attr.grh.flow_label, 0xabcde);
	assert_int_equal(attr.grh.traffic_class, 0x45);
	assert_int_equal(attr.grh.hop_limit, 255);
	assert_memory_equal(attr.grh.dgid.raw, grh.sgid.raw, 16);
	ah = ibv_create_ah_from_wc(fake.pd, &wc, &grh, 1);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void ibv_init_ah_from_wc_ipv4_grh_sets_both_gids(void **state)
{
	static const uint8_t ip[20] = {0x45, 0x28, 0,  60, 0, 0, 0x40, 0, 64, 17,
				       0,    0,	   10, 1,  2, 9, 10,   1, 2,  3};
	static const uint8_t sender[16] = {[10] = 0xff, 0xff, 10, 1, 2, 9};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {0};
	struct ibv_ah_attr attr;

	(void)state;
	memcpy((uint8_t *)&grh + 20, ip, sizeof(ip));
	assert_int_equal(ibv_init_ah_from_wc(fake.ctx, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 1);
	assert_int_equal(attr.grh.traffic_class, 0x28);
	assert_int_equal(attr.grh.flow_label, 0);
	assert_memory_equal(attr.grh.dgid.raw, sender, 16);
}

static void ibv_init_ah_from_wc_without_grh_fails(void **state)
{
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28)};
	struct ibv_wc with = {.wc_flags = IBV_WC_GRH};
	struct ibv_wc without = {0};
	struct ibv_ah_attr attr;

	(void)state;
	errno = 0;
	assert_int_equal(ibv_init_ah_from_wc(fake.ctx, 1, &without, &grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(ibv_init_ah_from_wc(fake.ctx, 2, &with, &grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	/* The destination is not, or no longer, an address of this device. */
	errno = 0;
	assert_int_equal(ibv_init_ah_from_wc(fake.ctx, 1, &with, &grh, &attr), -1);
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_create_ah_from_wc(fake.pd, &with, &grh, 1));
}

#define AH_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AH_TEST(ibv_create_ah_invalid_attr_fails),
		AH_TEST(ibv_create_ah_makes_dealloc_pd_fail_with_ebusy),
		AH_TEST(ibv_destroy_ah_in_forked_child_closes_nothing),
		AH_TEST(ibv_init_ah_from_wc_ipv6_grh_sets_both_gids),
		AH_TEST(ibv_init_ah_from_wc_ipv4_grh_sets_both_gids),
		AH_TEST(ibv_init_ah_from_wc_without_grh_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
