/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/cm_ops.h"
#include "daemon/cma_linger.h"

#define THEN_NS 1000u

/* A connection manager that counts its listeners. */
static int listeners;

static int fake_listen(struct cma_cm *cm, uint64_t service_id)
{
	(void)cm;
	(void)service_id;
	listeners++;
	return 0;
}

static void fake_unlisten(struct cma_cm *cm, uint64_t service_id)
{
	(void)cm;
	(void)service_id;
	listeners--;
}

static const struct cm_ops fake_ops = {.listen = fake_listen, .unlisten = fake_unlisten};
static struct cma_cm fake_cm = {.ops = &fake_ops};
static const struct cma_cms cms = {.list = {&fake_cm}, .count = 1};

static int setup(void **state)
{
	(void)state;
	listeners = 0;
	return 0;
}

static void cma_linger_add_first_req_starts_period(void **state)
{
	struct cma_linger linger = {0};
	uint64_t first_ns = THEN_NS + CMA_LINGER_NS - 2 * CMA_LINGER_HOLD_NS;

	(void)state;
	assert_false(cma_linger_holds(&linger, 0, 0));
	assert_false(cma_linger_holds(&linger, 7, 1));
	cma_linger_add(&linger, &cms, 7, THEN_NS);
	assert_false(cma_linger_holds(&linger, 8, THEN_NS));
	assert_true(cma_linger_holds(&linger, 7, first_ns));
	assert_true(cma_linger_holds(&linger, 7, first_ns + CMA_LINGER_HOLD_NS - 1));
	assert_false(cma_linger_holds(&linger, 7, first_ns + CMA_LINGER_HOLD_NS));
}

static void cma_linger_end_expires(void **state)
{
	struct cma_linger linger = {0};

	(void)state;
	cma_linger_add(&linger, &cms, 7, THEN_NS);
	assert_false(cma_linger_holds(&linger, 7, THEN_NS + CMA_LINGER_NS));
	/* Again, and again for a port that is bound. */
	cma_linger_add(&linger, &cms, 7, THEN_NS);
	assert_true(cma_linger_holds(&linger, 7, THEN_NS));
	cma_linger_end(&linger, &cms, 7);
	assert_false(cma_linger_holds(&linger, 7, THEN_NS));
	cma_linger_end(&linger, &cms, 7);
	assert_int_equal(listeners, 0);
}

static void cma_linger_add_full_table_drops_oldest(void **state)
{
	struct cma_linger linger = {0};

	(void)state;
	for (uint64_t service_id = 1; service_id <= CMA_LINGER_SERVICES + 1; service_id++)
		cma_linger_add(&linger, &cms, service_id, THEN_NS);
	assert_false(cma_linger_holds(&linger, 1, THEN_NS));
	for (uint64_t service_id = 2; service_id <= CMA_LINGER_SERVICES + 1; service_id++)
		assert_true(cma_linger_holds(&linger, service_id, THEN_NS));
	assert_int_equal(listeners, CMA_LINGER_SERVICES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(cma_linger_add_first_req_starts_period, setup),
		cmocka_unit_test_setup(cma_linger_end_expires, setup),
		cmocka_unit_test_setup(cma_linger_add_full_table_drops_oldest, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
