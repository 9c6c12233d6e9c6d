/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_QUEUES_H
#define USRDMA_TESTS_UNIT_CORE_QUEUES_H

#include "fake.h"

/*
 * Shared by the tests of queue pairs and of their queues: one fake engine for each test, and WRs
 * without data.
 */

extern struct fake fake;

int queues_open(void **state);
int queues_close(void **state);
#define QUEUES_TEST(name) cmocka_unit_test_setup_teardown(name, queues_open, queues_close)

/* Post WRs with wr_id 0, 1, …; receives with 100, 101, … */
void post_sends(struct ibv_qp *qp, int count);
void post_recvs(struct ibv_qp *qp, int count);

/*
 * Assert that the next completions are this many flushed WRs from wr_id on; or that the queue is
 * empty.
 */
void expect_flushed(uint64_t wr_id, int count);
void expect_cq_empty(void);
/* Returns the next completion, which must have this status. */
struct ibv_wc expect_wc(uint64_t wr_id, enum ibv_wc_status status);

#endif
