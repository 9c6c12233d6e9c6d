/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_QUEUES_H
#define USRDMA_TESTS_UNIT_CORE_QUEUES_H

#include "fake.h"

/* What the tests of queue pairs and of their queues have in common: one fake engine for each test, and WRs without data. */

extern struct fake fake;

int queues_open(void **state);
int queues_close(void **state);
#define QUEUES_TEST(name) cmocka_unit_test_setup_teardown(name, queues_open, queues_close)

/* WRs 0, 1, …; receives 100, 101, … */
void post_sends(struct ibv_qp *qp, int count);
void post_recvs(struct ibv_qp *qp, int count);

/* The next completions: so many flushed WRs from this one on; or there is none. */
void expect_flushed(uint64_t wr_id, int count);
void expect_cq_empty(void);
/* The next completion, whose status must be this one. */
struct ibv_wc expect_wc(uint64_t wr_id, enum ibv_wc_status status);

#endif
