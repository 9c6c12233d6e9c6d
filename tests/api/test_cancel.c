/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Threads that are cancelled (pthread_cancel, deferred) during calls of libibverbs. No lock of the
 * library may stay locked: another thread sends all the time, and every object of the cancelled
 * thread can be used and destroyed afterwards.
 */

#include "asan_frames.h"
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CANCELS 8
#else
#define CANCELS 40
#endif
#define CALLS_MAX 60u

static struct api api;

struct victim {
	struct pair *pair;
	struct ibv_comp_channel *channel;
	void (*call)(struct victim *victim);
	atomic_uint calls;
};

/* The concurrent thread, which uses objects of its own. */
struct worker {
	struct pair pair;
	atomic_uint rounds;
	atomic_uint wrong;
	atomic_bool is_over;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct ibv_sge from = sge_of(&worker->pair.a, 0, 64);
	struct ibv_sge to = sge_of(&worker->pair.b, 0, 64);
	struct ibv_wc wc;

	while (!worker->is_over) {
		struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr send = send_wr(IBV_WR_SEND, &from, NULL, 0, 0), *bad_send;

		worker->wrong += ibv_post_recv(worker->pair.b.qp, &recv, &bad_recv) != 0;
		worker->wrong += ibv_post_send(worker->pair.a.qp, &send, &bad_send) != 0;
		while (!ibv_poll_cq(worker->pair.b.cq, 1, &wc))
			sched_yield();
		while (!ibv_poll_cq(worker->pair.a.cq, 1, &wc))
			sched_yield();
		worker->wrong += wc.status != IBV_WC_SUCCESS;
		worker->rounds++;
	}
	return NULL;
}

