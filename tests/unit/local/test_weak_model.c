/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "weak_model.h"

/*
 * Litmus tests of the search itself (weak_model.h). Names and allowed results are those of the
 * literature on ARMv8 (Maranget, Sarkar and Sewell, A Tutorial Introduction to the ARM and POWER
 * Relaxed Memory Models; Pulte et al., POPL 2018): the search finds each result that the model
 * allows, and no other one.
 */

enum { X, Y, Z };
enum { R0, R1, R2 };

struct litmus {
	const char *name;
	bool is_allowed;
	struct weak_program program;
};

/* Message passing: the second thread finds the flag and not the data. */
static bool found_mp(const struct weak_end *end)
{
	return end->regs[1][R0] == 1 && end->regs[1][R1] == 0;
}

static bool found_sb(const struct weak_end *end)
{
	return !end->regs[0][R0] && !end->regs[1][R0];
}

static bool found_lb(const struct weak_end *end)
{
	return end->regs[0][R0] == 1 && end->regs[1][R0] == 1;
}

static bool found_iriw(const struct weak_end *end)
{
	return end->regs[2][R0] == 1 && !end->regs[2][R1] && end->regs[3][R0] == 1 &&
	       !end->regs[3][R1];
}

static bool found_corr(const struct weak_end *end)
{
	return end->regs[1][R0] == 1 && end->regs[1][R1] == 0;
}

static bool found_cowr(const struct weak_end *end)
{
	return end->regs[0][R0] != 1 && end->regs[0][R0] != 2;
}

static bool found_wrc(const struct weak_end *end)
{
	return end->regs[1][R0] == 1 && end->regs[2][R0] == 1 && !end->regs[2][R1];
}

static bool found_two_plus_two_w(const struct weak_end *end)
{
	return end->vars[X] == 1 && end->vars[Y] == 1;
}

static bool found_s(const struct weak_end *end)
{
	return end->regs[1][R0] == 1 && end->vars[X] == 2;
}

static bool found_ppoca(const struct weak_end *end)
{
	return end->regs[1][R0] == 1 && end->regs[1][R1] == 1 && !end->regs[1][R2];
}

static bool found_lost_update(const struct weak_end *end)
{
	return end->vars[X] != 2;
}

#define RLX WEAK_RELAXED
#define ACQ WEAK_ACQUIRE
#define REL WEAK_RELEASE
#define SEQ WEAK_SEQ_CST

#define MP(flag_store, flag_load, first_fence, second_fence) \
	{                                                    \
		.is_found = found_mp,                        \
		.threads = {                                 \
			{{W_STORE(X, 1, RLX)},               \
			 {W_FENCE(first_fence)},             \
			 {W_STORE(Y, 1, flag_store)}},       \
			{{W_LOAD(R0, Y, flag_load)},         \
			 {W_FENCE(second_fence)},            \
			 {W_LOAD(R1, X, RLX)}},              \
		},                                           \
	}

#define SB(stored, loaded, fence)                                                             \
	{                                                                                     \
		.is_found = found_sb,                                                         \
		.threads = {                                                                  \
			{{W_STORE(X, 1, stored)}, {W_FENCE(fence)}, {W_LOAD(R0, Y, loaded)}}, \
			{{W_STORE(Y, 1, stored)}, {W_FENCE(fence)}, {W_LOAD(R0, X, loaded)}}, \
		},                                                                            \
	}

#define LB(loaded, fence)                                                                  \
	{                                                                                  \
		.is_found = found_lb,                                                      \
		.threads = {                                                               \
			{{W_LOAD(R0, X, loaded)}, {W_FENCE(fence)}, {W_STORE(Y, 1, RLX)}}, \
			{{W_LOAD(R0, Y, loaded)}, {W_FENCE(fence)}, {W_STORE(X, 1, RLX)}}, \
		},                                                                         \
	}

#define IRIW(loaded, fence)                                                                   \
	{                                                                                     \
		.is_found = found_iriw,                                                       \
		.threads = {                                                                  \
			{{W_STORE(X, 1, RLX)}},                                               \
			{{W_STORE(Y, 1, RLX)}},                                               \
			{{W_LOAD(R0, X, loaded)}, {W_FENCE(fence)}, {W_LOAD(R1, Y, loaded)}}, \
			{{W_LOAD(R0, Y, loaded)}, {W_FENCE(fence)}, {W_LOAD(R1, X, loaded)}}, \
		},                                                                            \
	}

