/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Multicast groups that a daemon of another user joins for this process. While the daemon is
 * stopped, only ibv_attach_mcast() waits for it. The daemon's memberships are those of the
 * process's queue pairs.
 */

#include "fixture.h"
#include "host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define ROUNDS 500
/* The send buffer of the connection to the daemon has room for about half as many requests. */
#define MANY 500
/*
 * The reply to a request to join this group proves that the daemon has processed all earlier
 * requests.
 */
#define FENCE 0xff00u

static struct api api;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_continue_daemon();
	api_close(&api);
	return 0;
}

/* 239.77.x.y. */
static union ibv_gid group_of(uint32_t number)
{
	return (union ibv_gid){
		.raw = {[10] = 0xff, 0xff, 239, 77, (uint8_t)(number >> 8), (uint8_t)number}};
}

static int attach(struct ibv_qp *qp, uint32_t number)
{
	union ibv_gid gid = group_of(number);

	return ibv_attach_mcast(qp, &gid, 0);
}

static int detach(struct ibv_qp *qp, uint32_t number)
{
	union ibv_gid gid = group_of(number);

	return ibv_detach_mcast(qp, &gid, 0);
}

/*
 * The number of groups of 239.77.0.0/16 from `first` to `last` that a socket of this namespace has
 * joined.
 */
static unsigned int joined_count(uint32_t first, uint32_t last)
{
	FILE *file = fopen("/proc/net/igmp", "re");
	unsigned int count = 0;
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		union {
			uint32_t word; /* in the byte order of the network */
			uint8_t bytes[4];
		} address;
		uint32_t number;

		if (sscanf(line, " %8x %*u %*x:%*x", &address.word) != 1 || line[0] != '\t')
			continue;
		number = (uint32_t)address.bytes[2] << 8 | address.bytes[3];
		count += address.bytes[0] == 239 && address.bytes[1] == 77 && number >= first &&
			 number <= last;
	}
	fclose(file);
	return count;
}

/* Waits until the daemon has processed all requests. */
static void daemon_is_idle(struct ibv_qp *qp)
{
	assert_int_equal(attach(qp, FENCE), 0);
	assert_int_equal(detach(qp, FENCE), 0);
}

static void qps_open(struct pair *pair)
{
	const struct pair_options options = {.type = IBV_QPT_UD, .stays_unconnected = true};

	pair_open(pair, &api, &options);
}

static void ping_pongs(struct pair *pair)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		struct ibv_sge from = sge_of(&pair->a, 0, 64), to = sge_of(&pair->b, 0, 64);
		struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &from, NULL, 0, i);

		post_recv_ok(&pair->b, &to, 1, i);
		post_send_ok(&pair->a, &wr);
		wc_expect(pair->b.cq, i, IBV_WC_SUCCESS);
		wc_expect(pair->a.cq, i, IBV_WC_SUCCESS);
		sched_yield();
	}
}

/* ibv_attach_mcast() in a thread of its own. */
struct attacher {
	struct ibv_qp *qp;
	uint32_t number;
	pthread_t thread;
	atomic_bool has_begun;
	atomic_bool has_ended;
	int ret;
};

static void *run_attach(void *arg)
{
	struct attacher *attacher = arg;

	attacher->has_begun = true;
	attacher->ret = attach(attacher->qp, attacher->number);
	attacher->has_ended = true;
	return NULL;
}

static void attacher_start(struct attacher *attacher, struct ibv_qp *qp, uint32_t number)
{
	*attacher = (struct attacher){.qp = qp, .number = number};
	assert_int_equal(pthread_create(&attacher->thread, NULL, run_attach, attacher), 0);
	while (!attacher->has_begun)
		sched_yield();
}

static void attacher_end(struct attacher *attacher)
{
	assert_int_equal(pthread_join(attacher->thread, NULL), 0);
	assert_int_equal(attacher->ret, 0);
}

static void
ibv_attach_mcast_stopped_daemon_attach_waits_for_stopped_daemon_without_engine_lock(void **state)
{
	struct attacher first, second;
	struct pair busy, qps, idle;

	(void)state;
	pair_open(&busy, &api, NULL);
	qps_open(&qps);
	host_stop_daemon();
	attacher_start(&first, qps.a.qp, 1);
	attacher_start(&second, qps.b.qp, 1);
	ping_pongs(&busy);
	qps_open(&idle);
	pair_close(&idle);
	assert_false(first.has_ended);
	assert_false(second.has_ended);
	assert_int_equal(detach(qps.a.qp, 1), EINVAL);
	host_continue_daemon();
	attacher_end(&first);
	attacher_end(&second);
	assert_int_equal(joined_count(1, 1), 1);
	assert_int_equal(detach(qps.a.qp, 1), 0);
	daemon_is_idle(qps.a.qp);
	assert_int_equal(joined_count(1, 1), 1);
	assert_int_equal(detach(qps.b.qp, 1), 0);
	daemon_is_idle(qps.a.qp);
	assert_int_equal(joined_count(1, 1), 0);
	pair_close(&qps);
	pair_close(&busy);
}

