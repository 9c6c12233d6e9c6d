/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control_counters.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "ipc/segment.h"

/*
 * Returns the group, which is created if it does not exist; NULL: CONTROL_GROUPS_MAX groups exist.
 */
static json_object *group_of(json_object *to, const char *name)
{
	json_object *group = json_object_object_get(to, name);

	if (group || json_object_object_length(to) >= CONTROL_GROUPS_MAX)
		return group;
	group = json_object_new_object();
	json_object_object_add(to, name, group);
	return group;
}

static void add_named(json_object *to, const char *group_name, const char *name, uint64_t value)
{
	json_object *group = group_of(to, group_name);
	json_object *number = group ? json_object_object_get(group, name) : NULL;

	if (number)
		json_object_set_uint64(number, json_object_get_uint64(number) + value);
	else if (group && json_object_object_length(group) < CONTROL_NAMES_MAX)
		json_object_object_add(group, name, json_object_new_uint64(value));
}

void control_counters_add(json_object *to, const char *group, const char *words, uint64_t value)
{
	char name[SEGMENT_COUNTER_NAME_BYTES];
	size_t used = 0;

	for (bool is_gap = false; *words && used < sizeof(name) - 2; words++) {
		if (!isalnum((unsigned char)*words)) {
			is_gap = true;
			continue;
		}
		if (is_gap)
			name[used++] = '_';
		is_gap = false;
		name[used++] = (char)tolower((unsigned char)*words);
	}
	name[used] = '\0';
	add_named(to, group, name, value);
}

void control_counters_sum(json_object *to, json_object *from)
{
	json_object_object_foreach(from, group, numbers)
	{
		json_object_object_foreach(numbers, name, number)
		{
			add_named(to, group, name, json_object_get_uint64(number));
		}
	}
}

bool control_is_word(const char *text)
{
	return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

/* Adds a counter if its name has the form "group.name" and is terminated. */
static void add_shown(json_object *to, char name[SEGMENT_COUNTER_NAME_BYTES], uint64_t value)
{
	char *point = memchr(name, '.', SEGMENT_COUNTER_NAME_BYTES);

	if (!point || !memchr(point, '\0', (size_t)(name + SEGMENT_COUNTER_NAME_BYTES - point)))
		return;
	*point = '\0';
	if (control_is_word(name) && control_is_word(point + 1))
		add_named(to, name, point + 1, value);
}

void control_counters_read(json_object *to, int segment_fd, uint64_t segment_bytes)
{
	static struct {
		struct segment_hdr hdr;
		struct segment_counters counters;
	} head;
	uint32_t end;

	static_assert(offsetof(struct segment, counters) == sizeof(struct segment_hdr),
		      "both are read at once");
	if (segment_bytes < SEGMENT_BYTES ||
	    pread(segment_fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    head.hdr.magic != SEGMENT_MAGIC || head.hdr.version != SEGMENT_VERSION)
		return;
	end = atomic_load_explicit(&head.counters.end, memory_order_relaxed);
	for (uint32_t i = 0; i < end && i < SEGMENT_COUNTERS_MAX; i++)
		add_shown(to, head.counters.names[i], head.counters.values[i]);
}
