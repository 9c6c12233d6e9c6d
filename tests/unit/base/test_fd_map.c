/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fd_map.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct object {
	atomic_int refs;
};

static void ref(void *object)
{
	atomic_fetch_add(&((struct object *)object)->refs, 1);
}

static struct fd_map map = FD_MAP_INIT(ref);

#define FD_MOST (FD_MAP_PAGE_SLOTS * FD_MAP_PAGES - 1)

static void fd_map_get_returns_object_until_remove(void **state)
{
	struct object object = {1};
	void *before = &object;

	(void)state;
	assert_null(fd_map_get(&map, 7));
	assert_int_equal(fd_map_set(&map, 7, &object, &before), 0);
	assert_null(before);
	assert_ptr_equal(fd_map_get(&map, 7), &object);
	assert_int_equal(atomic_load(&object.refs), 2);
	assert_null(fd_map_get(&map, 8));
	assert_ptr_equal(fd_map_remove(&map, 7), &object);
	assert_null(fd_map_get(&map, 7));
	assert_null(fd_map_remove(&map, 7));
	/* The caller now has the reference that the map had. */
	assert_int_equal(atomic_load(&object.refs), 2);
}

static void fd_map_set_used_number_returns_previous_object(void **state)
{
	struct object first = {1}, second = {1};
	void *before;

	(void)state;
	assert_int_equal(fd_map_set(&map, 7, &first, &before), 0);
	assert_int_equal(fd_map_set(&map, 7, &second, &before), 0);
	assert_ptr_equal(before, &first);
	assert_ptr_equal(fd_map_remove(&map, 7), &second);
}

static void fd_map_add_keeps_present_object(void **state)
{
	struct object first = {1}, second = {1};
	void *present = &second;

	(void)state;
	assert_int_equal(fd_map_add(&map, 7, &first, &present), 0);
	assert_null(present);
	assert_int_equal(fd_map_add(&map, 7, &second, &present), -EEXIST);
	assert_ptr_equal(present, &first);
	assert_int_equal(atomic_load(&first.refs), 2);
	assert_ptr_equal(fd_map_remove(&map, 7), &first);
	assert_int_equal(fd_map_add(&map, 7, &second, &present), 0);
	assert_ptr_equal(fd_map_remove(&map, 7), &second);
	assert_int_equal(fd_map_add(&map, -1, &second, &present), -EMFILE);
}

static void fd_map_invalid_number_fails(void **state)
{
	struct object object = {1};
	void *before;

	(void)state;
	assert_null(fd_map_get(&map, -1));
	assert_null(fd_map_get(&map, FD_MOST + 1));
	assert_null(fd_map_remove(&map, INT32_MIN));
	assert_null(fd_map_remove(&map, INT32_MAX));
	assert_int_equal(fd_map_set(&map, -1, &object, &before), -EMFILE);
	assert_int_equal(fd_map_set(&map, FD_MOST + 1, &object, &before), -EMFILE);
	assert_int_equal(fd_map_set(&map, FD_MOST, &object, &before), 0);
	assert_ptr_equal(fd_map_get(&map, FD_MOST), &object);
	assert_ptr_equal(fd_map_remove(&map, FD_MOST), &object);
}

static void fd_map_next_visits_every_object(void **state)
{
	struct object low = {1}, high = {1};
	void *before;
	int fd = 0;

	(void)state;
	assert_int_equal(fd_map_set(&map, 3, &low, &before), 0);
	assert_int_equal(fd_map_set(&map, 5000, &high, &before), 0);
	fd_map_after_fork(&map);
	assert_ptr_equal(fd_map_next(&map, &fd), &low);
	assert_int_equal(fd, 4);
	assert_ptr_equal(fd_map_next(&map, &fd), &high);
	assert_int_equal(fd, 5001);
	assert_null(fd_map_next(&map, &fd));
	assert_int_equal(atomic_load(&low.refs), 2);
	assert_ptr_equal(fd_map_remove(&map, 3), &low);
	assert_ptr_equal(fd_map_remove(&map, 5000), &high);
}

static void *get_and_remove(void *arg)
{
	intptr_t taken = 0;

	(void)arg;
	for (int i = 0; i < 20000; i++) {
		struct object *object = fd_map_get(&map, 9);

		if (object)
			atomic_fetch_sub(&object->refs, 1);
		if (fd_map_remove(&map, 9))
			taken++;
	}
	return (void *)taken;
}

/* Each object is removed from the map once, and every reference that was returned is valid. */
static void fd_map_concurrent_use_keeps_references_valid(void **state)
{
	enum { THREADS = 3, ROUNDS = 20000 };
	struct object object = {1};
	pthread_t threads[THREADS];
	intptr_t taken = 0;
	void *before, *count;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, get_and_remove, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(fd_map_set(&map, 9, &object, &before), 0);
		taken += before != NULL;
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &count), 0);
		taken += (intptr_t)count;
	}
	taken += fd_map_remove(&map, 9) != NULL;
	assert_int_equal(taken, ROUNDS);
	assert_int_equal(atomic_load(&object.refs), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fd_map_get_returns_object_until_remove),
		cmocka_unit_test(fd_map_set_used_number_returns_previous_object),
		cmocka_unit_test(fd_map_add_keeps_present_object),
		cmocka_unit_test(fd_map_invalid_number_fails),
		cmocka_unit_test(fd_map_next_visits_every_object),
		cmocka_unit_test(fd_map_concurrent_use_keeps_references_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
