/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access_model.h"

/*
 * The protocol that revokes the right to one-sided accesses (docs/memory-safety.md), examined by an
 * exhaustive search of a model (access_model.h). The complete protocol is safe in every reachable
 * state, and every revoking call can return. A protocol that lacks one part, or one assumption, is
 * found unsafe or stuck. ACCESS_MODEL_TRACE=1 prints the steps that lead to what was found.
 */

#define WITH_ALL (WITH_QP | WITH_GONE | WITH_END | WITH_STOP | WITH_HELD | WITH_KILL)

struct model_case {
	const char *name;
	struct access_setup setup;
	enum access_finding expected;
};

#define ONE_THREAD(omitted)                                                                        \
	{                                                                                          \
		.threads = 1, .is_one_process = true, .features = WITH_ALL, .omission = (omitted), \
	}
#define TWO_THREADS(featured, omitted)                                        \
	{                                                                     \
		.threads = 2, .is_one_process = true, .features = (featured), \
		.omission = (omitted)                                         \
	}
#define TWO_PROCESSES(featured, omitted)                                       \
	{                                                                      \
		.threads = 2, .is_one_process = false, .features = (featured), \
		.omission = (omitted)                                          \
	}

#define MAPPED(count, together, featured, omitted)                                   \
	{                                                                            \
		.threads = (count), .is_one_process = (together), .is_mapped = true, \
		.features = (featured), .omission = (omitted),                       \
	}

