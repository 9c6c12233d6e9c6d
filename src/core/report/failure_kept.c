/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/failure_kept.h"

#include <string.h>

bool failure_kept_is_full(const struct failure_kept *kept)
{
	return kept->pending_count == FAILURE_KEPT;
}

static void failure_kept_remove(struct failure_kept *kept, uint32_t index)
{
	kept->count--;
	memmove(&kept->reports[index], &kept->reports[index + 1],
		(kept->count - index) * sizeof(kept->reports[0]));
}

static void remove_updated(struct failure_kept *kept, uint64_t id)
{
	uint32_t sent_count = kept->count - kept->pending_count;

	for (uint32_t i = 0; i < sent_count; i++) {
		if (kept->reports[i].id != id)
			continue;
		failure_kept_remove(kept, i);
		return;
	}
}

void failure_kept_add(struct failure_kept *kept, const struct ipc_failure *report)
{
	if (report->flags & IPC_FAILURE_UPDATES)
		remove_updated(kept, report->id);
	if (kept->count == FAILURE_KEPT)
		failure_kept_remove(kept, 0);
	kept->reports[kept->count++] = *report;
	kept->pending_count++;
}

struct ipc_failure *failure_kept_pending(struct failure_kept *kept)
{
	if (!kept->pending_count)
		return NULL;
	return &kept->reports[kept->count - kept->pending_count];
}

void failure_kept_sent(struct failure_kept *kept)
{
	kept->pending_count--;
}
