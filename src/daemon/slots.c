/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/slots.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

void slots_init(struct slots *slots, uint64_t seed)
{
	*slots = (struct slots){
		.free_first = (uint32_t)(seed % IPC_SLOTS),
		.free_count = IPC_SLOTS - 1,
	};
	for (uint32_t i = 0; i < IPC_SLOTS - 1; i++)
		slots->free[(slots->free_first + i) % IPC_SLOTS] =
			(uint16_t)((slots->free_first + i) % (IPC_SLOTS - 1) + 1);
}

int slots_assign(struct slots *slots, void *owner)
{
	uint32_t slot;

	assert(owner);
	if (slots->free_count == 0)
		return -ENOSPC;
	slot = slots->free[slots->free_first];
	slots->free_first = (slots->free_first + 1) % IPC_SLOTS;
	slots->free_count--;
	slots->owners[slot] = owner;
	return (int)slot;
}

void slots_return(struct slots *slots, uint32_t slot)
{
	assert(slot > 0 && slot < IPC_SLOTS && slots->owners[slot]);
	slots->owners[slot] = NULL;
	slots->free[(slots->free_first + slots->free_count) % IPC_SLOTS] = (uint16_t)slot;
	slots->free_count++;
}

void *slots_owner(const struct slots *slots, uint32_t slot)
{
	return slot < IPC_SLOTS ? slots->owners[slot] : NULL;
}
