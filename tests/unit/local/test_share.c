/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Memory objects of regions: which ones peers map, when they unmap them, and what a false entry
 * does.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/user_fault.h"
#include "local/guarded_copy.h"
#include "mappings.h"
#include "pair.h"

#define BYTES	65536u
#define WRITES	16
#define WAIT_NS (20 * CLOCK_NS_PER_S)
#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct pair pair;
static struct ibv_qp *qps[2];
static struct node *owner = &pair.nodes[1];

/* cmocka replaces the handlers of signals before each test and restores them afterwards. */
static void install_handler(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS};
	static struct sigaction handlers[2];

	for (int i = 0; i < 2 && handlers[0].sa_flags; i++)
		assert_int_equal(sigaction(numbers[i], &handlers[i], NULL), 0);
	assert_true(user_fault_examine());
	for (int i = 0; i < 2; i++)
		assert_int_equal(sigaction(numbers[i], NULL, &handlers[i]), 0);
}

static int setup(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_close_connected(&pair, qps);
	return 0;
}

static enum ibv_wc_status execute(struct ibv_send_wr *wr, void *local, uint32_t bytes)
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

static enum ibv_wc_status move(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t offset,
			       uint32_t bytes)
{
	struct ibv_send_wr wr = {.opcode = opcode};

	wr.wr.rdma.remote_addr = (uintptr_t)mr->addr + offset;
	wr.wr.rdma.rkey = mr->rkey;
	return execute(&wr, pair.nodes[0].buf, bytes);
}

static uint64_t mapped_count(void)
{
	return local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED];
}

static uint64_t fault_count(void)
{
	return local_of(&pair.nodes[0].engine)->counters[LOCAL_MAPPED_FAULTS];
}

/* Writes several times; returns how many of the writes were stores to mapped memory. */
static uint64_t write_often(const struct ibv_mr *mr)
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

static int make_memfd(bool is_sealed)
{
	int fd = memfd_create("share", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	if (is_sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static struct ibv_mr *register_at(void *at, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(owner->pd, at, bytes, ACCESS);

	install_handler();
	assert_non_null(mr);
	return mr;
}

static uint8_t *map(int fd)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void end_region(struct ibv_mr *mr, uint8_t *at, int fd)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(at, BYTES);
	close(fd);
}

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

/*
 * Any process that has the file open can truncate it. The initiator survives and reports what the
 * system call reports.
 */
static void share_truncated_memfd_is_reported(void **state)
{
	int fd = make_memfd(false);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);

	(void)state;
	write_often(mr);
	assert_int_equal(write_often(mr), WRITES);
	assert_int_equal(mappings_of(at), 2);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(move(IBV_WR_RDMA_WRITE, mr, 128, 64), IBV_WC_REM_OP_ERR);
	assert_int_equal(fault_count(), 1);
	assert_int_equal(mappings_of(at), 1);
	end_region(mr, at, fd);
}

static void share_truncated_memfd_read_is_reported(void **state)
{
	int fd = make_memfd(false);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);

	(void)state;
	write_often(mr);
	/* The first pages exist. */
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(move(IBV_WR_RDMA_READ, mr, 0, BYTES), IBV_WC_REM_OP_ERR);
	assert_int_equal(fault_count(), 1);
	end_region(mr, at, fd);
}

/*
 * Between truncation and growth no access happened: the pages are new ones, for the owner as well.
 */
static void share_regrown_memfd_is_used_again(void **state)
{
	int fd = make_memfd(false);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);

	(void)state;
	write_often(mr);
	memset(at, 0x5a, BYTES);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(ftruncate(fd, BYTES), 0);
		assert_int_equal(write_often(mr), WRITES);
		assert_int_equal(at[8192], 0);
	}
	assert_int_equal(fault_count(), 0);
	end_region(mr, at, fd);
}

/* The owner has other memory at the address now, which the system call reaches. */
static void share_replaced_memory_is_written_after_a_fault(void **state)
{
	int fd = make_memfd(false);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);

	(void)state;
	write_often(mr);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_ptr_equal(mmap(at, BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 at);
	assert_int_equal(write_often(mr), 0);
	assert_int_equal(fault_count(), 1);
	end_region(mr, at, fd);
}

