/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * fork() at any time in a program of many threads: children and their children can open the device
 * again and use it, and the parent is not affected. A child's use of its parent's objects is tested
 * in test_process.c.
 */

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * ThreadSanitizer confuses a child's first thread with a thread of the parent, if the C library
 * reuses that thread's stack.
 */
#ifdef __SANITIZE_THREAD__
#define CHILDREN_MAY_HAVE_THREADS false
#else
#define CHILDREN_MAY_HAVE_THREADS true
#endif

/*
 * gcc 12's AddressSanitizer does not lock its allocator at fork(). A child hangs in its first
 * malloc() if another thread was in malloc() at that moment. With it, make_and_destroy() is
 * therefore between two iterations when the process forks. A starting thread allocates as well, so
 * in every build the first fork() follows the start of all threads (`started`).
 */
#ifdef __SANITIZE_ADDRESS__
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t allocator = PTHREAD_MUTEX_INITIALIZER;

/* The gate makes it fair: the thread that waits for the allocator has the gate and is next. */
static void allocator_lock(void)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_lock(&allocator);
	pthread_mutex_unlock(&gate);
}

static void allocator_unlock(void)
{
	pthread_mutex_unlock(&allocator);
}
#else
static void allocator_lock(void)
{
}

static void allocator_unlock(void)
{
}
#endif

#define WORKERS	 3
#define CHILDREN 12

static struct api api;
static pthread_barrier_t started;

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

/* No memory is pinned, so no preparation is necessary, before the first object or after it. */
static void ibv_fork_init_is_not_needed(void **state)
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

/*
 * One WRITE over a pair; returns whether it succeeded, without asserting: for threads and children.
 */
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

	pthread_barrier_wait(&started);
	while (!atomic_load(worker->is_over) && !worker->is_wrong)
		worker->is_wrong = !write_once(&worker->pair, worker->done++);
	return NULL;
}

/* Creates and destroys objects while the process forks, so that every lock is in use. */
static void *make_and_destroy(void *arg)
{
	const atomic_bool *is_over = arg;
	static uint8_t buf[64];
	bool is_wrong = false;

	pthread_barrier_wait(&started);
	while (!atomic_load(is_over) && !is_wrong) {
		struct ibv_context *ctx;
		struct ibv_pd *pd;
		struct ibv_mr *mr;
		struct ibv_cq *cq;

		allocator_lock();
		ctx = ibv_open_device(api.ctx->device);
		pd = ctx ? ibv_alloc_pd(ctx) : NULL;
		mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), ALL_ACCESS) : NULL;
		cq = mr ? ibv_create_cq(ctx, 10, NULL, NULL, 0) : NULL;
		is_wrong = !cq || ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) ||
			   ibv_close_device(ctx);
		allocator_unlock();
	}
	return is_wrong ? arg : NULL;
}

/*
 * In a child: opens a device and uses it. `generations`: how many more generations of children
 * follow.
 */
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

/* The number of sockets that this process has open. */
static int count_sockets(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct stat file;

		count += !fstat(fd, &file) && S_ISSOCK(file.st_mode);
	}
	return count;
}

static int sockets_at_start;

/*
 * No connection to the daemon or to a peer and no RoCE socket stays open in a child: the other ends
 * must detect the end of the parent.
 */
static void fork_child_keeps_no_socket(void **state)
{
	struct pair pair;
	pid_t child;
	int status;

	(void)state;
	pair_open(&pair, &api, NULL);
	assert_true(write_once(&pair, 1));
	assert_true(count_sockets() > sockets_at_start);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(count_sockets() != sockets_at_start);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(write_once(&pair, 2));
	pair_close(&pair);
}

#define TWINS	     3
#define TWIN_KEYS    8
#define TWIN_WINDOWS 4
#define TWIN_QPS     4

/*
 * Every process has its own range of QPNs and SRQ numbers; these low bits are independent of the
 * range.
 */
#define LOW_BITS 0xfffu
#define KEY_BITS 0xffu /* bits of a window's rkey that change with each bind */

/* The numbers of a child's first objects. */
struct names {
	uint32_t keys[TWIN_KEYS];
	uint32_t windows[TWIN_WINDOWS];
	uint32_t qpns[TWIN_QPS];
	uint32_t srqn;
};

