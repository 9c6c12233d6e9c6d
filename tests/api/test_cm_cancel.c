/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Threads that are cancelled (pthread_cancel, deferred) in calls of librdmacm, and the calls of
 * other threads afterwards.
 */

#include "cm_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CANCELS 8
#else
#define CANCELS 30
#endif

struct victim {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	atomic_uint calls;
};

static void *make_ids(void *arg)
{
	struct victim *victim = arg;
	struct sockaddr_storage addr = cm_loopback(0);

	for (;;) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_cm_id *id;

		if (channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) {
			rdma_bind_addr(id, (struct sockaddr *)&addr);
			rdma_listen(id, 1);
			rdma_destroy_id(id);
		}
		rdma_destroy_event_channel(channel);
		victim->calls++;
		pthread_testcancel();
	}
	return NULL;
}

static void *get_event(void *arg)
{
	struct victim *victim = arg;
	struct rdma_cm_event *event;

	victim->calls++;
	rdma_get_cm_event(victim->channel, &event);
	return NULL;
}

static void *get_request(void *arg)
{
	struct victim *victim = arg;
	struct rdma_cm_id *id;

	victim->calls++;
	rdma_get_request(victim->id, &id);
	return NULL;
}

static void cancel_one(void *(*body)(void *), struct victim *victim, unsigned int calls)
{
	pthread_t thread;
	void *result;

	victim->calls = 0;
	assert_int_equal(pthread_create(&thread, NULL, body, victim), 0);
	while (victim->calls < calls)
		sched_yield();
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void a_connection_works(void)
{
	struct ends ends;

	ends_open(&ends, NULL);
	ends_close(&ends);
}

static void rdma_resolve_addr_cancelled_leaves_no_lock(void **state)
{
	struct victim victim = {0};
	unsigned int seed = 1;

	(void)state;
	for (int i = 0; i < CANCELS; i++) {
		cancel_one(make_ids, &victim, (unsigned int)rand_r(&seed) % 10);
		a_connection_works();
	}
}

static void rdma_get_cm_event_waiting_can_be_cancelled(void **state)
{
	(void)state;
	for (int i = 0; i < CANCELS; i++) {
		struct ends ends;
		struct victim victim;

		ends_open(&ends, NULL);
		victim = (struct victim){.channel = ends.client};
		cancel_one(get_event, &victim, 1);
		assert_int_equal(rdma_disconnect(ends.active), 0);
		assert_int_equal(rdma_disconnect(ends.passive), 0);
		cm_pass(ends.client, ends.active, RDMA_CM_EVENT_DISCONNECTED);
		ends_close(&ends);
	}
}

static void rdma_get_request_waiting_can_be_cancelled(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct victim victim = {0};

	(void)state;
	for (int i = 0; i < CANCELS; i++) {
		assert_int_equal(rdma_create_id(NULL, &victim.id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_bind_addr(victim.id, (struct sockaddr *)&addr), 0);
		assert_int_equal(rdma_listen(victim.id, 1), 0);
		cancel_one(get_request, &victim, 1);
		assert_int_equal(rdma_destroy_id(victim.id), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_resolve_addr_cancelled_leaves_no_lock),
		cmocka_unit_test(rdma_get_cm_event_waiting_can_be_cancelled),
		cmocka_unit_test(rdma_get_request_waiting_can_be_cancelled),
	};

	return cmocka_run_group_tests_name("cm_cancel", tests, NULL, NULL);
}
