/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The calls of the provider libraries, loaded as a program loads them, fail in the way that is
 * documented for a device of another vendor.
 *
 *	providers DIRECTORY
 */

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

static const char *directory;

static void *library_open(const char *name)
{
	char path[PATH_MAX];
	void *library;

	snprintf(path, sizeof(path), "%s/lib%s.so.1", directory, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		print_error("%s\n", dlerror());
	assert_non_null(library);
	return library;
}

/* One call at its default version. The library stays loaded until the test program ends. */
static void *call(const char *library, const char *name)
{
	void *found = dlsym(library_open(library), name);

	if (!found)
		print_error("lib%s.so.1 has no %s()\n", library, name);
	assert_non_null(found);
	return found;
}

static void every_device_is_of_another_vendor(void **state)
{
	bool (*is_supported)(void *) = NULL;

	(void)state;
	*(void **)&is_supported = call("mlx5", "mlx5dv_is_supported");
	assert_false(is_supported(NULL));
	*(void **)&is_supported = call("hns", "hnsdv_is_supported");
	assert_false(is_supported(NULL));
}

static void calls_that_return_an_errno_return_eopnotsupp(void **state)
{
	static const char *const calls[][2] = {
		{"mlx5", "mlx5dv_query_device"},     {"mlx5", "mlx5dv_init_obj"},
		{"mlx5", "mlx5dv_devx_general_cmd"}, {"mlx4", "mlx4dv_query_device"},
		{"mlx4", "mlx4dv_init_obj"},	     {"efa", "efadv_query_device"},
		{"efa", "efadv_query_mr"},	     {"hns", "hnsdv_query_device"},
		{"mana", "manadv_init_obj"},	     {"mana", "manadv_set_context_attr"},
	};
	int (*refused)(void *, void *, void *, void *) = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		*(void **)&refused = call(calls[i][0], calls[i][1]);
		assert_int_equal(refused(NULL, NULL, NULL, NULL), EOPNOTSUPP);
	}
}

static void calls_that_return_an_object_return_null(void **state)
{
	static const char *const calls[][2] = {
		{"mlx5", "mlx5dv_open_device"},
		{"mlx5", "mlx5dv_create_qp"},
		{"mlx5", "mlx5dv_get_vfio_device_list"},
		{"mlx5", "mlx5dv_qp_ex_from_ibv_qp_ex"},
		{"mlx4", "mlx4dv_create_qp"},
		{"efa", "efadv_create_driver_qp"},
		{"efa", "efadv_cq_from_ibv_cq_ex"},
		{"hns", "hnsdv_create_qp"},
		{"mana", "manadv_alloc_pd"},
	};
	void *(*refused)(void *, void *, void *, void *) = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		*(void **)&refused = call(calls[i][0], calls[i][1]);
		errno = 0;
		assert_null(refused(NULL, NULL, NULL, NULL));
		assert_int_equal(errno, EOPNOTSUPP);
	}
}

/* A depth, a descriptor and a length of an event are negative if they do not exist. */
static void calls_that_return_a_count_return_a_negative_number(void **state)
{
	int (*depth)(void *, void *, uint32_t) = NULL;
	int (*descriptor)(void *) = NULL;
	ssize_t (*event)(void *, void *, size_t) = NULL;

	(void)state;
	*(void **)&depth = call("efa", "efadv_get_max_sq_depth");
	assert_int_equal(depth(NULL, NULL, 0), -EOPNOTSUPP);
	errno = 0;
	*(void **)&descriptor = call("mlx5", "mlx5dv_devx_uar_export_dmabuf_fd");
	assert_int_equal(descriptor(NULL), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	*(void **)&event = call("mlx5", "mlx5dv_devx_get_event");
	assert_true(event(NULL, NULL, 0) == -1);
	assert_int_equal(errno, EOPNOTSUPP);
}

static void export_sizes_are_zero(void **state)
{
	void (*get_sizes)(void *, size_t) = NULL;
	uint64_t sizes[4];

	(void)state;
	memset(sizes, 0xff, sizeof(sizes));
	*(void **)&get_sizes = call("mlx5", "_mlx5dv_get_export_sizes");
	get_sizes(sizes, 3 * sizeof(sizes[0]));
	assert_int_equal(sizes[0], 0);
	assert_int_equal(sizes[2], 0);
	assert_int_equal(sizes[3], UINT64_MAX);
}

static void ionic_has_no_device_memory_pipelines(void **state)
{
	uint8_t (*mask)(void *) = NULL;
	int (*set_mask)(void *, uint8_t) = NULL;

	(void)state;
	*(void **)&mask = call("ionic", "ionic_dv_ctx_get_udma_mask");
	assert_int_equal(mask(NULL), 0);
	*(void **)&set_mask = call("ionic", "ionic_dv_pd_set_udma_mask");
	assert_int_equal(set_mask(NULL, 1), EPERM);
}

static void the_first_version_of_init_obj_is_refused(void **state)
{
	int (*init_obj)(void *, uint64_t) = NULL;

	(void)state;
	*(void **)&init_obj = dlvsym(library_open("mlx5"), "mlx5dv_init_obj", "MLX5_1.0");
	assert_non_null(init_obj);
	assert_int_equal(init_obj(NULL, 1), EOPNOTSUPP);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_device_is_of_another_vendor),
		cmocka_unit_test(calls_that_return_an_errno_return_eopnotsupp),
		cmocka_unit_test(calls_that_return_an_object_return_null),
		cmocka_unit_test(calls_that_return_a_count_return_a_negative_number),
		cmocka_unit_test(export_sizes_are_zero),
		cmocka_unit_test(ionic_has_no_device_memory_pipelines),
		cmocka_unit_test(the_first_version_of_init_obj_is_refused),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	directory = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
