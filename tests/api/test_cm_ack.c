/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unacknowledged events: which calls wait for the acknowledgement, and that the log names the
 * event. The log line appears only after a delay, so all waits run concurrently.
 */
#include "cm_fixture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overheard.h"

struct waiter;

/*
 * A call that blocks until its event is acknowledged. `prepare` creates its objects, `settle`
 * acknowledges the event.
 */
struct wait {
	void (*prepare)(struct waiter *waiter);
	void (*call)(struct waiter *waiter);
	void (*settle)(struct waiter *waiter);
	const char *name; /* name of the call in the log */
	bool ends_the_id;
};

/* One blocked call, in a thread of its own. */
struct waiter {
	const struct wait *wait;
	struct rdma_cm_id *id;
	struct rdma_cm_event *event; /* NULL: the event is a completion event */
	struct ends ends;
	pthread_t thread;
};

static struct rdma_event_channel *channel, *other;
static struct sockaddr_storage group;

static void resolve(struct waiter *waiter)
{
	struct sockaddr_storage dst = cm_loopback(CM_PORT_NOBODY);

	waiter->id = cm_id(channel);
	assert_int_equal(rdma_resolve_addr(waiter->id, NULL, (struct sockaddr *)&dst, 1000), 0);
	waiter->event = cm_get(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void join(struct waiter *waiter)
{
	struct sockaddr_storage local = cm_loopback(0);

	assert_int_equal(rdma_create_id(channel, &waiter->id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(waiter->id, (struct sockaddr *)&local), 0);
	assert_int_equal(rdma_join_multicast(waiter->id, (struct sockaddr *)&group, NULL), 0);
	waiter->event = cm_get(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
}

/* A CONNECT_REQUEST is an event of the listener, whether or not its new id still exists. */
static void request(struct waiter *waiter)
{
	ends_listen(&waiter->ends, NULL, 1);
	ends_resolve(&waiter->ends);
	ends_create_qp(waiter->ends.active);
	ends_request(&waiter->ends, NULL);
	waiter->id = waiter->ends.listener;
	waiter->event = waiter->ends.request;
	waiter->ends.listener = NULL;
	waiter->ends.request = NULL;
}

/* The CQs of an id are destroyed with its QP, and wait for their completion events. */
static void complete(struct waiter *waiter)
{
	struct ibv_recv_wr recv_wr = {.wr_id = 1};
	struct ibv_recv_wr *bad;
	struct ibv_cq *cq;
	void *context;

	ends_open(&waiter->ends, NULL);
	waiter->id = waiter->ends.active;
	assert_int_equal(ibv_req_notify_cq(waiter->id->recv_cq, 0), 0);
	assert_int_equal(ibv_post_recv(waiter->id->qp, &recv_wr, &bad), 0);
	assert_int_equal(rdma_disconnect(waiter->id), 0);
	assert_int_equal(ibv_get_cq_event(waiter->id->recv_cq_channel, &cq, &context), 0);
	assert_ptr_equal(context, waiter->id);
	waiter->ends.active = NULL;
}

static void destroy_id(struct waiter *waiter)
{
	rdma_destroy_id(waiter->id);
}

static void destroy_ep(struct waiter *waiter)
{
	rdma_destroy_ep(waiter->id);
}

static void migrate(struct waiter *waiter)
{
	rdma_migrate_id(waiter->id, other);
}

static void leave(struct waiter *waiter)
{
	rdma_leave_multicast(waiter->id, (struct sockaddr *)&group);
}

static void ack_cm_event(struct waiter *waiter)
{
	assert_int_equal(rdma_ack_cm_event(waiter->event), 0);
}

static void ack_cq_event(struct waiter *waiter)
{
	ibv_ack_cq_events(waiter->id->recv_cq, 1);
}

static void *run(void *waiter)
{
	((struct waiter *)waiter)->wait->call(waiter);
	return NULL;
}

static void wait_until_named(struct overheard *overheard, const struct waiter *waiter)
{
	char words[256];

	if (!waiter->event) {
		overheard_wait(overheard, waiter->wait->name);
		return;
	}
	snprintf(words, sizeof(words), "%s of id ", waiter->wait->name);
	overheard_wait(overheard, words);
	snprintf(words, sizeof(words), "(%p) waits for rdma_ack_cm_event() of a %s\n",
		 (void *)waiter->id, rdma_event_str(waiter->event->event));
	overheard_wait(overheard, words);
}

static void finish(struct waiter *waiter)
{
	waiter->wait->settle(waiter);
	assert_int_equal(pthread_join(waiter->thread, NULL), 0);
	if (!waiter->wait->ends_the_id)
		assert_int_equal(rdma_destroy_id(waiter->id), 0);
	if (waiter->ends.server)
		ends_close(&waiter->ends);
}

static const struct wait waits[] = {
	{resolve, destroy_id, ack_cm_event, "rdma_destroy_id()", true},
	{resolve, destroy_ep, ack_cm_event, "rdma_destroy_id()", true},
	{resolve, migrate, ack_cm_event, "rdma_migrate_id()", false},
	{join, leave, ack_cm_event, "rdma_leave_multicast()", false},
	{request, destroy_id, ack_cm_event, "rdma_destroy_id()", true},
	{complete, destroy_ep, ack_cq_event,
	 "ibv_destroy_cq() waits for ibv_ack_cq_events(): 1 events left\n", true},
};
#define WAITS (sizeof(waits) / sizeof(waits[0]))

static void rdma_destroy_id_waiting_for_ack_logs_event(void **state)
{
	struct waiter waiters[WAITS] = {0};
	struct overheard overheard;

	(void)state;
	channel = cm_channel();
	other = cm_channel();
	group = cm_loopback(0);
	inet_pton(AF_INET, "239.78.3.1", &((struct sockaddr_in *)&group)->sin_addr);
	for (size_t i = 0; i < WAITS; i++) {
		waiters[i].wait = &waits[i];
		waits[i].prepare(&waiters[i]);
	}
	overheard_begin(&overheard);
	for (size_t i = 0; i < WAITS; i++)
		assert_int_equal(pthread_create(&waiters[i].thread, NULL, run, &waiters[i]), 0);
	for (size_t i = 0; i < WAITS; i++)
		wait_until_named(&overheard, &waiters[i]);
	overheard_end(&overheard);
	for (size_t i = 0; i < WAITS; i++)
		finish(&waiters[i]);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_destroy_id_waiting_for_ack_logs_event),
	};

	/* The library reads the variable once, before the first log line. */
	setenv("USRDMA_LOG", "warn", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
