/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * An engine with its thread, its descriptors and its notices. A transport only counts its calls;
 * the daemon's reply is replaced (meson.build).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/engine/engine.h"
#include "core/engine/engine_watch.h"
#include "core/engine/transport.h"

#define WORK	    1000u
#define PATIENCE_MS 40000

static unsigned int work_left; /* guarded by engine.lock */
static int notices_fd = -1;

int __wrap_ipc_call_fd(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		       int nfds, void *reply, uint32_t reply_len, int *passed);

/* The daemon creates the socket for its pushes. */
int __wrap_ipc_call_fd(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		       int nfds, void *reply, uint32_t reply_len, int *passed)
{
	int pair[2];

	(void)client;
	(void)req_len;
	(void)fds;
	(void)reply;
	(void)reply_len;
	assert_int_equal(((struct ipc_hdr *)req)->type, IPC_SEGMENT);
	assert_int_equal(nfds, 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	notices_fd = pair[0];
	*passed = pair[1];
	return 0;
}

static int open_transport(struct engine *engine, int *segment_fd)
{
	(void)engine;
	(void)segment_fd;
	return 0;
}

static void close_transport(struct engine *engine)
{
	(void)engine;
}

/*
 * Processes one unit of work at a time, as long as there is any. The remaining work has no
 * descriptor to wait for.
 */
static unsigned int run(struct engine *engine)
{
	(void)engine;
	if (!work_left)
		return 0;
	work_left--;
	return 1;
}

static bool sleep_transport(struct engine *engine, bool want_doorbell)
{
	(void)engine;
	return want_doorbell && work_left;
}

static const struct transport working_transport = {.name = "working",
						   .open = open_transport,
						   .close = close_transport,
						   .run = run,
						   .sleep = sleep_transport};

const struct transport *const transports[] = {&working_transport, NULL};

int transports_register_notices(struct engine *engine)
{
	(void)engine;
	return 0;
}

static unsigned int look(struct engine *engine)
{
	unsigned int left;

	engine_lock(engine);
	left = work_left;
	engine_unlock(engine);
	return left;
}

static struct engine engine;

static int setup(void **state)
{
	(void)state;
	biased_lock_init(&engine.lock);
	id_table_init(&engine.watches.table, WATCHES_MAX);
	timer_heap_init(&engine.timers);
	engine.watches.timer_armed_ns = TIMER_NEVER_NS;
	engine.notices.fd = -1;
	engine_init_lists(&engine);
	datagrams_init(&engine.datagrams);
	assert_int_equal(qp_table_init(&engine.tables.qps), 0);
	return engine_start(&engine);
}

static void wait_until_done(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (int ms = 0; look(&engine) && ms < PATIENCE_MS; ms++)
		nanosleep(&nap, NULL);
	assert_int_equal(look(&engine), 0);
}

static void engine_wake_thread_finishes_pending_work(void **state)
{
	(void)state;
	engine_lock(&engine);
	work_left = WORK;
	engine_unlock(&engine);
	engine_wake(&engine);
	wait_until_done();
}

/*
 * A caller that blocks is not delayed by a peer that sends continuously: the engine thread
 * continues the work.
 */
static void engine_will_block_leaves_pending_work_to_thread(void **state)
{
	(void)state;
	engine_lock(&engine);
	work_left = UINT_MAX;
	(void)progress_polls_long(&engine.progress);
	engine_will_block(&engine);
	assert_true(work_left > UINT_MAX / 2);
	work_left = WORK;
	engine_unlock(&engine);
	wait_until_done();
}

/* Returns the number of polls after which the application is considered spinning. */
static unsigned int poll_until_polled(void)
{
	unsigned int polls = 0;

	for (; !engine_is_polled(&engine); polls++)
		engine_poll(&engine, 1);
	return polls;
}

static void wait_until_not_polled(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (int ms = 0; engine_is_polled(&engine) && ms < PATIENCE_MS; ms++)
		nanosleep(&nap, NULL);
	assert_false(engine_is_polled(&engine));
}

/*
 * As an application that polls for the completion of an RDMA WRITE, and then waits in its memory.
 */
static void engine_poll_for_short_times_needs_more_polls(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		/* The number is a lower limit, because the thread may have had the lock. */
		assert_true(poll_until_polled() >= 256u << (i < 6 ? i : 6));
		wait_until_not_polled();
	}
	assert_int_equal(engine.polling.spin_shift, 6);
}

static void engine_poll_for_long_time_needs_fewer_polls(void **state)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_MS * UINT64_C(1000000);

	(void)state;
	while (engine.polling.spin_shift && clock_now_ns() < end_ns)
		engine_poll(&engine, 1);
	assert_int_equal(engine.polling.spin_shift, 0);
	wait_until_not_polled();
}

struct watched {
	int fds[2]; /* of a pipe that is readable */
	uint64_t handle;
	struct watched *other; /* whose watch the callback ends; NULL: none */
	unsigned int calls;
};

static void on_readable(struct engine *from, void *arg)
{
	struct watched *watched = arg;
	uint8_t byte;

	assert_ptr_equal(from, &engine);
	watched->calls++;
	assert_int_equal(read(watched->fds[0], &byte, 1), 1);
	if (watched->other)
		engine_unwatch(&engine, watched->other->handle);
}

static void watched_open(struct watched *watched)
{
	*watched = (struct watched){0};
	assert_int_equal(pipe(watched->fds), 0);
	assert_int_equal(write(watched->fds[1], "", 1), 1);
	assert_int_equal(engine_watch(&engine, watched->fds[0], WATCH_BY_ANY, on_readable, watched,
				      &watched->handle),
			 0);
	assert_int_not_equal(watched->handle, 0);
}

