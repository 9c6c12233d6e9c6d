/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/qp.h"
#include "roce/qp.h"
#include "world.h"

/*
 * What a long stream of WRITEs gets out of a network, in virtual time, the same each run: how many packets in a round
 * trip, and how many of them went again.
 */
#define RTT_NS	       UINT64_C(1000000)
#define MTU_BYTES      1024u
#define MSG_BYTES      (64u * 1024)
#define WRS_OUT	       64u
#define WARM_UP_RTTS   300u
#define MEASURED_RTTS  2000u
#define NODE_BYTES     (2 * MSG_BYTES)
#define NARROW_PACKETS 50
#define SEEDS	       3
#define STALL_MOST_NS  (6 * RTT_NS)

struct stream {
	struct world world;
	struct ibv_qp *qps[2];
	uint32_t posted;
	uint32_t done;
	bool is_busy;
	uint64_t runs_until_ns[2];
};

struct result {
	double delivered; /* packets in a round trip */
	double resent;	  /* of those delivered */
};

static void stream_open(struct stream *stream, uint64_t seed, const struct sim_faults *faults)
{
	struct world_qp_attr attr = {
		.type = IBV_QPT_RC,
		.mtu = IBV_MTU_1024,
		.psns = {0xfff000, 0x1000},
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
		.rd_atomic = 1,
		.access = IBV_ACCESS_REMOTE_WRITE,
		.max_wr = WRS_OUT,
	};

	memset(stream, 0, sizeof(*stream));
	world_open(&stream->world, seed, 2, false, NODE_BYTES, faults);
	for (int i = 0; i < 2; i++)
		stream->qps[i] = world_create_qp(&stream->world.nodes[i], &attr);
	world_connect(&stream->world.nodes[0], stream->qps[0], &stream->world.nodes[1],
		      stream->qps[1], &attr);
}

static void stream_close(struct stream *stream)
{
	ibv_destroy_qp(stream->qps[0]);
	ibv_destroy_qp(stream->qps[1]);
	world_close(&stream->world);
}

static void post(struct stream *stream)
{
	struct world_node *from = &stream->world.nodes[0], *to = &stream->world.nodes[1];
	struct ibv_sge sge = {(uintptr_t)from->buf, MSG_BYTES, from->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
	wr.wr.rdma.rkey = to->mr->rkey;
	while (stream->posted - stream->done < WRS_OUT) {
		assert_int_equal(ibv_post_send(stream->qps[0], &wr, &bad), 0);
		stream->posted++;
	}
}

/* On a busy machine a process runs for a while and then waits for its next turn, as chance has it. */
static void stall(struct stream *stream)
{
	struct world *world = &stream->world;

	for (int i = 0; i < world->node_count; i++) {
		struct world_node *node = &world->nodes[i];

		if (!stream->is_busy || world->now_ns < stream->runs_until_ns[i])
			continue;
		node->stalled_until_ns = world->now_ns + world_below(world, STALL_MOST_NS);
		stream->runs_until_ns[i] = node->stalled_until_ns + 1 +
					   world_below(world, STALL_MOST_NS);
	}
}

static void run_for(struct stream *stream, uint64_t rtts)
{
	uint64_t until_ns = stream->world.now_ns + rtts * RTT_NS;
	struct ibv_wc wc;

	while (stream->world.now_ns < until_ns) {
		stall(stream);
		if (stream->world.nodes[0].stalled_until_ns <= stream->world.now_ns)
			post(stream);
		assert_true(world_step(&stream->world));
		while (world_poll(stream->world.nodes[0].send_cq, &wc)) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			stream->done++;
		}
	}
}

static uint64_t acked_pkts(const struct stream *stream)
{
	const struct roce_qp *rqp = roce_qp_of(to_qp(stream->qps[0]));

	return (uint64_t)stream->done * (MSG_BYTES / MTU_BYTES) +
	       psn_sub(rqp->tx.una_psn, sq_wqe(&rqp->qp->sq, rqp->qp->sq.una)->ssn);
}

