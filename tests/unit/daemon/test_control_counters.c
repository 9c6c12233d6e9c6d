/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control_counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/segment.h"

static struct segment *segment;
static int fd;
static json_object *counters;

static int setup(void **state)
{
	(void)state;
	fd = memfd_create("segment", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)SEGMENT_BYTES) < 0)
		return -1;
	segment = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment == MAP_FAILED)
		return -1;
	segment->hdr.magic = SEGMENT_MAGIC;
	segment->hdr.version = SEGMENT_VERSION;
	counters = json_object_new_object();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	json_object_put(counters);
	munmap(segment, SEGMENT_BYTES);
	return close(fd);
}

static void show(uint32_t index, const char *name, uint64_t value)
{
	assert_true(strlen(name) < SEGMENT_COUNTER_NAME_BYTES);
	memcpy(segment->counters.names[index], name, strlen(name) + 1);
	segment->counters.values[index] = value;
	if (segment->counters.end <= index)
		segment->counters.end = index + 1;
}

static json_object *find(const char *group, const char *name)
{
	json_object *numbers = json_object_object_get(counters, group);

	return numbers ? json_object_object_get(numbers, name) : NULL;
}

static uint64_t number(const char *group, const char *name)
{
	assert_non_null(find(group, name));
	return json_object_get_uint64(find(group, name));
}

static void control_counters_sum_adds_processes(void **state)
{
	json_object *total = json_object_new_object();

	(void)state;
	show(0, "roce.packets_sent", 40);
	show(1, "local.retries", 2);
	control_counters_read(counters, fd, SEGMENT_BYTES);
	assert_int_equal(number("roce", "packets_sent"), 40);
	show(0, "roce.packets_sent", UINT64_C(1) << 40);
	control_counters_read(counters, fd, SEGMENT_BYTES);
	assert_int_equal(number("roce", "packets_sent"), 40 + (UINT64_C(1) << 40));
	assert_int_equal(number("local", "retries"), 4);
	control_counters_add(counters, "gsi", "dropped: wrong P_Key", 3);
	assert_int_equal(number("gsi", "dropped_wrong_p_key"), 3);
	control_counters_sum(total, counters);
	control_counters_sum(counters, total);
	assert_int_equal(number("local", "retries"), 8);
	json_object_put(total);
}

static void control_counters_read_invalid_name_is_skipped(void **state)
{
	(void)state;
	show(0, "", 1);
	show(1, "roce", 1);
	show(2, ".packets", 1);
	show(3, "roce.", 1);
	show(4, "roce.pack ets", 1);
	show(5, "roce.pack.ets", 1);
	show(6, "Roce.packets", 1);
	show(7, "roce.\x1b[2J", 1);
	show(8, "roce.good", 1);
	segment->counters.end = 10;
	memset(segment->counters.names[9], 'x', SEGMENT_COUNTER_NAME_BYTES);
	segment->counters.names[9][4] = '.';
	control_counters_read(counters, fd, SEGMENT_BYTES);
	assert_int_equal(json_object_object_length(counters), 1);
	assert_int_equal(json_object_object_length(json_object_object_get(counters, "roce")), 1);
	assert_int_equal(number("roce", "good"), 1);
}

/* The number of different names is limited, however many processes use new ones. */
static void control_counters_add_limits_names(void **state)
{
	char name[SEGMENT_COUNTER_NAME_BYTES];

	(void)state;
	for (uint32_t round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < SEGMENT_COUNTERS_MAX; i++) {
			snprintf(name, sizeof(name), "%s%u.n%u_%u", i % 2 ? "g" : "one",
				 i % 2 ? i : 0, round, i);
			show(i, name, 1);
		}
		segment->counters.end = UINT32_MAX;
		control_counters_read(counters, fd, SEGMENT_BYTES);
	}
	assert_int_equal(json_object_object_length(counters), CONTROL_GROUPS_MAX);
	assert_int_equal(json_object_object_length(json_object_object_get(counters, "one0")),
			 CONTROL_NAMES_MAX);
}

static void control_counters_read_invalid_segment_fails(void **state)
{
	(void)state;
	show(0, "roce.packets_sent", 1);
	control_counters_read(counters, fd, SEGMENT_BYTES - 1);
	segment->hdr.version++;
	control_counters_read(counters, fd, SEGMENT_BYTES);
	segment->hdr.version--;
	segment->hdr.magic++;
	control_counters_read(counters, fd, SEGMENT_BYTES);
	control_counters_read(counters, -1, SEGMENT_BYTES);
	assert_int_equal(json_object_object_length(counters), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(control_counters_sum_adds_processes),
		CASE(control_counters_read_invalid_name_is_skipped),
		CASE(control_counters_add_limits_names),
		CASE(control_counters_read_invalid_segment_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
