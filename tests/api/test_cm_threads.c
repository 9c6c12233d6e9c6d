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
#include <sys/eventfd.h>
#include <unistd.h>

/* Many threads on one event channel, and the end of the daemon. */

#define CONNECTIONS 64
#define READERS	    4
#define WATCHED	    600

/*
 * Both sides of many connections on one channel, read by several threads. The context of an id is
 * its index.
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
		 * The ids of the passive side are destroyed when they are disconnected, while
		 * others are still connecting.
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

static void rdma_get_cm_event_many_threads_share_channel(void **state)
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

/* Each thread creates, connects and destroys ids of its own; the threads share only the library. */
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

static void rdma_create_id_short_lived_threads_succeed(void **state)
{
	pthread_t threads[READERS];

	(void)state;
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* A thread that reads all events of a channel, and their counts. */
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
		case RDMA_CM_EVENT_CONNECT_RESPONSE: /* the id has no QP by then */
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

/*
 * The peer accepts or rejects, another thread reads the event, and this thread destroys the QP, or
 * also the id.
 */
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

static void rdma_destroy_qp_during_get_cm_event_succeeds(void **state)
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

/*
 * A reader that calls poll(2) first, as rping's does. When poll() reports an event,
 * rdma_get_cm_event() must not block.
 */
struct watcher {
	struct rdma_event_channel *channel;
	int over_fd;
	_Atomic int taken;
};

static void *watch_events(void *arg)
{
	struct watcher *watcher = arg;
	struct rdma_cm_event *event;
	struct pollfd fds[] = {
		{.fd = watcher->over_fd, .events = POLLIN},
		{.fd = watcher->channel->fd, .events = POLLIN},
	};

	for (;;) {
		if (poll(fds, 2, -1) < 0 || fds[0].revents)
			return NULL;
		if (fds[1].revents && !rdma_get_cm_event(watcher->channel, &event))
			watcher->taken += !rdma_ack_cm_event(event);
	}
}

static void *disconnect_peer(void *id)
{
	return (void *)(intptr_t)rdma_disconnect(id);
}

/*
 * One round: the peer disconnects, another thread waits for events, and this thread destroys the
 * id.
 */
static void destroy_watched_id(struct watcher *watcher, int round)
{
	const uint64_t one = 1;
	pthread_t reader, peer;
	struct rdma_cm_id *other;
	struct ends ends;
	void *result;

	ends_open(&ends, NULL);
	watcher->channel = ends.client;
	watcher->taken = 0;
	assert_int_equal(pthread_create(&reader, NULL, watch_events, watcher), 0);
	/* The watcher reads this channel and waits for the next event. */
	other = cm_id(ends.client);
	assert_int_equal(rdma_resolve_addr(other, NULL, (struct sockaddr *)&ends.addr, 1000), 0);
	while (!watcher->taken)
		sched_yield();
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_qp(ends.active);
	assert_int_equal(pthread_create(&peer, NULL, disconnect_peer, ends.passive), 0);
	for (int i = 0; i < round % 64; i++)
		sched_yield();
	assert_int_equal(rdma_destroy_id(ends.active), 0);
	ends.active = NULL;
	assert_int_equal(write(watcher->over_fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(pthread_join(peer, &result), 0);
	assert_int_equal(read(watcher->over_fd, &(uint64_t){0}, sizeof(one)), sizeof(one));
	ends_close(&ends);
}

static void rdma_destroy_id_during_get_cm_event_succeeds(void **state)
{
	struct watcher watcher = {.over_fd = eventfd(0, EFD_CLOEXEC)};

	(void)state;
	for (int round = 0; round < WATCHED; round++)
		destroy_watched_id(&watcher, round);
	close(watcher.over_fd);
}

static void *wait_for_request(void *listener)
{
	struct rdma_cm_id *id;

	return (void *)(intptr_t)(rdma_get_request(listener, &id) ? errno : 0);
}

static void rdma_get_cm_event_dead_daemon_reports_device_removal(void **state)
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

	/* The process continues with the next daemon. */
	ends_open(&ends, NULL);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_get_cm_event_many_threads_share_channel),
		cmocka_unit_test(rdma_create_id_short_lived_threads_succeed),
		cmocka_unit_test(rdma_destroy_qp_during_get_cm_event_succeeds),
		cmocka_unit_test(rdma_destroy_id_during_get_cm_event_succeeds),
		cmocka_unit_test(rdma_get_cm_event_dead_daemon_reports_device_removal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