static void share_atomic_to_truncated_memory_is_executed_by_the_owner(void **state)
{
	int fd = make_memfd(false);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};

	(void)state;
	write_often(mr);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_ptr_equal(mmap(at, BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 at);
	wr.wr.atomic.remote_addr = (uintptr_t)at + 256;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 5;
	assert_int_equal(execute(&wr, pair.nodes[0].buf, 8), IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)(at + 256), 5);
	assert_int_equal(fault_count(), 1);
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

/*
 * A program that has replaced the handler gets no signal of an access to a peer's memory: the
 * accesses are system calls.
 */
static void share_memory_is_not_accessed_without_the_handler(void **state)
{
	int fds[2] = {make_memfd(false), make_memfd(true)};
	uint8_t *at[2] = {map(fds[0]), map(fds[1])};
	struct ibv_mr *mrs[2] = {register_at(at[0], BYTES), register_at(at[1], BYTES)};
	struct sigaction ignored = {.sa_handler = SIG_IGN}, before;

	(void)state;
	assert_int_equal(sigaction(SIGBUS, &ignored, &before), 0);
	assert_false(user_fault_examine());
	for (int i = 0; i < 2; i++) {
		write_often(mrs[i]);
		assert_int_equal(write_often(mrs[i]), 0);
	}
	assert_int_equal(sigaction(SIGBUS, &before, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
		munmap(at[i], BYTES);
		close(fds[i]);
	}
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

static struct segment_mr *entry_of(const struct ibv_mr *mr)
{
	return (struct segment_mr *)(uintptr_t)segment_mr_entry(local_of(&owner->engine)->segment,
								mr->rkey);
}

/*
 * The owner's entries are not trusted: a range outside of the object, another object, or none is
 * not mapped.
 */
static void share_false_entries_are_not_used(void **state)
{
	int fd = make_memfd(true);
	uint8_t *at = map(fd);
	struct ibv_mr *mr = register_at(at, BYTES);
	struct segment_mr *entry = entry_of(mr);
	struct segment_share *share;
	uint32_t place;

	(void)state;
	write_often(mr);
	place = entry->share;
	share = &local_of(&owner->engine)->segment->shares[place - 1];

	entry->share_offset = UINT64_MAX - 32;
	assert_int_equal(write_often(mr), 0);
	entry->share_offset = BYTES;
	assert_int_equal(write_often(mr), 0);
	/* It would become larger, but the file does not have the size. */
	share->bytes = 1ull << 40;
	assert_int_equal(write_often(mr), 0);
	share->bytes = BYTES;
	entry->share_offset = 0;
	entry->share = SEGMENT_SHARES + 1;
	assert_int_equal(write_often(mr), 0);
	entry->share = place;
	entry->share_generation++;
	assert_int_equal(write_often(mr), 0);
	/* A published object whose id refers to another file, and one of unknown kind. */
	share->id = STDOUT_FILENO;
	share->word = segment_share_word(entry->share_generation, SEGMENT_SHARE_FD);
	assert_int_equal(write_often(mr), 0);
	entry->share_generation++;
	share->word = segment_share_word(entry->share_generation, 77);
	assert_int_equal(write_often(mr), 0);
	entry->share_generation++;
	share->word = segment_share_word(entry->share_generation, SEGMENT_SHARE_SYSV);
	assert_int_equal(write_often(mr), 0);
	end_region(mr, at, fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(share_private_memory_is_not_mapped),
		TEST(share_sealed_memfd_is_mapped),
		TEST(share_regions_of_one_object_share_a_mapping),
		TEST(share_of_another_peers_request_is_unmapped_too),
		TEST(share_after_rereg_is_requested_again),
		TEST(share_is_not_mapped_with_rlimit_as),
		TEST(share_truncated_memfd_is_reported),
		TEST(share_truncated_memfd_read_is_reported),
		TEST(share_regrown_memfd_is_used_again),
		TEST(share_replaced_memory_is_written_after_a_fault),
		TEST(share_atomic_to_truncated_memory_is_executed_by_the_owner),
		TEST(share_device_memory_is_mapped),
		TEST(share_file_without_descriptor_is_mapped),
		TEST(share_memory_is_not_accessed_without_the_handler),
		TEST(share_system_v_segment_is_mapped),
		TEST(share_atomics_are_executed_in_mapped_memory),
		TEST(share_false_entries_are_not_used),
	};

	if (!guarded_copy_is_available()) {
		print_message("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
