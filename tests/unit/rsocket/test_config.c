/* SPDX-License-Identifier: BSD-2-Clause */

/* The files of /etc/rdma/rsocket: absent files, valid values and invalid values. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/config.h"

static char dir[] = "/tmp/usrdma-test-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static const char *const names[] = {"mem_default",    "wmem_default",	 "sqsize_default",
				    "rqsize_default", "inline_default",	 "iomap_size",
				    "polling_time",   "wake_up_interval"};

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

static void rsock_config_read_without_files_uses_defaults(void **state)
{
	struct rsock_config config;

	(void)state;
	rsock_config_read("/nonexistent", &config);
	assert_int_equal(config.sizes.receive_bytes, 131072);
	assert_int_equal(config.sizes.send_bytes, 131072);
	assert_int_equal(config.sizes.sq_entries, 384);
	assert_int_equal(config.sizes.rq_entries, 384);
	assert_int_equal(config.sizes.inline_bytes, 64);
	assert_int_equal(config.sizes.iomap_entries, 0);
	assert_int_equal(config.polling_us, 10);
	assert_int_equal(config.wake_up_ms, 500);
}

static void rsock_config_read_every_file_is_used(void **state)
{
	struct rsock_config config;

	(void)state;
	write_file("mem_default", "1000000\n");
	write_file("wmem_default", "65536");
	write_file("sqsize_default", "100\n");
	write_file("rqsize_default", "200\n");
	write_file("inline_default", "0\n");
	write_file("iomap_size", "129\n");
	write_file("polling_time", "0\n");
	write_file("wake_up_interval", "100\n");
	rsock_config_read(dir, &config);
	assert_int_equal(config.sizes.receive_bytes, 1000000);
	assert_int_equal(config.sizes.send_bytes, 65536);
	assert_int_equal(config.sizes.sq_entries, 100);
	assert_int_equal(config.sizes.rq_entries, 200);
	assert_int_equal(config.sizes.inline_bytes, 0);
	assert_int_equal(config.sizes.iomap_entries, 128);
	assert_int_equal(config.polling_us, 0);
	assert_int_equal(config.wake_up_ms, 100);
}

static void rsock_config_read_invalid_value_is_limited(void **state)
{
	struct rsock_config config;

	(void)state;
	write_file("mem_default", "1\n");
	write_file("wmem_default", "99999999999999999999999\n");
	write_file("sqsize_default", "0\n");
	write_file("rqsize_default", "1000000\n");
	write_file("inline_default", "many\n");
	write_file("iomap_size", "\n");
	write_file("polling_time", "4000000000\n");
	write_file("wake_up_interval", "0\n");
	rsock_config_read(dir, &config);
	assert_int_equal(config.sizes.receive_bytes, RSOCK_RING_MIN);
	assert_int_equal(config.sizes.send_bytes, 131072);
	assert_int_equal(config.sizes.sq_entries, RSOCK_QUEUE_MIN);
	assert_int_equal(config.sizes.rq_entries, RSOCK_QUEUE_MAX);
	assert_int_equal(config.sizes.inline_bytes, 64);
	assert_int_equal(config.sizes.iomap_entries, 0);
	assert_int_equal(config.polling_us, RSOCK_POLL_US_MAX);
	assert_int_equal(config.wake_up_ms, RSOCK_WAKE_UP_MS_MIN);
	/* The size must be even, because a ring has two halves. */
	write_file("mem_default", "10001\n");
	rsock_config_read(dir, &config);
	assert_int_equal(config.sizes.receive_bytes % 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsock_config_read_without_files_uses_defaults),
		cmocka_unit_test(rsock_config_read_every_file_is_used),
		cmocka_unit_test(rsock_config_read_invalid_value_is_limited),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
