/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_SIM_H
#define USRDMA_LINK_SIM_H

#include "link/link.h"

/*
 * A simulated network in memory and in virtual time. It loses, duplicates, reorders, delays,
 * corrupts and marks datagrams by fault rules (base/fault.h, sim_rules.h); its other faults are
 * chosen by a generator with a seed. A run can be repeated exactly. Its nodes are links with one
 * address each. It has no thread and no clock: the caller passes the time.
 */
struct sim_net;

#define SIM_CERTAIN 10000u /* probability 1; the faults are in this unit */

/* The faults of the network; all zeros: no faults. */
struct sim_faults {
	const char *rules; /* fault rules; NULL: no rules. Not used after the call that passes it */
	unsigned cut;	   /* its end is cut off */
	unsigned refuse;   /* send() accepts nothing: back-pressure */
	bool hides_ip_id;  /* as a UDP socket does */
	uint64_t delay_ns;
	uint64_t jitter_ns;
	uint64_t packet_ns;   /* transmission time of one datagram; later ones queue */
	uint64_t queue_ns;    /* longest time in the queue, then datagrams are lost; 0: unlimited */
	uint32_t socket_pkts; /* a socket with so many datagrams loses further ones; 0: unlimited */
	/* ECN-capable datagrams that queue for longer are marked; 0: none */
	uint64_t mark_queue_ns;
};

/*
 * NULL: no memory, or invalid rules. The times of rules begin with the call, also of the next
 * function.
 */
struct sim_net *sim_net_new(uint64_t seed, const struct sim_faults *faults);
/* Faults without rules remove the rules of the network. */
void sim_net_set_faults(struct sim_net *net, const struct sim_faults *faults);
/* To be called after all links are closed. */
void sim_net_free(struct sim_net *net);

/* Moves the datagrams that have arrived by now_ns to their receivers. */
void sim_net_advance(struct sim_net *net, uint64_t now_ns);
/* When the next datagram arrives; TIMER_NEVER_NS: no datagram is in the network. */
uint64_t sim_net_next(const struct sim_net *net);

/* Adds a node. NULL: out of memory. Closing the link drops the datagrams to it. */
struct link *sim_link_new(struct sim_net *net, const uint8_t gid[GID_BYTES]);
/*
 * Restricts the link to datagrams for these QPNs. Links with the same address stand for processes
 * of one host, with one QPN range each.
 */
void sim_link_share(struct link *link, uint32_t first_qpn, uint32_t count);
/* While the node is cut off, it neither sends nor receives. */
void sim_link_cut(struct link *link, bool is_cut);
/* Whether recv() has a datagram. */
bool sim_link_has_rx(const struct link *link);
/* Delivers a datagram to the node with the source address from_gid. 0 or -ENOMEM. */
int sim_link_inject(struct link *link, const uint8_t from_gid[GID_BYTES], uint16_t src_port,
		    const void *bytes, size_t len) __attribute__((warn_unused_result));
/*
 * Copies the last datagram that this node sent, for tests that send it again with a change. 0
 * bytes: none.
 */
size_t sim_link_last_sent(const struct link *link, const uint8_t **bytes);

#endif
