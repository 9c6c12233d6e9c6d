/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/queue/qp_error.h"
#include "roce/disposition.h"
#include "roce/roce.h"

static void disposition_row_every_value_is_defined(void **state)
{
	(void)state;
	for (unsigned v = 0; v < DISPOSITION_COUNT; v++) {
		const struct disposition_row *row = disposition_row((enum disposition)v);

		assert_non_null(row->name);
		assert_true(row->reply <= REPLY_NAK);
		/* Each disposition that moves the QP to ERR sends a NAK to the peer. */
		if (row->errs_qp)
			assert_int_equal(row->reply, REPLY_NAK);
		else
			assert_int_equal(row->event, QP_NO_EVENT);
		for (unsigned other = 0; other < v; other++)
			assert_string_not_equal(row->name,
						disposition_row((enum disposition)other)->name);
	}
}

static void disposition_syndrome_every_nak_has_valid_code(void **state)
{
	(void)state;
	for (unsigned v = 0; v < DISPOSITION_COUNT; v++) {
		const struct disposition_row *row = disposition_row((enum disposition)v);
		uint8_t syndrome = disposition_syndrome((enum disposition)v, 14);

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

static void disposition_of_access_every_result_is_defined(void **state)
{
	(void)state;
	for (unsigned r = 0; r < ACCESS_RESULT_COUNT; r++) {
		enum disposition disposition = disposition_of_access((enum access_result)r);

		assert_true((unsigned)disposition < DISPOSITION_COUNT);
		assert_int_equal(disposition == DISPOSITION_ACCEPTED, r == ACCESS_OK);
		assert_int_equal(disposition_row(disposition)->errs_qp,
				 r != ACCESS_OK && r != ACCESS_RNR);
		for (unsigned other = 0; other < r; other++)
			assert_int_not_equal(disposition,
					     disposition_of_access((enum access_result)other));
	}
}

/* IBA 1.x §9.9.3: the NAK codes of a responder, and the status at the requester. */
static void nak_status_every_code_has_its_status(void **state)
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

static void roce_counter_name_every_counter_has_a_name(void **state)
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
		cmocka_unit_test(disposition_row_every_value_is_defined),
		cmocka_unit_test(disposition_syndrome_every_nak_has_valid_code),
		cmocka_unit_test(disposition_of_access_every_result_is_defined),
		cmocka_unit_test(nak_status_every_code_has_its_status),
		cmocka_unit_test(roce_counter_name_every_counter_has_a_name),
	};

	return cmocka_run_group_tests_name("roce-disposition", tests, NULL, NULL);
}
