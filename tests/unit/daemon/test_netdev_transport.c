/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "daemon/netdev.h"

/* The thresholds are those of Linux, whose rdma_cm subtracts 96 bytes. */
static void netdev_path_mtu_fits_interface_mtu(void **state)
{
	static const struct {
		uint32_t netdev_bytes;
		uint8_t mtu;
	} rows[] = {{65536, IBV_MTU_4096}, {9000, IBV_MTU_4096}, {4192, IBV_MTU_4096},
		    {4191, IBV_MTU_2048},  {2144, IBV_MTU_2048}, {2143, IBV_MTU_1024},
		    {1500, IBV_MTU_1024},  {1120, IBV_MTU_1024}, {1119, IBV_MTU_512},
		    {608, IBV_MTU_512},	   {607, IBV_MTU_256},	 {68, IBV_MTU_256},
		    {0, IBV_MTU_256}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct netdev dev = {.transport = &netdev_roce_v2,
					   .mtu_bytes = rows[i].netdev_bytes};

		assert_int_equal(netdev_path_mtu(&dev), rows[i].mtu);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(netdev_path_mtu_fits_interface_mtu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
