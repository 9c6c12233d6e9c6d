/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/segment.h"

#define SLOT 9

static struct segment *segment;
static int fd;
static json_object *process;

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
	segment->hdr.slot = SLOT;
	process = json_object_new_object();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	json_object_put(process);
	munmap(segment, SEGMENT_BYTES);
	return close(fd);
}

static uint64_t number(const char *key)
{
	json_object *value = json_object_object_get(process, key);

	assert_non_null(value);
	return json_object_get_uint64(value);
}

static const char *text(const char *list, size_t index, const char *key)
{
	json_object *entry = json_object_array_get_idx(json_object_object_get(process, list),
						       index);

	assert_non_null(entry);
	return json_object_get_string(json_object_object_get(entry, key));
}

/* Reads the complete segment as a report does. */
static void read_all(uint64_t bytes)
{
	struct control_segment all;
	uint32_t room = CONTROL_LISTED_ALL_MAX;
	json_object *lists[] = {json_object_new_array(), json_object_new_array()}, *some;
	bool is_one = control_segment_open(&all, fd, bytes, SLOT);

	all.room = &room;
	for (int which = 0; is_one && which < 2; which++) {
		while ((some = which ? control_segment_mrs(&all) : control_segment_qps(&all))) {
			for (size_t i = 0; i < json_object_array_length(some); i++)
				json_object_array_add(
					lists[which],
					json_object_get(json_object_array_get_idx(some, i)));
			json_object_put(some);
		}
		json_object_object_add(process, which ? "mr_count" : "qp_count",
				       json_object_new_uint64(all.count));
		json_object_object_add(process, which ? "mrs" : "qps",
				       json_object_get(lists[which]));
		control_segment_rewind(&all);
	}
	json_object_put(lists[0]);
	json_object_put(lists[1]);
	close(control_segment_release(&all));
}

static void control_segment_qps_lists_published_objects(void **state)
{
	(void)state;
	segment->hdr.qps_end = 600;
	segment->qps[3] = (struct segment_qp){.word = segment_qp_word(7, 0x48003, 3),
					      .type = 2,
					      .remote_qpn = 0x10002,
					      .dev_id = 1};
	segment->qps[599] = (struct segment_qp){.word = segment_qp_word(1, 0x48257, 0), .type = 3};
	strcpy(segment->qps[3].transport, "local");
	strcpy(segment->qps[599].transport, "\x1b[35mlo");
	segment->hdr.mrs_end = 2;
	segment->mrs[1] = (struct segment_mr){.word = segment_mr_word(2, 0x100001),
					      .length_bytes = 1ull << 40};
	read_all(SEGMENT_BYTES);
	assert_int_equal(number("qp_count"), 2);
	assert_string_equal(text("qps", 0, "qpn"), "0x48003");
	assert_string_equal(text("qps", 0, "type"), "RC");
	assert_string_equal(text("qps", 0, "state"), "RTS");
	assert_string_equal(text("qps", 0, "peer_qpn"), "0x10002");
	assert_string_equal(text("qps", 1, "type"), "UC");
	assert_null(text("qps", 1, "peer_qpn"));
	assert_string_equal(text("qps", 0, "transport"), "local");
	assert_null(text("qps", 1, "transport"));
	assert_int_equal(number("mr_count"), 1);
	assert_string_equal(text("mrs", 0, "length_bytes"), "1099511627776");
}

/* A hostile process can at most make the report of its own segment long. */
static void control_segment_qps_hostile_segment_is_read_safely(void **state)
{
	(void)state;
	segment->hdr.qps_end = UINT32_MAX;
	segment->hdr.mrs_end = UINT32_MAX;
	for (uint32_t i = 0; i < SEGMENT_QPS; i++)
		memset(&segment->qps[i], 0xff, sizeof(segment->qps[i]));
	for (uint32_t i = 0; i < CONTROL_LISTED_MAX + 5; i++)
		memset(&segment->mrs[i], 0xff, sizeof(segment->mrs[i]));
	read_all(SEGMENT_BYTES);
	assert_int_equal(number("qp_count"), SEGMENT_QPS);
	assert_int_equal(json_object_array_length(json_object_object_get(process, "qps")),
			 CONTROL_LISTED_MAX);
	assert_string_equal(text("qps", 0, "state"), "unknown");
	assert_string_equal(text("qps", 0, "type"), "unknown");
	assert_int_equal(number("mr_count"), CONTROL_LISTED_MAX + 5);
	assert_int_equal(json_object_array_length(json_object_object_get(process, "mrs")),
			 CONTROL_LISTED_MAX);
}

/* Many such segments cannot exhaust the machine's memory. */
static void control_segment_open_many_large_segments_fails(void **state)
{
	struct control_segment all;
	uint32_t room = 3;
	json_object *some;

	(void)state;
	segment->hdr.qps_end = 5;
	for (uint32_t i = 0; i < 5; i++)
		segment->qps[i] = (struct segment_qp){.word = segment_qp_word(1, 0x48000 + i, 0)};
	assert_true(control_segment_open(&all, fd, SEGMENT_BYTES, SLOT));
	all.room = &room;
	some = control_segment_qps(&all);
	assert_int_equal(json_object_array_length(some), 3);
	json_object_put(some);
	assert_null(control_segment_qps(&all));
	assert_int_equal(all.count, 5);
	assert_int_equal(room, 0);
	close(control_segment_release(&all));
}

static void expect_nothing(uint64_t bytes)
{
	read_all(bytes);
	assert_int_equal(json_object_object_length(process), 0);
}

static void control_segment_open_invalid_file_fails(void **state)
{
	(void)state;
	expect_nothing(SEGMENT_BYTES - 1);
	expect_nothing(0);
	segment->hdr.slot = SLOT + 1;
	expect_nothing(SEGMENT_BYTES);
	segment->hdr.slot = SLOT;
	segment->hdr.version++;
	expect_nothing(SEGMENT_BYTES);
	segment->hdr.version--;
	segment->hdr.magic++;
	expect_nothing(SEGMENT_BYTES);
}

/* Reading the table allocates no memory for the process: holes stay holes. */
static void control_segment_qps_allocates_no_pages(void **state)
{
	struct stat before, after;

	(void)state;
	segment->hdr.qps_end = SEGMENT_QPS;
	segment->hdr.mrs_end = SEGMENT_MRS;
	assert_int_equal(fstat(fd, &before), 0);
	read_all(SEGMENT_BYTES);
	assert_int_equal(number("qp_count"), 0);
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(control_segment_qps_lists_published_objects),
		CASE(control_segment_qps_hostile_segment_is_read_safely),
		CASE(control_segment_open_many_large_segments_fails),
		CASE(control_segment_open_invalid_file_fails),
		CASE(control_segment_qps_allocates_no_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
