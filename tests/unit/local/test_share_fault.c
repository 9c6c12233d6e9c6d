/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Memory objects of regions that peers cannot access any more, or that the owner's entries describe
 * wrongly.
 */

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/user_fault.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "mappings.h"
#include "share_kit.h"

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
	const struct CMUnitTest tests[] = {
		SHARE_TEST(share_truncated_memfd_is_reported),
		SHARE_TEST(share_truncated_memfd_read_is_reported),
		SHARE_TEST(share_regrown_memfd_is_used_again),
		SHARE_TEST(share_replaced_memory_is_written_after_a_fault),
		SHARE_TEST(share_atomic_to_truncated_memory_is_executed_by_the_owner),
		SHARE_TEST(share_memory_is_not_accessed_without_the_handler),
		SHARE_TEST(share_false_entries_are_not_used),
	};

	if (!guarded_copy_is_available()) {
		print_message("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