static void detach_does_not_wait_for_a_stopped_daemon(void **state)
{
	struct pair qps;

	(void)state;
	qps_open(&qps);
	assert_int_equal(attach(qps.a.qp, 2), 0);
	assert_int_equal(joined_count(2, 2), 1);
	host_stop_daemon();
	assert_int_equal(detach(qps.a.qp, 2), 0);
	assert_int_equal(joined_count(2, 2), 1);
	host_continue_daemon();
	daemon_is_idle(qps.a.qp);
	assert_int_equal(joined_count(2, 2), 0);
	pair_close(&qps);
}

static void attach_many(struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(attach(qp, 0x100 + i), 0);
	assert_int_equal(joined_count(0x100, 0x100 + MANY - 1), MANY);
}

static void detach_many(struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(detach(qp, 0x100 + i), 0);
}

/*
 * The requests that do not fit into the send buffer are sent later, also if this process sends no
 * other request.
 */
static void ibv_attach_mcast_stopped_daemon_groups_are_left_after_send_buffer_was_full(void **state)
{
	struct pair qps;

	(void)state;
	qps_open(&qps);
	attach_many(qps.a.qp);
	host_stop_daemon();
	detach_many(qps.a.qp);
	pair_close(&qps);
	host_continue_daemon();
	while (joined_count(0x100, 0x100 + MANY - 1))
		sched_yield();
}

/*
 * A thread that waits for the daemon uses the connection. The queued requests are sent before the
 * next join.
 */
static void ibv_attach_mcast_stopped_daemon_groups_are_left_while_thread_attaches(void **state)
{
	struct attacher attacher;
	struct pair qps;

	(void)state;
	qps_open(&qps);
	attach_many(qps.a.qp);
	host_stop_daemon();
	attacher_start(&attacher, qps.b.qp, 3);
	detach_many(qps.a.qp);
	host_continue_daemon();
	attacher_end(&attacher);
	/* The limit of memberships of a user includes those that were not left yet. */
	attach_many(qps.a.qp);
	detach_many(qps.a.qp);
	daemon_is_idle(qps.a.qp);
	assert_int_equal(joined_count(0x100, 0x100 + MANY - 1), 0);
	assert_int_equal(joined_count(3, 3), 1);
	assert_int_equal(detach(qps.b.qp, 3), 0);
	pair_close(&qps);
}

/* The group is joined whenever the thread's QP is attached. */
static void *attach_and_detach(void *arg)
{
	struct ibv_qp *qp = arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (attach(qp, 4) || joined_count(4, 4) != 1 || detach(qp, 4))
			return qp;
	}
	return NULL;
}

static void
ibv_attach_mcast_stopped_daemon_threads_that_attach_and_detach_leave_daemon_consistent(void **state)
{
	struct pair qps, more;
	struct ibv_qp *all[4];
	pthread_t threads[4];
	void *failed;

	(void)state;
	qps_open(&qps);
	qps_open(&more);
	all[0] = qps.a.qp;
	all[1] = qps.b.qp;
	all[2] = more.a.qp;
	all[3] = more.b.qp;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, attach_and_detach, all[i]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	daemon_is_idle(all[0]);
	assert_int_equal(joined_count(4, 4), 0);
	assert_int_equal(attach(all[0], 4), 0);
	assert_int_equal(joined_count(4, 4), 1);
	assert_int_equal(detach(all[0], 4), 0);
	pair_close(&more);
	pair_close(&qps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			ibv_attach_mcast_stopped_daemon_attach_waits_for_stopped_daemon_without_engine_lock),
		cmocka_unit_test(detach_does_not_wait_for_a_stopped_daemon),
		cmocka_unit_test(
			ibv_attach_mcast_stopped_daemon_groups_are_left_after_send_buffer_was_full),
		cmocka_unit_test(
			ibv_attach_mcast_stopped_daemon_groups_are_left_while_thread_attaches),
		cmocka_unit_test(
			ibv_attach_mcast_stopped_daemon_threads_that_attach_and_detach_leave_daemon_consistent),
	};

	return cmocka_run_group_tests_name("mcast_stopped", tests, setup, teardown);
}
