/* SPDX-License-Identifier: BSD-2-Clause */

/* Memory of the rings of rsockets: blocks of sealed memfds. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/vma.h"
#include "rsocket/ring_memory.h"

#define BLOCKS 300u
#define LARGE  (200u * 1024 * 1024)

static size_t block_bytes(size_t i)
{
	return 1 + i * 977;
}

static bool is_zero(const uint8_t *memory, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (memory[i])
			return false;
	}
	return true;
}

static int next_fd(void)
{
	int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static void ring_memory_alloc_blocks_are_zero_and_disjoint(void **state)
{
	static uint8_t *blocks[BLOCKS];
	int fd = next_fd();

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < BLOCKS; i++) {
			blocks[i] = ring_memory_alloc(block_bytes(i));
			assert_non_null(blocks[i]);
			assert_true(is_zero(blocks[i], block_bytes(i)));
			memset(blocks[i], (int)(i % 255) + 1, block_bytes(i));
		}
		for (size_t i = 0; i < BLOCKS; i++) {
			assert_int_equal(blocks[i][0], i % 255 + 1);
			assert_int_equal(blocks[i][block_bytes(i) - 1], i % 255 + 1);
		}
		/* Every third block is allocated again, into the gaps. */
		for (size_t i = 0; i < BLOCKS; i += 3) {
			ring_memory_free(blocks[i], block_bytes(i));
			blocks[i] = ring_memory_alloc(block_bytes(i));
			assert_true(is_zero(blocks[i], block_bytes(i)));
		}
		for (size_t i = 0; i < BLOCKS; i++)
			ring_memory_free(blocks[i], block_bytes(i));
	}
	/* No descriptor remains. */
	assert_int_equal(next_fd(), fd);
}

static void ring_memory_alloc_memory_has_an_object(void **state)
{
	uint8_t *block = ring_memory_alloc(100000), *large = ring_memory_alloc(LARGE);
	struct vma vma;

	(void)state;
	assert_int_equal(vma_find((uintptr_t)block, 100000, &vma), 0);
	assert_true(vma.is_shared);
	assert_non_null(large);
	large[LARGE - 1] = 1;
	ring_memory_free(large, LARGE);
	ring_memory_free(block, 100000);
}

/* A memfd would use more of the address space than the block needs. */
static void ring_memory_alloc_with_rlimit_as_is_anonymous(void **state)
{
	struct rlimit before, limit;
	struct vma vma;
	uint8_t *block;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = (struct rlimit){.rlim_cur = (rlim_t)1 << 62, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	block = ring_memory_alloc(8192);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_non_null(block);
	assert_true(is_zero(block, 8192));
	assert_int_equal(vma_find((uintptr_t)block, 8192, &vma), 0);
	assert_false(vma.is_shared);
	ring_memory_free(block, 8192);
}

/* The child frees and allocates; the parent's block is unchanged. */
static void ring_memory_free_in_child_leaves_parents_memory(void **state)
{
	uint8_t *block = ring_memory_alloc(8192);
	int status;
	pid_t child;

	(void)state;
	memset(block, 7, 8192);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		uint8_t *own;

		ring_memory_after_fork();
		own = ring_memory_alloc(8192);
		if (!own || !is_zero(own, 8192))
			_exit(1);
		memset(own, 9, 8192);
		ring_memory_free(block, 8192);
		ring_memory_free(own, 8192);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 8192; i++)
		assert_int_equal(block[i], 7);
	ring_memory_free(block, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_memory_alloc_blocks_are_zero_and_disjoint),
		cmocka_unit_test(ring_memory_alloc_memory_has_an_object),
		cmocka_unit_test(ring_memory_alloc_with_rlimit_as_is_anonymous),
		cmocka_unit_test(ring_memory_free_in_child_leaves_parents_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
