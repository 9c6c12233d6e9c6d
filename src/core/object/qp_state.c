/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/qp_state.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/util.h"

/*
 * One table for each transport service, with a row for each state and a column for each next state:
 * the attributes that IBA 1.x §11.2.5.2 requires and permits for the transition. Transitions to
 * RESET and ERR permit no other attribute. As in Linux, for every driver, RESET does not lead to
 * ERR: a QP in RESET has no work requests to flush. No transition leads to SQE: a QP enters SQE
 * only after a completion error.
 */
#define QP_STATES IBV_QPS_UNKNOWN

struct qp_transition {
	bool is_legal;
	int required; /* enum ibv_qp_attr_mask */
	int optional;
};

#define NEVER               \
	{                   \
		false, 0, 0 \
	}
#define ALONE              \
	{                  \
		true, 0, 0 \
	}
#define MAY(optional)               \
	{                           \
		true, 0, (optional) \
	}
#define MUST(required, optional)             \
	{                                    \
		true, (required), (optional) \
	}

#define MIGRATION (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/*
 * RC, UC and XRC. An XRC send QP has the requester attributes of RC, an XRC receive QP the
 * responder attributes.
 */
#define CONN_INIT	  (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define CONN_RTR	  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define CONN_RTR_OPTIONAL (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define CONN_RTS_OPTIONAL (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | MIGRATION)
#define CONN_SQD_OPTIONAL (IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | MIGRATION)

#define RESPONDER_RTR	(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define REQUESTER_RETRY (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)
#define REQUESTER_RTS	(REQUESTER_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

#define RC_RTS_OPTIONAL (CONN_RTS_OPTIONAL | IBV_QP_MIN_RNR_TIMER)
#define RC_SQD_OPTIONAL                                                                \
	(CONN_SQD_OPTIONAL | IBV_QP_PORT | REQUESTER_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | \
	 RESPONDER_RTR)

static const struct qp_transition rc_transitions[QP_STATES][QP_STATES] = {
	[IBV_QPS_RESET] = {ALONE, MUST(CONN_INIT, 0), NEVER, NEVER, NEVER, NEVER, NEVER},
	[IBV_QPS_INIT] = {ALONE, MAY(CONN_INIT), MUST(CONN_RTR | RESPONDER_RTR, CONN_RTR_OPTIONAL),
			  NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_RTR] = {ALONE, NEVER, NEVER, MUST(REQUESTER_RTS, RC_RTS_OPTIONAL), NEVER, NEVER,
			 ALONE},
	[IBV_QPS_RTS] = {ALONE, NEVER, NEVER, MAY(RC_RTS_OPTIONAL), MAY(IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 NEVER, ALONE},
	[IBV_QPS_SQD] = {ALONE, NEVER, NEVER, MAY(RC_RTS_OPTIONAL), MAY(RC_SQD_OPTIONAL), NEVER,
			 ALONE},
	/* An RC QP enters ERR instead of SQE. */
	[IBV_QPS_SQE] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_ERR] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
};

static const struct qp_transition uc_transitions[QP_STATES][QP_STATES] = {
	[IBV_QPS_RESET] = {ALONE, MUST(CONN_INIT, 0), NEVER, NEVER, NEVER, NEVER, NEVER},
	[IBV_QPS_INIT] = {ALONE, MAY(CONN_INIT), MUST(CONN_RTR, CONN_RTR_OPTIONAL), NEVER, NEVER,
			  NEVER, ALONE},
	[IBV_QPS_RTR] = {ALONE, NEVER, NEVER, MUST(IBV_QP_SQ_PSN, CONN_RTS_OPTIONAL), NEVER, NEVER,
			 ALONE},
	[IBV_QPS_RTS] = {ALONE, NEVER, NEVER, MAY(CONN_RTS_OPTIONAL),
			 MAY(IBV_QP_EN_SQD_ASYNC_NOTIFY), NEVER, ALONE},
	[IBV_QPS_SQD] = {ALONE, NEVER, NEVER, MAY(CONN_RTS_OPTIONAL), MAY(CONN_SQD_OPTIONAL), NEVER,
			 ALONE},
	[IBV_QPS_SQE] = {ALONE, NEVER, NEVER, MAY(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS), NEVER,
			 NEVER, ALONE},
	[IBV_QPS_ERR] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
};

#define UD_INIT		(IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define UD_KEYS		(IBV_QP_PKEY_INDEX | IBV_QP_QKEY)
#define UD_RTS_OPTIONAL (IBV_QP_CUR_STATE | IBV_QP_QKEY)

