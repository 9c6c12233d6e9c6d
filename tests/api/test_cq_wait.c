/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Threads that wait in ibv_get_cq_event() run the transports themselves (docs/adr/0045): signals,
 * cancellation, several waiters, and the return of this work to the engine thread.
 */

#include "asan_frames.h"
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define ROUNDS	200
#define WAITERS 4

static struct api api;

/* A pair whose CQs have a channel of their own. */
struct waiting {
	struct pair pair;
	struct ibv_comp_channel *channel;
	pthread_t thread;
	atomic_uint received;
	atomic_bool is_over; /* wait_in_thread() has returned */
};

static void waiting_open(struct waiting *waiting)
{
	struct pair_options options = {0};

	*waiting = (struct waiting){.channel = ibv_create_comp_channel(api.ctx)};
	assert_non_null(waiting->channel);
	options.channel = waiting->channel;
	pair_open(&waiting->pair, &api, &options);
	assert_int_equal(ibv_req_notify_cq(waiting->pair.b.cq, 0), 0);
}

static void waiting_close(struct waiting *waiting)
{
	pair_close(&waiting->pair);
	assert_int_equal(ibv_destroy_comp_channel(waiting->channel), 0);
}

static void send_one(struct waiting *waiting)
{
	struct ibv_sge from = sge_of(&waiting->pair.a, 0, 64), to = sge_of(&waiting->pair.b, 0, 64);
	struct ibv_send_wr send = send_wr(IBV_WR_SEND, &from, NULL, 0, 1);

	post_recv_ok(&waiting->pair.b, &to, 1, 2);
	post_send_ok(&waiting->pair.a, &send);
}

/* Waits for one event and takes all completions. Returns their number, or -errno. */
static int wait_once(struct waiting *waiting)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int count = 0;

	if (ibv_get_cq_event(waiting->channel, &cq, &context))
		return -errno;
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		return -EINVAL;
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		count += wc.status == IBV_WC_SUCCESS;
	return count;
}

static void *wait_for_all(void *arg)
{
	struct waiting *waiting = arg;

	while (waiting->received < ROUNDS) {
		int count = wait_once(waiting);

		if (count < 0)
			return (void *)(intptr_t)count;
		waiting->received += (unsigned int)count;
	}
	return NULL;
}

/* All threads wait at the same time; each receives its messages, one after another. */
static void ibv_get_cq_event_many_waiters_receive_all_events(void **state)
{
	static struct waiting waiting[WAITERS];
	void *result;

	(void)state;
	for (int i = 0; i < WAITERS; i++) {
		waiting_open(&waiting[i]);
		assert_int_equal(
			pthread_create(&waiting[i].thread, NULL, wait_for_all, &waiting[i]), 0);
	}
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < WAITERS; i++)
			send_one(&waiting[i]);
		for (int i = 0; i < WAITERS; i++) {
			while (waiting[i].received <= round)
				sched_yield();
			wc_expect(waiting[i].pair.a.cq, 1, IBV_WC_SUCCESS);
		}
	}
	for (int i = 0; i < WAITERS; i++) {
		assert_int_equal(pthread_join(waiting[i].thread, &result), 0);
		assert_null(result);
		waiting_close(&waiting[i]);
	}
}

static atomic_uint handled;

static void count_signal(int number)
{
	(void)number;
	handled++;
}

static void *wait_in_thread(void *arg)
{
	struct waiting *waiting = arg;
	int ret;

	pthread_cleanup_push(forget_frames, NULL);
	ret = wait_once(waiting);
	pthread_cleanup_pop(0);
	waiting->is_over = true;
	return (void *)(intptr_t)ret;
}

/* Sends signals until the handler was called several times or the thread has ended. */
static void interrupt(struct waiting *waiting)
{
	for (unsigned int before = handled; handled < before + 5 && !waiting->is_over;) {
		assert_int_equal(pthread_kill(waiting->thread, SIGUSR1), 0);
		usleep(1000);
	}
}

/* ThreadSanitizer replaces a program's signal handlers and their flags by its own. */
#ifdef __SANITIZE_THREAD__
static const bool handlers_are_ours = false;
#else
static const bool handlers_are_ours = true;
#endif

/* As a read(2) of the channel: a handler with SA_RESTART does not end the call. */
static void ibv_get_cq_event_restarting_handler_continues(void **state)
{
	struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART}, before;
	struct waiting waiting;
	void *result;

	(void)state;
	if (!handlers_are_ours)
		skip();
	waiting_open(&waiting);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&waiting.thread, NULL, wait_in_thread, &waiting), 0);
	interrupt(&waiting);
	send_one(&waiting);
	assert_int_equal(pthread_join(waiting.thread, &result), 0);
	assert_int_equal((intptr_t)result, 1);
	wc_expect(waiting.pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	waiting_close(&waiting);
}

static void ibv_get_cq_event_interrupting_handler_fails_with_eintr(void **state)
{
	struct sigaction action = {.sa_handler = count_signal}, before;
	struct waiting waiting;
	unsigned int seen = handled;
	void *result;

	(void)state;
	waiting_open(&waiting);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&waiting.thread, NULL, wait_in_thread, &waiting), 0);
	/* A signal before the thread blocks has no effect on the call. */
	while (pthread_tryjoin_np(waiting.thread, &result)) {
		pthread_kill(waiting.thread, SIGUSR1);
		usleep(1000);
	}
	assert_int_equal((intptr_t)result, -EINTR);
	assert_true(handled > seen);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	waiting_close(&waiting);
}

/*
 * After the cancellation the engine thread does the work: a WRITE to this process completes without
 * a waiting thread.
 */
static void ibv_get_cq_event_cancelled_waiter_leaves_engine_usable(void **state)
{
	struct waiting waiting, other;
	void *result;

	(void)state;
	waiting_open(&waiting);
	waiting_open(&other);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&waiting.thread, NULL, wait_in_thread, &waiting),
				 0);
		usleep((useconds_t)(i * 200));
		assert_int_equal(pthread_cancel(waiting.thread), 0);
		assert_int_equal(pthread_join(waiting.thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		send_one(&other);
		assert_int_equal(wait_once(&other), 1);
		wc_expect(other.pair.a.cq, 1, IBV_WC_SUCCESS);
	}
	waiting_close(&other);
	waiting_close(&waiting);
}

/* A program that reads events without blocking and waits with poll(2). */
static void ibv_get_cq_event_nonblocking_channel_fails_with_eagain(void **state)
{
	struct waiting waiting;

	(void)state;
	waiting_open(&waiting);
	make_nonblocking(waiting.channel->fd);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(wait_once(&waiting), -EAGAIN);
		send_one(&waiting);
		assert_true(readable_within(waiting.channel->fd, 10000));
		assert_int_equal(wait_once(&waiting), 1);
		wc_expect(waiting.pair.a.cq, 1, IBV_WC_SUCCESS);
	}
	waiting_close(&waiting);
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
		cmocka_unit_test(ibv_get_cq_event_many_waiters_receive_all_events),
		cmocka_unit_test(ibv_get_cq_event_restarting_handler_continues),
		cmocka_unit_test(ibv_get_cq_event_interrupting_handler_fails_with_eintr),
		cmocka_unit_test(ibv_get_cq_event_cancelled_waiter_leaves_engine_usable),
		cmocka_unit_test(ibv_get_cq_event_nonblocking_channel_fails_with_eagain),
	};

	return cmocka_run_group_tests_name("cq_wait", tests, setup, teardown);
}