static struct result measure(uint64_t seed, const struct sim_faults *faults, bool peer_keeps,
			     bool is_busy)
{
	struct stream stream;
	struct result result;
	const uint64_t *counters;
	uint64_t acked, resent;

	stream_open(&stream, seed, faults);
	stream.is_busy = is_busy;
	/* As with a NIC: there is no room to keep anything in. */
	if (!peer_keeps)
		stream.world.nodes[1].engine.roce->kept_bytes = SIZE_MAX / 2;
	counters = stream.world.nodes[0].engine.roce->counters;
	run_for(&stream, WARM_UP_RTTS);
	acked = acked_pkts(&stream);
	resent = counters[ROCE_PACKETS_RESENT];
	run_for(&stream, MEASURED_RTTS);
	acked = acked_pkts(&stream) - acked;
	resent = counters[ROCE_PACKETS_RESENT] - resent;
	result.delivered = (double)acked / MEASURED_RTTS;
	result.resent = (double)resent / (double)acked;
	print_message(
		"# %u of 10000 lost, %s%s, %s: %.1f packets a round trip, %.1f %% of them again\n",
		faults->lose, faults->packet_ns ? "narrow" : "wide", is_busy ? ", busy" : "",
		peer_keeps ? "kept" : "dropped", result.delivered, 100 * result.resent);
	stream_close(&stream);
	return result;
}

static const struct sim_faults wide = {.delay_ns = RTT_NS / 2};
/* NARROW_PACKETS in a round trip, and a queue of as many again and more. */
static const struct sim_faults narrow = {
	.delay_ns = RTT_NS / 2, .packet_ns = RTT_NS / NARROW_PACKETS, .queue_ns = 2 * RTT_NS};

static void expect(const struct sim_faults *network, unsigned lose, bool peer_keeps,
		   double least_delivered, double most_resent)
{
	struct sim_faults faults = *network;

	faults.lose = lose;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct result result = measure(seed, &faults, peer_keeps, false);

		assert_true(result.delivered >= least_delivered);
		assert_true(result.resent <= most_resent);
	}
}

static void a_good_network_is_filled(void **state)
{
	(void)state;
	expect(&wide, 0, true, WINDOW_MAX_PSNS - 1, 0);
	expect(&narrow, 0, true, 0.98 * NARROW_PACKETS, 0.001);
	expect(&narrow, 0, false, 0.9 * NARROW_PACKETS, 0.05);
}

/* TCP's rule of old is a window of 1.22 / sqrt(loss): 12 packets in a round trip at 1 %, 39 at 0.1 %, and 4 at 10 %. */
static void chance_losses_cost_what_was_lost(void **state)
{
	(void)state;
	expect(&wide, 10, true, 300, 0.01);
	expect(&wide, 100, true, 70, 0.05);
	expect(&narrow, 100, true, 0.85 * NARROW_PACKETS, 0.04);
}

static void a_peer_that_drops_costs_more(void **state)
{
	(void)state;
	expect(&wide, 100, false, 40, 1.2);
	expect(&narrow, 100, false, 0.4 * NARROW_PACKETS, 0.6);
}

/*
 * Where the machines are busy round trips are long because nobody is there to answer, and not because of a queue: a window
 * that gave way to each loss, as TCP's does that waits for no processor, would be 5 packets in a round trip.
 */
static void busy_machines_are_no_congestion(void **state)
{
	struct sim_faults faults = wide;

	(void)state;
	faults.lose = 100;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		assert_true(measure(seed, &faults, true, true).delivered >= 12);
}

/* More than chance: the window gives way. */
static void many_losses_are_congestion(void **state)
{
	(void)state;
	expect(&wide, 1000, true, 3, 0.4);
	expect(&wide, 1000, false, 3, 0.9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_network_is_filled),
		cmocka_unit_test(chance_losses_cost_what_was_lost),
		cmocka_unit_test(a_peer_that_drops_costs_more),
		cmocka_unit_test(busy_machines_are_no_congestion),
		cmocka_unit_test(many_losses_are_congestion),
	};

	return cmocka_run_group_tests_name("sim-throughput", tests, NULL, NULL);
}