static const struct qp_transition ud_transitions[QP_STATES][QP_STATES] = {
	[IBV_QPS_RESET] = {ALONE, MUST(UD_INIT, 0), NEVER, NEVER, NEVER, NEVER, NEVER},
	[IBV_QPS_INIT] = {ALONE, MAY(UD_INIT), MAY(UD_KEYS), NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_RTR] = {ALONE, NEVER, NEVER, MUST(IBV_QP_SQ_PSN, UD_RTS_OPTIONAL), NEVER, NEVER,
			 ALONE},
	[IBV_QPS_RTS] = {ALONE, NEVER, NEVER, MAY(UD_RTS_OPTIONAL), MAY(IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 NEVER, ALONE},
	[IBV_QPS_SQD] = {ALONE, NEVER, NEVER, MAY(UD_RTS_OPTIONAL), MAY(UD_KEYS), NEVER, ALONE},
	[IBV_QPS_SQE] = {ALONE, NEVER, NEVER, MAY(UD_RTS_OPTIONAL), NEVER, NEVER, ALONE},
	[IBV_QPS_ERR] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
};

#define XRC_SEND_SQD_OPTIONAL \
	(CONN_SQD_OPTIONAL | IBV_QP_PORT | REQUESTER_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

/* The requester: no responder resources and no RNR NAK timer, because it receives no requests. */
static const struct qp_transition xrc_send_transitions[QP_STATES][QP_STATES] = {
	[IBV_QPS_RESET] = {ALONE, MUST(CONN_INIT, 0), NEVER, NEVER, NEVER, NEVER, NEVER},
	[IBV_QPS_INIT] = {ALONE, MAY(CONN_INIT), MUST(CONN_RTR, CONN_RTR_OPTIONAL), NEVER, NEVER,
			  NEVER, ALONE},
	[IBV_QPS_RTR] = {ALONE, NEVER, NEVER, MUST(REQUESTER_RTS, CONN_RTS_OPTIONAL), NEVER, NEVER,
			 ALONE},
	[IBV_QPS_RTS] = {ALONE, NEVER, NEVER, MAY(CONN_RTS_OPTIONAL),
			 MAY(IBV_QP_EN_SQD_ASYNC_NOTIFY), NEVER, ALONE},
	[IBV_QPS_SQD] = {ALONE, NEVER, NEVER, MAY(CONN_RTS_OPTIONAL), MAY(XRC_SEND_SQD_OPTIONAL),
			 NEVER, ALONE},
	[IBV_QPS_SQE] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_ERR] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
};

#define XRC_RECV_SQD_OPTIONAL (CONN_SQD_OPTIONAL | IBV_QP_PORT | IBV_QP_TIMEOUT | RESPONDER_RTR)

/*
 * The responder. Of the requester attributes it has the ACK timeout and sq_psn, the initial PSN of
 * its responses.
 */
static const struct qp_transition xrc_recv_transitions[QP_STATES][QP_STATES] = {
	[IBV_QPS_RESET] = {ALONE, MUST(CONN_INIT, 0), NEVER, NEVER, NEVER, NEVER, NEVER},
	[IBV_QPS_INIT] = {ALONE, MAY(CONN_INIT), MUST(CONN_RTR | RESPONDER_RTR, CONN_RTR_OPTIONAL),
			  NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_RTR] = {ALONE, NEVER, NEVER, MUST(IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, RC_RTS_OPTIONAL),
			 NEVER, NEVER, ALONE},
	[IBV_QPS_RTS] = {ALONE, NEVER, NEVER, MAY(RC_RTS_OPTIONAL), MAY(IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 NEVER, ALONE},
	[IBV_QPS_SQD] = {ALONE, NEVER, NEVER, MAY(RC_RTS_OPTIONAL), MAY(XRC_RECV_SQD_OPTIONAL),
			 NEVER, ALONE},
	[IBV_QPS_SQE] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_ERR] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
};

/* Raw packet QPs (ibv_modify_qp(3)): the port is required, a rate limit optional. */
static const struct qp_transition raw_transitions[QP_STATES][QP_STATES] = {
	[IBV_QPS_RESET] = {ALONE, MUST(IBV_QP_PORT, 0), NEVER, NEVER, NEVER, NEVER, NEVER},
	[IBV_QPS_INIT] = {ALONE, MAY(IBV_QP_PORT), ALONE, NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_RTR] = {ALONE, NEVER, NEVER, MAY(IBV_QP_CUR_STATE | IBV_QP_RATE_LIMIT), NEVER,
			 NEVER, ALONE},
	[IBV_QPS_RTS] = {ALONE, NEVER, NEVER, MAY(IBV_QP_CUR_STATE | IBV_QP_RATE_LIMIT), NEVER,
			 NEVER, ALONE},
	[IBV_QPS_SQD] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_SQE] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
	[IBV_QPS_ERR] = {ALONE, NEVER, NEVER, NEVER, NEVER, NEVER, ALONE},
};

static const struct qp_transition (*transitions_of(enum ibv_qp_type type))[QP_STATES]
{
	switch (type) {
	case IBV_QPT_RC:
		return rc_transitions;
	case IBV_QPT_UC:
		return uc_transitions;
	case IBV_QPT_UD:
		return ud_transitions;
	case IBV_QPT_XRC_SEND:
		return xrc_send_transitions;
	case IBV_QPT_XRC_RECV:
		return xrc_recv_transitions;
	case IBV_QPT_RAW_PACKET:
		return raw_transitions;
	default:
		return NULL;
	}
}

bool qp_state_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		   int attr_mask, int *missing, int *surplus)
{
	const struct qp_transition(*transitions)[QP_STATES] = transitions_of(type);
	const struct qp_transition *transition;

	if (!transitions || (unsigned int)from >= QP_STATES || (unsigned int)to >= QP_STATES)
		return false;
	transition = &transitions[from][to];
	if (!transition->is_legal)
		return false;
	*missing = transition->required & ~attr_mask;
	*surplus = attr_mask & ~(transition->required | transition->optional | IBV_QP_STATE);
	return true;
}

int qp_state_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
		   int attr_mask)
{
	int missing, surplus;

	if (!qp_state_mask(type, from, to, attr_mask, &missing, &surplus))
		return -EINVAL;
	return missing || surplus ? -EINVAL : 0;
}

static const char *const qp_state_names[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

_Static_assert(COUNT(qp_state_names) == QP_STATES, "a QP state lacks its name");

const char *qp_state_name(enum ibv_qp_state state)
{
	return (unsigned int)state < QP_STATES ? qp_state_names[state] : "unknown";
}
