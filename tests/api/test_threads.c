/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Many threads on one device; each case counts completions: none is lost, duplicated or delivered
 * to another QP. The threads stop after a number of operations, not after a time.
 */

#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define ROUNDS	2000

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

static void run_threads(void *(*body)(void *), void *args, size_t arg_bytes)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, body,
						(char *)args + (size_t)i * arg_bytes),
				 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Returns one completion without a time limit: threads wait for one another here. */
static struct ibv_wc wc_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		sched_yield();
	return wc;
}

/*
 * Each thread has a pair of its own. Failures are counted, because only the test's main thread may
 * assert.
 */
struct own_pair {
	struct pair pair;
	unsigned int wrong;
};

static void *talk_to_itself(void *arg)
{
	struct own_pair *own = arg;
	struct pair *pair = &own->pair;
	struct ibv_sge from = sge_of(&pair->a, 0, 256);
	struct ibv_sge to = sge_of(&pair->b, 0, 256);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_recv_wr recv = {.wr_id = i, .sg_list = &to, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr send = send_wr(IBV_WR_SEND, &from, NULL, 0, i), *bad_send;
		struct ibv_wc wc;

		memset(pair->a.buf, (int)i, 256);
		own->wrong += ibv_post_recv(pair->b.qp, &recv, &bad_recv) != 0;
		own->wrong += ibv_post_send(pair->a.qp, &send, &bad_send) != 0;
		wc = wc_wait(pair->b.cq);
		own->wrong += wc.wr_id != i || wc.status != IBV_WC_SUCCESS || wc.byte_len != 256;
		own->wrong += memcmp(pair->a.buf, pair->b.buf, 256) != 0;
		wc = wc_wait(pair->a.cq);
		own->wrong += wc.wr_id != i || wc.status != IBV_WC_SUCCESS;
	}
	return NULL;
}

static void ibv_post_send_threads_with_own_qps_complete(void **state)
{
	static struct own_pair pairs[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		pair_open(&pairs[i].pair, &api, NULL);
	run_threads(talk_to_itself, pairs, sizeof(pairs[0]));
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pairs[i].wrong, 0);
		pair_close(&pairs[i].pair);
	}
}

/* All threads post to one QP and poll one CQ; the thread that polls a completion counts it. */
struct shared {
	struct pair *pair;
	int number;
	atomic_uchar *seen;	  /* [THREADS * ROUNDS] */
	atomic_uint *outstanding; /* at most the size of the queue */
	atomic_uint *done;
	atomic_uint *wrong;
};

static void drain_some(struct shared *shared)
{
	struct ibv_wc wcs[8];
	int count = ibv_poll_cq(shared->pair->a.cq, 8, wcs);

	for (int i = 0; i < count; i++) {
		if (wcs[i].status != IBV_WC_SUCCESS || wcs[i].wr_id >= THREADS * ROUNDS)
			atomic_fetch_add(shared->wrong, 1);
		else
			atomic_fetch_add(&shared->seen[wcs[i].wr_id], 1);
	}
	atomic_fetch_sub(shared->outstanding, (unsigned int)count);
	atomic_fetch_add(shared->done, (unsigned int)count);
	if (!count)
		sched_yield();
}

static void *post_and_poll(void *arg)
{
	struct shared *shared = arg;
	struct ibv_sge sge = sge_of(&shared->pair->a, 0, 64);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t wr_id = (uint64_t)shared->number * ROUNDS + i;
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &shared->pair->b, 0,
						wr_id),
				   *bad;

		while (atomic_fetch_add(shared->outstanding, 1) >= 60) {
			atomic_fetch_sub(shared->outstanding, 1);
			drain_some(shared);
		}
		if (ibv_post_send(shared->pair->a.qp, &wr, &bad))
			atomic_fetch_add(shared->wrong, 1);
	}
	while (atomic_load(shared->done) < THREADS * ROUNDS)
		drain_some(shared);
	return NULL;
}

static void ibv_post_send_threads_with_shared_qp_complete(void **state)
{
	static atomic_uchar seen[THREADS * ROUNDS];
	static atomic_uint outstanding, done, wrong;
	struct shared shared[THREADS];
	struct pair pair;

	(void)state;
	pair_open(&pair, &api, NULL);
	for (int i = 0; i < THREADS; i++)
		shared[i] = (struct shared){&pair, i, seen, &outstanding, &done, &wrong};
	run_threads(post_and_poll, shared, sizeof(shared[0]));
	assert_int_equal(atomic_load(&wrong), 0);
	for (size_t i = 0; i < THREADS * ROUNDS; i++)
		assert_int_equal(atomic_load(&seen[i]), 1);
	pair_close(&pair);
}

/* Creates and destroys objects concurrently with other threads and with traffic. */
static void *come_and_go(void *arg)
{
	atomic_uint *wrong = arg;
	static uint8_t buf[4096];

	for (int i = 0; i < ROUNDS / 8; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(api.ctx);
		struct ibv_cq *cq = ibv_create_cq(api.ctx, 100, NULL, NULL, 0);
		struct ibv_qp_init_attr init = {.send_cq = cq,
						.recv_cq = cq,
						.cap = {.max_send_wr = 4, .max_recv_wr = 4},
						.qp_type = IBV_QPT_RC};
		struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), ALL_ACCESS) : NULL;
		struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &init) : NULL;

		if (!mr || !qp) {
			atomic_fetch_add(wrong, 1);
			return NULL;
		}
		if (qp_to_init(qp, 0) || qp_to_rtr(qp, &api, qp->qp_num) || qp_to_rts(qp, 7, 1))
			atomic_fetch_add(wrong, 1);
		if (ibv_destroy_qp(qp) || ibv_dereg_mr(mr) || ibv_destroy_cq(cq) ||
		    ibv_dealloc_pd(pd))
			atomic_fetch_add(wrong, 1);
	}
	return NULL;
}

