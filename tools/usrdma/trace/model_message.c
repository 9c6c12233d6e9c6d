/* SPDX-License-Identifier: BSD-2-Clause */
#include "model_message.h"

void message_part_follow(struct message_part *part, struct item *item,
			 const struct opcode_info *info)
{
	const struct item_packet *packet = &item->packet;
	struct item *before = part->item;
	bool may_continue = packet->is_solicited && !info->has_imm &&
			    (info->is_read || (info->is_write && info->is_only));

	if (before && before->packet.opcode == packet->opcode &&
	    before->packet.rkey == packet->rkey && part->next_va == packet->va) {
		before->flags |= ITEM_HAS_NEXT;
		item->flags |= ITEM_CONTINUED;
	}
	*part = (struct message_part){
		.item = may_continue ? item : NULL,
		.next_va = packet->va + packet->dma_bytes,
	};
}

void message_count(struct conn_dir *dir, const struct item *item, const struct opcode_info *info)
{
	dir->bytes += item->packet.payload_bytes;
	if (!opcode_starts_message(info) || item->flags & ITEM_CONTINUED)
		return;
	dir->messages++;
	dir->sends += info->is_send;
	dir->writes += info->is_write;
	dir->reads += info->is_read;
	dir->atomics += info->is_atomic || info->is_atomic_write;
}
