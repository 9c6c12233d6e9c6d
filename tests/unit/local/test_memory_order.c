/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "weak_model.h"

/*
 * The orders of accesses on which processes and threads depend (docs/memory-safety.md, Memory
 * order), searched exhaustively on a weakly ordered processor (weak_model.h). Each protocol has no
 * wrong end. Each protocol without one of its fences has one.
 */

#define RLX WEAK_RELAXED
#define ACQ WEAK_ACQUIRE
#define REL WEAK_RELEASE
#define SEQ WEAK_SEQ_CST

enum { R0, R1, R2, R3 };

/* The instruction orders nothing, and has no effect. */
#define NO_FENCE W_FENCE(RLX)

struct order_case {
	const char *name;
	bool is_wrong;
	struct weak_program program;
};

/*
 * The FIFO (local/ring.h) with one cell, which the writer fills twice. PAYLOAD is the cell's
 * contents, or the payload in the data area.
 */
enum { SEQ_OF_CELL, PAYLOAD, TAIL };

static bool reads_other_payload(const struct weak_end *end)
{
	return end->is_stuck || end->regs[1][R0] != 1 || end->regs[1][R1] != 2;
}

#define FIFO(publish, find, free, reuse)                      \
	{                                                     \
		.is_found = reads_other_payload,              \
		.threads = {                                  \
			{{W_STORE(PAYLOAD, 1, RLX)},          \
			 {W_STORE(SEQ_OF_CELL, 1, publish)},  \
			 {W_AWAIT(TAIL, 1, reuse)},           \
			 {W_STORE(PAYLOAD, 2, RLX)},          \
			 {W_STORE(SEQ_OF_CELL, 2, publish)}}, \
			{{W_AWAIT(SEQ_OF_CELL, 1, find)},     \
			 {W_LOAD(R0, PAYLOAD, RLX)},          \
			 {W_STORE(TAIL, 1, free)},            \
			 {W_AWAIT(SEQ_OF_CELL, 2, find)},     \
			 {W_LOAD(R1, PAYLOAD, RLX)}},         \
		},                                            \
	}

/*
 * A one-sided access (docs/memory-safety.md). The initiator announces it, reads the word of the
 * entry (WORD is 1: published) twice, and accesses the memory. The owner revokes the entry, waits
 * for the end of the announcement, returns to the application, and the application uses the memory.
 */
enum { WORD = 1, ANNOUNCED, MEMORY };

static bool writes_after_return(const struct weak_end *end)
{
	return end->is_stuck || end->vars[MEMORY] != 2;
}

static bool reads_after_return(const struct weak_end *end)
{
	return end->is_stuck || end->regs[0][R2] == 2;
}

#define ACCESS(found, access, announce, fence, check, ishld, withdraw, revoke, look) \
	{                                                                            \
		.is_found = (found), .initial = {[WORD] = 1},                        \
		.threads = {                                                         \
			{{W_STORE(ANNOUNCED, 1, announce)},                          \
			 {W_FENCE(fence)},                                           \
			 {W_LOAD(R0, WORD, check)},                                  \
			 {W_LOAD(R1, WORD, RLX), W_IF(R0, 1)},                       \
			 {W_FENCE(ishld), W_IF(R1, 1)},                              \
			 {access, W_IF(R1, 1)},                                      \
			 {W_STORE(ANNOUNCED, 0, withdraw)}},                         \
			{{W_STORE(WORD, 0, revoke)},                                 \
			 {W_FENCE(REL)},                                             \
			 {W_AWAIT(ANNOUNCED, 0, look)},                              \
			 {W_STORE(MEMORY, 2, RLX)}},                                 \
		},                                                                   \
	}
#define WRITE_ACCESS W_STORE(MEMORY, 1, RLX)
#define READ_ACCESS  W_LOAD(R2, MEMORY, RLX)

/*
 * The contents of an entry: the owner revokes it, changes the contents and publishes it. A reader
 * compares the word before and after it reads the contents.
 */
enum { ENTRY_WORD, ENTRY_START, ENTRY_LENGTH };

static bool mixes_entries(const struct weak_end *end)
{
	const uint8_t *regs = end->regs[1];

	return regs[R0] && regs[R3] == regs[R0] && (regs[R1] != regs[R0] || regs[R2] != regs[R0]);
}

