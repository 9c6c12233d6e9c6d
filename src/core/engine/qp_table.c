/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/qp_table.h"

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ENTRIES 64u

int qp_table_init(struct qp_table *table)
{
	table->entries = calloc(FIRST_ENTRIES, sizeof(struct qp *));
	table->mask = FIRST_ENTRIES - 1;
	table->count = 0;
	return table->entries ? 0 : -ENOMEM;
}

void qp_table_fini(struct qp_table *table)
{
	free(table->entries);
	table->entries = NULL;
}

static void qp_table_put(struct qp_table *table, struct qp *qp)
{
	uint32_t i = qp->qpn & table->mask;

	while (table->entries[i])
		i = (i + 1) & table->mask;
	table->entries[i] = qp;
}

static int qp_table_grow(struct qp_table *table)
{
	struct qp_table larger = {.mask = table->mask * 2 + 1, .count = table->count};
	uint32_t cursor = 0;
	struct qp *qp;

	larger.entries = calloc((size_t)larger.mask + 1, sizeof(struct qp *));
	if (!larger.entries)
		return -ENOMEM;
	while ((qp = qp_table_next(table, &cursor)))
		qp_table_put(&larger, qp);
	free(table->entries);
	*table = larger;
	return 0;
}

int qp_table_add(struct qp_table *table, struct qp *qp)
{
	int ret = 0;

	if (table->count > table->mask / 2 && table->mask + 1 < IPC_SLOT_QPNS)
		ret = qp_table_grow(table);
	if (ret)
		return ret;
	qp_table_put(table, qp);
	table->count++;
	return 0;
}

/*
 * Fills the gap with a later QP of the same run of entries, if the search for that QP starts at or
 * before the gap, and repeats this with the gap that the move leaves (Knuth, The Art of Computer
 * Programming, volume 3, section 6.4, algorithm R).
 */
void qp_table_remove(struct qp_table *table, const struct qp *qp)
{
	uint32_t gap = qp->qpn & table->mask;

	while (table->entries[gap] != qp)
		gap = (gap + 1) & table->mask;
	table->entries[gap] = NULL;
	table->count--;
	for (uint32_t i = (gap + 1) & table->mask; table->entries[i]; i = (i + 1) & table->mask) {
		uint32_t from_home = (i - table->entries[i]->qpn) & table->mask;
		uint32_t from_gap = (i - gap) & table->mask;

		if (from_home < from_gap)
			continue;
		table->entries[gap] = table->entries[i];
		table->entries[i] = NULL;
		gap = i;
	}
}

struct qp *qp_table_next(const struct qp_table *table, uint32_t *cursor)
{
	while (*cursor <= table->mask) {
		struct qp *qp = table->entries[(*cursor)++];

		if (qp)
			return qp;
	}
	return NULL;
}

struct qp *qp_find(struct engine *engine, uint32_t qpn)
{
	engine_assert_any_locked(engine);
	return qp_table_get(&engine->tables.qps, qpn);
}
