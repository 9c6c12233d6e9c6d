/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Queries of the devices by several threads at the same time. The daemon is replaced by two
 * interfaces, eth0 and lo (engine_get and ipc_call are replaced, meson.build).
 */

#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/device/device.h"

static struct fake fake;
static bool is_eth_gone;
/*
 * Called with each cursor after the daemon has replied, before the library has the reply; NULL: no
 * call.
 */
static void (*while_asking)(uint32_t cursor);

struct engine *__wrap_engine_get(void);
int __wrap_engine_start(struct engine *engine);
int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);

struct engine *__wrap_engine_get(void)
{
	return &fake.engine;
}

int __wrap_engine_start(struct engine *engine)
{
	(void)engine;
	return 0;
}

static int daemon_reply(uint32_t cursor, struct ipc_device_reply *info)
{
	if (is_eth_gone && !cursor)
		cursor = 1;
	if (cursor >= 2)
		return -ENOENT;
	*info = (struct ipc_device_reply){
		.next_cursor = cursor + 1,
		.dev_id = 2 - cursor,
		.node_guid = 0x021122fffe334402 - cursor,
		.flags = IPC_DEVICE_UP,
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
	};
	snprintf(info->name, sizeof(info->name), "%s", cursor ? "lo" : "eth0");
	return 0;
}

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	const struct ipc_device_get *get = req;
	int ret = daemon_reply(get->cursor, reply);

	(void)client;
	(void)req_len;
	(void)fds;
	(void)nfds;
	(void)reply_len;
	if (while_asking)
		while_asking(get->cursor);
	return ret;
}

static int setup(void **state)
{
	(void)state;
	is_eth_gone = false;
	while_asking = NULL;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_device *device_at(int index)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *device;

	assert_non_null(list);
	assert_int_equal(count, 2);
	device = list[index];
	ibv_free_device_list(list);
	return device;
}

/* The cursor of a query that has received all replies. */
#define LAST_CURSOR 2

static pthread_barrier_t steps;
static _Thread_local bool is_newer;

static void *query_newer(void *arg)
{
	is_newer = true;
	ibv_free_device_list(ibv_get_device_list(NULL));
	return arg;
}

/* The newer query has stored all replies, and ends when the older one has ended. */
static void interleave(uint32_t cursor)
{
	static pthread_t newer;

	if (is_newer && cursor == LAST_CURSOR) {
		pthread_barrier_wait(&steps);
		pthread_barrier_wait(&steps);
	} else if (!is_newer && !cursor) {
		assert_int_equal(pthread_create(&newer, NULL, query_newer, NULL), 0);
		pthread_barrier_wait(&steps);
	} else if (!is_newer && cursor == LAST_CURSOR) {
		pthread_barrier_wait(&steps);
		pthread_join(newer, NULL);
	}
}

static void ibv_open_device_after_interleaved_queries_opens_present_device(void **state)
{
	struct ibv_device *known[] = {device_at(0), device_at(1)};

	(void)state;
	pthread_barrier_init(&steps, NULL, 2);
	while_asking = interleave;
	ibv_free_device_list(ibv_get_device_list(NULL));
	while_asking = NULL;
	pthread_barrier_destroy(&steps);
	/* ibv_open_device() does not ask the daemon. */
	for (size_t i = 0; i < 2; i++) {
		struct ibv_context *ctx = ibv_open_device(known[i]);

		assert_non_null(ctx);
		assert_int_equal(ibv_close_device(ctx), 0);
	}
}

/* The daemon has replied to the older query before the interface ended. */
static void remove_eth(uint32_t cursor)
{
	if (cursor)
		return;
	while_asking = NULL;
	is_eth_gone = true;
	ibv_free_device_list(ibv_get_device_list(NULL));
}

static void ibv_open_device_after_older_reply_rejects_removed_device(void **state)
{
	struct ibv_device *eth = device_at(0);

	(void)state;
	while_asking = remove_eth;
	ibv_free_device_list(ibv_get_device_list(NULL));
	errno = 0;
	assert_null(ibv_open_device(eth));
	assert_int_equal(errno, ENODEV);
}

#define QUERY_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUERY_TEST(ibv_open_device_after_interleaved_queries_opens_present_device),
		QUERY_TEST(ibv_open_device_after_older_reply_rejects_removed_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
