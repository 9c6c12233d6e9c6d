/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_SIM_H
#define USRDMA_LINK_SIM_H

#include "link/link.h"

/*
 * A network in memory and in virtual time: it loses, repeats, reorders, delays and damages datagrams as a seed says, the
 * same each time. Nodes are links with one address each. No thread, no clock: whoever drives it says what time it is.
 */
struct sim_net;

#define SIM_CERTAIN 10000u /* chances are out of this many */

/* What may happen to a datagram; all zeros: a perfect network. */
struct sim_faults {
	unsigned lose;
	unsigned repeat;
	unsigned reorder; /* delayed by up to four times the usual, past others */
	unsigned flip;	  /* one bit of it */
	unsigned cut;	  /* its end */
	unsigned mark;	  /* ECN, if its sender can take it */
	unsigned refuse;  /* send() finds no room: back-pressure */
	bool hides_ip_id; /* as a socket does */
	uint64_t delay_ns;
	uint64_t jitter_ns;
	uint64_t packet_ns; /* that one takes to pass; those behind it wait … */
	uint64_t queue_ns;  /* … but no longer than this: 0 is for ever, else the rest is lost */
};

/* NULL: no memory. */
struct sim_net *sim_net_new(uint64_t seed, const struct sim_faults *faults);
void sim_net_set_faults(struct sim_net *net, const struct sim_faults *faults);
/* After its links were closed. */
void sim_net_free(struct sim_net *net);

/* What has come by now lies ready for recv(). */
void sim_net_advance(struct sim_net *net, uint64_t now_ns);
/* When the next datagram arrives; TIMER_NEVER_NS: none is under way. */
uint64_t sim_net_next(const struct sim_net *net);

/* A node's link; NULL: no memory. Closing it drops what was on its way there. */
struct link *sim_link_new(struct sim_net *net, const uint8_t gid[GID_BYTES]);
/*
 * From now on nothing comes in but what is for these QPNs: links of one address, which are processes of one host, have a
 * range each.
 */
void sim_link_share(struct link *link, uint32_t first_qpn, uint32_t count);
/* Nothing gets out or in while it is cut. */
void sim_link_cut(struct link *link, bool is_cut);
/* Whether recv() has something. */
bool sim_link_has_rx(const struct link *link);
/* Puts a datagram in front of the node as if it had come from `from_gid`. 0 or -ENOMEM. */
int sim_link_inject(struct link *link, const uint8_t from_gid[GID_BYTES], uint16_t src_port,
		    const void *bytes, size_t len) __attribute__((warn_unused_result));
/* The last datagram this node sent, whole, for tests that send it again changed; 0 bytes: none. */
size_t sim_link_last_sent(const struct link *link, const uint8_t **bytes);

#endif
