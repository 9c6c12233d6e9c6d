/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_FABRIC_LOAD_H
#define TESTS_SIM_FABRIC_LOAD_H

#include "fabric.h"

/*
 * Traffic on a fabric, in patterns of flows. A flow is one RC queue pair that keeps `depth` RDMA
 * WRITEs of `bytes` outstanding.
 *
 * incast: groups of fan_in + 1 random hosts, in which all others send to one. permutation: each
 * host sends to one host and receives from one. all-to-all: each host sends one message to each
 * other host, with `depth` connections at a time; a connection ends with its message.
 */
enum load_pattern { LOAD_INCAST, LOAD_ALL_TO_ALL, LOAD_PERMUTATION, LOAD_PATTERN_COUNT };

struct load_spec {
	enum load_pattern pattern;
	uint32_t fan_in;
	uint32_t bytes; /* of a message */
	uint32_t depth;
	/*
	 * Flows send for warm_ns + measure_ns. If measure_ns is 0, each flow sends `messages`
	 * messages.
	 */
	uint32_t messages;
	uint64_t warm_ns;
	uint64_t measure_ns;
	const char *cc;
	bool is_ecn;
	/*
	 * The senders with an odd number use this algorithm and ECN setting instead; NULL: all are
	 * equal.
	 */
	const char *other_cc;
	bool is_other_ecn;
};

struct load_result {
	uint64_t flows;
	uint64_t messages;
	uint64_t failed; /* completions with an error */
	uint64_t virtual_ns;
	double goodput_gbps; /* payload, of all hosts */
	/* of the goodput at the line rate of the hosts that limit the pattern */
	double ideal_percent;
	double jain; /* Jain's index over the goodput of the flows; all-to-all: of the hosts */
	double other_share; /* goodput of the odd senders / goodput of the even ones */
	/* Completion times of messages, from the post. */
	double p50_us;
	double p99_us;
	double max_us;
	struct fabric_counts counts;
	uint64_t unmatched; /* packets sent, but neither received nor dropped, at the end */
	uint64_t resent;
	uint64_t timeouts;
	uint64_t notices; /* CNPs */
	uint64_t turns;
};

const char *load_pattern_name(enum load_pattern pattern);
void load_run(const struct fabric_net_spec *net, enum ibv_mtu mtu, const struct load_spec *spec,
	      struct load_result *result);

#endif
