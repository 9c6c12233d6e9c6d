/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * fork() at any moment, from a program of many threads: children that open the device anew have one that works, their own
 * children too, and the parent does not notice. What a child gets of its parent's objects: test_process.c.
 */

#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * ThreadSanitizer takes a child's first thread, where the C library gives it the stack of one of the parent's, for that
 * one.
 */
#ifdef __SANITIZE_THREAD__
#define CHILDREN_MAY_HAVE_THREADS false
#else
#define CHILDREN_MAY_HAVE_THREADS true
#endif

#define WORKERS	 3
#define CHILDREN 12

static struct api api;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	api_close(&api);
	return 0;
}

/* Nothing is pinned, so that there is nothing to prepare, before the first object as after it. */
static void forking_needs_no_preparation(void **state)
{
	struct pair pair;

	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	pair_open(&pair, &api, NULL);
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	pair_close(&pair);
}

/* One WRITE over a pair; whether it did what it should, without asserting: for threads and children. */
static bool write_once(struct pair *pair, uint64_t number)
{
	struct ibv_sge sge = sge_of(&pair->a, 0, 4000);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair->b, 0, number), *bad;
	struct ibv_wc wc;
	int got;

	memset(pair->a.buf, (int)number, 4000);
	if (ibv_post_send(pair->a.qp, &wr, &bad))
		return false;
	do
		got = ibv_poll_cq(pair->a.cq, 1, &wc);
	while (!got);
	return got == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == number &&
	       !memcmp(pair->a.buf, pair->b.buf, 4000);
}

struct worker {
	struct pair pair;
	const atomic_bool *is_over;
	uint64_t done;
	bool is_wrong;
};

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (!atomic_load(worker->is_over) && !worker->is_wrong)
		worker->is_wrong = !write_once(&worker->pair, worker->done++);
	return NULL;
}

/* Objects come and go while the process forks: every lock is taken and let go all the time. */
static void *make_and_destroy(void *arg)
{
	const atomic_bool *is_over = arg;
	static uint8_t buf[64];
	bool is_wrong = false;

	while (!atomic_load(is_over) && !is_wrong) {
		struct ibv_context *ctx = ibv_open_device(api.ctx->device);
		struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), ALL_ACCESS) : NULL;
		struct ibv_cq *cq = mr ? ibv_create_cq(ctx, 10, NULL, NULL, 0) : NULL;

		is_wrong = !cq || ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) ||
			   ibv_close_device(ctx);
	}
	return is_wrong ? arg : NULL;
}

/* A child's life: a device of its own, that works. `generations`: how many more have children of their own. */
static int live(int generations)
{
	struct ibv_pd *none = ibv_alloc_pd(api.ctx);
	struct api own;
	struct pair pair;
	int status = 0;
	pid_t child;

	if (none || errno != EIO)
		return 1;
	api_open(&own);
	pair_open(&pair, &own, NULL);
	if (!write_once(&pair, 1))
		return 2;
	if (generations) {
		child = fork();
		if (!child) {
			api = own;
			_exit(live(generations - 1));
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			return 3;
	}
	if (!write_once(&pair, 2))
		return 4;
	pair_close(&pair);
	api_close(&own);
	return 0;
}

static void children_of_a_busy_process(void **state)
{
	static struct worker workers[WORKERS];
	static atomic_bool is_over;
	pthread_t threads[WORKERS + 1];
	void *failed;

	(void)state;
	if (!CHILDREN_MAY_HAVE_THREADS)
		skip();
	for (int i = 0; i < WORKERS; i++) {
		pair_open(&workers[i].pair, &api, NULL);
		workers[i].is_over = &is_over;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	assert_int_equal(pthread_create(&threads[WORKERS], NULL, make_and_destroy, &is_over), 0);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (!child)
			_exit(live(i % 3));
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < WORKERS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_false(workers[i].is_wrong);
		pair_close(&workers[i].pair);
	}
	assert_int_equal(pthread_join(threads[WORKERS], &failed), 0);
	assert_null(failed);
	async_none(api.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forking_needs_no_preparation),
		cmocka_unit_test(children_of_a_busy_process),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
