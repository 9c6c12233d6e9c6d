/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The restartable sequence around process_vm_readv(2) and process_vm_writev(2), with this process
 * as its own peer.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/guarded_copy.h"

/* One call, its two buffers in two pieces each, and the admission words. */
struct copy {
	_Atomic uint64_t words[GUARDS];
	char local[8];
	char remote[8];
	struct iovec local_iov[2];
	struct iovec remote_iov[2];
	struct guarded_call call;
};

static void copy_init(struct copy *copy, bool is_read)
{
	memset(copy, 0, sizeof(*copy));
	memcpy(copy->local, "local...", sizeof(copy->local));
	memcpy(copy->remote, "remote..", sizeof(copy->remote));
	copy->local_iov[0] = (struct iovec){.iov_base = copy->local, .iov_len = 3};
	copy->local_iov[1] = (struct iovec){.iov_base = copy->local + 3, .iov_len = 5};
	copy->remote_iov[0] = (struct iovec){.iov_base = copy->remote, .iov_len = 6};
	copy->remote_iov[1] = (struct iovec){.iov_base = copy->remote + 6, .iov_len = 2};
	copy->call = (struct guarded_call){.is_read = is_read,
					   .tid = getpid(),
					   .local = copy->local_iov,
					   .local_count = 2,
					   .remote = copy->remote_iov,
					   .remote_count = 2};
	for (uint64_t i = 0; i < GUARDS; i++) {
		atomic_store(&copy->words[i], i << 40 | 7);
		copy->call.guards[i] = (struct guard){&copy->words[i], i << 40 | 7};
	}
}

/* The outcome of one call, repeated while the thread is preempted. */
static enum guarded_outcome copy_run(const struct copy *copy, ssize_t *moved)
{
	enum guarded_outcome outcome;

	do
		outcome = guarded_copy(&copy->call, moved);
	while (outcome == GUARDED_PREEMPTED);
	return outcome;
}

static void guarded_copy_read_copies_all_pieces(void **state)
{
	struct copy copy;
	ssize_t moved = 0;

	(void)state;
	copy_init(&copy, true);
	assert_int_equal(copy_run(&copy, &moved), GUARDED_CALLED);
	assert_int_equal(moved, 8);
	assert_memory_equal(copy.local, "remote..", 8);
}

static void guarded_copy_write_copies_all_pieces(void **state)
{
	struct copy copy;
	ssize_t moved = 0;

	(void)state;
	copy_init(&copy, false);
	assert_int_equal(copy_run(&copy, &moved), GUARDED_CALLED);
	assert_int_equal(moved, 8);
	assert_memory_equal(copy.remote, "local...", 8);
}

static void guarded_copy_passes_piece_counts(void **state)
{
	struct copy copy;
	ssize_t moved = 0;

	(void)state;
	copy_init(&copy, false);
	copy.call.remote_count = 1;
	assert_int_equal(copy_run(&copy, &moved), GUARDED_CALLED);
	assert_int_equal(moved, 6);
	assert_memory_equal(copy.remote, "local...", 6);
	assert_memory_equal(copy.remote + 6, "..", 2);
	copy.call.local_count = 1;
	assert_int_equal(copy_run(&copy, &moved), GUARDED_CALLED);
	assert_int_equal(moved, 3);
}

static void guarded_copy_changed_word_prevents_copy(void **state)
{
	(void)state;
	for (int i = 0; i < GUARDS; i++) {
		struct copy copy;
		ssize_t moved = 0;

		copy_init(&copy, false);
		atomic_fetch_add(&copy.words[i], 1);
		assert_int_equal(copy_run(&copy, &moved), GUARDED_CHANGED);
		assert_memory_equal(copy.remote, "remote..", 8);
	}
}

static void guarded_copy_system_call_error_is_returned(void **state)
{
	struct copy copy;
	ssize_t moved = 0;

	(void)state;
	copy_init(&copy, true);
	copy.remote_iov[0].iov_base = NULL;
	assert_int_equal(copy_run(&copy, &moved), GUARDED_CALLED);
	assert_int_equal(moved, -EFAULT);
}

/* Without a registered sequence area no call is made: no copy is unguarded. */
static void guarded_copy_without_rseq_never_copies(void **state)
{
	struct copy copy;
	ssize_t moved = 0;

	(void)state;
	copy_init(&copy, false);
	assert_int_equal(guarded_copy(&copy.call, &moved), GUARDED_CHANGED);
	assert_memory_equal(copy.remote, "remote..", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guarded_copy_read_copies_all_pieces),
		cmocka_unit_test(guarded_copy_write_copies_all_pieces),
		cmocka_unit_test(guarded_copy_passes_piece_counts),
		cmocka_unit_test(guarded_copy_changed_word_prevents_copy),
		cmocka_unit_test(guarded_copy_system_call_error_is_returned),
	};
	const struct CMUnitTest without[] = {
		cmocka_unit_test(guarded_copy_without_rseq_never_copies),
	};

	if (!guarded_copy_is_available())
		return cmocka_run_group_tests(without, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
