/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Names of enums: every value has a name of its own, and an unknown value reads no memory outside a
 * table.
 */

#include <infiniband/verbs.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "core/object/vendor_err.h"

static const char *node_type(int value)
{
	return ibv_node_type_str((enum ibv_node_type)value);
}

static const char *port_state(int value)
{
	return ibv_port_state_str((enum ibv_port_state)value);
}

static const char *event_type(int value)
{
	return ibv_event_type_str((enum ibv_event_type)value);
}

static const char *wc_status(int value)
{
	return ibv_wc_status_str((enum ibv_wc_status)value);
}

static const char *wr_opcode(int value)
{
	return ibv_wr_opcode_str((enum ibv_wr_opcode)value);
}

static const char *reason(int value)
{
	return vendor_err_text((uint32_t)value);
}

/* Each value in [first, end) has a unique name; other values have none. */
static void check_range(const char *(*name)(int), int first, int end)
{
	const int strangers[] = {INT_MIN, -2, -1, first - 1, end, end + 1, 1 << 20, INT_MAX};
	int a, b;
	size_t i;

	for (a = first; a < end; a++) {
		assert_non_null(name(a));
		assert_true(strlen(name(a)) > 1);
		assert_string_not_equal(name(a), "unknown");
		for (b = first; b < a; b++)
			assert_string_not_equal(name(a), name(b));
	}
	for (i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
		assert_string_equal(name(strangers[i]), "unknown");
}

static void ibv_wc_status_str_every_value_has_a_name(void **state)
{
	(void)state;
	check_range(node_type, IBV_NODE_CA, IBV_NODE_UNSPECIFIED + 1);
	check_range(port_state, IBV_PORT_NOP, IBV_PORT_ACTIVE_DEFER + 1);
	check_range(event_type, IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_SPEED_CHANGE + 1);
	check_range(wc_status, IBV_WC_SUCCESS, IBV_WC_TM_RNDV_INCOMPLETE + 1);
	check_range(reason, VENDOR_ERR_NONE, VENDOR_ERR_COUNT);
}

static void ibv_wr_opcode_str_unknown_values_are_named_unknown(void **state)
{
	int value;

	(void)state;
	for (value = IBV_WR_RDMA_WRITE; value <= IBV_WR_DRIVER1; value++)
		assert_string_not_equal(wr_opcode(value), "unknown");
	for (value = IBV_WR_DRIVER1 + 1; value < IBV_WR_FLUSH; value++)
		assert_string_equal(wr_opcode(value), "unknown");
	assert_string_equal(wr_opcode(IBV_WR_FLUSH), "flush");
	assert_string_equal(wr_opcode(IBV_WR_ATOMIC_WRITE), "atomic-write");
	assert_string_equal(wr_opcode(IBV_WR_ATOMIC_WRITE + 1), "unknown");
	assert_string_equal(wr_opcode(-1), "unknown");
}

/* Programs print these names, and test suites compare them. */
static void ibv_event_type_str_known_names_are_exact(void **state)
{
	(void)state;
	assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	assert_string_equal(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
	assert_string_equal(ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR), "remote access error");
	assert_string_equal(ibv_wc_status_str(IBV_WC_REM_OP_ERR), "remote operation error");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_SRQ_LIMIT_REACHED), "SRQ limit reached");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_DEVICE_SPEED_CHANGE),
			    "Device link speed change");
	assert_string_equal(ibv_wc_status_str(IBV_WC_TM_ERR), "TM error");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNSPECIFIED), "unspecified");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_wr_opcode_str(IBV_WR_SEND_WITH_INV), "send-with-inv");
}

/* Captures the output of vendor_err_log() for a completion, at level `warn`. */
static void hear(const struct ibv_wc *wc, char *text, size_t size)
{
	int heard = memfd_create("stderr", MFD_CLOEXEC);
	int before = dup(STDERR_FILENO);
	ssize_t len;

	assert_true(heard >= 0 && before >= 0);
	assert_true(dup2(heard, STDERR_FILENO) >= 0);
	log_set_level(LOG_LEVEL_WARN);
	vendor_err_log(wc);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	len = pread(heard, text, size - 1, 0);
	assert_true(len >= 0);
	text[len] = '\0';
	close(before);
	close(heard);
}

static void vendor_err_log_failed_wr_is_logged_once(void **state)
{
	struct ibv_wc wc = {.wr_id = 42,
			    .qp_num = 0x8002,
			    .status = IBV_WC_REM_ACCESS_ERR,
			    .vendor_err = VENDOR_ERR_RKEY};
	char text[500];

	(void)state;
	hear(&wc, text, sizeof(text));
	assert_non_null(strstr(text,
			       "qp 0x008002: work request 0x2a failed: remote access error: "
			       "the peer has no memory region with this rkey (vendor_err 7)"));
	wc.status = IBV_WC_WR_FLUSH_ERR;
	hear(&wc, text, sizeof(text));
	assert_string_equal(text, "");
	wc.status = IBV_WC_SUCCESS;
	hear(&wc, text, sizeof(text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_wc_status_str_every_value_has_a_name),
		cmocka_unit_test(ibv_wr_opcode_str_unknown_values_are_named_unknown),
		cmocka_unit_test(ibv_event_type_str_known_names_are_exact),
		cmocka_unit_test(vendor_err_log_failed_wr_is_logged_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
