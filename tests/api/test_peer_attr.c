/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of a queue pair that have to agree with those of its peer: max_rd_atomic with
 * max_dest_rd_atomic, and path_mtu. The same operations fail in the same way over every transport.
 */
#include "fixture.h"

#include <string.h>

/*
 * ibv_wc.vendor_err, as listed in docs/completion-errors.md. A NAK of RoCE has one code for several
 * causes.
 */
enum { REASON_QP_ACCESS = 11, REASON_READ_DEPTH = 24, REASON_PATH_MTU = 25 };

static struct api api;

static int setup(void **state)
{
	(void)state;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	api_close(&api);
	return 0;
}

/* The attributes of one side. */
struct attr {
	enum ibv_mtu path_mtu;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
};

static void to_rtr(struct ibv_qp *qp, const struct attr *own, uint32_t remote_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = own->path_mtu,
		.dest_qp_num = remote_qpn,
		.max_dest_rd_atomic = own->max_dest_rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = api.gid, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static void to_rts(struct ibv_qp *qp, const struct attr *own)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.max_rd_atomic = own->max_rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static void attr_pair_open(struct pair *pair, enum ibv_qp_type type, const struct attr *a,
			   const struct attr *b)
{
	pair_open(pair, &api, &(struct pair_options){.type = type, .stays_unconnected = true});
	assert_int_equal(qp_to_init(pair->a.qp, pair->options.qp_access), 0);
	assert_int_equal(qp_to_init(pair->b.qp, pair->options.qp_access), 0);
	to_rtr(pair->a.qp, a, pair->b.qp->qp_num);
	to_rtr(pair->b.qp, b, pair->a.qp->qp_num);
	to_rts(pair->a.qp, a);
	to_rts(pair->b.qp, b);
}

#define MANY	   16
#define READ_BYTES 64

/* One list of `count` operations of 64 bytes; atomics use the first 8. */
static void post_list(struct pair *pair, enum ibv_wr_opcode opcode, int count)
{
	struct ibv_send_wr wrs[MANY], *bad;
	struct ibv_sge sges[MANY];

	for (int i = 0; i < count; i++) {
		size_t at = (size_t)i * READ_BYTES;

		sges[i] = sge_of(&pair->a, at, opcode == IBV_WR_RDMA_READ ? READ_BYTES : 8);
		wrs[i] = send_wr(opcode, &sges[i], &pair->b, at, (uint64_t)i);
		wrs[i].next = i + 1 < count ? &wrs[i + 1] : NULL;
	}
	fill_pattern(pair->b.buf, (size_t)count * READ_BYTES, 3);
	assert_int_equal(ibv_post_send(pair->a.qp, wrs, &bad), 0);
}

static const enum ibv_wr_opcode requests[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
					      IBV_WR_ATOMIC_CMP_AND_SWP};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_all_succeed(struct pair *pair, enum ibv_wr_opcode opcode, int count)
{
	for (int i = 0; i < count; i++)
		wc_expect(pair->a.cq, (uint64_t)i, IBV_WC_SUCCESS);
	if (opcode == IBV_WR_RDMA_READ)
		assert_memory_equal(pair->a.buf, pair->b.buf, (size_t)count * READ_BYTES);
}

static void ibv_post_send_to_max_dest_rd_atomic_0_completes_with_rem_inv_req_err(void **state)
{
	/* With max_rd_atomic 0 one operation may be outstanding, which the peer refuses. */
	static const struct attr peer = {IBV_MTU_1024, 4, 0}, ours[] = {{IBV_MTU_1024, 4, 4},
									{IBV_MTU_1024, 1, 4},
									{IBV_MTU_1024, 0, 4}};
	struct pair pair;

	(void)state;
	for (size_t i = 0; i < COUNT(requests) * COUNT(ours); i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr;

		attr_pair_open(&pair, IBV_QPT_RC, &ours[i / COUNT(requests)], &peer);
		/* Other operations need no responder resources. */
		sge = sge_of(&pair.a, 0, 300);
		wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 4096, 7);
		post_send_ok(&pair.a, &wr);
		wc_expect(pair.a.cq, 7, IBV_WC_SUCCESS);
		post_list(&pair, requests[i % COUNT(requests)], 2);
		assert_int_equal(wc_expect(pair.a.cq, 0, IBV_WC_REM_INV_REQ_ERR).vendor_err,
				 on_the_wire() ? REASON_QP_ACCESS : REASON_READ_DEPTH);
		wc_expect(pair.a.cq, 1, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
		assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_QP_REQ_ERR), pair.b.qp);
		assert_int_equal(qp_state(pair.b.qp), IBV_QPS_ERR);
		pair_close(&pair);
	}
}

