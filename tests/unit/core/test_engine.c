/* SPDX-License-Identifier: BSD-2-Clause */

/* The engine's thread, over a transport that only counts; the daemon's answer is replaced (meson.build). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/engine.h"
#include "core/transport.h"

#define WORK	    1000u
#define PATIENCE_MS 40000

static unsigned int work_left; /* engine.lock */
static int notices_fd = -1;

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);

/* The daemon takes the socket on which it would push. */
int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	(void)client;
	(void)req_len;
	(void)reply;
	(void)reply_len;
	assert_int_equal(((struct ipc_hdr *)req)->type, IPC_SEGMENT);
	assert_int_equal(nfds, 2);
	notices_fd = dup(fds[1]);
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

/* A unit at a time, as long as there is something. Whatever is left has no descriptor that anybody could wait for. */
static unsigned int run(struct engine *engine, uint64_t now_ns)
{
	(void)engine;
	(void)now_ns;
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

int transports_take_socket(struct engine *engine, int fd)
{
	(void)engine;
	(void)fd;
	return -EOPNOTSUPP;
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
	engine_lock_init(&engine);
	timer_heap_init(&engine.timers);
	engine.timer_armed_ns = TIMER_NEVER_NS;
	engine.lent_fd = engine.notice_fd = -1;
	list_init(&engine.contexts);
	list_init(&engine.cqs);
	datagrams_init(&engine.datagrams);
	engine.qps = calloc(IPC_SLOT_QPNS, sizeof(*engine.qps));
	assert_non_null(engine.qps);
	return engine_start(&engine);
}

static void wait_until_done(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	for (int ms = 0; look(&engine) && ms < PATIENCE_MS; ms++)
		nanosleep(&nap, NULL);
	assert_int_equal(look(&engine), 0);
}

static void the_thread_leaves_no_work_behind(void **state)
{
	(void)state;
	engine_lock(&engine);
	work_left = WORK;
	engine_unlock(&engine);
	engine_wake(&engine);
	wait_until_done();
}

/* Who wants to sleep is not kept by a peer that never stops sending: the thread goes on with that. */
static void who_will_block_is_let_go(void **state)
{
	(void)state;
	engine_lock(&engine);
	work_left = UINT_MAX;
	engine.is_polled = true;
	engine_will_block(&engine);
	assert_true(work_left > UINT_MAX / 2);
	work_left = WORK;
	engine_unlock(&engine);
	wait_until_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_thread_leaves_no_work_behind),
		cmocka_unit_test(who_will_block_is_let_go),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
