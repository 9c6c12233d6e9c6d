/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of <rdma/rdma_verbs.h> on a connection: each one transfers the bytes that its arguments
 * name, and no others.
 */
#include "cm_fixture.h"

#include <errno.h>
#include <string.h>

#define BYTES 96

/*
 * The two sides of a connection. Every buffer is registered for both sides with all rights of its
 * kind.
 */
struct transfer {
	struct ends ends;
	uint8_t near[BYTES]; /* memory of the active side */
	uint8_t far[BYTES];  /* memory of the passive side */
	struct ibv_mr *near_mr;
	struct ibv_mr *far_mr;
};

static void fill(uint8_t *bytes, uint8_t seed)
{
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(seed + i);
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

/* Registers the memory of the passive side with one of the calls of <rdma/rdma_verbs.h>. */
static void transfer_open(struct transfer *transfer,
			  struct ibv_mr *(*reg_far)(struct rdma_cm_id *, void *, size_t))
{
	ends_listen(&transfer->ends, NULL, 1);
	ends_resolve(&transfer->ends);
	create_qp(transfer->ends.active);
	ends_request(&transfer->ends, NULL);
	create_qp(transfer->ends.passive);
	ends_establish(&transfer->ends);
	fill(transfer->near, 1);
	fill(transfer->far, 101);
	transfer->near_mr = rdma_reg_msgs(transfer->ends.active, transfer->near,
					  sizeof(transfer->near));
	transfer->far_mr = reg_far(transfer->ends.passive, transfer->far, sizeof(transfer->far));
	assert_non_null(transfer->near_mr);
	assert_non_null(transfer->far_mr);
}

static void transfer_close(struct transfer *transfer)
{
	assert_int_equal(rdma_dereg_mr(transfer->near_mr), 0);
	assert_int_equal(rdma_dereg_mr(transfer->far_mr), 0);
	ends_close(&transfer->ends);
}

static struct ibv_wc sent(struct rdma_cm_id *id, void *context)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_ptr_equal((void *)(uintptr_t)wc.wr_id, context);
	return wc;
}

static void received(struct rdma_cm_id *id, void *context, uint32_t bytes)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, bytes);
	assert_ptr_equal((void *)(uintptr_t)wc.wr_id, context);
}

/*
 * A connection carries messages: two sends fill two receives, and neither receive gets bytes of the
 * other message.
 */
static void rdma_post_send_two_messages_stay_separate(void **state)
{
	struct transfer transfer;
	struct rdma_cm_id *active, *passive;

	(void)state;
	transfer_open(&transfer, rdma_reg_msgs);
	active = transfer.ends.active;
	passive = transfer.ends.passive;
	assert_int_equal(rdma_post_recv(passive, &active, transfer.far, 40, transfer.far_mr), 0);
	assert_int_equal(rdma_post_recv(passive, &passive, transfer.far + 40, 40, transfer.far_mr),
			 0);
	assert_int_equal(rdma_post_send(active, NULL, transfer.near, 10, transfer.near_mr, 0), 0);
	assert_int_equal(sent(active, NULL).status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_post_send(active, NULL, transfer.near + 10, 20, transfer.near_mr, 0),
			 0);
	assert_int_equal(sent(active, NULL).status, IBV_WC_SUCCESS);
	received(passive, &active, 10);
	received(passive, &passive, 20);
	assert_memory_equal(transfer.far, transfer.near, 10);
	assert_int_equal(transfer.far[10], (uint8_t)(101 + 10));
	assert_memory_equal(transfer.far + 40, transfer.near + 10, 20);
	assert_int_equal(transfer.far[60], (uint8_t)(101 + 60));
	transfer_close(&transfer);
}

/*
 * The side that accepted may send the first message: only iWARP requires that the other side sends
 * it.
 */
