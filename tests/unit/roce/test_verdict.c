/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/qp.h"
#include "roce/roce.h"
#include "roce/verdict.h"

static void every_verdict_has_a_row(void **state)
{
	(void)state;
	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		const struct verdict_row *row = verdict_row((enum verdict)v);

		assert_non_null(row->name);
		assert_true(row->reply <= REPLY_NAK);
		/* Whatever ends a QP is told to the peer. */
		if (row->errs_qp)
			assert_int_equal(row->reply, REPLY_NAK);
		else
			assert_int_equal(row->event, QP_NO_EVENT);
		for (unsigned other = 0; other < v; other++)
			assert_string_not_equal(row->name, verdict_row((enum verdict)other)->name);
	}
}

static void only_what_fits_goes_out_as_a_nak(void **state)
{
	(void)state;
	for (unsigned v = 0; v < VERDICT_COUNT; v++) {
		const struct verdict_row *row = verdict_row((enum verdict)v);
		uint8_t syndrome = verdict_syndrome((enum verdict)v, 14);

		switch (row->reply) {
		case REPLY_RNR_NAK:
			assert_int_equal(syndrome, 0x2e);
			break;
		case REPLY_NAK:
			assert_int_equal(syndrome, 0x60 | row->nak);
			assert_int_equal(row->errs_qp, row->nak != AETH_NAK_PSN_SEQUENCE);
			break;
		default:
			assert_int_equal(syndrome, 0x1f);
			break;
		}
	}
}

static void every_result_has_a_verdict(void **state)
{
	(void)state;
	for (unsigned r = 0; r < ACCESS_RESULT_COUNT; r++) {
		enum verdict verdict = verdict_of_access((enum access_result)r);

		assert_true((unsigned)verdict < VERDICT_COUNT);
		assert_int_equal(verdict == VERDICT_ACCEPTED, r == ACCESS_OK);
		assert_int_equal(verdict_row(verdict)->errs_qp, r != ACCESS_OK && r != ACCESS_RNR);
		for (unsigned other = 0; other < r; other++)
			assert_int_not_equal(verdict, verdict_of_access((enum access_result)other));
	}
}

/* IBA 1.x §9.9.3: what a responder answers and what its requester makes of it. */
static void naks_become_statuses(void **state)
{
	(void)state;
	assert_int_equal(nak_status(AETH_NAK_INVALID_REQUEST), IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(nak_status(AETH_NAK_REMOTE_ACCESS), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(nak_status(AETH_NAK_REMOTE_OPERATION), IBV_WC_REM_OP_ERR);
	assert_int_equal(nak_status(AETH_NAK_INVALID_RD_REQUEST), IBV_WC_REM_INV_RD_REQ_ERR);
	for (unsigned nak = AETH_NAK_COUNT; nak < AETH_CODES; nak++)
		assert_int_equal(nak_status(nak), IBV_WC_BAD_RESP_ERR);
	for (unsigned nak = 0; nak < AETH_CODES; nak++) {
		assert_int_not_equal(nak_vendor_err(nak, true), VENDOR_ERR_NONE);
		assert_int_not_equal(nak_vendor_err(nak, false), VENDOR_ERR_NONE);
	}
}

static void every_counter_has_a_name(void **state)
{
	(void)state;
	for (unsigned c = 0; c < ROCE_COUNTER_COUNT; c++) {
		assert_non_null(roce_counter_name((enum roce_counter)c));
		for (unsigned other = 0; other < c; other++)
			assert_string_not_equal(roce_counter_name((enum roce_counter)c),
						roce_counter_name((enum roce_counter)other));
	}
	assert_string_equal(roce_counter_name(ROCE_COUNTER_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_verdict_has_a_row),
		cmocka_unit_test(only_what_fits_goes_out_as_a_nak),
		cmocka_unit_test(every_result_has_a_verdict),
		cmocka_unit_test(naks_become_statuses),
		cmocka_unit_test(every_counter_has_a_name),
	};

	return cmocka_run_group_tests_name("roce-verdict", tests, NULL, NULL);
}
