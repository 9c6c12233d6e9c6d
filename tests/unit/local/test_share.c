/* SPDX-License-Identifier: BSD-2-Clause */

/* Memory objects of regions: which ones peers map, and when they unmap them. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

#include "local/guarded_copy.h"
#include "mappings.h"
#include "share_kit.h"

static void share_private_memory_is_not_mapped(void **state)
{
	(void)state;
	assert_int_equal(write_often(owner->mr), 0);
}

static void share_sealed_memfd_is_mapped(void **state)
{
	int fd = make_memfd(true);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);

	(void)state;
	assert_in_range(write_often(mr), 1, WRITES - 1);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(mappings_of(at), 2);
	/* The descriptor is needed only until the object is mapped. */
	close(fd);
	memset(at + 4096, 0x5a, 64);
	assert_int_equal(move(IBV_WR_RDMA_READ, mr, 4096, 64), IBV_WC_SUCCESS);
	assert_memory_equal(pair.nodes[0].buf, at + 4096, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	munmap(at, BYTES);
}

/* Two regions of one object are one mapping, which remains until both are deregistered. */
static void share_regions_of_one_object_share_a_mapping(void **state)
{
	int fd = make_memfd(true);
	uint8_t *at = map(fd);
	struct ibv_mr *first = register_at(at, 4096), *second = register_at(at + 8192, 4096);

	(void)state;
	write_often(first);
	write_often(second);
	assert_int_equal(write_often(first), WRITES);
	assert_int_equal(write_often(second), WRITES);
	assert_int_equal(mappings_of(at), 2);
	assert_int_equal(ibv_dereg_mr(first), 0);
	pair_settle(&pair);
	assert_int_equal(write_often(second), WRITES);
	assert_int_equal(ibv_dereg_mr(second), 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	munmap(at, BYTES);
	close(fd);
}

/*
 * The initiator did not request the object itself: another peer, here the owner's connection to
 * itself, had done so.
 */
static void share_of_another_peers_request_is_unmapped_too(void **state)
{
	int fd = make_memfd(true);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);
	struct ibv_qp *own[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		own[i] = pair_create_qp(owner, IBV_QPT_RC, NULL);
	pair_connect(own[0], own[1]);
	for (int i = 0; i < WRITES; i++) {
		struct ibv_sge sge = {(uintptr_t)owner->buf, 64, owner->mr->lkey};
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = {.remote_addr = (uintptr_t)at, .rkey = mr->rkey},
		};
		struct ibv_send_wr *bad;

		assert_int_equal(ibv_post_send(own[0], &wr, &bad), 0);
		pair_settle(&pair);
	}
	assert_int_equal(mappings_of(at), 2);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(mappings_of(at), 3);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(own[i]), 0);
	munmap(at, BYTES);
	close(fd);
}

/* ibv_rereg_mr() keeps the key. The object of the new memory is requested again. */
static void share_after_rereg_is_requested_again(void **state)
{
	int fds[2] = {make_memfd(true), make_memfd(true)};
	uint8_t *at[2] = {map(fds[0]), map(fds[1])};
	struct ibv_mr *mr = register_at(at[0], BYTES);

	(void)state;
	write_often(mr);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at[1], BYTES, 0),
			 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at[0]), 1);
	write_often(mr);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(mappings_of(at[1]), 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	for (int i = 0; i < 2; i++) {
		munmap(at[i], BYTES);
		close(fds[i]);
	}
}

