/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "profile/view.h"

static struct view view;

/* Asserts that the interface has exactly one device, with this name, order and rail. */
static void assert_device(const char *interface, const char *name, unsigned int order)
{
	struct view_device device;
	unsigned int cursor = 0;

	assert_true(view_next(&view, interface, &cursor, &device));
	assert_string_equal(device.name, name);
	assert_int_equal(device.order, order);
	assert_int_equal(device.rail, 0);
	assert_false(view_next(&view, interface, &cursor, &device));
}

static unsigned int device_count(const char *interface)
{
	struct view_device device;
	unsigned int cursor = 0, count = 0;

	while (view_next(&view, interface, &cursor, &device))
		count++;
	return count;
}

static void view_parse_unset_has_interface_names(void **state)
{
	(void)state;
	assert_int_equal(view_parse(&view, NULL, NULL), 0);
	assert_device("eth0", "eth0", VIEW_ORDER_UNNAMED);
	assert_int_equal(view_parse(&view, "", ""), 0);
	assert_device("lo", "lo", VIEW_ORDER_UNNAMED);
	assert_string_equal(view.general.name, "usrdma");
}

static void view_next_returns_names_in_their_order(void **state)
{
	(void)state;
	assert_int_equal(view_parse(&view, "mlx5_1=eth1,mlx5_0=eth0", NULL), 0);
	assert_device("eth1", "mlx5_1", 0);
	assert_device("eth0", "mlx5_0", 1);
	assert_device("lo", "lo", VIEW_ORDER_UNNAMED);
}

static void view_next_returns_each_rail(void **state)
{
	struct view_device device;
	unsigned int cursor = 0;

	(void)state;
	assert_int_equal(view_parse(&view, "a=eth0 b=eth1 c=eth0:rxe", "connectx-6"), 0);
	assert_true(view_next(&view, "eth0", &cursor, &device));
	assert_string_equal(device.name, "a");
	assert_int_equal(device.rail, 0);
	assert_string_equal(device.profile->name, "connectx-6");
	assert_true(view_next(&view, "eth0", &cursor, &device));
	assert_string_equal(device.name, "c");
	assert_int_equal(device.rail, 1);
	assert_int_equal(device.order, 2);
	assert_string_equal(device.profile->name, "rxe");
	assert_false(view_next(&view, "eth0", &cursor, &device));
	assert_device("eth1", "b", 1);
}

static void view_next_only_hides_other_interfaces(void **state)
{
	(void)state;
	assert_int_equal(view_parse(&view, "mlx5_0=eth0,only", NULL), 0);
	assert_device("eth0", "mlx5_0", 0);
	assert_int_equal(device_count("lo"), 0);
}

/* Two devices of a process never have the same name. */
static void view_next_interface_with_a_taken_name_is_hidden(void **state)
{
	(void)state;
	assert_int_equal(view_parse(&view, "eth1=eth0", NULL), 0);
	assert_device("eth0", "eth1", 0);
	assert_int_equal(device_count("eth1"), 0);
	assert_int_equal(view_parse(&view, "eth1=eth0,eth0=eth1", NULL), 0);
	assert_device("eth0", "eth1", 0);
	assert_device("eth1", "eth0", 1);
}

static void view_parse_applies_settings(void **state)
{
	(void)state;
	assert_int_equal(view_parse(&view, NULL, "connectx-7,max_qp=3 max_sge=2"), 0);
	assert_string_equal(view.general.name, "connectx-7");
	assert_int_equal(view.general.values[PROFILE_MAX_QP], 3);
	assert_int_equal(view.general.values[PROFILE_MAX_SGE], 2);
	assert_int_equal(view_parse(&view, NULL, "max_qp=3"), 0);
	assert_string_equal(view.general.name, "usrdma");
	assert_int_equal(view.general.values[PROFILE_MAX_QP], 3);
}

static void view_parse_rejects_invalid_text(void **state)
{
	static const struct {
		const char *devices;
		const char *profile;
		const char *why;
	} rows[] = {
		{"mlx5_0", NULL, "invalid device 'mlx5_0'"},
		{"=eth0", NULL, "invalid name of a device"},
		{"a/b=eth0", NULL, "invalid name of a device"},
		{"..=eth0", NULL, "invalid name of a device"},
		{"a=", NULL, "invalid name of an interface"},
		{"a=.", NULL, "invalid name of an interface"},
		{"a=x/y", NULL, "invalid name of an interface"},
		{"a=sixteen_letters_", NULL, "invalid name of an interface"},
		{"a=eth0,a=eth1", NULL, "two devices have the name 'a'"},
		{"a=eth0:", NULL, "unknown profile ''"},
		{"a=eth0:connectx", NULL, "unknown profile 'connectx' (one of usrdma, rxe"},
		{NULL, "connectx", "unknown profile 'connectx'"},
		{NULL, "max_qp=1,rxe", "unknown attribute of a device in 'rxe'"},
		{NULL, "rxe,max=1", "unknown attribute of a device in 'max=1'"},
		{NULL, "rxe,max_qp=x", "invalid value of an attribute in 'max_qp=x'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(view_parse(&view, rows[i].devices, rows[i].profile), -EINVAL);
		assert_memory_equal(view.why, rows[i].why, strlen(rows[i].why));
		assert_true(view.is_invalid);
		assert_int_equal(device_count("eth0"), 0);
	}
}

static void view_parse_rejects_long_text(void **state)
{
	char text[8192] = "";
	size_t used = 0;

	(void)state;
	for (int i = 0; i <= VIEW_DEVICES_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "d%d=eth0,", i);
	assert_int_equal(view_parse(&view, text, NULL), -EINVAL);
	assert_non_null(strstr(view.why, "too many devices"));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(view_parse(&view, text, NULL), -EINVAL);
	assert_int_equal(view_parse(&view, NULL, text), -EINVAL);
	text[4000] = '=';
	assert_int_equal(view_parse(&view, text, NULL), -EINVAL);
	assert_int_equal(view_parse(&view, NULL, text), -EINVAL);
}

static void view_guid_differs_for_each_rail(void **state)
{
	const uint64_t guid = 0x021122fffe334455;

	(void)state;
	assert_int_equal(view_guid(guid, 0), guid);
	assert_int_equal(view_guid(guid, 1), 0x021122ffff334455);
	assert_int_equal(view_index(7, 0), 7);
	assert_true(view_index(7, 1) != view_index(7, 2));
	assert_true((int)view_index(7, VIEW_DEVICES_MAX - 1) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(view_parse_unset_has_interface_names),
		cmocka_unit_test(view_next_returns_names_in_their_order),
		cmocka_unit_test(view_next_returns_each_rail),
		cmocka_unit_test(view_next_only_hides_other_interfaces),
		cmocka_unit_test(view_next_interface_with_a_taken_name_is_hidden),
		cmocka_unit_test(view_parse_applies_settings),
		cmocka_unit_test(view_parse_rejects_invalid_text),
		cmocka_unit_test(view_parse_rejects_long_text),
		cmocka_unit_test(view_guid_differs_for_each_rail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
