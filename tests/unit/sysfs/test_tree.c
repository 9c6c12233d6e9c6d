/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfs/tree.h"

struct fixture {
	char path[32];
	int fd;
	struct ipc_device_reply info;
	struct view_device seen;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	snprintf(f->path, sizeof(f->path), "/tmp/test-tree.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	f->info.dev_id = 7;
	f->info.node_guid = 0x0123456789abcdefull;
	f->info.flags = IPC_DEVICE_UP;
	f->info.speed_mbps = 25000;
	f->info.gid_count = 3;
	f->info.node_type = IBV_NODE_CA;
	f->info.link_layer = IBV_LINK_LAYER_ETHERNET;
	f->info.gid_type = IBV_GID_TYPE_ROCE_V2;
	strcpy(f->info.name, "eth7");
	f->seen.name = f->info.name;
	f->info.gids[0].is_valid = 1;
	f->info.gids[0].raw[0] = 0xfe;
	f->info.gids[0].raw[1] = 0x80;
	f->info.gids[0].raw[15] = 1;
	f->info.gids[2].is_valid = 1;
	memcpy(f->info.gids[2].raw + 10, "\xff\xff\x0a\x01\x02\x03", 6);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	close(f->fd);
	tree_remove(AT_FDCWD, f->path);
	free(f);
	return 0;
}

static void assert_says(const struct fixture *f, const char *name, const char *expected)
{
	char text[128];
	int fd = openat(f->fd, name, O_RDONLY);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, expected);
}

static void tree_add_device_has_sysfs_layout(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	assert_says(f, "sys/class/infiniband/eth7/node_guid", "0123:4567:89ab:cdef\n");
	assert_says(f, "sys/class/infiniband/eth7/node_type", "1: CA\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/state", "4: ACTIVE\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/rate", "25 Gb/sec (1X)\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/link_layer", "Ethernet\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/pkeys/0", "0xffff\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/cap_mask", "0x04010000\n");
	assert_says(f, "sys/class/infiniband_verbs/abi_version", "6\n");
	assert_says(f, "sys/class/infiniband_verbs/uverbs7/ibdev", "eth7\n");
	assert_int_equal(faccessat(f->fd, "dev/infiniband/uverbs7", R_OK | W_OK, 0), 0);
	assert_int_equal(faccessat(f->fd, "dev/infiniband/rdma_cm", R_OK | W_OK, 0), 0);
}

static void tree_add_device_types_are_those_of_the_device(void **state)
{
	struct fixture *f = *state;

	f->info.node_type = IBV_NODE_RNIC;
	f->info.gid_type = IBV_GID_TYPE_IB;
	f->info.link_layer = 200;
	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	assert_says(f, "sys/class/infiniband/eth7/node_type", "4: RNIC\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/link_layer", "unknown\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/gid_attrs/types/2", "IB/RoCE v1\n");
}

static void tree_add_device_lists_valid_gids_only(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	assert_says(f, "sys/class/infiniband/eth7/ports/1/gids/0",
		    "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/gids/2",
		    "0000:0000:0000:0000:0000:ffff:0a01:0203\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/gid_attrs/types/2", "RoCE v2\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/gid_attrs/ndevs/2", "eth7\n");
	assert_int_equal(faccessat(f->fd, "sys/class/infiniband/eth7/ports/1/gids/1", F_OK, 0), -1);
}

static void tree_add_device_links_interface(void **state)
{
	struct fixture *f = *state;
	char target[64];
	ssize_t n;

	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	n = readlinkat(f->fd, "sys/class/infiniband/eth7/device/net/eth7", target, sizeof(target));
	assert_int_equal(n, strlen("/sys/class/net/eth7"));
	assert_memory_equal(target, "/sys/class/net/eth7", (size_t)n);
}

/*
 * The width is that of ibv_query_port(). The lowest rate is that of one lane at the lowest speed.
 */
