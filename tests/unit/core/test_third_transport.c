/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A transport besides local and roce (third.c) carries RC SENDs from ibv_post_send() to
 * ibv_poll_cq(), with an engine thread; the daemon's reply is replaced (meson.build).
 */
#include "third.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/engine/engine_watch.h"
#include "fake.h"

#define BUF_BYTES   64
#define PATIENCE_MS 40000

const struct transport *const transports[] = {&third_transport, NULL};

int transports_register_notices(struct engine *engine)
{
	(void)engine;
	return 0;
}

static int notices_fd = -1; /* the daemon's end */

int __wrap_ipc_call_fd(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		       int nfds, void *reply, uint32_t reply_len, int *passed);

int __wrap_ipc_call_fd(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		       int nfds, void *reply, uint32_t reply_len, int *passed)
{
	int pair[2];

	(void)client;
	(void)req;
	(void)req_len;
	(void)fds;
	(void)nfds;
	(void)reply;
	(void)reply_len;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	notices_fd = pair[0];
	*passed = pair[1];
	return 0;
}

static struct fake fake;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq; /* of both queue pairs */
static struct ibv_mr *mr;
static struct ibv_qp *qps[2];	/* connected to each other */
static char bufs[2][BUF_BYTES]; /* of the sender and of the receiver */

static int start(void **state)
{
	(void)state;
	fake_open(&fake);
	id_table_init(&fake.engine.watches.table, WATCHES_MAX);
	fake.engine.watches.timer_armed_ns = TIMER_NEVER_NS;
	assert_int_equal(engine_start(&fake.engine), 0);
	channel = ibv_create_comp_channel(fake.ctx);
	assert_non_null(channel);
	cq = ibv_create_cq(fake.ctx, 16, NULL, channel, 0);
	assert_non_null(cq);
	mr = ibv_reg_mr(fake.pd, bufs, sizeof(bufs), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	return 0;
}

static void move(struct ibv_qp *qp, enum ibv_qp_state qp_state, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = fake_attr(qp_state);

	attr.dest_qp_num = dest_qpn;
	assert_int_equal(ibv_modify_qp(qp, &attr, fake_mask(IBV_QPT_RC, qp_state)), 0);
}

static int connect_pair(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		qps[i] = ibv_create_qp(fake.pd, &init);
		assert_non_null(qps[i]);
	}
	for (enum ibv_qp_state next = IBV_QPS_INIT; next <= IBV_QPS_RTS; next++) {
		for (int i = 0; i < 2; i++)
			move(qps[i], next, qps[!i]->qp_num);
	}
	memset(bufs, 0, sizeof(bufs));
	return 0;
}

static int destroy_pair(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	return 0;
}

static void post_receive(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)bufs[1], BUF_BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(qps[1], &wr, &bad), 0);
}

/* Sends the text in two SGEs, with its length as immediate data. */
static void post_text(uint64_t wr_id, const char *text)
{
	uint32_t bytes = (uint32_t)strlen(text);
	struct ibv_sge sges[] = {{(uintptr_t)bufs[0], 2, mr->lkey},
				 {(uintptr_t)bufs[0] + 2, bytes - 2, mr->lkey}};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sges,
				 .num_sge = 2,
				 .opcode = IBV_WR_SEND_WITH_IMM},
			   *bad;

	memcpy(bufs[0], text, bytes);
	wr.imm_data = bytes;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
}

/* Polls `count` completions, which must be successful, and stores each under its wr_id. */
static void poll_completions(int count, struct ibv_wc *by_id)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct ibv_wc wc;

	for (int ms = 0; count && ms < PATIENCE_MS; ms++) {
		if (ibv_poll_cq(cq, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			by_id[wc.wr_id] = wc;
			count--;
		} else {
			nanosleep(&nap, NULL);
		}
	}
	assert_int_equal(count, 0);
}

static uint64_t third_count(enum third_counter counter)
{
	uint64_t value;

	engine_lock(&fake.engine);
	value = third_of(&fake.engine)->counters[counter];
	engine_unlock(&fake.engine);
	return value;
}

static void transport_third_carries_rc_send(void **state)
{
	struct ibv_wc wcs[2];

	(void)state;
	assert_ptr_equal(to_qp(qps[0])->transport, &third_transport);
	post_receive(1);
	post_text(0, "hello");
	poll_completions(2, wcs);
	assert_int_equal(wcs[0].opcode, IBV_WC_SEND);
	assert_int_equal(wcs[1].opcode, IBV_WC_RECV);
	assert_int_equal(wcs[1].byte_len, 5);
	assert_int_equal(wcs[1].imm_data, 5);
	assert_true(wcs[1].wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(wcs[1].src_qp, qps[0]->qp_num);
	assert_memory_equal(bufs[1], "hello", 5);
}

static void send_without_a_receive_completes_after_the_receive_is_posted(void **state)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t before = third_count(THIRD_RNR);
	struct ibv_wc wcs[2];

	(void)state;
	post_text(0, "later");
	for (int ms = 0; third_count(THIRD_RNR) == before && ms < PATIENCE_MS; ms++)
		nanosleep(&nap, NULL);
	assert_true(third_count(THIRD_RNR) > before);
	assert_int_equal(ibv_poll_cq(cq, 1, wcs), 0);
	post_receive(1);
	poll_completions(2, wcs);
	assert_memory_equal(bufs[1], "later", 5);
}

/* Posts a message when the other thread waits. */
static void *post_later(void *arg)
{
	bool is_waiting = false;

	(void)arg;
	while (!is_waiting) {
		sched_yield();
		engine_lock(&fake.engine);
		is_waiting = fake.engine.progress.servers > 0;
		engine_unlock(&fake.engine);
	}
	post_text(0, "notify");
	return NULL;
}

/*
 * No thread polls: the descriptor of the transport wakes the waiting thread, which runs the
 * transport.
 */
static void transport_third_receive_wakes_blocked_application(void **state)
{
	struct ibv_cq *notified;
	void *cq_context;
	struct ibv_wc wcs[2];
	uint64_t before = third_count(THIRD_WAKES);
	pthread_t thread;

	(void)state;
	post_receive(1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, post_later, NULL), 0);
	assert_int_equal(ibv_get_cq_event(channel, &notified, &cq_context), 0);
	assert_ptr_equal(notified, cq);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ibv_ack_cq_events(cq, 1);
	assert_true(third_count(THIRD_WAKES) > before);
	poll_completions(2, wcs);
	assert_memory_equal(bufs[1], "notify", 6);
}

/* Without a segment, the counters are in the storage of the transport. */
static void transport_third_counts_messages(void **state)
{
	struct ibv_wc wcs[2];
	uint64_t before = third_count(THIRD_MESSAGES);

	(void)state;
	post_receive(1);
	post_text(0, "count");
	poll_completions(2, wcs);
	assert_int_equal(third_count(THIRD_MESSAGES), before + 1);
	assert_ptr_equal(third_of(&fake.engine)->counters, third_of(&fake.engine)->unshown);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connect_pair, destroy_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(transport_third_carries_rc_send),
		TEST(send_without_a_receive_completes_after_the_receive_is_posted),
		TEST(transport_third_receive_wakes_blocked_application),
		TEST(transport_third_counts_messages),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