static void rdma_post_send_passive_side_may_send_first(void **state)
{
	struct transfer transfer;

	(void)state;
	transfer_open(&transfer, rdma_reg_msgs);
	assert_int_equal(rdma_post_recv(transfer.ends.active, &transfer, transfer.near, BYTES,
					transfer.near_mr),
			 0);
	assert_int_equal(rdma_post_send(transfer.ends.passive, NULL, transfer.far, BYTES,
					transfer.far_mr, 0),
			 0);
	received(transfer.ends.active, &transfer, BYTES);
	assert_memory_equal(transfer.near, transfer.far, BYTES);
	transfer_close(&transfer);
}

static void rdma_post_read_returns_memory_of_peer(void **state)
{
	struct transfer transfer;
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_read);
	memcpy(expected, transfer.near, BYTES);
	memcpy(expected + 8, transfer.far + 16, 32);
	assert_int_equal(rdma_post_read(transfer.ends.active, &transfer, transfer.near + 8, 32,
					transfer.near_mr, 0, (uintptr_t)(transfer.far + 16),
					transfer.far_mr->rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, &transfer).status, IBV_WC_SUCCESS);
	assert_memory_equal(transfer.near, expected, BYTES);
	transfer_close(&transfer);
}

static void rdma_post_write_changes_memory_of_peer(void **state)
{
	struct transfer transfer;
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_write);
	memcpy(expected, transfer.far, BYTES);
	memcpy(expected + 16, transfer.near + 8, 32);
	assert_int_equal(rdma_post_write(transfer.ends.active, &transfer, transfer.near + 8, 32,
					 transfer.near_mr, 0, (uintptr_t)(transfer.far + 16),
					 transfer.far_mr->rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, &transfer).status, IBV_WC_SUCCESS);
	assert_memory_equal(transfer.far, expected, BYTES);
	transfer_close(&transfer);
}

/* Two pieces of a buffer: 16 bytes at offset 48, then 24 bytes at its start. */
#define PIECES_BYTES 40

static void pieces(struct ibv_sge *sgl, const uint8_t *buf, const struct ibv_mr *mr)
{
	sgl[0] = (struct ibv_sge){.addr = (uintptr_t)(buf + 48), .length = 16, .lkey = mr->lkey};
	sgl[1] = (struct ibv_sge){.addr = (uintptr_t)buf, .length = 24, .lkey = mr->lkey};
}

static void scatter(uint8_t *buf, const uint8_t *message)
{
	memcpy(buf + 48, message, 16);
	memcpy(buf, message + 16, 24);
}

static void gather(uint8_t *message, const uint8_t *buf)
{
	memcpy(message, buf + 48, 16);
	memcpy(message + 16, buf, 24);
}

static void rdma_post_recvv_scatters_message(void **state)
{
	struct transfer transfer;
	struct ibv_sge sgl[2];
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_msgs);
	memcpy(expected, transfer.far, BYTES);
	scatter(expected, transfer.near);
	pieces(sgl, transfer.far, transfer.far_mr);
	assert_int_equal(rdma_post_recvv(transfer.ends.passive, &sgl, sgl, 2), 0);
	assert_int_equal(rdma_post_send(transfer.ends.active, NULL, transfer.near, PIECES_BYTES,
					transfer.near_mr, 0),
			 0);
	received(transfer.ends.passive, &sgl, PIECES_BYTES);
	assert_memory_equal(transfer.far, expected, BYTES);
	transfer_close(&transfer);
}

static void rdma_post_sendv_gathers_message(void **state)
{
	struct transfer transfer;
	struct ibv_sge sgl[2];
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_msgs);
	memcpy(expected, transfer.far, BYTES);
	gather(expected, transfer.near);
	pieces(sgl, transfer.near, transfer.near_mr);
	assert_int_equal(rdma_post_recv(transfer.ends.passive, &sgl, transfer.far, BYTES,
					transfer.far_mr),
			 0);
	assert_int_equal(rdma_post_sendv(transfer.ends.active, &transfer, sgl, 2, 0), 0);
	assert_int_equal(sent(transfer.ends.active, &transfer).status, IBV_WC_SUCCESS);
	received(transfer.ends.passive, &sgl, PIECES_BYTES);
	assert_memory_equal(transfer.far, expected, BYTES);
	transfer_close(&transfer);
}