static void tree_add_device_rate_has_width_of_port(void **state)
{
	static const struct {
		uint32_t mbps;
		const char *expected;
	} rates[] = {
		{100, "2.5 Gb/sec (1X)\n"},  {2500, "2.5 Gb/sec (1X)\n"},
		{10000, "10 Gb/sec (1X)\n"}, {40000, "40 Gb/sec (4X)\n"},
		{50000, "50 Gb/sec (1X)\n"}, {100000, "100 Gb/sec (4X)\n"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		f->info.speed_mbps = rates[i].mbps;
		assert_int_equal(tree_begin(f->fd), 0);
		assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
		assert_says(f, "sys/class/infiniband/eth7/ports/1/rate", rates[i].expected);
	}
}

static void tree_add_device_down_port_has_state_down(void **state)
{
	struct fixture *f = *state;

	f->info.flags = 0;
	f->info.speed_mbps = 0;
	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	assert_says(f, "sys/class/infiniband/eth7/ports/1/state", "1: DOWN\n");
	assert_says(f, "sys/class/infiniband/eth7/ports/1/rate", "10 Gb/sec (1X)\n");
}

/* The second device of an interface, with another name and the profile of an adapter. */
static void tree_add_device_shows_name_and_profile(void **state)
{
	struct fixture *f = *state;
	struct profile profile;

	assert_int_equal(profile_by_name("connectx-6", strlen("connectx-6"), &profile), 0);
	f->seen.name = "mlx5_1";
	f->seen.rail = 1;
	f->seen.order = 5;
	f->seen.profile = &profile;
	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	assert_says(f, "sys/class/infiniband/mlx5_1/node_guid", "0123:4567:88ab:cdef\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/sys_image_guid", "0123:4567:88ab:cdef\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/fw_ver", "20.29.1016\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/hca_type", "MT4123\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/device/vendor", "0x15b3\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/device/device", "0x101b\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/device/class", "0x020000\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/device/max_link_speed", "16.0 GT/s PCIe\n");
	assert_says(f, "sys/devices/pcif000:06/f000:06:00.0/infiniband/mlx5_1/board_id",
		    "MT_0000000223\n");
	assert_says(f, "sys/bus/pci/devices/f000:06:00.0/vendor", "0x15b3\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (4X)\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/4", "IB/RoCE v1\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/5", "RoCE v2\n");
	assert_says(f, "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/5", "eth7\n");
	assert_says(f, "sys/class/infiniband_verbs/uverbs16777223/ibdev", "mlx5_1\n");
	assert_int_equal(faccessat(f->fd, "sys/class/infiniband/eth7", F_OK, 0), -1);
}

static void tree_add_device_invalid_name_fails(void **state)
{
	static const char *const names[] = {"", ".", "..", "../x", "a/b"};
	struct fixture *f = *state;

	assert_int_equal(tree_begin(f->fd), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		memset(f->info.name, 0, sizeof(f->info.name));
		strcpy(f->info.name, names[i]);
		assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), -EINVAL);
	}
	memset(f->info.name, 'x', sizeof(f->info.name));
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), -EINVAL);
}

static void tree_add_device_too_many_gids_are_limited(void **state)
{
	struct fixture *f = *state;

	f->info.gid_count = UINT32_MAX;
	assert_int_equal(tree_begin(f->fd), 0);
	assert_int_equal(tree_add_device(f->fd, &f->info, &f->seen), 0);
	assert_says(f, "sys/class/infiniband/eth7/ports/1/gids/0",
		    "fe80:0000:0000:0000:0000:0000:0000:0001\n");
}

static void tree_remove_follows_no_symlink(void **state)
{
	struct fixture *f = *state;
	char outside[] = "/tmp/test-tree-outside.XXXXXX";
	char path[64];

	assert_non_null(mkdtemp(outside));
	snprintf(path, sizeof(path), "%s/kept", outside);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(mkdirat(f->fd, "gone", 0700), 0);
	assert_int_equal(symlinkat(outside, f->fd, "gone/link"), 0);
	tree_remove(f->fd, "gone");
	assert_int_equal(faccessat(f->fd, "gone", F_OK, 0), -1);
	assert_int_equal(access(path, F_OK), 0);
	tree_remove(AT_FDCWD, outside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tree_add_device_has_sysfs_layout, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_types_are_those_of_the_device,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_lists_valid_gids_only, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_links_interface, set_up, tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_rate_has_width_of_port, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_down_port_has_state_down, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_shows_name_and_profile, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_invalid_name_fails, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_add_device_too_many_gids_are_limited, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(tree_remove_follows_no_symlink, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
