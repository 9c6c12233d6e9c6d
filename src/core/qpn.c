/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qpn.h"

#include "core/engine.h"

/* QP0 and QP1 are reserved. The lowest two QPNs of every QPN range (slot) are not assigned. */
#define QPN_FIRST 2u

#define QPN_TRIES 64

static bool was_given_lately(const struct engine *engine, uint32_t low)
{
	return engine->is_last_qpn[low / 8] & 1u << low % 8;
}

/* Adds a number to the last assigned ones in place of the oldest. The initial numbers are 0, which is not assigned. */
static void qpn_note_given(struct engine *engine, uint32_t low)
{
	uint16_t *oldest = &engine->last_qpns[engine->qp_cursor++ % LAST_QPNS];

	engine->is_last_qpn[*oldest / 8] &= (uint8_t) ~(1u << *oldest % 8);
	engine->is_last_qpn[low / 8] |= (uint8_t)(1u << low % 8);
	*oldest = (uint16_t)low;
}

/*
 * Returns the low bits of a free QPN. The number is random and not among the last LAST_QPNS assigned numbers, so that a
 * delayed packet for a destroyed QP does not reach a new QP. If QPN_TRIES attempts fail, the next free number is used.
 */
static uint32_t find_free(struct engine *engine)
{
	uint32_t first = engine->slot << IPC_SLOT_SHIFT;
	uint32_t low;

	for (int tries = 0; tries < QPN_TRIES; tries++) {
		low = QPN_FIRST + random_below(&engine->random, IPC_SLOT_QPNS - QPN_FIRST);
		if (!qp_table_get(&engine->qps, first | low) && !was_given_lately(engine, low))
			return low;
	}
	while (qp_table_get(&engine->qps, first | low))
		low = low + 1 < IPC_SLOT_QPNS ? low + 1 : QPN_FIRST;
	return low;
}

uint32_t qpn_choose(struct engine *engine)
{
	uint32_t low = find_free(engine);

	qpn_note_given(engine, low);
	return engine->slot << IPC_SLOT_SHIFT | low;
}
