/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Asynchronous events: those of ports and devices after real changes of links, addresses and the
 * daemon, those of queue pairs that no other test covers, and the wait of destroying calls.
 * docs/events.md lists the cause of each event.
 */

#include "fixture.h"
#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 40000
#define PAGE_BYTES  4096

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
	api_close(&api);
	return 0;
}

/* Reads events of the port up to this one: one change of an interface may raise several events. */
static void get_port_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event event;

	do {
		if (!readable_within(ctx->async_fd, PATIENCE_MS))
			fail_msg("no \"%s\"", ibv_event_type_str(type));
		assert_int_equal(ibv_get_async_event(ctx, &event), 0);
		assert_true(event.event_type == type || event.event_type == IBV_EVENT_GID_CHANGE ||
			    event.event_type == IBV_EVENT_PORT_ERR ||
			    event.event_type == IBV_EVENT_PORT_ACTIVE);
		assert_int_equal(event.element.port_num, 1);
		ibv_ack_async_event(&event);
	} while (event.event_type != type);
}

static enum ibv_port_state port_state(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(ctx, 1, &attr), 0);
	return attr.state;
}

static bool has_gid(struct ibv_context *ctx, const char *ip4)
{
	union ibv_gid gid, wanted = {.raw = {[10] = 0xff, [11] = 0xff}};

	assert_int_equal(inet_pton(AF_INET, ip4, wanted.raw + 12), 1);
	for (int i = 0; i < 16; i++) {
		if (!ibv_query_gid(ctx, 1, i, &gid) && !memcmp(&gid, &wanted, sizeof(gid)))
			return true;
	}
	return false;
}

