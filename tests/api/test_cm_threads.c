/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Many threads at one channel, and the daemon's death. */

#define CONNECTIONS 64
#define READERS	    4

/*
 * Both sides of many connections on one channel, read by several threads. The context of an id is
 * its place.
 */
struct crowd {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *active[CONNECTIONS];
	_Atomic int established;
	_Atomic int ended;
	_Atomic int failed;
	_Atomic bool is_over;
};

static void crowd_create_qp(struct crowd *crowd, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(id, NULL, &attr))
		crowd->failed++;
}

static void crowd_step(struct crowd *crowd, struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		crowd->failed += rdma_resolve_route(id, 1000) != 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		crowd_create_qp(crowd, id);
		crowd->failed += rdma_connect(id, NULL) != 0;
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		crowd_create_qp(crowd, id);
		crowd->failed += rdma_accept(id, NULL) != 0;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		crowd->established++;
		if (id->context)
			crowd->failed += rdma_disconnect(id) != 0;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		crowd->ended++;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		crowd->failed++;
	}
}

static void *crowd_read(void *arg)
{
	struct crowd *crowd = arg;

	while (!crowd->is_over) {
		struct rdma_cm_event *event;
		struct rdma_cm_id *to_destroy = NULL;

		if (!cm_readable(crowd->channel, 10))
			continue;
		if (rdma_get_cm_event(crowd->channel, &event)) {
			crowd->failed += errno != EAGAIN;
			continue;
		}
		/*
		 * The passive side's ids go as soon as they have ended, in the middle of
		 * everything.
		 */
		if (event->event == RDMA_CM_EVENT_DISCONNECTED && !event->id->context)
			to_destroy = event->id;
		crowd_step(crowd, event);
		rdma_ack_cm_event(event);
		if (to_destroy) {
			rdma_destroy_qp(to_destroy);
			crowd->failed += rdma_destroy_id(to_destroy) != 0;
		}
	}
	return NULL;
}

static void many_threads_share_a_channel(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	pthread_t readers[READERS];

	(void)state;
	assert_non_null(crowd);
	crowd->channel = cm_channel();
	assert_int_equal(fcntl(crowd->channel->fd, F_SETFL, O_NONBLOCK), 0);
	crowd->listener = cm_id(crowd->channel);
	assert_int_equal(rdma_bind_addr(crowd->listener, (struct sockaddr *)&addr), 0);
	assert_int_equal(rdma_listen(crowd->listener, CONNECTIONS), 0);
	cm_set_port(&addr, rdma_get_src_port(crowd->listener));
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, crowd_read, crowd), 0);
	for (int i = 0; i < CONNECTIONS; i++) {
		assert_int_equal(
			rdma_create_id(crowd->channel, &crowd->active[i], crowd, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addr(crowd->active[i], NULL, (struct sockaddr *)&addr,
						   2000),
				 0);
	}
	for (int i = 0; i < 2000 && crowd->ended < 2 * CONNECTIONS && !crowd->failed; i++)
		poll(NULL, 0, 10);
	crowd->is_over = true;
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(readers[i], NULL), 0);
	assert_int_equal(crowd->failed, 0);
	assert_int_equal(crowd->ended, 2 * CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++) {
		rdma_destroy_qp(crowd->active[i]);
		assert_int_equal(rdma_destroy_id(crowd->active[i]), 0);
	}
	assert_int_equal(rdma_destroy_id(crowd->listener), 0);
	rdma_destroy_event_channel(crowd->channel);
	free(crowd);
}

/*
 * Each thread makes, connects and destroys ids of its own; nothing of it is shared but the library.
 */
static void *come_and_go(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		struct ends ends;

		ends_open(&ends, NULL);
		if (i % 2)
			rdma_disconnect(ends.active);
		ends_close(&ends);
	}
	return NULL;
}