#define ENTRY(revoke_fence, publish, find, check_fence)                               \
	{                                                                             \
		.is_found = mixes_entries,                                            \
		.initial = {[ENTRY_WORD] = 1, [ENTRY_START] = 1, [ENTRY_LENGTH] = 1}, \
		.threads = {                                                          \
			{{W_STORE(ENTRY_WORD, 0, SEQ)},                               \
			 {W_FENCE(revoke_fence)},                                     \
			 {W_STORE(ENTRY_START, 2, RLX)},                              \
			 {W_STORE(ENTRY_LENGTH, 2, RLX)},                             \
			 {W_STORE(ENTRY_WORD, 2, publish)}},                          \
			{{W_LOAD(R0, ENTRY_WORD, find)},                              \
			 {W_LOAD(R1, ENTRY_START, RLX)},                              \
			 {W_LOAD(R2, ENTRY_LENGTH, RLX)},                             \
			 {W_FENCE(check_fence)},                                      \
			 {W_LOAD(R3, ENTRY_WORD, find)}},                             \
		},                                                                    \
	}

/*
 * The biased lock (base/biased_lock.h): the first thread has the bias (OWNER is 1), and acquires
 * the lock by it or, if it finds the bias revoked, by the mutex. The second thread revokes the
 * bias. Both increment DATA. WAKE is the futex: its wait returns at once if DEPTH is 0.
 */
enum { OWNER, DEPTH, AWAITED, MUTEX, DATA, WAKE };

static bool loses_update(const struct weak_end *end)
{
	return end->is_stuck || end->vars[DATA] != 2;
}

#define BIASED(barrier, give_up, examine, futex_fence)              \
	{                                                           \
		.is_found = loses_update, .initial = {[OWNER] = 1}, \
		.threads = {                                        \
			{{W_STORE(DEPTH, 1, RLX)},                  \
			 {W_LOAD(R0, OWNER, RLX)},                  \
			 {W_LOAD(R1, DATA, RLX), W_IF(R0, 1)},      \
			 {W_INCREMENT(DATA, R1, RLX), W_IF(R0, 1)}, \
			 {W_STORE(DEPTH, 0, give_up)},              \
			 {W_LOAD(R2, AWAITED, RLX)},                \
			 {W_STORE(WAKE, 1, RLX), W_IF(R2, 1)},      \
			 {W_LOCK(MUTEX), W_IF(R0, 0)},              \
			 {W_LOAD(R3, DATA, RLX), W_IF(R0, 0)},      \
			 {W_INCREMENT(DATA, R3, RLX), W_IF(R0, 0)}, \
			 {W_UNLOCK(MUTEX), W_IF(R0, 0)}},           \
			{{W_LOCK(MUTEX)},                           \
			 {W_STORE(AWAITED, 1, RLX)},                \
			 {W_STORE(OWNER, 0, RLX)},                  \
			 {barrier},                                 \
			 {W_LOAD(R0, DEPTH, examine)},              \
			 {W_FENCE(futex_fence), W_IF(R0, 1)},       \
			 {W_LOAD(R1, DEPTH, RLX), W_IF(R0, 1)},     \
			 {W_AWAIT(WAKE, 1, RLX), W_IF(R1, 1)},      \
			 {W_AWAIT(DEPTH, 0, examine)},              \
			 {W_LOAD(R2, DATA, RLX)},                   \
			 {W_INCREMENT(DATA, R2, RLX)},              \
			 {W_UNLOCK(MUTEX)}},                        \
		},                                                  \
	}

/* biased_lock_try(): the second thread gives the bias back if the first one holds the lock. */
static bool loses_update_of_try(const struct weak_end *end)
{
	return end->is_stuck || end->vars[DATA] != 1 + (end->regs[1][R0] == 0);
}

#define BIASED_TRY(barrier, give_up, examine)                              \
	{                                                                  \
		.is_found = loses_update_of_try, .initial = {[OWNER] = 1}, \
		.threads = {                                               \
			{{W_STORE(DEPTH, 1, RLX)},                         \
			 {W_LOAD(R0, OWNER, RLX)},                         \
			 {W_LOAD(R1, DATA, RLX), W_IF(R0, 1)},             \
			 {W_INCREMENT(DATA, R1, RLX), W_IF(R0, 1)},        \
			 {W_STORE(DEPTH, 0, give_up)},                     \
			 {W_LOCK(MUTEX), W_IF(R0, 0)},                     \
			 {W_LOAD(R2, DATA, RLX), W_IF(R0, 0)},             \
			 {W_INCREMENT(DATA, R2, RLX), W_IF(R0, 0)},        \
			 {W_UNLOCK(MUTEX), W_IF(R0, 0)}},                  \
			{{W_LOCK(MUTEX)},                                  \
			 {W_STORE(OWNER, 0, RLX)},                         \
			 {barrier},                                        \
			 {W_LOAD(R0, DEPTH, examine)},                     \
			 {W_STORE(OWNER, 1, RLX), W_IF(R0, 1)},            \
			 {W_LOAD(R1, DATA, RLX), W_IF(R0, 0)},             \
			 {W_INCREMENT(DATA, R1, RLX), W_IF(R0, 0)},        \
			 {W_UNLOCK(MUTEX)}},                               \
		},                                                         \
	}

