/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_MODEL_MESSAGE_H
#define USRDMA_TOOL_TRACE_MODEL_MESSAGE_H

#include "model.h"

/*
 * Which request packets are one message: model_follow() calls these functions for each request in
 * sequence.
 */

/*
 * The last request of one direction, of which the next one may be the continuation. Owned by
 * model_follow().
 */
struct message_part {
	struct item *item; /* NULL: the next request begins a message */
	uint64_t next_va;
};

/*
 * If the request continues the message of the request before it, sets ITEM_HAS_NEXT of that request
 * and ITEM_CONTINUED of this one. A short WRITE is sent as several WRITE Only packets, and a long
 * READ as several READ requests (ADR 0056).
 */
void message_part_follow(struct message_part *part, struct item *item,
			 const struct opcode_info *info);

/* Counts the payload of a request, and its message with the first packet. */
void message_count(struct conn_dir *dir, const struct item *item, const struct opcode_info *info);

#endif
