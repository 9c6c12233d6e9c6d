/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The connect-peer request, and the report to the daemon of a PEER push that the process cannot
 * accept for lack of memory or descriptors: both without waiting for the daemon.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "local/local.h"
#include "local/peer_connect.h"
#include "pair.h"

#define PEER_SLOT 9
#define PAIR_ID	  77

static struct pair pair;
static struct node *node = &pair.nodes[0];
static int daemon_end;

static int open_connection(void **state)
{
	int ends[2];

	(void)state;
	pair_open(&pair, false);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	node->engine.client.fd = ends[0];
	daemon_end = ends[1];
	return 0;
}

static int close_connection(void **state)
{
	(void)state;
	close(node->engine.client.fd);
	if (daemon_end >= 0)
		close(daemon_end);
	pair_close(&pair);
	return 0;
}

static void push_peer(const int *fds, int nfds)
{
	const struct ipc_peer notice = {
		.hdr = {.type = IPC_PEER, .len = sizeof(notice)},
		.slot = PEER_SLOT,
		.pair_id = PAIR_ID,
		.pair_bytes = IPC_PAIR_BYTES,
	};

	engine_lock(&node->engine);
	engine_dispatch_notice(&node->engine, &notice.hdr, fds, nfds);
	assert_null(local_of(&node->engine)->by_slot[PEER_SLOT]);
	engine_unlock(&node->engine);
}

static void daemon_is_told(void)
{
	struct ipc_peer_gone msg;

	assert_int_equal(recv(daemon_end, &msg, sizeof(msg), MSG_DONTWAIT), sizeof(msg));
	assert_int_equal(ipc_request_check(&msg, sizeof(msg), 0), 0);
	assert_int_equal(msg.hdr.type, IPC_PEER_NOT_TAKEN);
	assert_int_equal(msg.hdr.flags, IPC_UNANSWERED);
	assert_int_equal(msg.slot, PEER_SLOT);
	assert_int_equal(msg.pair_id, PAIR_ID);
}

static void daemon_is_not_told(void)
{
	struct ipc_hdr hdr;

	assert_int_equal(recv(daemon_end, &hdr, sizeof(hdr), MSG_DONTWAIT), -1);
}

static void peer_connect_without_descriptors_ends_pair(void **state)
{
	(void)state;
	push_peer(NULL, FDPASS_LOST);
	daemon_is_told();
	daemon_is_not_told();
}