/*
 * The wake-up of a reader (local/sleep.c, peer_ring_doorbell()). The reader has polled (POLLS is
 * 1). It withdraws this, requests a doorbell (SLEEPS), examines the FIFO again and sleeps until
 * BELL. The writer commits a cell.
 */
enum { POLLS, SLEEPS, CELL, BELL };

static bool sleeps_with_a_cell(const struct weak_end *end)
{
	return end->is_stuck;
}

#define WAKE_UP(barrier, sleep_fence, publish, doorbell_fence)            \
	{                                                                 \
		.is_found = sleeps_with_a_cell, .initial = {[POLLS] = 1}, \
		.threads = {                                              \
			{{W_STORE(CELL, 1, publish)},                     \
			 {W_LOAD(R0, POLLS, RLX)},                        \
			 {W_FENCE(doorbell_fence), W_IF(R0, 0)},          \
			 {W_LOAD(R1, SLEEPS, RLX), W_IF(R0, 0)},          \
			 {W_STORE(BELL, 1, REL), W_IF(R1, 1)}},           \
			{{W_STORE(POLLS, 0, RLX)},                        \
			 {barrier},                                       \
			 {W_STORE(SLEEPS, 1, RLX)},                       \
			 {W_FENCE(sleep_fence)},                          \
			 {W_LOAD(R0, CELL, ACQ)},                         \
			 {W_AWAIT(BELL, 1, ACQ), W_IF(R0, 0)}},           \
		},                                                        \
	}

/*
 * The wake-up of a writer that waits for space (local_finish_turn(), answer_waiting_writer()): the
 * reader frees a cell.
 */
enum { FREED, WAITS, ROOM_BELL };

#define WAIT_FOR_ROOM(wait_fence, free_fence)                        \
	{                                                            \
		.is_found = sleeps_with_a_cell,                      \
		.threads = {                                         \
			{{W_STORE(FREED, 1, REL)},                   \
			 {W_FENCE(free_fence)},                      \
			 {W_LOAD(R0, WAITS, RLX)},                   \
			 {W_STORE(ROOM_BELL, 1, REL), W_IF(R0, 1)}}, \
			{{W_STORE(WAITS, 1, SEQ)},                   \
			 {W_FENCE(wait_fence)},                      \
			 {W_LOAD(R0, FREED, ACQ)},                   \
			 {W_AWAIT(ROOM_BELL, 1, ACQ), W_IF(R0, 0)}}, \
		},                                                   \
	}

