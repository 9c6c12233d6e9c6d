/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The QP state table in another order: each attribute lists the transitions for which it is
 * required or permitted. Every cell of the table is tested with each attribute added and removed
 * (IBA 1.x §11.2.5.2, ibv_modify_qp(3)).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/object/qp_state.h"

#define STATES 7
#define ATTRS  26 /* bits of enum ibv_qp_attr_mask, IBV_QP_RATE_LIMIT the last */

enum way {
	RESET_INIT = 1 << 0,
	INIT_INIT = 1 << 1,
	INIT_RTR = 1 << 2,
	RTR_RTS = 1 << 3,
	RTS_RTS = 1 << 4,
	RTS_SQD = 1 << 5,
	SQD_RTS = 1 << 6,
	SQD_SQD = 1 << 7,
	SQE_RTS = 1 << 8,
	ANY_RESET_ERR = 1 << 9,
};

#define NO_SQD (RESET_INIT | INIT_INIT | INIT_RTR | RTR_RTS | RTS_RTS | ANY_RESET_ERR)
#define NO_SQE (NO_SQD | RTS_SQD | SQD_RTS | SQD_SQD)

enum service {
	RC = 1 << 0,
	UC = 1 << 1,
	UD = 1 << 2,
	XS = 1 << 3,
	XR = 1 << 4,
	RAW = 1 << 5,
};

static const struct {
	enum ibv_qp_type type;
	enum service service;
	unsigned int ways;
} services[] = {
	{IBV_QPT_RC, RC, NO_SQE},	    {IBV_QPT_UC, UC, NO_SQE | SQE_RTS},
	{IBV_QPT_UD, UD, NO_SQE | SQE_RTS}, {IBV_QPT_XRC_SEND, XS, NO_SQE},
	{IBV_QPT_XRC_RECV, XR, NO_SQE},	    {IBV_QPT_RAW_PACKET, RAW, NO_SQD},
};

#define CONNECTED (RC | UC | XS | XR)
#define RESPONDER (RC | XR)
#define REQUESTER (RC | XS)
#define TO_RTS	  (RTR_RTS | RTS_RTS | SQD_RTS)

static const struct {
	int attr;
	unsigned int services;
	unsigned int required;
	unsigned int optional;
} rules[] = {
	{IBV_QP_CUR_STATE, CONNECTED | UD, 0, TO_RTS},
	{IBV_QP_CUR_STATE, UC | UD, 0, SQE_RTS},
	{IBV_QP_CUR_STATE, RAW, 0, RTR_RTS | RTS_RTS},
	{IBV_QP_EN_SQD_ASYNC_NOTIFY, CONNECTED | UD, 0, RTS_SQD},
	{IBV_QP_ACCESS_FLAGS, CONNECTED, RESET_INIT, INIT_INIT | INIT_RTR | TO_RTS | SQD_SQD},
	{IBV_QP_ACCESS_FLAGS, UC, 0, SQE_RTS},
	{IBV_QP_PKEY_INDEX, CONNECTED | UD, RESET_INIT, INIT_INIT | INIT_RTR | SQD_SQD},
	{IBV_QP_PORT, CONNECTED | UD | RAW, RESET_INIT, INIT_INIT},
	{IBV_QP_PORT, RC | XS | XR, 0, SQD_SQD},
	{IBV_QP_QKEY, UD, RESET_INIT, INIT_INIT | INIT_RTR | TO_RTS | SQD_SQD | SQE_RTS},
	{IBV_QP_AV, CONNECTED, INIT_RTR, SQD_SQD},
	{IBV_QP_PATH_MTU, CONNECTED, INIT_RTR, 0},
	{IBV_QP_TIMEOUT, REQUESTER, RTR_RTS, SQD_SQD},
	{IBV_QP_TIMEOUT, XR, RTR_RTS, SQD_SQD},
	{IBV_QP_RETRY_CNT, REQUESTER, RTR_RTS, SQD_SQD},
	{IBV_QP_RNR_RETRY, REQUESTER, RTR_RTS, SQD_SQD},
	{IBV_QP_RQ_PSN, CONNECTED, INIT_RTR, 0},
	{IBV_QP_MAX_QP_RD_ATOMIC, REQUESTER, RTR_RTS, SQD_SQD},
	{IBV_QP_ALT_PATH, CONNECTED, 0, INIT_RTR | TO_RTS | SQD_SQD},
	{IBV_QP_MIN_RNR_TIMER, RESPONDER, INIT_RTR, TO_RTS | SQD_SQD},
	{IBV_QP_SQ_PSN, CONNECTED | UD, RTR_RTS, 0},
	{IBV_QP_MAX_DEST_RD_ATOMIC, RESPONDER, INIT_RTR, SQD_SQD},
	{IBV_QP_PATH_MIG_STATE, CONNECTED, 0, TO_RTS | SQD_SQD},
	{IBV_QP_DEST_QPN, CONNECTED, INIT_RTR, 0},
	{IBV_QP_RATE_LIMIT, RAW, 0, RTR_RTS | RTS_RTS},
};

