/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_QP_TABLE_H
#define USRDMA_CORE_ENGINE_QP_TABLE_H

#include <stdint.h>

#include "core/object/objects.h"

struct engine;

/*
 * The QPs of one process by QPN: a hash table with linear probing. The hash is the low bits of the
 * QPN, which are random. The table doubles when it is half full, up to IPC_SLOT_QPNS entries; then
 * each QPN of the slot has an entry of its own. Owned by the engine, whose lock guards it.
 */
struct qp_table {
	struct qp **entries; /* [mask + 1]; NULL: unused */
	uint32_t mask;
	uint32_t count;
};

int qp_table_init(struct qp_table *table) __attribute__((warn_unused_result));
void qp_table_fini(struct qp_table *table);

/* The QP with that number; NULL: not found. */
static inline struct qp *qp_table_get(const struct qp_table *table, uint32_t qpn)
{
	uint32_t i = qpn & table->mask;

	/*
	 * The search ends: QPNs 0 and 1 of the slot are not assigned, so at least two entries are
	 * unused.
	 */
	while (table->entries[i] && table->entries[i]->qpn != qpn)
		i = (i + 1) & table->mask;
	return table->entries[i];
}

/* Adds a QP, whose number is not in the table. 0 or -ENOMEM. */
int qp_table_add(struct qp_table *table, struct qp *qp) __attribute__((warn_unused_result));

/* Removes a QP of the table. */
void qp_table_remove(struct qp_table *table, const struct qp *qp);

/*
 * Iterates over the QPs, starting with *cursor 0; NULL: the end. No QP may be added or removed
 * during the iteration.
 */
struct qp *qp_table_next(const struct qp_table *table, uint32_t *cursor);

/*
 * The QP of this process with that number, or NULL. engine.lock or the lock of a shard held: the
 * table changes with all locks held.
 */
struct qp *qp_find(struct engine *engine, uint32_t qpn);

#endif
