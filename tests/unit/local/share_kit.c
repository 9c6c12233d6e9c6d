/* SPDX-License-Identifier: BSD-2-Clause */
#include "share_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/user_fault.h"
#include "local/local.h"

#define WAIT_NS (20 * CLOCK_NS_PER_S)

struct pair pair;
static struct ibv_qp *qps[2];
struct node *const owner = &pair.nodes[1];

void install_handler(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS};
	static struct sigaction handlers[2];

	for (int i = 0; i < 2 && handlers[0].sa_flags; i++)
		assert_int_equal(sigaction(numbers[i], &handlers[i], NULL), 0);
	assert_true(user_fault_examine());
	for (int i = 0; i < 2; i++)
		assert_int_equal(sigaction(numbers[i], NULL, &handlers[i]), 0);
}

int share_kit_setup(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, true);
	return 0;
}

int share_kit_teardown(void **state)
{
	(void)state;
	pair_close_connected(&pair, qps);
	return 0;
}

enum ibv_wc_status execute(struct ibv_send_wr *wr, void *local, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)local, bytes, pair.nodes[0].mr->lkey};
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(ibv_post_send(qps[0], wr, &bad), 0);
	while (!poll_cq_once(pair.nodes[0].cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	return wc.status;
}

enum ibv_wc_status move(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t offset,
			uint32_t bytes)
{
	struct ibv_send_wr wr = {.opcode = opcode};

	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + offset;
	wr.wr.rdma.rkey = mr->rkey;
	return execute(&wr, pair.nodes[0].buf, bytes);
}

uint64_t mapped_count(void)
{
	return local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED];
}

uint64_t fault_count(void)
{
	return local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED_FAULTS];
}

uint64_t write_often(const struct ibv_mr *mr)
{
	uint64_t before = mapped_count();

	for (int i = 0; i < WRITES; i++) {
		memset(pair.nodes[0].buf, i + 1, 64);
		assert_int_equal(move(IBV_WR_RDMA_WRITE, mr, 128, 64), IBV_WC_SUCCESS);
		assert_memory_equal((uint8_t *)mr->addr + 128, pair.nodes[0].buf, 64);
		pair_settle(&pair);
	}
	return mapped_count() - before;
}

int make_memfd(bool is_sealed)
{
	int fd = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	if (is_sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

struct ibv_mr *register_at(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(owner->pd, at, bytes, ACCESS);

	install_handler();
	assert_non_null(mr);
	return mr;
}

uint8_t *map(int fd)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

void end_region(struct ibv_mr *mr, uint8_t *at, int fd)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(at, BYTES);
	close(fd);
}
