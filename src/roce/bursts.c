/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>

#include "roce/qp.h"

/* The record of the GSO bursts of each QP, for loss recovery. */

static_assert(ROCE_BATCH <= UINT8_MAX, "roce_bursts.pkts holds the length of a burst");

/* The lowest and the highest PSN of successive packets of a QP in a burst. */
struct span {
	uint32_t first_psn;
	uint32_t last_psn;
};

static uint8_t span_pkts(uint32_t first_psn, uint32_t last_psn)
{
	uint32_t pkts = psn_sub(last_psn, first_psn) + 1;

	return pkts < UINT8_MAX ? (uint8_t)pkts : UINT8_MAX;
}

static struct span span_of(const struct roce_note *notes, int n)
{
	struct span span = {notes->psn, notes->psn};

	for (int i = 1; i < n; i++) {
		if (psn_is_before(notes[i].psn, span.first_psn))
			span.first_psn = notes[i].psn;
		if (psn_is_after(notes[i].psn, span.last_psn))
			span.last_psn = notes[i].psn;
	}
	return span;
}

static bool has_owner(const struct roce_note *notes, int n, const struct roce_qp *owner)
{
	for (int i = 0; i < n; i++) {
		if (notes[i].owner == owner)
			return true;
	}
	return false;
}

/*
 * is_alone: the span is the only packet of the QP in the burst. Such a packet is not stored:
 * bursts_pkts() is 1 for it.
 */
static void span_store(struct roce_bursts *bursts, uint32_t burst, struct span span, bool is_alone)
{
	uint32_t at = (bursts->head - 1) % BURSTS_NOTED;

	if (bursts->latest == burst) {
		if (psn_is_before(span.first_psn, bursts->first_psns[at]))
			return;
		span.first_psn = bursts->first_psns[at];
		if (span_pkts(span.first_psn, span.last_psn) > bursts->pkts[at])
			bursts->pkts[at] = span_pkts(span.first_psn, span.last_psn);
	} else if (!is_alone) {
		bursts->latest = burst;
		at = bursts->head++ % BURSTS_NOTED;
		bursts->first_psns[at] = span.first_psn;
		bursts->pkts[at] = span_pkts(span.first_psn, span.last_psn);
	}
}

void bursts_note(struct roce_batch *batch, const struct roce_note *notes, int n)
{
	/* 0 is the number of the latest burst of a new QP. */
	batch->burst = batch->burst == UINT32_MAX ? 1 : batch->burst + 1;
	for (int first = 0, end; first < n; first = end) {
		struct roce_qp *owner = notes[first].owner;

		for (end = first + 1; end < n && notes[end].owner == owner; end++)
			;
		if (owner)
			span_store(&owner->tx.bursts, batch->burst,
				   span_of(&notes[first], end - first),
				   end - first == 1 && !has_owner(&notes[end], n - end, owner));
	}
}

uint32_t bursts_pkts(const struct roce_qp *rqp, uint32_t psn)
{
	const struct roce_bursts *bursts = &rqp->tx.bursts;

	for (uint32_t i = 1; i <= BURSTS_NOTED && i <= bursts->head; i++) {
		uint32_t at = (bursts->head - i) % BURSTS_NOTED;

		if (bursts->first_psns[at] == psn)
			return bursts->pkts[at];
	}
	return 1;
}
