/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "roce/qp.h"

/* UDP payload of a packet of an RDMA WRITE besides its data: BTH and ICRC. */
#define PACKET_EXTRA_BYTES 16u

struct flow {
	struct ibv_qp *qps[2]; /* NULL: not connected */
	uint32_t from, to;
	uint32_t posted, done;
	uint32_t warm_pkts;	/* acknowledged at the end of warm_ns */
	uint32_t measured_pkts; /* since then, at the end of measure_ns */
	uint64_t ended_ns;
	uint64_t *posted_ns; /* ring of `depth` */
};

/* One run; on the stack of load_run(). */
struct load {
	const struct load_spec *spec;
	struct fabric fabric;
	struct flow *flows;
	uint32_t flow_count;
	uint32_t *order;     /* a random permutation of the hosts */
	uint32_t *next_peer; /* all-to-all: of each host, the distance to its next peer */
	uint64_t random;
	uint64_t start_ns;
	bool is_warm;
	bool is_over; /* flows post no more messages */
	uint32_t *latencies_ns;
	size_t latency_count, latency_room;
	uint64_t pending;
	struct load_result *result;
};

static const char *const pattern_names[] = {"incast", "all-to-all", "permutation"};
_Static_assert(sizeof(pattern_names) / sizeof(pattern_names[0]) == LOAD_PATTERN_COUNT,
	       "a name for each pattern");

const char *load_pattern_name(enum load_pattern pattern)
{
	return pattern_names[pattern];
}

static uint64_t load_random(struct load *load)
{
	uint64_t x = load->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	load->random = x;
	return x;
}

static uint32_t load_hosts(const struct load *load)
{
	return load->fabric.net.spec.hosts;
}

/* Fisher-Yates shuffle. */
static void load_shuffle(struct load *load)
{
	load->order = calloc(load_hosts(load), sizeof(*load->order));
	sim_must(load->order != NULL);
	for (uint32_t i = 0; i < load_hosts(load); i++) {
		uint32_t j = (uint32_t)(load_random(load) % (i + 1));

		load->order[i] = load->order[j];
		load->order[j] = i;
	}
}

