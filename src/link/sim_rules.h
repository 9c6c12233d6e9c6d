/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_SIM_RULES_H
#define USRDMA_LINK_SIM_RULES_H

#include "base/fault.h"
#include "link/link.h"

/*
 * The fault rules of a simulated network (base/fault.h): of the points packet.send, which a packet
 * passes on its way into the network, and packet.receive, on its way to each receiver. A network
 * has a set of its own. The same text gives the same faults in each run.
 */
struct sim_rules;

/*
 * The times of the rules begin at start_ns. NULL: `text` is invalid, which is reported on standard
 * error, or no memory.
 */
struct sim_rules *sim_rules_new(const char *text, uint64_t start_ns);
void sim_rules_free(struct sim_rules *rules);

/* A packet, and the address of the receiver. */
struct sim_passage {
	const struct link_path *path;
	const uint8_t *from_gid;
	const uint8_t *bytes;
	size_t len;
};

/* The packet passes the points. Returns whether a rule fires, and its action. */
bool sim_rules_decide(struct sim_rules *rules, const struct sim_passage *passage, uint64_t now_ns,
		      struct fault *fault);

#endif