struct mixed {
	void *(*body)(void *);
	void *arg;
};

static void *run_mixed(void *arg)
{
	struct mixed *mixed = arg;

	return mixed->body(mixed->arg);
}

static void ibv_create_qp_during_traffic_succeeds(void **state)
{
	static struct own_pair pair;
	static atomic_uint wrong;
	struct mixed mixed[THREADS] = {{talk_to_itself, &pair},
				       {come_and_go, &wrong},
				       {come_and_go, &wrong},
				       {come_and_go, &wrong}};

	(void)state;
	pair_open(&pair.pair, &api, NULL);
	run_threads(run_mixed, mixed, sizeof(mixed[0]));
	assert_int_equal(pair.wrong, 0);
	assert_int_equal(atomic_load(&wrong), 0);
	pair_close(&pair.pair);
}

/* One thread waits for events of a CQ to which another thread's work completes. */
struct eventful {
	struct pair pair;
	struct ibv_comp_channel *channel;
	unsigned int wrong;
};

static void *sleep_for_events(void *arg)
{
	struct eventful *eventful = arg;
	struct ibv_cq *cq;
	void *context;

	for (uint64_t got = 0; got < ROUNDS;) {
		struct ibv_wc wc;

		if (ibv_get_cq_event(eventful->channel, &cq, &context) ||
		    cq != eventful->pair.b.cq || ibv_req_notify_cq(cq, 0)) {
			eventful->wrong++;
			return NULL;
		}
		ibv_ack_cq_events(cq, 1);
		while (ibv_poll_cq(cq, 1, &wc)) {
			struct ibv_sge sge = sge_of(&eventful->pair.b, 0, 64);
			struct ibv_recv_wr recv = {.wr_id = got + 32,
						   .sg_list = &sge,
						   .num_sge = 1},
					   *bad;

			eventful->wrong += wc.wr_id != got || wc.status != IBV_WC_SUCCESS;
			eventful->wrong += ibv_post_recv(eventful->pair.b.qp, &recv, &bad) != 0;
			got++;
		}
	}
	return NULL;
}

static void ibv_get_cq_event_sleeping_thread_misses_no_completion(void **state)
{
	static struct eventful eventful;
	struct ibv_sge sge;
	pthread_t sleeper;

	(void)state;
	eventful.channel = ibv_create_comp_channel(api.ctx);
	assert_non_null(eventful.channel);
	pair_open(
		&eventful.pair, &api,
		&(struct pair_options){.channel = eventful.channel, .rnr_retry = 7, .max_wr = 64});
	sge = sge_of(&eventful.pair.b, 0, 64);
	for (uint64_t i = 0; i < 32; i++)
		post_recv_ok(&eventful.pair.b, &sge, 1, i);
	assert_int_equal(ibv_req_notify_cq(eventful.pair.b.cq, 0), 0);
	assert_int_equal(pthread_create(&sleeper, NULL, sleep_for_events, &eventful), 0);
	sge = sge_of(&eventful.pair.a, 0, 64);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, i);

		post_send_ok(&eventful.pair.a, &wr);
		assert_int_equal(wc_wait(eventful.pair.a.cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	assert_int_equal(eventful.wrong, 0);
	pair_close(&eventful.pair);
	assert_int_equal(ibv_destroy_comp_channel(eventful.channel), 0);
}

/* Atomics from every thread on one word, concurrent with atomics of the CPU. */
static void *add_remotely(void *arg)
{
	struct own_pair *own = arg;
	struct pair *pair = &own->pair;
	struct ibv_sge sge = sge_of(&pair->a, 0, 8);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair->b, 0, i),
				   *bad;

		wr.wr.atomic.compare_add = 3;
		own->wrong += ibv_post_send(pair->a.qp, &wr, &bad) != 0;
		__atomic_fetch_add((uint64_t *)(void *)pair->b.buf, 5, __ATOMIC_RELAXED);
		own->wrong += wc_wait(pair->a.cq).status != IBV_WC_SUCCESS;
	}
	return NULL;
}

static void ibv_post_send_concurrent_atomics_add_up(void **state)
{
	static struct own_pair pairs[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		pair_open(&pairs[i].pair, &api, NULL);
	/* All threads use the first one's word. */
	for (int i = 1; i < THREADS; i++) {
		uint8_t *own = pairs[i].pair.b.buf;

		assert_int_equal(ibv_dereg_mr(pairs[i].pair.b.mr), 0);
		free(own);
		pairs[i].pair.b.buf = pairs[0].pair.b.buf;
		pairs[i].pair.b.mr = pairs[0].pair.b.mr;
	}
	run_threads(add_remotely, pairs, sizeof(pairs[0]));
	assert_int_equal(*(uint64_t *)(void *)pairs[0].pair.b.buf, (uint64_t)THREADS * ROUNDS * 8);
	for (int i = 1; i < THREADS; i++) {
		pairs[i].pair.b.buf = aligned_alloc(4096, 4096);
		assert_non_null(pairs[i].pair.b.buf);
		pairs[i].pair.b.mr = ibv_reg_mr(api.pd, pairs[i].pair.b.buf, 4096, 0);
		assert_non_null(pairs[i].pair.b.mr);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pairs[i].wrong, 0);
		pair_close(&pairs[i].pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_threads_with_own_qps_complete),
		cmocka_unit_test(ibv_post_send_threads_with_shared_qp_complete),
		cmocka_unit_test(ibv_create_qp_during_traffic_succeeds),
		cmocka_unit_test(ibv_get_cq_event_sleeping_thread_misses_no_completion),
		cmocka_unit_test(ibv_post_send_concurrent_atomics_add_up),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
