/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Threads that create the objects that they use. Their queue pairs belong to different shards
 * (docs/adr/0054), and those of one connection, too: each thread sends to the next one.
 */

#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* More than the library has shards. */
#define THREADS	      5
#define ROUNDS	      3000
#define DEPTH	      32
#define IN_FLIGHT     16
#define MESSAGE_BYTES 64

struct worker {
	int number;
	struct ibv_cq *cq;
	struct ibv_qp *next; /* sends to `previous` of the next worker */
	struct ibv_qp *previous;
	struct ibv_mr *mr;
	/* What is sent, what is received, and the target of WRITEs of the preceding worker. */
	uint64_t memory[3][DEPTH][MESSAGE_BYTES / sizeof(uint64_t)];
	unsigned int sent, completed, received;
};

static struct api api;
static struct worker workers[THREADS];
static pthread_barrier_t barrier;
/* Only the main thread may assert. */
static atomic_uint wrong;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	pthread_barrier_init(&barrier, NULL, THREADS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pthread_barrier_destroy(&barrier);
	api_close(&api);
	return 0;
}

static void require(bool is_true)
{
	if (!is_true)
		atomic_fetch_add(&wrong, 1);
}

static struct ibv_qp *make_qp(struct worker *worker)
{
	struct ibv_qp_init_attr init = {.send_cq = worker->cq,
					.recv_cq = worker->cq,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(api.pd, &init);

