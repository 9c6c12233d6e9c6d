/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/qpn.h"

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

/* QP0 and QP1 are reserved. The lowest two QPNs of every QPN range (slot) are not assigned. */
#define QPN_FIRST 2u

#define QPN_TRIES 64

static bool was_given_lately(const struct engine *engine, uint32_t low)
{
	return engine->tables.qpns.is_last[low / 8] & 1u << low % 8;
}

/*
 * Adds a number to the last assigned ones in place of the oldest. The initial numbers are 0, which
 * is not assigned.
 */
static void qpn_note_given(struct engine *engine, uint32_t low)
{
	uint16_t *oldest = &engine->tables.qpns.last[engine->tables.qpns.cursor++ % LAST_QPNS];

	engine->tables.qpns.is_last[*oldest / 8] &= (uint8_t) ~(1u << *oldest % 8);
	engine->tables.qpns.is_last[low / 8] |= (uint8_t)(1u << low % 8);
	*oldest = (uint16_t)low;
}

/*
 * Finds a free QPN of the shard; false: all are used. The number is random and not among the last
 * LAST_QPNS assigned numbers, so that a delayed packet for a destroyed QP does not reach a new QP.
 * If QPN_TRIES attempts fail, the next free number is used.
 */
static bool find_free(struct engine *engine, uint32_t shard, uint32_t *found)
{
	uint32_t first = engine->slot << IPC_SLOT_SHIFT;
	uint32_t end = IPC_SLOT_QPNS - (SHARDS - 1 - shard) * SHARD_QPNS;
	uint32_t start = shard ? end - SHARD_QPNS : QPN_FIRST;
	uint32_t low;

	for (int tries = 0; tries < QPN_TRIES; tries++) {
		low = start + random_below(&engine->tables.random, end - start);
		*found = first | low;
		if (!qp_table_get(&engine->tables.qps, *found) && !was_given_lately(engine, low))
			return true;
	}
	for (uint32_t i = start; i < end; i++) {
		low = low + 1 < end ? low + 1 : start;
		*found = first | low;
		if (!qp_table_get(&engine->tables.qps, *found))
			return true;
	}
	return false;
}

bool qpn_choose(struct engine *engine, uint32_t shard, uint32_t *qpn)
{
	engine_assert_all_locked(engine);
	if (!find_free(engine, shard, qpn) && (!shard || !find_free(engine, 0, qpn)))
		return false;
	qpn_note_given(engine, *qpn % IPC_SLOT_QPNS);
	return true;
}