static void load_add_latency(struct load *load, uint64_t ns)
{
	if (load->latency_count == load->latency_room) {
		load->latency_room = load->latency_room ? 2 * load->latency_room : 1024;
		load->latencies_ns = realloc(load->latencies_ns,
					     load->latency_room * sizeof(*load->latencies_ns));
		sim_must(load->latencies_ns != NULL);
	}
	load->latencies_ns[load->latency_count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static void flow_post(struct load *load, struct flow *flow)
{
	flow->posted_ns[flow->posted % load->spec->depth] = load->fabric.net.now_ns;
	flow->posted++;
	load->pending++;
	fabric_write(&load->fabric, flow->from, flow->to, flow->qps[0], load->spec->bytes,
		     (uint64_t)(flow - load->flows));
}

static void flow_disconnect(struct flow *flow)
{
	for (int i = 0; i < 2; i++) {
		if (flow->qps[i])
			sim_must(ibv_destroy_qp(flow->qps[i]) == 0);
		flow->qps[i] = NULL;
	}
}

static bool flow_may_post(const struct load *load, const struct flow *flow)
{
	const struct load_spec *spec = load->spec;

	if (spec->pattern == LOAD_ALL_TO_ALL)
		return flow->posted == 0;
	return spec->measure_ns ? !load->is_over : flow->posted < spec->messages;
}

/*
 * All-to-all: the connections of host i are flows i * depth and the following ones. Connects one
 * with the next peer.
 */
static void load_next_peer(struct load *load, struct flow *flow)
{
	uint32_t hosts = load_hosts(load), distance = load->next_peer[flow->from];

	flow_disconnect(flow);
	if (distance == hosts)
		return;
	load->next_peer[flow->from]++;
	flow->to = (flow->from + distance) % hosts;
	fabric_connect(&load->fabric, flow->from, flow->to, 1, flow->qps);
	flow->posted = flow->done = 0;
	flow_post(load, flow);
}

static void load_on_wc(struct fabric *fabric, uint32_t host, const struct ibv_wc *wc)
{
	struct load *load = fabric->arg;
	struct flow *flow = &load->flows[wc->wr_id];
	uint64_t posted_ns = flow->posted_ns[flow->done % load->spec->depth];

	(void)host;
	load->pending--;
	flow->done++;
	flow->ended_ns = fabric->net.now_ns;
	if (wc->status != IBV_WC_SUCCESS) {
		load->result->failed++;
		return;
	}
	load->result->messages++;
	if (!load->is_over && posted_ns >= load->start_ns + load->spec->warm_ns)
		load_add_latency(load, fabric->net.now_ns - posted_ns);
	if (load->spec->pattern == LOAD_ALL_TO_ALL)
		load_next_peer(load, flow);
	else if (flow_may_post(load, flow))
		flow_post(load, flow);
}

static void flow_add(struct load *load, uint32_t from, uint32_t to)
{
	struct flow *flow = &load->flows[load->flow_count++];

	flow->from = from;
	flow->to = to;
	fabric_connect(&load->fabric, from, to, load->spec->depth, flow->qps);
}

static void load_open_flows(struct load *load)
{
	uint32_t hosts = load_hosts(load), group = load->spec->fan_in + 1;

	if (load->spec->pattern == LOAD_PERMUTATION) {
		for (uint32_t i = 0; i < hosts; i++)
			flow_add(load, load->order[i], load->order[(i + 1) % hosts]);
		return;
	}
	for (uint32_t i = 0; i + group <= hosts; i += group) {
		for (uint32_t j = 1; j < group; j++)
			flow_add(load, load->order[i + j], load->order[i]);
	}
}

static void load_open_all_to_all(struct load *load)
{
	uint32_t hosts = load_hosts(load), depth = load->spec->depth;

	load->flow_count = hosts * depth;
	load->next_peer = calloc(hosts, sizeof(*load->next_peer));
	sim_must(load->next_peer != NULL);
	for (uint32_t i = 0; i < hosts; i++)
		load->next_peer[i] = 1;
	for (uint32_t i = 0; i < load->flow_count; i++)
		load->flows[i].from = i / depth;
}

static void load_open(struct load *load)
{
	const struct load_spec *spec = load->spec;
	uint32_t hosts = load_hosts(load), rooms = hosts * (spec->depth + 1);

	for (uint32_t i = 0; i < hosts; i++) {
		bool is_other = spec->other_cc && i % 2;

		fabric_set_cc(&load->fabric, i, is_other ? spec->other_cc : spec->cc,
			      is_other ? spec->is_other_ecn : spec->is_ecn);
	}
	load->flows = calloc(rooms, sizeof(*load->flows));
	sim_must(load->flows != NULL);
	load_shuffle(load);
	if (spec->pattern == LOAD_ALL_TO_ALL)
		load_open_all_to_all(load);
	else
		load_open_flows(load);
	for (uint32_t i = 0; i < load->flow_count; i++) {
		load->flows[i].posted_ns = calloc(spec->depth, sizeof(uint64_t));
		sim_must(load->flows[i].posted_ns != NULL);
	}
}

static void load_start(struct load *load)
{
	for (uint32_t i = 0; i < load->flow_count; i++) {
		struct flow *flow = &load->flows[i];

		if (load->spec->pattern == LOAD_ALL_TO_ALL) {
			load_next_peer(load, flow);
			continue;
		}
		for (uint32_t n = 0; n < load->spec->depth && flow_may_post(load, flow); n++)
			flow_post(load, flow);
	}
}

/* The end of the warm-up, and the end of the measurement. */
static void load_look_at_clock(struct load *load)
{
	const struct load_spec *spec = load->spec;
	uint64_t passed_ns = load->fabric.net.now_ns - load->start_ns;
	bool begins = !load->is_warm && passed_ns >= spec->warm_ns;
	bool ends = spec->measure_ns && !load->is_over &&
		    passed_ns >= spec->warm_ns + spec->measure_ns;

	if (!begins && !ends)
		return;
	for (uint32_t i = 0; i < load->flow_count && spec->measure_ns; i++) {
		struct flow *flow = &load->flows[i];
		uint32_t pkts = fabric_acked_pkts(flow->qps[0]);

		if (begins)
			flow->warm_pkts = pkts;
		else
			flow->measured_pkts = psn_sub(pkts, flow->warm_pkts);
	}
	load->is_warm = true;
	load->is_over = ends;
}

static uint32_t load_mtu_bytes(const struct load *load)
{
	return 128u << load->fabric.mtu;
}

/*
 * Payload bytes that count for the goodput of a flow, and the time in which they were acknowledged.
 */
static double flow_gbps(const struct load *load, const struct flow *flow)
{
	const struct load_spec *spec = load->spec;
	double ns = (double)(flow->ended_ns - load->start_ns);

	if (spec->measure_ns)
		return (double)flow->measured_pkts * load_mtu_bytes(load) * 8 /
		       (double)spec->measure_ns;
	return (double)flow->done * spec->bytes * 8 / ns;
}

/* All-to-all: each host sends the same, so its goodput is given by the end of its last message. */
static double host_gbps(const struct load *load, uint32_t host)
{
	const struct load_spec *spec = load->spec;
	uint64_t ended_ns = load->start_ns + 1;

	for (uint32_t i = 0; i < spec->depth; i++) {
		const struct flow *flow = &load->flows[host * spec->depth + i];

		if (flow->ended_ns > ended_ns)
			ended_ns = flow->ended_ns;
	}
	return (double)(load_hosts(load) - 1) * spec->bytes * 8 /
	       (double)(ended_ns - load->start_ns);
}

/*
 * The goodput if each host that limits the pattern sends or receives at line rate all the time: the
 * receivers of an incast, or all hosts.
 */
static double load_ideal_gbps(const struct load *load)
{
	const struct fabric_net_spec *net = &load->fabric.net.spec;
	uint32_t mtu_bytes = load_mtu_bytes(load), bytes = load->spec->bytes;
	uint32_t payload_bytes = bytes < mtu_bytes ? bytes : mtu_bytes;
	double host_gbps = payload_bytes * 8.0 /
			   fabric_net_packet_ns(net, payload_bytes + PACKET_EXTRA_BYTES);
	uint32_t limits = load->spec->pattern == LOAD_INCAST ?
				  load->flow_count / load->spec->fan_in :
				  net->hosts;

	return host_gbps * limits;
}

static void load_rate(struct load *load)
{
	struct load_result *result = load->result;
	bool is_per_host = load->spec->pattern == LOAD_ALL_TO_ALL;
	uint32_t count = is_per_host ? load_hosts(load) : load->flow_count;
	double sum = 0, squares = 0, groups[2] = {0, 0};

	for (uint32_t i = 0; i < count; i++) {
		double gbps = is_per_host ? host_gbps(load, i) : flow_gbps(load, &load->flows[i]);

		sum += gbps;
		squares += gbps * gbps;
		groups[(is_per_host ? i : load->flows[i].from) % 2] += gbps;
	}
	result->flows = is_per_host ? (uint64_t)count * (count - 1) : count;
	result->jain = squares > 0 ? sum * sum / ((double)count * squares) : 0;
	result->other_share = groups[0] > 0 ? groups[1] / groups[0] : 0;
	result->goodput_gbps = load->spec->measure_ns ?
				       sum :
				       (double)result->messages * load->spec->bytes * 8 /
					       (double)result->virtual_ns;
	result->ideal_percent = 100 * result->goodput_gbps / load_ideal_gbps(load);
}

static int load_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void load_measure(struct load *load)
{
	struct load_result *result = load->result;
	const struct fabric *fabric = &load->fabric;
	const struct fabric_counts *counts = &fabric->net.counts;
	size_t n = load->latency_count;

	load_rate(load);
	qsort(load->latencies_ns, n, sizeof(*load->latencies_ns), load_compare);
	if (n) {
		result->p50_us = load->latencies_ns[n / 2] / 1e3;
		result->p99_us = load->latencies_ns[n * 99 / 100] / 1e3;
		result->max_us = load->latencies_ns[n - 1] / 1e3;
	}
	result->counts = *counts;
	result->unmatched = counts->sent - counts->received - counts->dropped_in_ports -
			    counts->dropped_in_sockets;
	result->resent = fabric_counter(fabric, ROCE_PACKETS_RESENT);
	result->timeouts = fabric_counter(fabric, ROCE_TIMEOUTS);
	result->notices = fabric_counter(fabric, ROCE_CONGESTION_NOTICES);
	result->turns = fabric->turns;
}

static void load_close(struct load *load)
{
	for (uint32_t i = 0; i < load->flow_count; i++) {
		flow_disconnect(&load->flows[i]);
		free(load->flows[i].posted_ns);
	}
	fabric_close(&load->fabric);
	free(load->flows);
	free(load->order);
	free(load->next_peer);
	free(load->latencies_ns);
}

void load_run(const struct fabric_net_spec *net, enum ibv_mtu mtu, const struct load_spec *spec,
	      struct load_result *result)
{
	struct load load = {
		.spec = spec,
		.random = net->seed * UINT64_C(0x9e3779b97f4a7c15) | 1,
		.result = result,
	};

	memset(result, 0, sizeof(*result));
	fabric_open(&load.fabric, net, mtu, spec->bytes);
	load.fabric.on_wc = load_on_wc;
	load.fabric.arg = &load;
	load_open(&load);
	load.start_ns = load.fabric.net.now_ns;
	load_start(&load);
	while (load.pending && fabric_step(&load.fabric))
		load_look_at_clock(&load);
	result->virtual_ns = load.fabric.net.now_ns - load.start_ns;
	/* The last ACKs and timers. */
	while (fabric_step(&load.fabric))
		;
	load_measure(&load);
	load_close(&load);
}