/*
 * The READs of one list are outstanding at the same time: one after the first exceeds the depth of
 * the peer.
 */
static void ibv_post_send_above_max_dest_rd_atomic_completes_with_rem_inv_req_err(void **state)
{
	static const struct attr ours = {IBV_MTU_1024, MANY, 4}, peer = {IBV_MTU_1024, 4, 1};
	struct pair pair;
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(requests); i++) {
		uint64_t failed = 0;

		attr_pair_open(&pair, IBV_QPT_RC, &ours, &peer);
		post_list(&pair, requests[i], MANY);
		do
			wc = wc_next(pair.a.cq);
		while (wc.status == IBV_WC_SUCCESS && ++failed < MANY);
		assert_in_range(failed, 1, MANY - 1);
		assert_int_equal(wc.wr_id, failed);
		assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
		while (++failed < MANY)
			wc_expect(pair.a.cq, failed, IBV_WC_WR_FLUSH_ERR);
		assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_QP_REQ_ERR), pair.b.qp);
		assert_int_equal(qp_state(pair.b.qp), IBV_QPS_ERR);
		pair_close(&pair);
	}
}

/* The requester delays operations that exceed its own max_rd_atomic. */
static void ibv_post_send_within_max_dest_rd_atomic_succeeds(void **state)
{
	static const struct {
		uint8_t max_rd_atomic;
		uint8_t max_dest_rd_atomic;
	} depths[] = {{0, 1}, {1, 1}, {1, MANY}, {3, 3}, {MANY, MANY}};
	struct pair pair;

	(void)state;
	for (size_t i = 0; i < COUNT(depths) * COUNT(requests); i++) {
		struct attr ours = {IBV_MTU_1024, depths[i / COUNT(requests)].max_rd_atomic, 0};
		struct attr peer = {IBV_MTU_1024, 0,
				    depths[i / COUNT(requests)].max_dest_rd_atomic};
		enum ibv_wr_opcode opcode = requests[i % COUNT(requests)];

		attr_pair_open(&pair, IBV_QPT_RC, &ours, &peer);
		post_list(&pair, opcode, MANY);
		assert_all_succeed(&pair, opcode, MANY);
		pair_close(&pair);
	}
}

/*
 * One operation after the other never exceeds the depth of the peer, whatever the requester permits
 * itself.
 */
static void ibv_post_send_one_read_at_a_time_succeeds(void **state)
{
	static const struct attr ours = {IBV_MTU_1024, MANY, 4}, peer = {IBV_MTU_1024, 4, 1};
	struct pair pair;

	(void)state;
	attr_pair_open(&pair, IBV_QPT_RC, &ours, &peer);
	for (int i = 0; i < MANY; i++) {
		post_list(&pair, requests[(size_t)i % COUNT(requests)], 1);
		wc_expect(pair.a.cq, 0, IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}

static const struct {
	enum ibv_mtu ours;
	enum ibv_mtu peers;
	uint32_t smaller_bytes; /* UINT32_MAX: they are equal */
} mtus[] = {
	{IBV_MTU_256, IBV_MTU_1024, 256},	  {IBV_MTU_1024, IBV_MTU_256, 256},
	{IBV_MTU_512, IBV_MTU_1024, 512},	  {IBV_MTU_256, IBV_MTU_256, UINT32_MAX},
	{IBV_MTU_1024, IBV_MTU_1024, UINT32_MAX},
};

static const uint32_t lengths[] = {0, 24, 256, 257, 512, 513, 1024, 1025, 8192, 40000};

static void post_one(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct ibv_sge from = sge_of(&pair->a, 0, length), to = sge_of(&pair->b, 0, SIDE_BUF_BYTES);
	struct ibv_send_wr wr = send_wr(opcode, &from, &pair->b, 0, 5);

	wr.num_sge = length ? 1 : 0;
	fill_pattern(pair->a.buf, SIDE_BUF_BYTES, 1);
	fill_pattern(pair->b.buf, SIDE_BUF_BYTES, 2);
	if (opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ)
		post_recv_ok(&pair->b, &to, 1, 6);
	post_send_ok(&pair->a, &wr);
}

static void assert_arrived(const struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length)
{
	if (opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ)
		wc_expect(pair->b.cq, 6, IBV_WC_SUCCESS);
	assert_memory_equal(pair->a.buf, pair->b.buf, length);
}

static void rc_message(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t length, bool fits)
{
	bool is_read = opcode == IBV_WR_RDMA_READ;
	struct ibv_wc wc;

	post_one(pair, opcode, length);
	if (fits) {
		wc_expect(pair->a.cq, 5, IBV_WC_SUCCESS);
		assert_arrived(pair, opcode, length);
		return;
	}
	/*
	 * The responder refuses the first packet of a message; the requester does not accept that
	 * of a READ response.
	 */
	wc = wc_expect(pair->a.cq, 5, is_read ? IBV_WC_BAD_RESP_ERR : IBV_WC_REM_INV_REQ_ERR);
	if (is_read || !on_the_wire())
		assert_int_equal(wc.vendor_err, REASON_PATH_MTU);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(pair->b.qp), is_read ? IBV_QPS_RTS : IBV_QPS_ERR);
	if (!is_read)
		assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_QP_REQ_ERR), pair->b.qp);
	if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	    opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wc_expect(pair->b.cq, 6, IBV_WC_WR_FLUSH_ERR);
	/* No byte was transferred. */
	for (uint32_t i = 0; i < length && i < 3; i++)
		assert_int_not_equal(pair->a.buf[i], pair->b.buf[i]);
}

