/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Many regions of one memory object: their publication maps nothing, and their use is one mapping.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "mappings.h"
#include "pair.h"

#define REGIONS 100000u
#define BYTES	(REGIONS * 64ul)
#define USES	8
#define WAIT_NS (20 * CLOCK_NS_PER_S)

static struct pair pair;
static struct ibv_qp *qps[2];
static struct ibv_mr *mrs[REGIONS];

static void write_to(const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[0].buf, 64, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)mr->addr, .rkey = mr->rkey},
	};
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
	while (!poll_cq_once(pair.nodes[0].cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	pair_settle(&pair);
}

static void share_many_regions_are_one_mapping(void **state)
{
	int fd = memfd_create("many", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint64_t before;
	uint8_t *at;

	(void)state;
	assert_int_equal(ftruncate(fd, BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	pair_open_connected(&pair, qps, IBV_QPT_RC, true);
	for (size_t i = 0; i < REGIONS; i++) {
		mrs[i] = ibv_reg_mr(pair.nodes[1].pd, at + i * 64, 64,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		assert_non_null(mrs[i]);
	}
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	for (size_t i = 0; i < REGIONS; i += 997) {
		for (int use = 0; use < USES; use++)
			write_to(mrs[i]);
	}
	assert_int_equal(mappings_of(at), 2);
	before = local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED];
	write_to(mrs[997]);
	assert_int_equal(local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED], before + 1);
	for (size_t i = 0; i < REGIONS; i++)
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	pair_close_connected(&pair, qps);
	munmap(at, BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_many_regions_are_one_mapping),
	};

	if (!guarded_copy_is_available()) {
		print_message("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
