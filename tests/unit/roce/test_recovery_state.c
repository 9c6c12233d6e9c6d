/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss recovery's state machine, its classification of events, and docs/recovery-states.md, which
 * is generated from it.
 *
 *	test-roce-recovery_state --write	writes docs/recovery-states.md
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "roce/recovery.h"
#include "wire/psn.h"
#include "page.h"

#define PAGE "recovery-states.md"

/* Intervals of PSNs in these tests wrap around. */
#define PSN(n) psn_add(0xfffffa, (n))

static struct recovery_cell cell_of(unsigned int state, unsigned int input)
{
	return recovery_cell((enum recovery_state)state, (enum recovery_input)input);
}

static void doc_add_diagram(void)
{
	page_add("```mermaid\nstateDiagram-v2\n    [*] --> open\n");
	for (unsigned int state = 0; state < RECOVERY_STATE_COUNT; state++) {
		for (unsigned int input = 0; input < RECOVERY_IN_COUNT; input++) {
			struct recovery_cell cell = cell_of(state, input);

			if (cell.action == RECOVERY_ACTION_NEVER || cell.next == state)
				continue;
			page_add("    %s --> %s: %s / %s\n",
				 recovery_state_name((enum recovery_state)state),
				 recovery_state_name((enum recovery_state)cell.next),
				 recovery_input_name((enum recovery_input)input),
				 recovery_action_name((enum recovery_action)cell.action));
		}
	}
	page_add("```\n");
}

static void doc_add_table(unsigned int state)
{
	page_add("\n### %s\n\n| input | action | next |\n|---|---|---|\n",
		 recovery_state_name((enum recovery_state)state));
	for (unsigned int input = 0; input < RECOVERY_IN_COUNT; input++) {
		struct recovery_cell cell = cell_of(state, input);

		page_add("| %s | %s | %s |\n", recovery_input_name((enum recovery_input)input),
			 recovery_action_name((enum recovery_action)cell.action),
			 cell.next == state ? "" :
					      recovery_state_name((enum recovery_state)cell.next));
	}
}

static void doc_render(void)
{
	page_begin();
	page_add(
		"<!-- Generated from src/roce/recovery_state.c by test-roce-recovery_state --write; do not edit. "
		"-->\n"
		"# States of loss recovery\n\n"
		"The states of a RoCE requester and the inputs that change them; "
		"[loss-recovery.md](loss-recovery.md) explains both.\n"
		"Arrows are labelled input / action. An input whose action is *never* is not produced in that "
		"state.\n\n");
	doc_add_diagram();
	page_add("\n## All cells\n");
	for (unsigned int state = 0; state < RECOVERY_STATE_COUNT; state++)
		doc_add_table(state);
}

static void recovery_step_table_matches_document(void **test)
{
	(void)test;
	doc_render();
	page_assert_written(PAGE);
}

static void recovery_step_every_state_and_input_is_defined(void **test)
{
	(void)test;
	for (unsigned int state = 0; state < RECOVERY_STATE_COUNT; state++) {
		for (unsigned int input = 0; input < RECOVERY_IN_COUNT; input++) {
			struct recovery_cell cell = cell_of(state, input);

			assert_int_not_equal(cell.action, RECOVERY_ACTION_MISSING);
			assert_true(cell.action < RECOVERY_ACTION_COUNT);
			assert_true(cell.next < RECOVERY_STATE_COUNT);
			if (cell.action == RECOVERY_ACTION_NEVER)
				assert_int_equal(cell.next, state);
		}
	}
}

/* From each state, acknowledgments and the RNR timer lead back to OPEN. */
static void recovery_step_every_state_returns_to_open(void **test)
{
	(void)test;
	for (unsigned int state = 0; state < RECOVERY_STATE_COUNT; state++) {
		unsigned int at = state;

		if (at == RECOVERY_RNR_WAIT)
			at = cell_of(at, RECOVERY_IN_RNR_EXPIRED).next;
		if (at != RECOVERY_OPEN)
			at = cell_of(at, RECOVERY_IN_RECOVERED).next;
		assert_int_equal(at, RECOVERY_OPEN);
	}
}

static void recovery_step_rto_leads_to_go_back_n(void **test)
{
	(void)test;
	for (unsigned int state = 0; state < RECOVERY_STATE_COUNT; state++) {
		if (state == RECOVERY_RNR_WAIT)
			continue;
		assert_int_equal(cell_of(state, RECOVERY_IN_RTO).next, RECOVERY_GO_BACK_N);
		assert_int_equal(cell_of(state, RECOVERY_IN_RNR_NAK).next, RECOVERY_RNR_WAIT);
	}
}