static const struct order_case orders[] = {
	{"fifo_delivers_each_payload", false, FIFO(REL, ACQ, REL, ACQ)},
	{"fifo_with_relaxed_store_of_seq_is_wrong", true, FIFO(RLX, ACQ, REL, ACQ)},
	{"fifo_with_relaxed_load_of_seq_is_wrong", true, FIFO(REL, RLX, REL, ACQ)},
	{"fifo_with_relaxed_store_of_tail_is_wrong", true, FIFO(REL, ACQ, RLX, ACQ)},
	/*
	 * The processor orders stores after the branch. The acquire load is for the compiler.
	 */
	{"fifo_with_relaxed_load_of_tail_has_a_control_dependency", false,
	 FIFO(REL, ACQ, REL, RLX)},

	{"write_ends_before_revocation_returns", false,
	 ACCESS(writes_after_return, WRITE_ACCESS, SEQ, SEQ, SEQ, ACQ, REL, SEQ, SEQ)},
	{"read_ends_before_revocation_returns", false,
	 ACCESS(reads_after_return, READ_ACCESS, SEQ, SEQ, SEQ, ACQ, REL, SEQ, SEQ)},
	/* Either the fence or the order of the seq_cst accesses is sufficient. */
	{"write_without_fence_after_announcement_is_ordered_by_seq_cst", false,
	 ACCESS(writes_after_return, WRITE_ACCESS, SEQ, RLX, SEQ, ACQ, REL, SEQ, SEQ)},
	{"write_with_relaxed_announcement_is_ordered_by_the_fence", false,
	 ACCESS(writes_after_return, WRITE_ACCESS, RLX, SEQ, RLX, ACQ, REL, SEQ, SEQ)},
	{"write_with_release_announcement_without_fence_is_wrong", true,
	 ACCESS(writes_after_return, WRITE_ACCESS, REL, RLX, ACQ, ACQ, REL, SEQ, SEQ)},
	{"read_with_release_announcement_without_fence_is_wrong", true,
	 ACCESS(reads_after_return, READ_ACCESS, REL, RLX, ACQ, ACQ, REL, SEQ, SEQ)},
	/* The owner waits for the announcement, which is visible before the memory is read. */
	{"read_without_barrier_after_comparison_is_ordered_by_the_announcement", false,
	 ACCESS(reads_after_return, READ_ACCESS, SEQ, SEQ, RLX, RLX, REL, SEQ, SEQ)},
	{"write_with_relaxed_end_of_announcement_is_wrong", true,
	 ACCESS(writes_after_return, WRITE_ACCESS, SEQ, SEQ, SEQ, ACQ, RLX, SEQ, SEQ)},
	{"read_with_relaxed_end_of_announcement_is_wrong", true,
	 ACCESS(reads_after_return, READ_ACCESS, SEQ, SEQ, SEQ, ACQ, RLX, SEQ, SEQ)},
	{"write_with_release_revocation_is_wrong", true,
	 ACCESS(writes_after_return, WRITE_ACCESS, SEQ, SEQ, SEQ, ACQ, REL, REL, ACQ)},

	{"entry_is_read_whole", false, ENTRY(REL, SEQ, SEQ, ACQ)},
	{"entry_without_fence_after_revocation_is_wrong", true, ENTRY(RLX, SEQ, SEQ, ACQ)},
	{"entry_with_relaxed_publication_is_wrong", true, ENTRY(REL, RLX, SEQ, ACQ)},
	{"entry_with_relaxed_first_load_is_wrong", true, ENTRY(REL, SEQ, RLX, ACQ)},
	{"entry_without_fence_before_second_load_is_wrong", true, ENTRY(REL, SEQ, SEQ, RLX)},

	{"biased_lock_excludes_and_wakes", false, BIASED(W_MEMBARRIER, REL, ACQ, SEQ)},
	{"biased_lock_without_membarrier_is_wrong", true, BIASED(NO_FENCE, REL, ACQ, SEQ)},
	{"biased_lock_with_a_fence_of_one_thread_is_wrong", true,
	 BIASED(W_FENCE(SEQ), REL, ACQ, SEQ)},
	{"biased_lock_with_relaxed_release_is_wrong", true, BIASED(W_MEMBARRIER, RLX, ACQ, SEQ)},
	{"biased_lock_with_relaxed_load_of_depth_is_wrong", true,
	 BIASED(W_MEMBARRIER, REL, RLX, RLX)},
	{"biased_lock_try_excludes", false, BIASED_TRY(W_MEMBARRIER, REL, ACQ)},
	{"biased_lock_try_without_membarrier_is_wrong", true, BIASED_TRY(NO_FENCE, REL, ACQ)},
	{"biased_lock_try_with_relaxed_release_is_wrong", true, BIASED_TRY(W_MEMBARRIER, RLX, ACQ)},

	{"reader_is_woken", false, WAKE_UP(W_MEMBARRIER, SEQ, REL, SEQ)},
	{"reader_without_membarrier_sleeps", true, WAKE_UP(NO_FENCE, SEQ, REL, SEQ)},
	{"reader_with_a_fence_of_one_process_sleeps", true, WAKE_UP(W_FENCE(SEQ), SEQ, REL, SEQ)},
	{"reader_without_fence_sleeps", true, WAKE_UP(W_MEMBARRIER, REL, REL, SEQ)},
	{"reader_sleeps_if_the_writer_has_no_fence", true, WAKE_UP(W_MEMBARRIER, SEQ, REL, REL)},
	{"writer_is_woken", false, WAIT_FOR_ROOM(SEQ, SEQ)},
	{"writer_without_fence_sleeps", true, WAIT_FOR_ROOM(RLX, SEQ)},
	{"writer_sleeps_if_the_reader_has_no_fence", true, WAIT_FOR_ROOM(SEQ, RLX)},
};

static void local_protocol_is_wrong_only_without_a_fence(void **state)
{
	const struct order_case *order = *state;
	unsigned int states;
	bool is_wrong = weak_search(&order->program, &states);

	print_message("%s: %u states\n", order->name, states);
	assert_int_equal(is_wrong, order->is_wrong);
}

int main(void)
{
	struct CMUnitTest cases[sizeof(orders) / sizeof(orders[0])];

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		cases[i] = (struct CMUnitTest){.name = orders[i].name,
					       .test_func =
						       local_protocol_is_wrong_only_without_a_fence,
					       .initial_state = (void *)(uintptr_t)&orders[i]};
	return cmocka_run_group_tests(cases, NULL, NULL);
}