static struct names names_of_first_objects(void)
{
	static uint8_t buf[64];
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex srq = {
		.attr = {.max_wr = 1, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};
	struct ibv_qp_init_attr qp = {.cap = {.max_send_wr = 1, .max_send_sge = 1},
				      .qp_type = IBV_QPT_RC};
	struct names names;
	struct api own;

	api_open(&own);
	srq.pd = own.pd;
	srq.cq = qp.send_cq = qp.recv_cq = ibv_create_cq(own.ctx, 1, NULL, NULL, 0);
	srq.xrcd = ibv_open_xrcd(own.ctx, &domain);
	for (int i = 0; i < TWIN_KEYS; i++)
		names.keys[i] = ibv_reg_mr(own.pd, buf, sizeof(buf), ALL_ACCESS)->rkey;
	for (int i = 0; i < TWIN_WINDOWS; i++)
		names.windows[i] = ibv_alloc_mw(own.pd, IBV_MW_TYPE_1)->rkey;
	for (int i = 0; i < TWIN_QPS; i++)
		names.qpns[i] = ibv_create_qp(own.pd, &qp)->qp_num & LOW_BITS;
	assert_int_equal(ibv_get_srq_num(ibv_create_srq_ex(own.ctx, &srq), &names.srqn), 0);
	names.srqn &= LOW_BITS;
	return names;
}

static struct names names_of_child(void)
{
	struct names names;
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		names = names_of_first_objects();
		_exit(write(ends[1], &names, sizeof(names)) != (ssize_t)sizeof(names));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], &names, sizeof(names)), sizeof(names));
	close(ends[0]);
	close(ends[1]);
	return names;
}

/*
 * Children of one process begin with the same memory. With an inherited random generator, or with
 * counters from a fixed start, all three would have the same numbers; by chance this happens less
 * than once in five million runs.
 */
static void fork_children_have_different_numbers(void **state)
{
	struct names twins[TWINS];
	bool windows_differ = false;

	(void)state;
	if (!CHILDREN_MAY_HAVE_THREADS)
		skip();
	for (int i = 0; i < TWINS; i++)
		twins[i] = names_of_child();
	for (int i = 0; i < TWINS * TWIN_KEYS; i++) {
		for (int k = 0; k < i; k++)
			assert_int_not_equal(twins[i / TWIN_KEYS].keys[i % TWIN_KEYS],
					     twins[k / TWIN_KEYS].keys[k % TWIN_KEYS]);
	}
	assert_memory_not_equal(twins[0].qpns, twins[1].qpns, sizeof(twins[0].qpns));
	assert_memory_not_equal(twins[0].windows, twins[1].windows, sizeof(twins[0].windows));
	assert_false(twins[0].srqn == twins[1].srqn && twins[1].srqn == twins[2].srqn);
	for (int i = 1; i < TWINS * TWIN_WINDOWS; i++)
		windows_differ |= (twins[i / TWIN_WINDOWS].windows[i % TWIN_WINDOWS] & KEY_BITS) !=
				  (twins[0].windows[0] & KEY_BITS);
	assert_true(windows_differ);
}

static void fork_of_busy_process_children_work(void **state)
{
	static struct worker workers[WORKERS];
	static atomic_bool is_over;
	pthread_t threads[WORKERS + 1];
	void *failed;

	(void)state;
	if (!CHILDREN_MAY_HAVE_THREADS)
		skip();
	pthread_barrier_init(&started, NULL, WORKERS + 2);
	for (int i = 0; i < WORKERS; i++) {
		pair_open(&workers[i].pair, &api, NULL);
		workers[i].is_over = &is_over;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	assert_int_equal(pthread_create(&threads[WORKERS], NULL, make_and_destroy, &is_over), 0);
	pthread_barrier_wait(&started);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child;
		int status;

		allocator_lock();
		child = fork();
		allocator_unlock();
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
	pthread_barrier_destroy(&started);
	async_none(api.ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_fork_init_is_not_needed),
		cmocka_unit_test(fork_child_keeps_no_socket),
		cmocka_unit_test(fork_children_have_different_numbers),
		cmocka_unit_test(fork_of_busy_process_children_work),
	};

	sockets_at_start = count_sockets();
	return cmocka_run_group_tests(tests, setup, teardown);
}