/* The transition between two states; 0: no such transition. */
static unsigned int way_of(int from, int to)
{
	static const unsigned int ways[STATES][STATES] = {
		[IBV_QPS_RESET][IBV_QPS_INIT] = RESET_INIT,
		[IBV_QPS_INIT][IBV_QPS_INIT] = INIT_INIT,
		[IBV_QPS_INIT][IBV_QPS_RTR] = INIT_RTR,
		[IBV_QPS_RTR][IBV_QPS_RTS] = RTR_RTS,
		[IBV_QPS_RTS][IBV_QPS_RTS] = RTS_RTS,
		[IBV_QPS_RTS][IBV_QPS_SQD] = RTS_SQD,
		[IBV_QPS_SQD][IBV_QPS_RTS] = SQD_RTS,
		[IBV_QPS_SQD][IBV_QPS_SQD] = SQD_SQD,
		[IBV_QPS_SQE][IBV_QPS_RTS] = SQE_RTS,
	};

	if (from == IBV_QPS_RESET && to == IBV_QPS_ERR)
		return 0;
	return to == IBV_QPS_RESET || to == IBV_QPS_ERR ? (unsigned int)ANY_RESET_ERR :
							  ways[from][to];
}

static void rules_of(unsigned int service, unsigned int way, int *required, int *optional)
{
	*required = 0;
	*optional = 0;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (!(rules[i].services & service))
			continue;
		if (rules[i].required & way)
			*required |= rules[i].attr;
		if (rules[i].optional & way)
			*optional |= rules[i].attr;
	}
}

static void check_cell(enum ibv_qp_type type, unsigned int service, unsigned int ways,
		       enum ibv_qp_state from, enum ibv_qp_state to)
{
	unsigned int way = way_of((int)from, (int)to) & ways;
	int required, optional;

	if (!way) {
		for (int bit = 0; bit < ATTRS; bit++)
			assert_int_equal(qp_state_check(type, from, to, IBV_QP_STATE | 1 << bit),
					 -EINVAL);
		return;
	}
	rules_of(service, way, &required, &optional);
	assert_int_equal(qp_state_check(type, from, to, required), 0);
	assert_int_equal(qp_state_check(type, from, to, required | optional | IBV_QP_STATE), 0);
	for (int bit = 0; bit < ATTRS; bit++) {
		int attr = 1 << bit;
		bool may = attr == IBV_QP_STATE || ((required | optional) & attr);
		int got = qp_state_check(type, from, to, required | attr);

		if (got != (may ? 0 : -EINVAL))
			fail_msg("type %d, %s to %s, attribute 1 << %d: %d", type,
				 qp_state_name(from), qp_state_name(to), bit, got);
		if (required & attr)
			assert_int_equal(qp_state_check(type, from, to, required & ~attr), -EINVAL);
	}
	/* Undefined bits, the sign bit among them. */
	assert_int_equal(qp_state_check(type, from, to, required | 1 << ATTRS), -EINVAL);
	assert_int_equal(qp_state_check(type, from, to, required | INT32_MIN), -EINVAL);
}

static void qp_state_check_every_transition_follows_specification(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
		for (int from = 0; from < STATES; from++) {
			for (int to = 0; to < STATES; to++)
				check_cell(services[i].type, services[i].service, services[i].ways,
					   (enum ibv_qp_state)from, (enum ibv_qp_state)to);
		}
	}
}

static void qp_state_check_invalid_state_or_type_fails(void **state)
{
	(void)state;
	for (int state_nr = 0; state_nr < STATES; state_nr++) {
		enum ibv_qp_state other = (enum ibv_qp_state)state_nr;

		assert_int_equal(qp_state_check(IBV_QPT_RC, other, IBV_QPS_UNKNOWN, IBV_QP_STATE),
				 -EINVAL);
		assert_int_equal(qp_state_check(IBV_QPT_RC, IBV_QPS_UNKNOWN, other, IBV_QP_STATE),
				 -EINVAL);
		assert_int_equal(qp_state_check(IBV_QPT_RC, other, (enum ibv_qp_state) - 1,
						IBV_QP_STATE),
				 -EINVAL);
		assert_int_equal(qp_state_check(IBV_QPT_DRIVER, other, IBV_QPS_RESET, IBV_QP_STATE),
				 -EINVAL);
		assert_int_equal(qp_state_check((enum ibv_qp_type)0, other, IBV_QPS_RESET,
						IBV_QP_STATE),
				 -EINVAL);
	}
}

static void qp_state_name_every_state_has_a_name(void **state)
{
	(void)state;
	for (int a = 0; a < STATES; a++) {
		for (int b = 0; b < a; b++)
			assert_string_not_equal(qp_state_name((enum ibv_qp_state)a),
						qp_state_name((enum ibv_qp_state)b));
	}
	assert_string_equal(qp_state_name(IBV_QPS_RTS), "RTS");
	assert_string_equal(qp_state_name(IBV_QPS_UNKNOWN), "unknown");
	assert_string_equal(qp_state_name((enum ibv_qp_state) - 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_state_check_every_transition_follows_specification),
		cmocka_unit_test(qp_state_check_invalid_state_or_type_fails),
		cmocka_unit_test(qp_state_name_every_state_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