static void *be_cancelled(void *arg)
{
	struct victim *victim = arg;

	pthread_cleanup_push(forget_frames, NULL);
	for (;;) {
		victim->call(victim);
		victim->calls++;
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return NULL;
}

/* Asserts that the worker completes another round, so no lock was left locked. */
static void assert_progress(struct worker *worker)
{
	unsigned int before = worker->rounds;

	while (worker->rounds < before + 2)
		sched_yield();
	assert_int_equal(worker->wrong, 0);
}

static void cancel_many(void (*call)(struct victim *victim), const struct pair_options *options,
			struct ibv_comp_channel *channel)
{
	struct worker worker = {0};
	struct pair pair;
	struct victim victim = {.pair = &pair, .channel = channel, .call = call};
	unsigned int seed = 1;
	pthread_t other, thread;
	void *result;

	pair_open(&worker.pair, &api, NULL);
	pair_open(&pair, &api, options);
	assert_int_equal(pthread_create(&other, NULL, work, &worker), 0);
	for (int i = 0; i < CANCELS; i++) {
		unsigned int until = (unsigned int)rand_r(&seed) % CALLS_MAX;

		victim.calls = 0;
		assert_int_equal(pthread_create(&thread, NULL, be_cancelled, &victim), 0);
		while (victim.calls < until)
			sched_yield();
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_progress(&worker);
	}
	worker.is_over = true;
	assert_int_equal(pthread_join(other, NULL), 0);
	pair_reconnect(&pair);
	pair_close(&pair);
	pair_close(&worker.pair);
}

static void call_poll(struct victim *victim)
{
	struct ibv_wc wc[4];

	ibv_poll_cq(victim->pair->a.cq, 4, wc);
}

static void call_send(struct victim *victim)
{
	struct ibv_sge from = sge_of(&victim->pair->a, 0, 4096);
	struct ibv_sge to = sge_of(&victim->pair->b, 0, 4096);
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = send_wr(IBV_WR_SEND, &from, NULL, 0, 0), *bad_send;
	struct ibv_wc wc[4];

	ibv_post_recv(victim->pair->b.qp, &recv, &bad_recv);
	ibv_post_send(victim->pair->a.qp, &send, &bad_send);
	ibv_poll_cq(victim->pair->a.cq, 4, wc);
	ibv_poll_cq(victim->pair->b.cq, 4, wc);
}

static void call_write(struct victim *victim)
{
	struct ibv_sge from = sge_of(&victim->pair->a, 0, 4096);
	struct ibv_send_wr send = send_wr(IBV_WR_RDMA_WRITE, &from, &victim->pair->b, 0, 0),
			   *bad_send;
	struct ibv_wc wc[4];

	ibv_post_send(victim->pair->a.qp, &send, &bad_send);
	ibv_poll_cq(victim->pair->a.cq, 4, wc);
}

static void call_events(struct victim *victim)
{
	struct ibv_cq *cq;
	void *context;
	int state;

	ibv_req_notify_cq(victim->pair->b.cq, 0);
	call_send(victim);
	/*
	 * A cancellation between taking an event and its acknowledgement would be an error of this
	 * test.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (!ibv_get_cq_event(victim->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	pthread_setcancelstate(state, NULL);
}

static void call_wait(struct victim *victim)
{
	struct ibv_cq *cq;
	void *context;

	/* No event arrives: the thread is cancelled here. */
	victim->calls += CALLS_MAX;
	if (!ibv_get_cq_event(victim->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

static void call_async(struct victim *victim)
{
	struct ibv_async_event event;

	victim->calls += CALLS_MAX;
	if (!ibv_get_async_event(victim->pair->api->ctx, &event))
		ibv_ack_async_event(&event);
}

/*
 * Calls that create and destroy objects: a created object exists when the call returns, also if the
 * thread is cancelled.
 */
static void call_objects(struct victim *victim)
{
	struct ibv_context *ctx = victim->pair->api->ctx;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, victim->pair->a.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_ah_attr path = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.dgid = victim->pair->api->gid, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(pd, &path);
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	ibv_destroy_qp(qp);
	ibv_destroy_ah(ah);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_destroy_comp_channel(channel);
}

static void call_device(struct victim *victim)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	struct ibv_port_attr port;
	union ibv_gid gid;

	(void)victim;
	ibv_query_port(ctx, 1, &port);
	ibv_query_gid(ctx, 1, 0, &gid);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
}

static void call_modify(struct victim *victim)
{
	struct side *a = &victim->pair->a;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	ibv_modify_qp(a->qp, &reset, IBV_QP_STATE);
	qp_to_init(a->qp, IBV_ACCESS_REMOTE_WRITE);
	qp_to_rtr(a->qp, victim->pair->api, victim->pair->b.qp->qp_num);
	qp_to_rts(a->qp, 7, 7);
}

static void ibv_poll_cq_cancelled_leaves_no_lock(void **state)
{
	(void)state;
	cancel_many(call_poll, NULL, NULL);
}

static void ibv_post_send_cancelled_leaves_no_lock(void **state)
{
	(void)state;
	cancel_many(call_send, NULL, NULL);
}

static void ibv_post_send_write_cancelled_leaves_no_lock(void **state)
{
	(void)state;
	cancel_many(call_write, NULL, NULL);
}

static void with_channel(void (*call)(struct victim *victim))
{
	struct pair_options options = {.channel = ibv_create_comp_channel(api.ctx)};

	assert_non_null(options.channel);
	make_nonblocking(options.channel->fd);
	cancel_many(call, &options, options.channel);
	assert_int_equal(ibv_destroy_comp_channel(options.channel), 0);
}

static void ibv_req_notify_cq_cancelled_leaves_no_lock(void **state)
{
	(void)state;
	with_channel(call_events);
}

static void ibv_get_cq_event_waiting_can_be_cancelled(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api.ctx);

	(void)state;
	assert_non_null(channel);
	cancel_many(call_wait, NULL, channel);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void ibv_get_async_event_waiting_can_be_cancelled(void **state)
{
	(void)state;
	cancel_many(call_async, NULL, NULL);
}

static void ibv_create_qp_objects_survive_cancellation_of_thread(void **state)
{
	(void)state;
	cancel_many(call_objects, NULL, NULL);
}

static void ibv_open_device_cancelled_leaves_no_lock(void **state)
{
	(void)state;
	cancel_many(call_device, NULL, NULL);
}

static void ibv_modify_qp_cancelled_leaves_no_lock(void **state)
{
	(void)state;
	cancel_many(call_modify, NULL, NULL);
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_poll_cq_cancelled_leaves_no_lock),
		cmocka_unit_test(ibv_post_send_cancelled_leaves_no_lock),
		cmocka_unit_test(ibv_post_send_write_cancelled_leaves_no_lock),
		cmocka_unit_test(ibv_req_notify_cq_cancelled_leaves_no_lock),
		cmocka_unit_test(ibv_get_cq_event_waiting_can_be_cancelled),
		cmocka_unit_test(ibv_get_async_event_waiting_can_be_cancelled),
		cmocka_unit_test(ibv_create_qp_objects_survive_cancellation_of_thread),
		cmocka_unit_test(ibv_open_device_cancelled_leaves_no_lock),
		cmocka_unit_test(ibv_modify_qp_cancelled_leaves_no_lock),
	};

	return cmocka_run_group_tests_name("cancel", tests, setup, teardown);
}