/* A fence with RLX orders nothing. */
static const struct litmus tests[] = {
	{"mp_without_fences_is_allowed", true, MP(RLX, RLX, RLX, RLX)},
	{"mp_with_release_store_only_is_allowed", true, MP(REL, RLX, RLX, RLX)},
	{"mp_with_acquire_load_only_is_allowed", true, MP(RLX, ACQ, RLX, RLX)},
	{"mp_with_release_and_acquire_is_forbidden", false, MP(REL, ACQ, RLX, RLX)},
	{"mp_with_fences_is_forbidden", false, MP(RLX, RLX, SEQ, SEQ)},
	{"mp_with_release_and_acquire_fences_is_forbidden", false, MP(RLX, RLX, REL, ACQ)},
	{"mp_with_exchanged_fences_is_allowed", true, MP(RLX, RLX, ACQ, REL)},
	{"mp_with_control_dependency_is_allowed",
	 true,
	 {.is_found = found_mp,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_STORE(Y, 1, REL)}},
		      {{W_LOAD(R0, Y, RLX)}, {W_LOAD(R1, X, RLX), W_IF(R0, 1)}}}}},
	{"mp_with_control_dependency_and_acquire_fence_is_forbidden",
	 false,
	 {.is_found = found_mp,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_STORE(Y, 1, REL)}},
		      {{W_LOAD(R0, Y, RLX)},
		       {W_FENCE(ACQ), W_IF(R0, 1)},
		       {W_LOAD(R1, X, RLX), W_IF(R0, 1)}}}}},

	{"sb_without_fences_is_allowed", true, SB(RLX, RLX, RLX)},
	{"sb_with_release_and_acquire_is_allowed", true, SB(REL, ACQ, RLX)},
	{"sb_with_release_fences_is_allowed", true, SB(RLX, RLX, REL)},
	{"sb_with_acquire_fences_is_allowed", true, SB(RLX, RLX, ACQ)},
	{"sb_with_seq_cst_accesses_is_forbidden", false, SB(SEQ, SEQ, RLX)},
	{"sb_with_seq_cst_stores_only_is_allowed", true, SB(SEQ, RLX, RLX)},
	{"sb_with_fences_is_forbidden", false, SB(RLX, RLX, SEQ)},
	{"sb_with_membarrier_on_one_side_is_forbidden",
	 false,
	 {.is_found = found_sb,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_LOAD(R0, Y, RLX)}},
		      {{W_STORE(Y, 1, RLX)}, {W_MEMBARRIER}, {W_LOAD(R0, X, RLX)}}}}},
	{"sb_with_a_fence_on_one_side_is_allowed",
	 true,
	 {.is_found = found_sb,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_LOAD(R0, Y, RLX)}},
		      {{W_STORE(Y, 1, RLX)}, {W_FENCE(SEQ)}, {W_LOAD(R0, X, RLX)}}}}},

	{"lb_without_fences_is_allowed", true, LB(RLX, RLX)},
	{"lb_with_acquire_is_forbidden", false, LB(ACQ, RLX)},
	{"lb_with_fences_is_forbidden", false, LB(RLX, SEQ)},
	{"lb_with_release_fences_is_forbidden", false, LB(RLX, REL)},
	{"lb_with_control_dependencies_is_forbidden",
	 false,
	 {.is_found = found_lb,
	  .threads = {{{W_LOAD(R0, X, RLX)}, {W_STORE(Y, 1, RLX), W_IF(R0, 1)}},
		      {{W_LOAD(R0, Y, RLX)}, {W_STORE(X, 1, RLX), W_IF(R0, 1)}}}}},
	{"lb_with_data_dependencies_is_forbidden",
	 false,
	 {.is_found = found_lb,
	  .threads = {{{W_LOAD(R0, X, RLX)}, {W_INCREMENT(Y, R0, RLX)}},
		      {{W_LOAD(R0, Y, RLX)}, {W_INCREMENT(X, R0, RLX)}}}}},

	{"iriw_without_fences_is_allowed", true, IRIW(RLX, RLX)},
	{"iriw_with_acquire_is_forbidden", false, IRIW(ACQ, RLX)},
	{"iriw_with_fences_is_forbidden", false, IRIW(RLX, SEQ)},

	{"corr_is_forbidden",
	 false,
	 {.is_found = found_corr,
	  .threads = {{{W_STORE(X, 1, RLX)}}, {{W_LOAD(R0, X, RLX)}, {W_LOAD(R1, X, RLX)}}}}},
	{"cowr_is_forbidden",
	 false,
	 {.is_found = found_cowr,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_LOAD(R0, X, RLX)}}, {{W_STORE(X, 2, RLX)}}}}},
	{"wrc_with_control_dependency_and_acquire_is_forbidden",
	 false,
	 {.is_found = found_wrc,
	  .threads = {{{W_STORE(X, 1, RLX)}},
		      {{W_LOAD(R0, X, RLX)}, {W_STORE(Y, 1, RLX), W_IF(R0, 1)}},
		      {{W_LOAD(R0, Y, ACQ)}, {W_LOAD(R1, X, RLX)}}}}},
	{"wrc_without_dependency_is_allowed",
	 true,
	 {.is_found = found_wrc,
	  .threads = {{{W_STORE(X, 1, RLX)}},
		      {{W_LOAD(R0, X, RLX)}, {W_STORE(Y, 1, RLX)}},
		      {{W_LOAD(R0, Y, ACQ)}, {W_LOAD(R1, X, RLX)}}}}},
	{"two_plus_two_w_without_fences_is_allowed",
	 true,
	 {.is_found = found_two_plus_two_w,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_STORE(Y, 2, RLX)}},
		      {{W_STORE(Y, 1, RLX)}, {W_STORE(X, 2, RLX)}}}}},
	{"two_plus_two_w_with_release_is_forbidden",
	 false,
	 {.is_found = found_two_plus_two_w,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_STORE(Y, 2, REL)}},
		      {{W_STORE(Y, 1, RLX)}, {W_STORE(X, 2, REL)}}}}},
	{"s_with_release_and_control_dependency_is_forbidden",
	 false,
	 {.is_found = found_s,
	  .threads = {{{W_STORE(X, 2, RLX)}, {W_STORE(Y, 1, REL)}},
		      {{W_LOAD(R0, Y, RLX)}, {W_STORE(X, 1, RLX), W_IF(R0, 1)}}}}},
	{"s_with_release_only_is_allowed",
	 true,
	 {.is_found = found_s,
	  .threads = {{{W_STORE(X, 2, RLX)}, {W_STORE(Y, 1, REL)}},
		      {{W_LOAD(R0, Y, RLX)}, {W_STORE(X, 1, RLX)}}}}},
	/* A load reads a store of its thread that is not visible to other threads yet. */
	{"sb_with_forwarding_and_acquire_is_allowed",
	 true,
	 {.is_found = found_sb,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_LOAD(R1, X, ACQ)}, {W_LOAD(R0, Y, RLX)}},
		      {{W_STORE(Y, 1, RLX)}, {W_LOAD(R1, Y, ACQ)}, {W_LOAD(R0, X, RLX)}}}}},
	/* The same with a store that follows a branch. */
	{"ppoca_is_allowed",
	 true,
	 {.is_found = found_ppoca,
	  .threads = {{{W_STORE(X, 1, RLX)}, {W_STORE(Y, 1, REL)}},
		      {{W_LOAD(R0, Y, RLX)},
		       {W_STORE(Z, 1, RLX), W_IF(R0, 1)},
		       {W_LOAD(R1, Z, ACQ), W_IF(R0, 1)},
		       {W_LOAD(R2, X, RLX), W_IF(R0, 1)}}}}},
	{"increments_without_lock_are_lost",
	 true,
	 {.is_found = found_lost_update,
	  .threads = {{{W_LOAD(R0, X, RLX)}, {W_INCREMENT(X, R0, RLX)}},
		      {{W_LOAD(R0, X, RLX)}, {W_INCREMENT(X, R0, RLX)}}}}},
	{"increments_with_lock_are_kept",
	 false,
	 {.is_found = found_lost_update,
	  .threads =
		  {{{W_LOCK(Y)}, {W_LOAD(R0, X, RLX)}, {W_INCREMENT(X, R0, RLX)}, {W_UNLOCK(Y)}},
		   {{W_LOCK(Y)}, {W_LOAD(R0, X, RLX)}, {W_INCREMENT(X, R0, RLX)}, {W_UNLOCK(Y)}}}}},
};

static void local_weak_model_finds_allowed_results_only(void **state)
{
	const struct litmus *litmus = *state;
	unsigned int states;
	bool is_found = weak_search(&litmus->program, &states);

	print_message("%s: %u states\n", litmus->name, states);
	assert_int_equal(is_found, litmus->is_allowed);
}

int main(void)
{
	struct CMUnitTest cases[sizeof(tests) / sizeof(tests[0])];

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		cases[i] = (struct CMUnitTest){.name = tests[i].name,
					       .test_func =
						       local_weak_model_finds_allowed_results_only,
					       .initial_state = (void *)(uintptr_t)&tests[i]};
	return cmocka_run_group_tests(cases, NULL, NULL);
}