/* Objects can be larger than the address space that the initiator's program leaves. */
static void share_is_not_mapped_with_rlimit_as(void **state)
{
	int fd = make_memfd(true);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);
	struct rlimit before, limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = (struct rlimit){.rlim_cur = (rlim_t)1 << 62, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_int_equal(write_often(mr), 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(mappings_of(at), 1);
	end_region(mr, at, fd);
}

static void share_device_memory_is_mapped(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = BYTES};
	struct ibv_dm *dm = ibv_alloc_dm(&owner->context.pub.context, &attr);
	uint64_t before = mapped_count(), word = 0;
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(dm);
	install_handler();
	mr = ibv_reg_dm_mr(owner->pd, dm, 0, BYTES, ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	for (int i = 0; i < 2 * WRITES; i++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

		memset(pair.nodes[0].buf, i + 1, 8);
		wr.wr.rdma.remote_addr = 256;
		wr.wr.rdma.rkey = mr->rkey;
		assert_int_equal(execute(&wr, pair.nodes[0].buf, 8), IBV_WC_SUCCESS);
		assert_int_equal(ibv_memcpy_from_dm(&word, dm, 256, 8), 0);
		assert_memory_equal(&word, pair.nodes[0].buf, 8);
		pair_settle(&pair);
	}
	assert_true(mapped_count() - before >= WRITES);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* Programs close the descriptor of shm_open() after mmap(). */
static void share_file_without_descriptor_is_mapped(void **state)
{
	char path[] = "/dev/shm/share-XXXXXX";
	int fd = mkstemp(path);
	struct ibv_mr *mr;
	uint8_t *at;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	at = map(fd);
	close(fd);
	mr = register_at(at, BYTES);
	write_often(mr);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(mappings_of(at), 2);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	munmap(at, BYTES);
}

static void share_system_v_segment_is_mapped(void **state)
{
	int id = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
	struct ibv_mr *mr;
	uint8_t *at;

	(void)state;
	assert_true(id >= 0);
	at = shmat(id, NULL, 0);
	assert_ptr_not_equal(at, (void *)-1);
	/* As programs do, so that the segment ends with the process. */
	assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);
	mr = register_at(at, BYTES);
	write_often(mr);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_settle(&pair);
	assert_int_equal(mappings_of(at), 1);
	shmdt(at);
}

static void share_atomics_are_executed_in_mapped_memory(void **state)
{
	int fd = make_memfd(true);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);
	uint64_t *word = (uint64_t *)(void *)(at + 256), before;
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};

	(void)state;
	write_often(mr);
	before = mapped_count();
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 5;
	*word = 37;
	assert_int_equal(execute(&wr, pair.nodes[0].buf, 8), IBV_WC_SUCCESS);
	assert_int_equal(*word, 42);
	assert_int_equal(*(uint64_t *)(void *)pair.nodes[0].buf, 37);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	assert_int_equal(execute(&wr, pair.nodes[0].buf, 8), IBV_WC_SUCCESS);
	assert_int_equal(*word, 7);
	assert_int_equal(*(uint64_t *)(void *)pair.nodes[0].buf, 42);
	/* A longer SGE receives 8 bytes. */
	wr.wr.atomic.compare_add = 7;
	wr.wr.atomic.swap = 7;
	memset(pair.nodes[0].buf, 0xa5, 64);
	assert_int_equal(execute(&wr, pair.nodes[0].buf, 64), IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)pair.nodes[0].buf, 7);
	assert_int_equal(pair.nodes[0].buf[8], 0xa5);
	assert_int_equal(mapped_count() - before, 3);
	/* The responder refuses an unaligned address. */
	wr.wr.atomic.remote_addr = (uintptr_t)word + 4;
	assert_int_equal(execute(&wr, pair.nodes[0].buf, 8), IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(*word, 7);
	end_region(mr, at, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHARE_TEST(share_private_memory_is_not_mapped),
		SHARE_TEST(share_sealed_memfd_is_mapped),
		SHARE_TEST(share_regions_of_one_object_share_a_mapping),
		SHARE_TEST(share_of_another_peers_request_is_unmapped_too),
		SHARE_TEST(share_after_rereg_is_requested_again),
		SHARE_TEST(share_is_not_mapped_with_rlimit_as),
		SHARE_TEST(share_device_memory_is_mapped),
		SHARE_TEST(share_file_without_descriptor_is_mapped),
		SHARE_TEST(share_system_v_segment_is_mapped),
		SHARE_TEST(share_atomics_are_executed_in_mapped_memory),
	};

	if (!guarded_copy_is_available()) {
		print_message("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