static void recovery_classify_ack_reports_end_of_recovery(void **test)
{
	struct recovery recovery = {.retransmit_end_psn = PSN(10)};

	(void)test;
	assert_int_equal(recovery_classify_ack(&recovery, PSN(20)), RECOVERY_IN_ACK);
	/* Go-back-N is over with the last packet that was in flight. */
	recovery.state = RECOVERY_GO_BACK_N;
	assert_int_equal(recovery_classify_ack(&recovery, PSN(9)), RECOVERY_IN_ACK);
	assert_int_equal(recovery_classify_ack(&recovery, PSN(10)), RECOVERY_IN_RECOVERED);
	/* Selective repeat succeeded if more is acknowledged than was sent again. */
	recovery.state = RECOVERY_SELECTIVE;
	assert_int_equal(recovery_classify_ack(&recovery, PSN(10)), RECOVERY_IN_ACK);
	assert_true(recovery_is_gap_acked(&recovery, PSN(10)));
	assert_int_equal(recovery_classify_ack(&recovery, PSN(11)), RECOVERY_IN_RECOVERED);
	recovery.state = RECOVERY_RNR_WAIT;
	assert_int_equal(recovery_classify_ack(&recovery, PSN(11)), RECOVERY_IN_ACK);
}

static void recovery_classify_gap_prefers_selective_repeat(void **test)
{
	struct recovery recovery = {0};
	struct recovery_gap gap = {.una_psn = PSN(3), .max_psn = PSN(20), .burst_pkts = 5};
	uint32_t pkts;

	(void)test;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP);
	assert_int_equal(pkts, 5);
	/* Nothing is saved where the gap is all that is in flight. */
	gap.burst_pkts = 17;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP_ALL);
	gap.burst_pkts = 16;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP);
}

static void recovery_classify_gap_outstanding_responses_need_go_back_n(void **test)
{
	struct recovery recovery = {.reorder.confidence = REORDER_CONFIRMED};
	struct recovery_gap gap = {
		.una_psn = PSN(3), .max_psn = PSN(20), .burst_pkts = 1, .has_responses = true};
	uint32_t pkts;

	(void)test;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP_ALL);
	gap.has_responses = false;
	recovery.state = RECOVERY_GO_BACK_N;
	recovery.retransmit_end_psn = PSN(20);
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP_ALL);
}

/* The gap [3, 5) was sent again and is acknowledged, and 5 is missing. */
static void recovery_classify_gap_filled_gap_shows_reorder_buffer(void **test)
{
	struct recovery recovery = {
		.state = RECOVERY_SELECTIVE, .retransmit_end_psn = PSN(5), .gap_pkts = 2};
	struct recovery_gap gap = {.una_psn = PSN(5), .max_psn = PSN(200), .burst_pkts = 1};
	uint32_t pkts;

	(void)test;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_NOT_BUFFERED);
	/* A peer that is known to buffer has lost more than that. */
	recovery.reorder.confidence = REORDER_CONFIRMED;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP);
	assert_int_equal(pkts, 8);
	recovery.gap_pkts = 16;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP);
	assert_int_equal(pkts, 64);
	recovery.gap_pkts = 17;
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_NOT_BUFFERED);
	/* As long as what is in flight, it is no gap. */
	recovery.gap_pkts = 16;
	gap.max_psn = PSN(5 + 64);
	assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP_ALL);
}

static void recovery_reorder_deny_doubles_hold_off_until_confirmed(void **test)
{
	struct recovery recovery = {0};
	struct recovery_gap gap = {.una_psn = PSN(3), .max_psn = PSN(20), .burst_pkts = 1};
	uint32_t expected = 1, pkts;

	(void)test;
	for (int failures = 0; failures < 8; failures++) {
		recovery_reorder_deny(&recovery.reorder);
		for (uint32_t i = 0; i < expected; i++) {
			assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts),
					 RECOVERY_IN_GAP_HOLD_OFF);
			recovery_reorder_count(&recovery.reorder);
		}
		assert_int_equal(recovery.reorder.confidence, REORDER_UNKNOWN);
		assert_int_equal(recovery_classify_gap(&recovery, &gap, &pkts), RECOVERY_IN_GAP);
		expected = expected < 64 ? 2 * expected : 64;
	}
	recovery_reorder_confirm(&recovery.reorder);
	recovery_reorder_deny(&recovery.reorder);
	assert_int_equal(recovery.reorder.hold_off_losses, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recovery_step_table_matches_document),
		cmocka_unit_test(recovery_step_every_state_and_input_is_defined),
		cmocka_unit_test(recovery_step_every_state_returns_to_open),
		cmocka_unit_test(recovery_step_rto_leads_to_go_back_n),
		cmocka_unit_test(recovery_classify_ack_reports_end_of_recovery),
		cmocka_unit_test(recovery_classify_gap_prefers_selective_repeat),
		cmocka_unit_test(recovery_classify_gap_outstanding_responses_need_go_back_n),
		cmocka_unit_test(recovery_classify_gap_filled_gap_shows_reorder_buffer),
		cmocka_unit_test(recovery_reorder_deny_doubles_hold_off_until_confirmed),
	};

	if (argc > 1 && !strcmp(argv[1], "--write")) {
		doc_render();
		return page_write(PAGE);
	}
	return cmocka_run_group_tests_name("roce-recovery_state", tests, NULL, NULL);
}