static const struct model_case cases[] = {
	{"revocation_with_one_thread_is_safe", ONE_THREAD(COMPLETE), ALWAYS_SAFE},
	{"revocation_with_two_threads_of_a_process_is_safe", TWO_THREADS(WITH_ALL, COMPLETE),
	 ALWAYS_SAFE},
	{"revocation_with_two_processes_that_stop_is_safe",
	 TWO_PROCESSES(WITH_STOP | WITH_GONE, COMPLETE), ALWAYS_SAFE},
	{"revocation_with_two_processes_that_are_held_or_die_is_safe",
	 TWO_PROCESSES(WITH_HELD | WITH_KILL, COMPLETE), ALWAYS_SAFE},

	{"revocation_with_announcement_without_qpn_is_unsafe", ONE_THREAD(ANNOUNCES_NO_QPN),
	 FOUND_UNSAFE},
	{"revocation_with_announcement_without_rkey_is_unsafe", ONE_THREAD(ANNOUNCES_NO_RKEY),
	 FOUND_UNSAFE},
	{"revocation_with_announcement_after_comparison_is_unsafe",
	 ONE_THREAD(ANNOUNCES_AFTER_COMPARISON), FOUND_UNSAFE},
	{"revocation_with_announcement_cleared_before_copy_is_unsafe",
	 ONE_THREAD(CLEARS_ANNOUNCEMENT_EARLY), FOUND_UNSAFE},
	{"revocation_with_announcement_of_leader_id_is_stuck",
	 TWO_THREADS(WITH_STOP, ANNOUNCES_LEADER_ID), FOUND_STUCK},
	{"revocation_with_announcement_shared_without_lock_is_unsafe",
	 TWO_THREADS(0, THREADS_SHARE_ANNOUNCEMENT), FOUND_UNSAFE},
	{"revocation_without_generation_is_unsafe", ONE_THREAD(NO_GENERATION), FOUND_UNSAFE},
	{"revocation_without_restartable_sequence_is_unsafe", ONE_THREAD(NO_RESTARTABLE_SEQUENCE),
	 FOUND_UNSAFE},
	{"revocation_without_comparison_of_admission_is_unsafe", ONE_THREAD(COMPARES_NO_ADMISSION),
	 FOUND_UNSAFE},
	{"revocation_without_comparison_of_life_is_unsafe", ONE_THREAD(COMPARES_NO_LIFE),
	 FOUND_UNSAFE},
	{"revocation_without_comparison_of_qp_is_unsafe", ONE_THREAD(COMPARES_NO_QP), FOUND_UNSAFE},
	{"revocation_without_comparison_of_mr_is_unsafe", ONE_THREAD(COMPARES_NO_MR), FOUND_UNSAFE},
	{"copy_with_divided_last_word_is_unsafe", ONE_THREAD(DIVIDES_LAST_WORD), FOUND_UNSAFE},
	{"copy_with_last_word_first_is_unsafe", ONE_THREAD(STORES_LAST_WORD_FIRST), FOUND_UNSAFE},
	{"revocation_with_process_id_as_target_is_unsafe", ONE_THREAD(TARGETS_PID), FOUND_UNSAFE},
	{"revocation_with_id_reused_before_lookup_is_unsafe", ONE_THREAD(ALLOWS_EARLY_ID_REUSE),
	 FOUND_UNSAFE},

	{"revocation_with_admission_kept_at_peer_gone_is_unsafe", ONE_THREAD(KEEPS_ADMISSION),
	 FOUND_UNSAFE},
	{"revocation_with_peer_freed_at_peer_gone_is_unsafe", ONE_THREAD(FORGETS_GONE_PEER),
	 FOUND_UNSAFE},
	{"revocation_with_look_before_withdrawal_is_unsafe", ONE_THREAD(LOOKS_BEFORE_WITHDRAWAL),
	 FOUND_UNSAFE},
	{"revocation_with_held_thread_taken_as_harmless_is_unsafe",
	 ONE_THREAD(TAKES_HELD_AS_HARMLESS), FOUND_UNSAFE},
	{"revocation_without_examination_of_thread_is_stuck", ONE_THREAD(EXAMINES_NO_THREAD),
	 FOUND_STUCK},
	{"revocation_without_probe_of_image_is_stuck", ONE_THREAD(PROBES_NO_IMAGE), FOUND_STUCK},
	{"revocation_that_never_answers_ebusy_is_stuck", ONE_THREAD(NEVER_GIVES_UP), FOUND_STUCK},

	{"revocation_of_mapped_memory_with_one_thread_is_safe", MAPPED(1, true, WITH_ALL, COMPLETE),
	 ALWAYS_SAFE},
	{"revocation_of_mapped_memory_with_two_threads_of_a_process_is_safe",
	 MAPPED(2, true, WITH_ALL, COMPLETE), ALWAYS_SAFE},
	{"revocation_of_mapped_memory_with_two_processes_that_stop_is_safe",
	 MAPPED(2, false, WITH_STOP | WITH_GONE, COMPLETE), ALWAYS_SAFE},
	{"revocation_of_mapped_memory_with_two_processes_that_are_held_or_die_is_safe",
	 MAPPED(2, false, WITH_HELD | WITH_KILL, COMPLETE), ALWAYS_SAFE},
	{"revocation_of_mapped_memory_without_restartable_sequence_is_unsafe",
	 MAPPED(1, true, WITH_ALL, NO_RESTARTABLE_SEQUENCE), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_with_copy_after_sequence_is_unsafe",
	 MAPPED(1, true, WITH_ALL, COPIES_AFTER_SEQUENCE), FOUND_UNSAFE},
	{"copy_to_mapped_memory_with_sequence_after_commit_is_unsafe",
	 MAPPED(1, true, WITH_ALL, CONTINUES_AFTER_COMMIT), FOUND_UNSAFE},
	{"copy_to_mapped_memory_with_divided_last_word_is_unsafe",
	 MAPPED(1, true, WITH_ALL, DIVIDES_LAST_WORD), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_without_generation_is_unsafe",
	 MAPPED(1, true, WITH_ALL, NO_GENERATION), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_without_comparison_of_qp_is_unsafe",
	 MAPPED(1, true, WITH_ALL, COMPARES_NO_QP), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_without_comparison_of_mr_is_unsafe",
	 MAPPED(1, true, WITH_ALL, COMPARES_NO_MR), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_with_announcement_after_comparison_is_unsafe",
	 MAPPED(1, true, WITH_ALL, ANNOUNCES_AFTER_COMPARISON), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_with_look_before_withdrawal_is_unsafe",
	 MAPPED(1, true, WITH_ALL, LOOKS_BEFORE_WITHDRAWAL), FOUND_UNSAFE},
	{"revocation_of_mapped_memory_without_examination_of_thread_is_stuck",
	 MAPPED(1, true, WITH_ALL, EXAMINES_NO_THREAD), FOUND_STUCK},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static void local_revoke_every_interleaving_is_safe(void **state)
{
	const struct model_case *model_case = *state;
	size_t states;
	enum access_finding finding = access_explore(&model_case->setup, &states);

	print_message("%zu states\n", states);
	assert_int_equal(finding, model_case->expected);
}

int main(void)
{
	struct CMUnitTest tests[CASES];

	for (size_t i = 0; i < CASES; i++)
		tests[i] = (struct CMUnitTest){
			.name = cases[i].name,
			.test_func = local_revoke_every_interleaving_is_safe,
			.initial_state = (void *)(uintptr_t)&cases[i],
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
