/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_TRACE_MODEL_ARRIVAL_H
#define TOOLS_USRDMA_TRACE_MODEL_ARRIVAL_H

#include "model.h"

/*
 * The packet of the other side that arrived last before the note, or NULL. order: the `count` items
 * of the connection that precede the note, in order of the time of sending, as indices of `items`.
 * A window of packets that were sent at once may arrive after it.
 */
struct item *model_last_arrival(struct item *items, const uint32_t *order, uint32_t count,
				const struct item *note);

#endif