static void rdma_post_readv_scatters_memory_of_peer(void **state)
{
	struct transfer transfer;
	struct ibv_sge sgl[2];
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_read);
	memcpy(expected, transfer.near, BYTES);
	scatter(expected, transfer.far);
	pieces(sgl, transfer.near, transfer.near_mr);
	assert_int_equal(rdma_post_readv(transfer.ends.active, &transfer, sgl, 2, 0,
					 (uintptr_t)transfer.far, transfer.far_mr->rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, &transfer).status, IBV_WC_SUCCESS);
	assert_memory_equal(transfer.near, expected, BYTES);
	transfer_close(&transfer);
}

static void rdma_post_writev_gathers_for_peer(void **state)
{
	struct transfer transfer;
	struct ibv_sge sgl[2];
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_write);
	memcpy(expected, transfer.far, BYTES);
	gather(expected, transfer.near);
	pieces(sgl, transfer.near, transfer.near_mr);
	assert_int_equal(rdma_post_writev(transfer.ends.active, &transfer, sgl, 2, 0,
					  (uintptr_t)transfer.far, transfer.far_mr->rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, &transfer).status, IBV_WC_SUCCESS);
	assert_memory_equal(transfer.far, expected, BYTES);
	transfer_close(&transfer);
}

static void rdma_reg_read_memory_refuses_writes(void **state)
{
	struct transfer transfer;
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_read);
	memcpy(expected, transfer.far, BYTES);
	assert_int_equal(rdma_post_write(transfer.ends.active, NULL, transfer.near, BYTES,
					 transfer.near_mr, 0, (uintptr_t)transfer.far,
					 transfer.far_mr->rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, NULL).status, IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(transfer.far, expected, BYTES);
	transfer_close(&transfer);
}

static void rdma_reg_write_memory_refuses_reads(void **state)
{
	struct transfer transfer;
	uint8_t expected[BYTES];

	(void)state;
	transfer_open(&transfer, rdma_reg_write);
	memcpy(expected, transfer.near, BYTES);
	assert_int_equal(rdma_post_read(transfer.ends.active, NULL, transfer.near, BYTES,
					transfer.near_mr, 0, (uintptr_t)transfer.far,
					transfer.far_mr->rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, NULL).status, IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(transfer.near, expected, BYTES);
	transfer_close(&transfer);
}

/* The key of memory that was deregistered gives no access. */
static void rdma_dereg_mr_ends_access_of_peer(void **state)
{
	struct transfer transfer;
	uint32_t rkey;

	(void)state;
	transfer_open(&transfer, rdma_reg_read);
	rkey = transfer.far_mr->rkey;
	assert_int_equal(rdma_dereg_mr(transfer.far_mr), 0);
	assert_int_equal(rdma_post_read(transfer.ends.active, NULL, transfer.near, BYTES,
					transfer.near_mr, 0, (uintptr_t)transfer.far, rkey),
			 0);
	assert_int_equal(sent(transfer.ends.active, NULL).status, IBV_WC_REM_ACCESS_ERR);
	transfer.far_mr = rdma_reg_msgs(transfer.ends.passive, transfer.far, BYTES);
	transfer_close(&transfer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_post_send_two_messages_stay_separate),
		cmocka_unit_test(rdma_post_send_passive_side_may_send_first),
		cmocka_unit_test(rdma_post_read_returns_memory_of_peer),
		cmocka_unit_test(rdma_post_write_changes_memory_of_peer),
		cmocka_unit_test(rdma_post_recvv_scatters_message),
		cmocka_unit_test(rdma_post_sendv_gathers_message),
		cmocka_unit_test(rdma_post_readv_scatters_memory_of_peer),
		cmocka_unit_test(rdma_post_writev_gathers_for_peer),
		cmocka_unit_test(rdma_reg_read_memory_refuses_writes),
		cmocka_unit_test(rdma_reg_write_memory_refuses_reads),
		cmocka_unit_test(rdma_dereg_mr_ends_access_of_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
