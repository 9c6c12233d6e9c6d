/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs may assume about memory regions and completion queues: any memory may be
 * registered, and one CQ may serve many queues.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 300
#define SKEW  13 /* no buffer begins at a page */

static uint8_t global[SKEW + BYTES];
static const uint8_t constant[SKEW + BYTES] = {1, 2, 3};

static int file_with(size_t bytes)
{
	int fd = memfd_create("objects", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static uint8_t *mapping(int flags, int fd)
{
	void *memory = mmap(NULL, SKEW + BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

/* Sends the bytes from this memory, and, if it can be written, receives them there again. */
static void transfer(struct pair *pair, uint8_t *memory, bool is_writable)
{
	struct ibv_mr *mr = ibv_reg_mr(pair->api->pd, memory, BYTES,
				       is_writable ? IBV_ACCESS_LOCAL_WRITE : 0);
	struct ibv_sge own = {.addr = (uintptr_t)memory, .length = BYTES};
	struct ibv_sge there = sge_of(&pair->b, 0, BYTES);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &own, NULL, 0, 1);

	assert_non_null(mr);
	own.lkey = mr->lkey;
	if (is_writable)
		fill_pattern(memory, BYTES, 42);
	post_recv_ok(&pair->b, &there, 1, 2);
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, 1, IBV_WC_SUCCESS);
	wc_expect(pair->b.cq, 2, IBV_WC_SUCCESS);
	assert_memory_equal(pair->b.buf, memory, BYTES);
	if (is_writable) {
		memset(memory, 0, BYTES);
		post_recv_ok(&pair->a, &own, 1, 3);
		wr = send_wr(IBV_WR_SEND, &there, NULL, 0, 4);
		post_send_ok(&pair->b, &wr);
		wc_expect(pair->b.cq, 4, IBV_WC_SUCCESS);
		wc_expect(pair->a.cq, 3, IBV_WC_SUCCESS);
		assert_memory_equal(memory, pair->b.buf, BYTES);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A function's code is memory of the text segment. It can be read only. */
static uint8_t *text_segment(void)
{
	return (uint8_t *)(uintptr_t)transfer;
}

static void ibv_reg_mr_every_kind_of_memory_is_transferred(void **state)
{
	struct api *api = *state;
	int fd = file_with(SKEW + BYTES);
	uint8_t local[SKEW + BYTES];
	uint8_t *heap = malloc(SKEW + BYTES);
	uint8_t *mapped = mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *shared = mapping(MAP_SHARED | MAP_ANONYMOUS, -1);
	uint8_t *file = mapping(MAP_SHARED, fd);
	uint8_t *writable[] = {local, global, heap, mapped, shared, file};
	struct pair pair;

	assert_non_null(heap);
	pair_open(&pair, api, &(struct pair_options){.rnr_retry = 7});
	for (size_t i = 0; i < sizeof(writable) / sizeof(writable[0]); i++)
		transfer(&pair, writable[i] + SKEW, true);
	transfer(&pair, (uint8_t *)(uintptr_t)constant + SKEW, false);
	transfer(&pair, text_segment(), false);
	pair_close(&pair);
	free(heap);
	assert_int_equal(munmap(mapped, SKEW + BYTES), 0);
	assert_int_equal(munmap(shared, SKEW + BYTES), 0);
	assert_int_equal(munmap(file, SKEW + BYTES), 0);
	assert_int_equal(close(fd), 0);
}

/* The limit is one region's; several regions may cover the same range. */
static void ibv_reg_mr_longer_than_max_mr_size_fails(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	assert_true(attr.max_mr_size < SIZE_MAX);
	assert_null_errno(ibv_reg_mr(api->pd, global, attr.max_mr_size + 1, IBV_ACCESS_LOCAL_WRITE),
			  EINVAL);
}

static struct ibv_qp *qp_of(struct api *api, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);

	assert_non_null(qp);
	assert_ptr_equal(qp->send_cq, cq);
	assert_ptr_equal(qp->recv_cq, cq);
	assert_int_equal(qp_to_init(qp, 0), 0);
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct api *api, struct ibv_qp *peer)
{
	assert_int_equal(qp_to_rtr(qp, api, peer->qp_num), 0);
	assert_int_equal(qp_to_rts(qp, 7, 7), 0);
}

/*
 * Four work queues of two QPs report to one CQ. The completion names the QP and, by its opcode, the
 * queue.
 */
static void ibv_poll_cq_shared_cq_names_qp_and_queue(void **state)
{
	struct ibv_recv_wr recv = {.wr_id = 20}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 10, .opcode = IBV_WR_SEND}, *bad_send;
	struct api *api = *state;
	struct ibv_cq *cq = ibv_create_cq(api->ctx, 8, NULL, NULL, 0);
	struct ibv_qp *from, *to;

	assert_non_null(cq);
	from = qp_of(api, cq);
	to = qp_of(api, cq);
	connect_to(from, api, to);
	connect_to(to, api, from);
	assert_int_equal(ibv_post_recv(to, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(from, &send, &bad_send), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = wc_next(cq);
		bool is_receive = wc.opcode & IBV_WC_RECV;

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, is_receive ? 20 : 10);
		assert_int_equal(wc.qp_num, is_receive ? to->qp_num : from->qp_num);
	}
	wc_none(cq);
	assert_int_equal(ibv_destroy_qp(from), 0);
	assert_int_equal(ibv_destroy_qp(to), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_reg_mr_every_kind_of_memory_is_transferred),
		cmocka_unit_test(ibv_reg_mr_longer_than_max_mr_size_fails),
		cmocka_unit_test(ibv_poll_cq_shared_cq_names_qp_and_queue),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