static void ibv_post_send_path_mtu_of_peer_differs_fails(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ};
	struct pair pair;

	(void)state;
	for (size_t m = 0; m < COUNT(mtus); m++) {
		struct attr ours = {mtus[m].ours, 4, 4}, peer = {mtus[m].peers, 4, 4};

		for (size_t o = 0; o < COUNT(opcodes); o++) {
			for (size_t i = 0; i < COUNT(lengths); i++) {
				attr_pair_open(&pair, IBV_QPT_RC, &ours, &peer);
				rc_message(&pair, opcodes[o], lengths[i],
					   lengths[i] <= mtus[m].smaller_bytes);
				pair_close(&pair);
			}
		}
	}
}

/* An atomic is one packet in each direction. */
static void ibv_post_send_atomic_path_mtu_of_peer_differs_succeeds(void **state)
{
	static const struct attr ours = {IBV_MTU_256, 4, 4}, peer = {IBV_MTU_1024, 4, 4};
	struct pair pair;

	(void)state;
	attr_pair_open(&pair, IBV_QPT_RC, &ours, &peer);
	post_list(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
	assert_all_succeed(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
	pair_close(&pair);
}

/* A UC responder drops the message, and the QPs continue with the next one. */
static void ibv_post_send_uc_path_mtu_of_peer_differs_is_dropped(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM};
	struct pair pair;

	(void)state;
	for (size_t m = 0; m < COUNT(mtus); m++) {
		struct attr ours = {mtus[m].ours, 0, 0}, peer = {mtus[m].peers, 0, 0};

		for (size_t i = 0; i < COUNT(opcodes) * COUNT(lengths); i++) {
			uint32_t length = lengths[i % COUNT(lengths)];
			enum ibv_wr_opcode opcode = opcodes[i / COUNT(lengths)];
			struct ibv_sge sge;
			struct ibv_send_wr wr;

			attr_pair_open(&pair, IBV_QPT_UC, &ours, &peer);
			post_one(&pair, opcode, length);
			wc_expect(pair.a.cq, 5, IBV_WC_SUCCESS);
			if (opcode == IBV_WR_RDMA_WRITE) {
				sge = sge_of(&pair.b, 0, SIDE_BUF_BYTES);
				post_recv_ok(&pair.b, &sge, 1, 6);
			}
			/* The receive of a dropped message remains posted. */
			if (length > mtus[m].smaller_bytes || opcode == IBV_WR_RDMA_WRITE) {
				sge = sge_of(&pair.a, SIDE_BUF_BYTES - 100, 100);
				wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 8);
				post_send_ok(&pair.a, &wr);
				wc_expect(pair.a.cq, 8, IBV_WC_SUCCESS);
				assert_int_equal(wc_expect(pair.b.cq, 6, IBV_WC_SUCCESS).byte_len,
						 100);
				wc_none(pair.b.cq);
			} else {
				assert_arrived(&pair, opcode, length);
			}
			async_none(api.ctx);
			pair_close(&pair);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			ibv_post_send_to_max_dest_rd_atomic_0_completes_with_rem_inv_req_err),
		cmocka_unit_test(
			ibv_post_send_above_max_dest_rd_atomic_completes_with_rem_inv_req_err),
		cmocka_unit_test(ibv_post_send_within_max_dest_rd_atomic_succeeds),
		cmocka_unit_test(ibv_post_send_one_read_at_a_time_succeeds),
		cmocka_unit_test(ibv_post_send_path_mtu_of_peer_differs_fails),
		cmocka_unit_test(ibv_post_send_atomic_path_mtu_of_peer_differs_succeeds),
		cmocka_unit_test(ibv_post_send_uc_path_mtu_of_peer_differs_is_dropped),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
