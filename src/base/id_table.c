/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/id_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"

#define NO_INDEX   UINT32_MAX
#define FIRST_ROOM 16u
/* Minimum size of a table with random handles: the next index is chosen from this many entries. */
#define FIRST_ROOM_RANDOM 4096u

/* The entry of an index: in use if ptr is set, else free and in the queue of free indices. */
struct id_table_entry {
	void *ptr;
	uint32_t generation;
	union {
		uint32_t next_free;
		uint32_t order; /* with random handles: a free index, see index_take_random() */
	};
};

static void table_init(struct id_table *table, uint32_t max, uint32_t index_bits,
		       uint32_t generation_bits)
{
	*table = (struct id_table){
		.max = max,
		.free_head = NO_INDEX,
		.free_tail = NO_INDEX,
		.index_bits = index_bits,
		.generation_mask = UINT32_MAX >> (32 - generation_bits),
	};
}

void id_table_init(struct id_table *table, uint32_t max)
{
	assert(max > 0 && max <= 1u << 31);
	table_init(table, max, 32, 32);
}

void id_table_init_bits(struct id_table *table, uint32_t max, uint32_t bits)
{
	uint32_t index_bits = 1;

	assert(bits <= 32 && max > 0 && max <= 1u << (bits - 4));
	while (max > 1u << index_bits)
		index_bits++;
	table_init(table, max, index_bits, bits - index_bits);
}

void id_table_init_random(struct id_table *table, uint32_t max, uint32_t bits,
			  struct random *random)
{
	id_table_init_bits(table, max, bits);
	assert(max == 1u << table->index_bits);
	table->random = random;
	table->index_mask = random_below(random, max);
}

void id_table_init32(struct id_table *table, uint32_t max)
{
	assert(max <= 1u << 24);
	id_table_init_bits(table, max, 32);
}

void id_table_fini(struct id_table *table)
{
	free(table->entries);
	table->entries = NULL;
	table->used = 0;
	table->room = 0;
	table->count = 0;
	table->free_head = NO_INDEX;
	table->free_tail = NO_INDEX;
}

static int table_grow(struct id_table *table)
{
	uint32_t first = table->random ? FIRST_ROOM_RANDOM : FIRST_ROOM;
	uint32_t room = table->room ? table->room * 2 : first;
	struct id_table_entry *entries;

	if (room > table->max)
		room = table->max;
	entries = realloc(table->entries, room * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	table->entries = entries;
	table->room = room;
	return 0;
}

/*
 * The free indices of a table with random handles are stored as an array: `order` of the entries
 * [0, room - count). The index that is taken is replaced by the last one of the array.
 */
static int table_grow_random(struct id_table *table)
{
	uint32_t first = table->room, free_count = first - table->count;
	int error = table_grow(table);

	if (error)
		return error;
	for (uint32_t index = first; index < table->room; index++) {
		table->entries[index] = (struct id_table_entry){0};
		table->entries[free_count++].order = index;
	}
	table->used = table->room;
	return 0;
}

static uint32_t index_take_random(struct id_table *table, int *error)
{
	uint32_t free_count, chosen, index;

	if (table->count == table->max) {
		*error = -ENOSPC;
		return NO_INDEX;
	}
	if (table->count >= table->room / 2 && table->room < table->max) {
		*error = table_grow_random(table);
		if (*error)
			return NO_INDEX;
	}
	free_count = table->room - table->count;
	chosen = random_below(table->random, free_count);
	index = table->entries[chosen].order;
	table->entries[chosen].order = table->entries[free_count - 1].order;
	return index;
}

/* A generation other than 0 and `last`, the previous generation of the index. */
static uint32_t id_table_next_generation(struct id_table *table, uint32_t last)
{
	uint32_t generation;

	if (!table->random) {
		generation = (last + 1) & table->generation_mask;
		return generation ? generation : 1;
	}
	do {
		generation = random_u32(table->random) & table->generation_mask;
	} while (generation == 0 || generation == last);
	return generation;
}

/* Takes a free index, or returns NO_INDEX and sets *error. */
static uint32_t index_take(struct id_table *table, int *error)
{
	uint32_t index = table->free_head;

	if (table->random)
		return index_take_random(table, error);
	if (index != NO_INDEX) {
		table->free_head = table->entries[index].next_free;
		if (table->free_head == NO_INDEX)
			table->free_tail = NO_INDEX;
		return index;
	}
	if (table->used == table->max) {
		*error = -ENOSPC;
		return NO_INDEX;
	}
	if (table->used == table->room) {
		*error = table_grow(table);
		if (*error)
			return NO_INDEX;
	}
	index = table->used++;
	table->entries[index].generation = 1;
	return index;
}

int id_table_add(struct id_table *table, void *ptr, uint64_t *handle)
{
	struct id_table_entry *entry;
	uint32_t index;
	int error = 0;

	assert(ptr);
	index = index_take(table, &error);
	if (index == NO_INDEX)
		return error;
	entry = &table->entries[index];
	if (table->random)
		entry->generation = id_table_next_generation(table, entry->generation);
	entry->ptr = ptr;
	table->count++;
	*handle = (uint64_t)entry->generation << table->index_bits | (index ^ table->index_mask);
	return 0;
}

static struct id_table_entry *id_table_entry_find(const struct id_table *table, uint64_t handle)
{
	uint64_t index = (handle & ((1ull << table->index_bits) - 1)) ^ table->index_mask;
	struct id_table_entry *entry;

	if (index >= table->used)
		return NULL;
	entry = &table->entries[index];
	if (!entry->ptr || handle >> table->index_bits != entry->generation)
		return NULL;
	return entry;
}

void *id_table_get(const struct id_table *table, uint64_t handle)
{
	struct id_table_entry *entry = id_table_entry_find(table, handle);

	return entry ? entry->ptr : NULL;
}

void *id_table_remove(struct id_table *table, uint64_t handle)
{
	struct id_table_entry *entry = id_table_entry_find(table, handle);
	uint32_t index;
	void *ptr;

	if (!entry)
		return NULL;
	ptr = entry->ptr;
	index = (uint32_t)(entry - table->entries);
	entry->ptr = NULL;
	if (table->random) {
		table->entries[table->room - table->count].order = index;
		table->count--;
		return ptr;
	}
	entry->generation = id_table_next_generation(table, entry->generation);
	entry->next_free = NO_INDEX;
	if (table->free_tail == NO_INDEX)
		table->free_head = index;
	else
		table->entries[table->free_tail].next_free = index;
	table->free_tail = index;
	table->count--;
	return ptr;
}

void *id_table_next(const struct id_table *table, uint32_t *cursor)
{
	while (*cursor < table->used) {
		void *ptr = table->entries[(*cursor)++].ptr;

		if (ptr)
			return ptr;
	}
	return NULL;
}
