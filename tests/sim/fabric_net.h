/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_FABRIC_NET_H
#define TESTS_SIM_FABRIC_NET_H

#include "due_heap.h"
#include "link/link.h"

/*
 * A leaf-spine network in virtual time. Each host is connected to one leaf, each leaf to all
 * spines. A packet between two leaves takes the spine that a hash of the addresses and the UDP
 * source port selects (ECMP). Each egress port has a finite buffer with tail drop. It sets the CE
 * mark in ECN-capable packets by its queue length: never up to kmin, with a probability that rises
 * linearly to pmax at kmax, always above (RED with the instantaneous length, as DCQCN's switches
 * have it; Zhu et al., SIGCOMM 2015). A seed determines a run completely. No thread, no clock.
 *
 * A port transmits in order at a constant rate. The time of a packet's arrival at the next hop is
 * therefore known when it is queued, and a port needs one event, the arrival of its oldest packet.
 */
struct fabric_net_spec {
	uint64_t seed;
	uint32_t hosts;
	uint32_t leaves;
	uint32_t spines;
	uint32_t host_gbps;
	uint32_t spine_gbps;
	uint64_t hop_ns; /* propagation and switching, for each link */
	/* from the arrival of a packet at a waiting host until the host processes it */
	uint64_t host_ns;
	/* Of a port of host_gbps; faster ports have more in proportion. */
	uint32_t buffer_bytes;
	uint32_t kmin_bytes;
	uint32_t kmax_bytes;
	uint32_t pmax_percent;
	uint32_t nic_bytes;    /* queue of a host's own port: then send() accepts no packet */
	uint32_t socket_bytes; /* receive buffer of a host */
};

struct fabric_counts {
	uint64_t sent;
	uint64_t received;
	uint64_t dropped_in_ports;
	uint64_t dropped_in_sockets;
	uint64_t marked;
	uint64_t max_queue_bytes; /* of the switches' ports */
	uint64_t events;
};

struct fabric_packet;

struct fabric_queue {
	struct fabric_packet *head, *tail;
};

struct fabric_port {
	uint64_t free_ps; /* when the last queued packet is transmitted */
	uint32_t ps_per_byte;
	uint32_t buffer_bytes; /* 0: not limited */
	uint32_t kmin_bytes;   /* 0: does not mark */
	uint32_t kmax_bytes;
	struct fabric_queue packets; /* queued and on the wire, in order */
};

/* The network's end of a host. */
struct fabric_nic {
	struct link link;
	struct fabric_net *net;
	uint32_t host;
	bool is_ecn; /* false: its packets are not ECN-capable */
	struct fabric_queue received;
	uint32_t received_bytes;
};

struct fabric_net {
	struct fabric_net_spec spec;
	uint64_t now_ns;
	uint64_t random;
	struct due_heap due; /* sources: ports, then hosts */
	uint32_t port_count;
	struct fabric_port *ports;
	struct fabric_nic *nics;
	struct fabric_packet *free;
	struct fabric_packet *chunks; /* memory of the packets */
	const uint8_t *stable; /* [stable, stable_end): payload that never changes is not copied */
	const uint8_t *stable_end;
	uint8_t *scratch; /* the datagrams of the last recv() */
	struct fabric_counts counts;
};

void fabric_net_open(struct fabric_net *net, const struct fabric_net_spec *spec);
void fabric_net_close(struct fabric_net *net);
/* The address of a host. */
void fabric_net_gid(uint32_t host, uint8_t gid[GID_BYTES]);
/*
 * Forwards packets until a host is due, and returns its number. -1: no event is left. The host's
 * event is removed; the caller processes the host's packets and timers, and then calls
 * fabric_net_wake().
 */
int fabric_net_next_host(struct fabric_net *net);
/* The host is due at this time, or earlier if a packet arrives. */
void fabric_net_wake(struct fabric_net *net, uint32_t host, uint64_t ns);
/* Wire time of a packet with so many bytes of UDP payload, on a host's port. */
double fabric_net_packet_ns(const struct fabric_net_spec *spec, uint32_t udp_bytes);

#endif