static void ibv_get_async_event_link_change_reports_port_events(void **state)
{
	struct ibv_context *ctx;

	(void)state;
	host_needed();
	ctx = host_open("own0");
	/* First the carrier is lost, then the interface goes down. */
	host_ip("link set far0 down");
	get_port_event(ctx, IBV_EVENT_PORT_ERR);
	assert_int_equal(port_state(ctx), IBV_PORT_DOWN);
	host_ip("link set far0 up");
	get_port_event(ctx, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(port_state(ctx), IBV_PORT_ACTIVE);
	host_ip("link set own0 down");
	get_port_event(ctx, IBV_EVENT_PORT_ERR);
	assert_int_equal(port_state(ctx), IBV_PORT_DOWN);
	host_ip("link set own0 up");
	get_port_event(ctx, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(port_state(ctx), IBV_PORT_ACTIVE);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_get_async_event_address_change_reports_gid_change(void **state)
{
	struct ibv_context *ctx;

	(void)state;
	host_needed();
	ctx = host_open("own0");
	assert_false(has_gid(ctx, "10.77.0.99"));
	host_ip("addr add 10.77.0.99/24 dev own0");
	do
		get_port_event(ctx, IBV_EVENT_GID_CHANGE);
	while (!has_gid(ctx, "10.77.0.99"));
	host_ip("addr del 10.77.0.99/24 dev own0");
	do
		get_port_event(ctx, IBV_EVENT_GID_CHANGE);
	while (has_gid(ctx, "10.77.0.99"));
	assert_int_equal(ibv_close_device(ctx), 0);
}

/*
 * The interface is deleted: the device is gone, its objects can be destroyed, other devices work.
 */
static void ibv_get_async_event_removed_interface_reports_device_fatal(void **state)
{
	struct ibv_async_event event;
	struct ibv_context *ctx;
	struct ibv_pd *pd;

	(void)state;
	host_needed();
	host_ip("link add brief0 type veth peer name brief1");
	host_ip("link set brief1 up");
	host_ip("link set brief0 up");
	host_ip("addr add 10.79.0.1/24 dev brief0");
	ctx = host_open("brief0");
	pd = ibv_alloc_pd(ctx);
	assert_non_null(pd);
	host_ip("link del brief0");
	do {
		assert_true(readable_within(ctx->async_fd, PATIENCE_MS));
		assert_int_equal(ibv_get_async_event(ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
	/* Other devices got no event. */
	ctx = host_open("own0");
	assert_int_equal(port_state(ctx), IBV_PORT_ACTIVE);
	assert_int_equal(ibv_close_device(ctx), 0);
}

/*
 * The buffer of a receive or the target of a WRITE was unmapped: the peer's request was valid, but
 * the queue pair fails.
 */
static void ibv_get_async_event_unmapped_memory_reports_qp_fatal(void **state)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	notice_signal_handlers(&api);
	pair_open(&pair, &api, NULL);
	mr = ibv_reg_mr(api.pd, page, PAGE_BYTES, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(munmap(page, PAGE_BYTES), 0);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	wr.wr.rdma.remote_addr = (uintptr_t)page;
	wr.wr.rdma.rkey = mr->rkey;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_REM_OP_ERR);
	assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_QP_FATAL), pair.b.qp);
	assert_int_equal(qp_state(pair.b.qp), IBV_QPS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	async_none(api.ctx);
}

/*
 * The application does not poll, so that the engine thread executes the message. The memory is
 * registered, as in UCX, which frees the buffers of receives before it destroys the queue pair.
 */
static void ibv_post_recv_unmapped_memory_fails_without_a_poll(void **state)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct pair pair;
	struct ibv_sge sge, unmapped;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	notice_signal_handlers(&api);
	pair_open(&pair, &api, NULL);
	mr = ibv_reg_mr(api.pd, page, PAGE_BYTES, ALL_ACCESS);
	assert_non_null(mr);
	unmapped = (struct ibv_sge){(uintptr_t)page, PAGE_BYTES, mr->lkey};
	sge = sge_of(&pair.a, 0, 8);
	/* The first message stores the memory region in the cache of the receive queue. */
	for (uint64_t wr_id = 1; wr_id <= 2; wr_id++)
		post_recv_ok(&pair.b, &unmapped, 1, wr_id);
	wr = send_wr(IBV_WR_SEND, &sge, &pair.b, 0, 3);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(munmap(page, PAGE_BYTES), 0);
	post_send_ok(&pair.a, &wr);
	for (int ms = 0; qp_state(pair.b.qp) != IBV_QPS_ERR && ms < PATIENCE_MS; ms++)
		nanosleep(&nap, NULL);
	assert_int_equal(qp_state(pair.b.qp), IBV_QPS_ERR);
	wc_expect(pair.b.cq, 2, IBV_WC_LOC_PROT_ERR);
	wc_expect(pair.a.cq, 3, IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

/*
 * An event that the test has read and not acknowledged yet, and the thread of the destroying call
 * that waits for it.
 */
struct destroyer {
	int (*destroy)(void *object);
	void *object;
	atomic_int tid;
	atomic_bool has_returned;
	int ret;
};

static int destroy_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static int destroy_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static int destroy_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *destroyer_main(void *arg)
{
	struct destroyer *destroyer = arg;

	atomic_store(&destroyer->tid, (int)syscall(SYS_gettid));
	destroyer->ret = destroyer->destroy(destroyer->object);
	atomic_store(&destroyer->has_returned, true);
	return NULL;
}

/* Whether the thread is blocked in the kernel. */
static bool is_asleep(int tid)
{
	char path[64], line[512] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	state = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	return state && state[2] == 'S';
}

static void destroy_waits_for(struct ibv_async_event *event, int (*destroy)(void *), void *object)
{
	struct destroyer destroyer = {.destroy = destroy, .object = object};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, destroyer_main, &destroyer), 0);
	while (!atomic_load(&destroyer.has_returned) &&
	       (!atomic_load(&destroyer.tid) || !is_asleep(atomic_load(&destroyer.tid))))
		sched_yield();
	assert_false(atomic_load(&destroyer.has_returned));
	ibv_ack_async_event(event);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(destroyer.ret, 0);
}

static struct ibv_async_event fetch(enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_true(readable_within(api.ctx->async_fd, PATIENCE_MS));
	assert_int_equal(ibv_get_async_event(api.ctx, &event), 0);
	assert_int_equal(event.event_type, type);
	return event;
}

/*
 * An SRQ below its limit, and a queue pair of this SRQ in ERR: SRQ_LIMIT_REACHED and
 * QP_LAST_WQE_REACHED.
 */
static void raise_srq_and_qp_events(struct pair *pair, struct ibv_srq *srq)
{
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct ibv_sge to = sge_of(&pair->b, 0, 64);
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_sge sge = sge_of(&pair->a, 0, 8);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 2);

	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, 2, IBV_WC_SUCCESS);
	wc_expect(pair->b.cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp_to_err(pair->b.qp), 0);
}

static void ibv_destroy_qp_unacknowledged_event_waits(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(api.pd, &init);
	struct ibv_async_event event, other;
	struct pair pair;

	(void)state;
	assert_non_null(srq);
	pair_open(&pair, &api, &(struct pair_options){.srq = srq});
	raise_srq_and_qp_events(&pair, srq);
	event = fetch(IBV_EVENT_SRQ_LIMIT_REACHED);
	other = fetch(IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.srq, srq);
	assert_ptr_equal(other.element.qp, pair.b.qp);
	destroy_waits_for(&other, destroy_qp, pair.b.qp);
	destroy_waits_for(&event, destroy_srq, srq);
	assert_int_equal(ibv_destroy_qp(pair.a.qp), 0);
	assert_int_equal(ibv_destroy_cq(pair.a.cq), 0);
	assert_int_equal(ibv_destroy_cq(pair.b.cq), 0);
	assert_int_equal(ibv_dereg_mr(pair.a.mr), 0);
	assert_int_equal(ibv_dereg_mr(pair.b.mr), 0);
	free(pair.a.buf);
	free(pair.b.buf);
	async_none(api.ctx);
}

/* Unread events are removed with their object, and the destroying call does not wait. */
static void ibv_destroy_srq_removes_unread_events(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(api.pd, &init);
	struct pair pair;

	(void)state;
	assert_non_null(srq);
	pair_open(&pair, &api, &(struct pair_options){.srq = srq});
	raise_srq_and_qp_events(&pair, srq);
	assert_true(readable_within(api.ctx->async_fd, 0));
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	async_none(api.ctx);
}

/*
 * A CQ with room for one completion gets two: CQ_ERR, for whose acknowledgement ibv_destroy_cq()
 * waits.
 */
static void ibv_destroy_cq_unacknowledged_cq_err_waits(void **state)
{
	struct ibv_async_event event;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
					.cap = {.max_recv_wr = 64, .max_recv_sge = 1}};
	struct ibv_cq *cq = ibv_create_cq(api.ctx, 1, NULL, NULL, 0);
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(cq);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ibv_create_qp(api.pd, &init);
	assert_non_null(qp);
	ud_to_rts(qp, UD_QKEY);
	for (int i = 0; i < 64; i++)
		assert_int_equal(ibv_post_recv(qp, &recv, &bad), 0);
	assert_int_equal(qp_to_err(qp), 0);
	event = fetch(IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	destroy_waits_for(&event, destroy_cq, cq);
	async_none(api.ctx);
}

/*
 * When the daemon is killed all devices are lost: each context gets an event, no call hangs, and a
 * new device list uses a new daemon.
 */
static void ibv_get_async_event_dead_daemon_reports_device_fatal(void **state)
{
	struct ibv_context *second = host_open(ibv_get_device_name(api.ctx->device));
	struct ibv_pd *pd = ibv_alloc_pd(second);
	struct ibv_port_attr port;
	struct pair pair;

	(void)state;
	assert_non_null(pd);
	pair_open(&pair, &api, NULL);
	assert_int_equal(kill(host_daemon_pid(), SIGKILL), 0);
	async_expect(api.ctx, IBV_EVENT_DEVICE_FATAL);
	async_expect(second, IBV_EVENT_DEVICE_FATAL);
	async_none(api.ctx);
	async_none(second);
	assert_null_errno(ibv_alloc_pd(api.ctx), EIO);
	assert_null_errno(ibv_reg_mr(api.pd, pair.a.buf, 8, 0), EIO);
	assert_int_equal(ibv_query_port(second, 1, &port), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(second), 0);
	api_close(&api);
	api_open(&api);
	pair_open(&pair, &api, NULL);
	pair_close(&pair);
	async_none(api.ctx);
}

/*
 * A child has copies of the objects that lost their daemon, too: it can destroy them, and no call
 * waits.
 */
static int child_destroys(struct pair *pair, struct ibv_srq *srq)
{
	struct ibv_async_event event;

	alarm(PATIENCE_MS / 1000);
	if (!ibv_get_async_event(api.ctx, &event) || errno != EIO)
		return 1;
	if (ibv_destroy_qp(pair->b.qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(pair->b.cq))
		return 2;
	return 0;
}

static void ibv_get_async_event_in_forked_child_after_daemon_death_fails(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(api.pd, &init);
	struct ibv_async_event limit, last;
	struct ibv_context *anew;
	struct pair pair;
	int status;
	pid_t child;

	(void)state;
	assert_non_null(srq);
	pair_open(&pair, &api, &(struct pair_options){.srq = srq});
	raise_srq_and_qp_events(&pair, srq);
	limit = fetch(IBV_EVENT_SRQ_LIMIT_REACHED);
	last = fetch(IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(kill(host_daemon_pid(), SIGKILL), 0);
	async_expect(api.ctx, IBV_EVENT_DEVICE_FATAL);
	/* From here on the process has another engine. */
	anew = host_open(ibv_get_device_name(api.ctx->device));
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(child_destroys(&pair, srq));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	ibv_ack_async_event(&limit);
	ibv_ack_async_event(&last);
	pair_close(&pair);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_device(anew), 0);
}

#define EVENTS_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVENTS_TEST(ibv_get_async_event_link_change_reports_port_events),
		EVENTS_TEST(ibv_get_async_event_address_change_reports_gid_change),
		EVENTS_TEST(ibv_get_async_event_removed_interface_reports_device_fatal),
		EVENTS_TEST(ibv_get_async_event_unmapped_memory_reports_qp_fatal),
		EVENTS_TEST(ibv_post_recv_unmapped_memory_fails_without_a_poll),
		EVENTS_TEST(ibv_destroy_qp_unacknowledged_event_waits),
		EVENTS_TEST(ibv_destroy_srq_removes_unread_events),
		EVENTS_TEST(ibv_destroy_cq_unacknowledged_cq_err_waits),
		EVENTS_TEST(ibv_get_async_event_dead_daemon_reports_device_fatal),
		EVENTS_TEST(ibv_get_async_event_in_forked_child_after_daemon_death_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