	require(qp && !qp_to_init(qp, IBV_ACCESS_REMOTE_WRITE));
	return qp;
}

static void worker_open(struct worker *worker)
{
	worker->cq = ibv_create_cq(api.ctx, 4 * DEPTH, NULL, NULL, 0);
	worker->mr = ibv_reg_mr(api.pd, worker->memory, sizeof(worker->memory), ALL_ACCESS);
	require(worker->cq && worker->mr);
	worker->next = make_qp(worker);
	worker->previous = make_qp(worker);
	worker->sent = worker->completed = worker->received = 0;
}

static void worker_close(struct worker *worker)
{
	require(!ibv_destroy_qp(worker->next) && !ibv_destroy_qp(worker->previous));
	require(!ibv_destroy_cq(worker->cq) && !ibv_dereg_mr(worker->mr));
}

static struct ibv_sge sge_of_slot(struct worker *worker, int area, unsigned int slot)
{
	return (struct ibv_sge){(uintptr_t)worker->memory[area][slot % DEPTH], MESSAGE_BYTES,
				worker->mr->lkey};
}

static void receive(struct worker *worker, unsigned int number)
{
	struct ibv_sge sge = sge_of_slot(worker, 1, number);
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

	require(!ibv_post_recv(worker->previous, &wr, &bad));
}

/* Connects both QPs, and posts the receives. All workers are open. */
static void worker_connect(struct worker *worker)
{
	const struct worker *after = &workers[(worker->number + 1) % THREADS];
	const struct worker *before = &workers[(worker->number + THREADS - 1) % THREADS];

	require(!qp_to_rtr(worker->next, &api, after->previous->qp_num));
	require(!qp_to_rtr(worker->previous, &api, before->next->qp_num));
	for (unsigned int i = 0; i < DEPTH; i++)
		receive(worker, i);
	require(!qp_to_rts(worker->next, 0, 7) && !qp_to_rts(worker->previous, 0, 7));
}

/* SENDs, and after each eighth one a WRITE; both carry the number of the SEND. */
static void send_next(struct worker *worker)
{
	const struct worker *after = &workers[(worker->number + 1) % THREADS];
	unsigned int number = worker->sent++;
	struct ibv_sge sge = sge_of_slot(worker, 0, number);
	struct ibv_send_wr write = {.wr_id = number,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = {(uintptr_t)after->memory[2][number % DEPTH],
						after->mr->rkey}};
	struct ibv_send_wr wr = {.wr_id = number,
				 .next = number % 8 ? NULL : &write,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	worker->memory[0][number % DEPTH][0] = number;
	worker->memory[0][number % DEPTH][MESSAGE_BYTES / sizeof(uint64_t) - 1] = ~(uint64_t)number;
	require(!ibv_post_send(worker->next, &wr, &bad));
}

static void take_completions(struct worker *worker)
{
	struct ibv_wc wcs[8];
	int count = ibv_poll_cq(worker->cq, 8, wcs);

	for (int i = 0; i < count; i++) {
		const uint64_t *slot = worker->memory[1][wcs[i].wr_id % DEPTH];

		require(wcs[i].status == IBV_WC_SUCCESS);
		if (wcs[i].opcode == IBV_WC_SEND) {
			require(wcs[i].wr_id == worker->completed++);
			continue;
		}
		require(wcs[i].wr_id == worker->received && slot[0] == worker->received &&
			slot[MESSAGE_BYTES / sizeof(uint64_t) - 1] == ~slot[0]);
		worker->received++;
		receive(worker, worker->received + DEPTH - 1);
	}
	if (!count)
		sched_yield();
}

/* What other threads do with their own objects must not disturb. */
static void change_something(struct worker *worker)
{
	struct ibv_mr *mr = ibv_reg_mr(api.pd, worker->memory[0], MESSAGE_BYTES, ALL_ACCESS);
	struct ibv_qp *qp = make_qp(worker);

	require(mr && !ibv_dereg_mr(mr) && !ibv_destroy_qp(qp));
}

static void *talk_to_next(void *arg)
{
	struct worker *worker = arg;

	worker_open(worker);
	pthread_barrier_wait(&barrier);
	worker_connect(worker);
	pthread_barrier_wait(&barrier);
	while ((worker->completed < ROUNDS || worker->received < ROUNDS) && !atomic_load(&wrong)) {
		if (worker->sent < ROUNDS && worker->sent - worker->completed < IN_FLIGHT)
			send_next(worker);
		if (worker->sent % 64 == 0)
			change_something(worker);
		take_completions(worker);
	}
	pthread_barrier_wait(&barrier);
	worker_close(worker);
	return NULL;
}

static void run_workers(void *(*body)(void *))
{
	pthread_t threads[THREADS];

	atomic_store(&wrong, 0);
	for (int i = 0; i < THREADS; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&wrong), 0);
}

static void ibv_post_send_between_threads_with_own_objects_completes(void **state)
{
	(void)state;
	run_workers(talk_to_next);
}

#define LIVES 40

/*
 * Sends until the connection breaks. Returns when both QPs have reported it: this one is in ERR,
 * the other one is destroyed.
 */
static void send_until_error(struct worker *worker)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	do {
		if (worker->sent - worker->completed < IN_FLIGHT)
			send_next(worker);
		if (!ibv_poll_cq(worker->cq, 1, &wc))
			continue;
		worker->completed += wc.opcode == IBV_WC_SEND;
	} while (wc.status == IBV_WC_SUCCESS && !atomic_load(&wrong));
	require(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_WR_FLUSH_ERR ||
		wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_RNR_RETRY_EXC_ERR);
	require(qp_state(worker->next) == IBV_QPS_ERR);
}

/* Odd workers destroy the QP that the worker before them sends to. */
static void *lose_peers(void *arg)
{
	struct worker *worker = arg;

	for (int life = 0; life < LIVES; life++) {
		bool is_destroyer = worker->number % 2;

		worker_open(worker);
		pthread_barrier_wait(&barrier);
		worker_connect(worker);
		pthread_barrier_wait(&barrier);
		if (is_destroyer) {
			while (worker->received < (unsigned int)life && !atomic_load(&wrong))
				take_completions(worker);
			require(!ibv_destroy_qp(worker->previous));
			worker->previous = make_qp(worker);
		} else if (worker->number + 1 < THREADS) {
			send_until_error(worker);
		}
		pthread_barrier_wait(&barrier);
		worker_close(worker);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void ibv_destroy_qp_of_another_thread_fails_sends(void **state)
{
	(void)state;
	run_workers(lose_peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_post_send_between_threads_with_own_objects_completes),
		cmocka_unit_test(ibv_destroy_qp_of_another_thread_fails_sends),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