static void watched_close(struct watched *watched)
{
	engine_unwatch(&engine, watched->handle);
	close(watched->fds[0]);
	close(watched->fds[1]);
}

static unsigned int calls_of(const struct watched *watched)
{
	unsigned int calls;

	engine_lock(&engine);
	calls = watched->calls;
	engine_unlock(&engine);
	return calls;
}

static void engine_thread_calls_the_callback_of_a_readable_descriptor(void **state)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct watched watched;

	(void)state;
	engine_lock(&engine);
	watched_open(&watched);
	engine_unlock(&engine);
	for (int ms = 0; !calls_of(&watched) && ms < PATIENCE_MS; ms++)
		nanosleep(&nap, NULL);
	assert_int_equal(calls_of(&watched), 1);
	engine_lock(&engine);
	watched_close(&watched);
	engine_unlock(&engine);
}

/* Both events were received by the thread when the first callback ends the second watch. */
static void engine_watch_dispatch_ignores_an_ended_watch(void **state)
{
	struct watched first, second;

	(void)state;
	engine_lock(&engine);
	watched_open(&first);
	watched_open(&second);
	first.other = &second;
	engine_watch_dispatch(&engine, first.handle);
	engine_watch_dispatch(&engine, second.handle);
	assert_int_equal(first.calls, 1);
	assert_int_equal(second.calls, 0);
	watched_close(&first);
	watched_close(&second);
	engine_unlock(&engine);
}

static void engine_watch_rejects_a_closed_descriptor(void **state)
{
	uint64_t handle = 1;

	(void)state;
	engine_lock(&engine);
	assert_int_equal(engine_watch(&engine, INT_MAX, WATCH_BY_ANY, on_readable, NULL, &handle),
			 -EBADF);
	assert_int_equal(handle, 0);
	engine_unwatch(&engine, handle);
	engine_unlock(&engine);
}

static unsigned int gone_slot;

static void on_gone(struct engine *from, const struct ipc_hdr *notice, const int *fds, int nfds)
{
	const struct ipc_peer_gone *gone = (const void *)notice;

	(void)fds;
	assert_ptr_equal(from, &engine);
	assert_int_equal(nfds, 0);
	gone_slot = gone->slot;
}

/* Waits until *value, guarded by engine.lock, has changed from `old`. */
static void wait_for_change(const unsigned int *value, unsigned int old)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	bool has_changed = false;

	for (int ms = 0; !has_changed && ms < PATIENCE_MS; ms++) {
		nanosleep(&nap, NULL);
		engine_lock(&engine);
		has_changed = *value != old;
		engine_unlock(&engine);
	}
	assert_true(has_changed);
}

static void engine_notice_is_passed_to_handler_of_its_type(void **state)
{
	const struct ipc_peer_gone gone = {
		.hdr = {.type = IPC_PEER_GONE, .len = sizeof(gone)},
		.slot = 17,
	};

	(void)state;
	engine_lock(&engine);
	assert_int_equal(engine_on_notice(&engine, IPC_PEER_GONE, on_gone, NULL), 0);
	engine_unlock(&engine);
	assert_int_equal(ipc_send(notices_fd, &gone, sizeof(gone), NULL, 0), 0);
	wait_for_change(&gone_slot, 0);
	assert_int_equal(gone_slot, 17);
}

static void engine_on_notice_rejects_a_second_handler_and_a_request(void **state)
{
	(void)state;
	engine_lock(&engine);
	assert_int_equal(engine_on_notice(&engine, IPC_DEVICE_NOTICE, on_gone, NULL), -EEXIST);
	assert_int_equal(engine_on_notice(&engine, IPC_HELLO, on_gone, NULL), -EINVAL);
	assert_int_equal(engine_on_notice(&engine, IPC_TYPE_COUNT, on_gone, NULL), -EINVAL);
	engine_unlock(&engine);
}

/* The descriptor is closed after the notice was counted, both with engine.lock held. */
static void engine_notice_without_handler_is_counted_and_closed(void **state)
{
	const struct ipc_delegate lend = {.hdr = {.type = IPC_DELEGATE, .len = sizeof(lend)}};
	struct pollfd pollfd;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(ipc_send(notices_fd, &lend, sizeof(lend), &fds[1], 1), 0);
	close(fds[1]);
	pollfd = (struct pollfd){.fd = fds[0], .events = POLLIN};
	assert_int_equal(poll(&pollfd, 1, PATIENCE_MS), 1);
	assert_true(pollfd.revents & POLLHUP);
	engine_lock(&engine);
	assert_int_equal(*engine.notices.dropped, 1);
	engine_unlock(&engine);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engine_wake_thread_finishes_pending_work),
		cmocka_unit_test(engine_will_block_leaves_pending_work_to_thread),
		cmocka_unit_test(engine_poll_for_short_times_needs_more_polls),
		cmocka_unit_test(engine_poll_for_long_time_needs_fewer_polls),
		cmocka_unit_test(engine_thread_calls_the_callback_of_a_readable_descriptor),
		cmocka_unit_test(engine_watch_dispatch_ignores_an_ended_watch),
		cmocka_unit_test(engine_watch_rejects_a_closed_descriptor),
		cmocka_unit_test(engine_notice_is_passed_to_handler_of_its_type),
		cmocka_unit_test(engine_on_notice_rejects_a_second_handler_and_a_request),
		cmocka_unit_test(engine_notice_without_handler_is_counted_and_closed),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
