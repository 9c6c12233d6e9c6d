/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * What answers behind the names that no program of today links with: the versions of 2006 and the
 * private interface, called through the dynamic linker as a program would.
 *
 *	versions LIBIBVERBS
 */

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *library_path;

/* The library under test, open as long as the program runs. */
static void *library;

static int open_library(void **state)
{
	(void)state;
	library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	return library ? 0 : -1;
}

static int close_library(void **state)
{
	(void)state;
	return dlclose(library);
}

static void *private_name(const char *name)
{
	void *found = dlvsym(library, name, "IBVERBS_PRIVATE_34");

	if (!found)
		print_error("%s@IBVERBS_PRIVATE_34 is missing\n", name);
	assert_non_null(found);
	return found;
}

static void old_versions_do_what_new_ones_do(void **state)
{
	const char *(*name_now)(struct ibv_device *) = NULL;
	const char *(*name_then)(struct ibv_device *) = NULL;
	struct ibv_device device = {.name = "lo"};

	(void)state;
	*(void **)&name_now = dlvsym(library, "ibv_get_device_name", "IBVERBS_1.1");
	*(void **)&name_then = dlvsym(library, "ibv_get_device_name", "IBVERBS_1.0");
	assert_non_null(name_now);
	assert_non_null(name_then);
	assert_ptr_equal(name_now(&device), device.name);
	assert_ptr_equal(name_then(&device), device.name);
}

static void drivers_are_heard_and_ignored(void **state)
{
	static const uint8_t operations[512];
	void (*announce)(const void *) = NULL;
	void (*announce_old)(const char *, void *) = NULL;

	(void)state;
	*(void **)&announce = private_name("verbs_register_driver_34");
	*(void **)&announce_old = dlvsym(library, "ibv_register_driver", "IBVERBS_1.1");
	assert_non_null(announce_old);
	announce(operations);
	announce_old("driver", NULL);
}

static void the_flag_is_down(void **state)
{
	const bool *flag = private_name("verbs_allow_disassociate_destroy");

	(void)state;
	assert_false(*flag);
}

static void commands_are_refused(void **state)
{
	static const char *const names[] = {
		"execute_ioctl",      "ibv_cmd_get_context", "ibv_cmd_query_device_any",
		"ibv_cmd_alloc_pd",   "ibv_cmd_reg_mr",	     "ibv_cmd_create_cq_ex",
		"ibv_cmd_create_qp",  "ibv_cmd_modify_qp",   "ibv_cmd_post_send",
		"ibv_cmd_create_srq", "ibv_cmd_create_flow", "ibv_cmd_create_rwq_ind_table",
	};
	int (*command)(void *, void *, void *, void *, void *, void *, void *, void *) = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*(void **)&command = private_name(names[i]);
		assert_int_equal(command(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
				 EOPNOTSUPP);
	}
}

static void objects_are_refused(void **state)
{
	static const char *const names[] = {"_verbs_init_and_alloc_context", "verbs_open_device"};
	void *(*make)(void *, void *, void *, void *, void *) = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*(void **)&make = private_name(names[i]);
		errno = 0;
		assert_null(make(NULL, NULL, NULL, NULL, NULL));
		assert_int_equal(errno, EOPNOTSUPP);
	}
}

/* The caller makes an array of that many: it must hold at least its own. */
static void attributes_are_counted_whole(void **state)
{
	unsigned int (*count)(unsigned int, void *) = NULL;

	(void)state;
	*(void **)&count = private_name("__ioctl_final_num_attrs");
	assert_int_equal(count(0, NULL), 0);
	assert_int_equal(count(17, NULL), 17);
}

static void polling_finds_nothing(void **state)
{
	int (*poll_cq)(void *, int, void *) = NULL;

	(void)state;
	*(void **)&poll_cq = private_name("ibv_cmd_poll_cq");
	errno = 0;
	assert_int_equal(poll_cq(NULL, 1, NULL), -1);
	assert_int_equal(errno, EOPNOTSUPP);
}

/*
 * A program built against any release of rdma-core finds the two private calls that programs use.
 */
static void private_calls_of_programs_exist_at_every_node(void **state)
{
	static const char *const nodes[] = {"22", "25", "33", "34", "57",
					    "59", "64", "65", "66", "80"};
	int (*gid_type)(struct ibv_context *, uint8_t, unsigned int, void *) = NULL;
	const char *(*opcode_str)(enum ibv_wr_opcode) = NULL;
	char node[32];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		snprintf(node, sizeof(node), "IBVERBS_PRIVATE_%s", nodes[i]);
		*(void **)&gid_type = dlvsym(library, "ibv_query_gid_type", node);
		if (!gid_type)
			print_error("ibv_query_gid_type@%s is missing\n", node);
		assert_non_null(gid_type);
		if (strcmp(nodes[i], "57") < 0)
			continue;
		*(void **)&opcode_str = dlvsym(library, "ibv_wr_opcode_str", node);
		if (!opcode_str)
			print_error("ibv_wr_opcode_str@%s is missing\n", node);
		assert_non_null(opcode_str);
		assert_string_equal(opcode_str(IBV_WR_RDMA_READ), "rdma-read");
	}
}

/*
 * A host that drops its plug-ins drops us with the last of them. Threads that opened devices have
 * left behind go on running our code, so it stays where it is.
 */
static void it_stays_for_its_threads(void **state)
{
	void *again;

	(void)state;
	assert_int_equal(dlclose(library), 0);
	again = dlopen(library_path, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(again);
	library = again;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_versions_do_what_new_ones_do),
		cmocka_unit_test(drivers_are_heard_and_ignored),
		cmocka_unit_test(the_flag_is_down),
		cmocka_unit_test(commands_are_refused),
		cmocka_unit_test(objects_are_refused),
		cmocka_unit_test(attributes_are_counted_whole),
		cmocka_unit_test(polling_finds_nothing),
		cmocka_unit_test(private_calls_of_programs_exist_at_every_node),
		cmocka_unit_test(it_stays_for_its_threads),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s LIBIBVERBS\n", argv[0]);
		return 2;
	}
	library_path = argv[1];
	return cmocka_run_group_tests(tests, open_library, close_library);
}