static void threads_come_and_go(void **state)
{
	pthread_t threads[READERS];

	(void)state;
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* A thread that takes whatever comes on a channel, and what it made of that. */
struct taker {
	struct rdma_event_channel *channel;
	_Atomic bool is_over;
	_Atomic int failed;
};

static void *take_events(void *arg)
{
	struct taker *taker = arg;
	struct rdma_cm_event *event;

	while (!taker->is_over) {
		if (!cm_readable(taker->channel, 1))
			continue;
		if (rdma_get_cm_event(taker->channel, &event)) {
			taker->failed += errno != EAGAIN;
			continue;
		}
		switch (event->event) {
		case RDMA_CM_EVENT_ESTABLISHED:
		case RDMA_CM_EVENT_CONNECT_RESPONSE: /* it has no QP by then */
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_DISCONNECTED:
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			taker->failed++;
		}
		taker->failed += rdma_ack_cm_event(event) != 0;
	}
	return NULL;
}

/* The peer accepts or rejects, another thread is taking the answer, and this one takes the QP away, or the id too. */
static void end_while_answered(struct ends *ends, int round)
{
	if (round % 2)
		assert_int_equal(rdma_accept(ends->passive, NULL), 0);
	else
		assert_int_equal(rdma_reject(ends->passive, NULL, 0), 0);
	if (round / 2 % 2)
		sched_yield();
	rdma_destroy_qp(ends->active);
	assert_null(ends->active->qp);
	if (round / 4 % 2) {
		assert_int_equal(rdma_destroy_id(ends->active), 0);
		ends->active = NULL;
	}
}

static void a_qp_goes_while_its_event_is_taken(void **state)
{
	(void)state;
	for (int round = 0; round < 48; round++) {
		struct taker taker = {0};
		struct ends ends = {0};
		pthread_t thread;

		ends_listen(&ends, NULL, 8);
		ends_resolve(&ends);
		ends_create_qp(ends.active);
		taker.channel = ends.client;
		assert_int_equal(fcntl(ends.client->fd, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(pthread_create(&thread, NULL, take_events, &taker), 0);
		ends_request(&ends, NULL);
		ends_create_qp(ends.passive);
		end_while_answered(&ends, round);
		taker.is_over = true;
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(taker.failed, 0);
		ends_close(&ends);
	}
}

static void *wait_for_request(void *listener)
{
	struct rdma_cm_id *id;

	return (void *)(intptr_t)(rdma_get_request(listener, &id) ? errno : 0);
}

static void daemons_death_is_told_to_every_id(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *sync;
	struct ends ends;
	pthread_t thread;
	void *result;

	(void)state;
	ends_open(&ends, NULL);
	assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(sync, (struct sockaddr *)&addr), 0);
	assert_int_equal(rdma_listen(sync, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_request, sync), 0);
	assert_int_equal(kill(host_daemon_pid(), SIGKILL), 0);

	event = cm_get(ends.client, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_ptr_equal(event->id, ends.active);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_true(cm_readable(ends.client, 10000));
	assert_minus1_errno(rdma_get_cm_event(ends.client, &event), ENODEV);
	for (int i = 0; i < 2; i++) {
		event = cm_get(ends.server, RDMA_CM_EVENT_DEVICE_REMOVAL);
		assert_true(event->id == ends.listener || event->id == ends.passive);
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	assert_minus1_errno(rdma_get_cm_event(ends.server, &event), ENODEV);
	assert_minus1_errno(rdma_listen(ends.listener, 1), ENODEV);
	assert_minus1_errno(rdma_connect(ends.active, NULL), ENODEV);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((intptr_t)result, ENODEV);
	assert_int_equal(rdma_destroy_id(sync), 0);
	ends_close(&ends);

	/* The same process goes on with the next daemon. */
	ends_open(&ends, NULL);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_threads_share_a_channel),
		cmocka_unit_test(threads_come_and_go),
		cmocka_unit_test(a_qp_goes_while_its_event_is_taken),
		cmocka_unit_test(daemons_death_is_told_to_every_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