/* /dev/null cannot be mapped, as no memory can with RLIMIT_AS. */
static void peer_connect_failed_mapping_ends_pair(void **state)
{
	int fds[2] = {open("/dev/null", O_RDWR | O_CLOEXEC), open("/dev/null", O_RDWR | O_CLOEXEC)};

	(void)state;
	push_peer(fds, 2);
	daemon_is_told();
	for (int i = 0; i < 2; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

static void turn_until_the_daemon_hears(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char byte;

	while (recv(daemon_end, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0) {
		nanosleep(&pause, NULL);
		node_turn(node);
	}
}

/*
 * Another thread waits for a reply of the daemon, and the engine thread does not wait for that
 * thread.
 */
static void peer_connect_busy_daemon_connection_delays_message(void **state)
{
	(void)state;
	pthread_mutex_lock(&node->engine.client.lock);
	push_peer(NULL, FDPASS_LOST);
	daemon_is_not_told();
	pthread_mutex_unlock(&node->engine.client.lock);
	turn_until_the_daemon_hears();
	daemon_is_told();
	daemon_is_not_told();
}

/* The connect-peer request, which the daemon answers only when the test does. */
static void daemon_is_asked(void)
{
	struct ipc_connect_peer msg;

	assert_int_equal(recv(daemon_end, &msg, sizeof(msg), MSG_DONTWAIT), sizeof(msg));
	assert_int_equal(ipc_request_check(&msg, sizeof(msg), 0), 0);
	assert_int_equal(msg.hdr.type, IPC_CONNECT_PEER);
	assert_int_equal(msg.hdr.flags, IPC_UNANSWERED);
	assert_int_equal(msg.slot, PEER_SLOT);
}

static void push_failure(void)
{
	const struct ipc_connect_peer notice = {
		.hdr = {.type = IPC_CONNECT_PEER_FAILED, .len = sizeof(notice)},
		.slot = PEER_SLOT,
		.error = -ENOENT,
	};

	engine_lock(&node->engine);
	engine_dispatch_notice(&node->engine, &notice.hdr, NULL, 0);
	engine_unlock(&node->engine);
}

static int send_attach(void)
{
	const struct xrc_forward_msg msg = {.type = XRC_FORWARD_ATTACH};
	int ret;

	engine_lock(&node->engine);
	ret = xrc_forward_send(&node->engine, PEER_SLOT, &msg);
	engine_unlock(&node->engine);
	return ret;
}

static struct peer_connect *peer_connect(void)
{
	return &local_of(&node->engine)->peer_connects[PEER_SLOT];
}

static void peer_connect_for_xrc_message_is_requested_once(void **state)
{
	(void)state;
	assert_int_equal(send_attach(), -EAGAIN);
	daemon_is_asked();
	assert_int_equal(send_attach(), -EAGAIN);
	node_turn(node);
	daemon_is_not_told();
	push_failure();
	assert_int_equal(peer_connect()->began_ns, 0);
	/* The result is stored for some time; then the daemon is asked again. */
	peer_connect()->unresolved_until_ns = UINT64_MAX;
	assert_int_equal(send_attach(), -ENOENT);
	daemon_is_not_told();
	peer_connect()->unresolved_until_ns = 0;
	assert_int_equal(send_attach(), -EAGAIN);
	daemon_is_asked();
}

/* A second request would be answered with the first pair, which this process has not mapped. */
static void peer_connect_unmapped_pair_ends_it(void **state)
{
	(void)state;
	assert_int_equal(send_attach(), -EAGAIN);
	daemon_is_asked();
	pthread_mutex_lock(&node->engine.client.lock);
	push_peer(NULL, FDPASS_LOST);
	assert_int_equal(peer_connect()->began_ns, 0);
	peer_connect()->unresolved_until_ns = 0;
	assert_int_equal(send_attach(), -EAGAIN);
	pthread_mutex_unlock(&node->engine.client.lock);
	turn_until_the_daemon_hears();
	daemon_is_told();
	turn_until_the_daemon_hears();
	daemon_is_asked();
}

static void peer_connect_busy_daemon_connection_delays_request(void **state)
{
	(void)state;
	pthread_mutex_lock(&node->engine.client.lock);
	assert_int_equal(send_attach(), -EAGAIN);
	daemon_is_not_told();
	pthread_mutex_unlock(&node->engine.client.lock);
	turn_until_the_daemon_hears();
	daemon_is_asked();
}

static void peer_connect_dead_daemon_fails(void **state)
{
	(void)state;
	close(daemon_end);
	daemon_end = -1;
	assert_int_equal(send_attach(), -ENOENT);
	assert_int_equal(peer_connect()->began_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(peer_connect_without_descriptors_ends_pair,
						open_connection, close_connection),
		cmocka_unit_test_setup_teardown(peer_connect_failed_mapping_ends_pair,
						open_connection, close_connection),
		cmocka_unit_test_setup_teardown(peer_connect_busy_daemon_connection_delays_message,
						open_connection, close_connection),
		cmocka_unit_test_setup_teardown(peer_connect_for_xrc_message_is_requested_once,
						open_connection, close_connection),
		cmocka_unit_test_setup_teardown(peer_connect_unmapped_pair_ends_it, open_connection,
						close_connection),
		cmocka_unit_test_setup_teardown(peer_connect_busy_daemon_connection_delays_request,
						open_connection, close_connection),
		cmocka_unit_test_setup_teardown(peer_connect_dead_daemon_fails, open_connection,
						close_connection),
	};

	return cmocka_run_group_tests_name("local-peer_connect", tests, NULL, NULL);
}
