/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/timer.h"
#include "sim_engine.h"

/* Ethernet header and FCS, preamble, inter-frame gap, IPv4 and UDP headers. */
#define WIRE_OVERHEAD_BYTES (18u + 8u + 12u + 28u)
/* A socket accounts a packet with the memory of its buffer. */
#define SOCKET_OVERHEAD_BYTES 256u
#define PORT_FIRST	      0xc000u
#define PORT_BITS	      14
#define RECV_MAX	      64
#define PACKETS_IN_CHUNK      256

#define ECN_MASK    0x03
#define ECN_CAPABLE 0x02
#define ECN_MARKED  0x03

/* A packet of the network. Its payload is a reference, or `owned`, a copy that recv() frees. */
struct fabric_packet {
	struct fabric_packet *next;
	uint64_t due_ns; /* arrival at the next hop */
	const uint8_t *payload;
	uint8_t *owned;
	uint32_t wire_bytes;
	uint16_t src, dst; /* hosts */
	uint16_t src_port;
	uint16_t payload_bytes;
	uint8_t spine;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t hdr_bytes;
	uint8_t trailer_bytes;
	uint8_t hdr[PACKET_HDR_MAX];
	uint8_t trailer[LINK_TRAILER_MAX];
};

/* Mixes 64 bits (the finalizer of splitmix64). */
static uint64_t fabric_mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t fabric_random(struct fabric_net *net)
{
	return fabric_mix(net->random += UINT64_C(0x9e3779b97f4a7c15));
}

static void queue_add(struct fabric_queue *queue, struct fabric_packet *packet)
{
	packet->next = NULL;
	if (queue->head)
		queue->tail->next = packet;
	else
		queue->head = packet;
	queue->tail = packet;
}

static struct fabric_packet *queue_take(struct fabric_queue *queue)
{
	struct fabric_packet *packet = queue->head;

	if (packet)
		queue->head = packet->next;
	return packet;
}

static struct fabric_packet *packet_new(struct fabric_net *net)
{
	struct fabric_packet *packet = net->free;

	if (!packet) {
		struct fabric_packet *chunk = calloc(PACKETS_IN_CHUNK, sizeof(*chunk));

		sim_must(chunk != NULL);
		/* The first packet of each chunk links the chunks, for close(). */
		chunk->next = net->chunks;
		net->chunks = chunk;
		for (int i = 1; i < PACKETS_IN_CHUNK; i++) {
			chunk[i].next = net->free;
			net->free = &chunk[i];
		}
		packet = net->free;
	}
	net->free = packet->next;
	return packet;
}

static void packet_free(struct fabric_net *net, struct fabric_packet *packet)
{
	free(packet->owned);
	packet->owned = NULL;
	packet->next = net->free;
	net->free = packet;
}

/*
 * The ports, in this order: of the hosts, of the leaves to the hosts, of the leaves to the spines,
 * of the spines.
 */
static uint32_t port_of_host(uint32_t host)
{
	return host;
}

static uint32_t port_down(const struct fabric_net *net, uint32_t host)
{
	return net->spec.hosts + host;
}

static uint32_t port_up(const struct fabric_net *net, uint32_t leaf, uint32_t spine)
{
	return 2 * net->spec.hosts + leaf * net->spec.spines + spine;
}

static uint32_t port_of_spine(const struct fabric_net *net, uint32_t spine, uint32_t leaf)
{
	return 2 * net->spec.hosts + net->spec.leaves * (net->spec.spines + spine) + leaf;
}

static uint32_t leaf_of(const struct fabric_net *net, uint32_t host)
{
	return (uint32_t)((uint64_t)host * net->spec.leaves / net->spec.hosts);
}

static void port_open(const struct fabric_net *net, struct fabric_port *port, uint32_t gbps)
{
	const struct fabric_net_spec *spec = &net->spec;

	port->ps_per_byte = 8000 / gbps;
	port->buffer_bytes = (uint32_t)((uint64_t)spec->buffer_bytes * gbps / spec->host_gbps);
	port->kmin_bytes = (uint32_t)((uint64_t)spec->kmin_bytes * gbps / spec->host_gbps);
	port->kmax_bytes = (uint32_t)((uint64_t)spec->kmax_bytes * gbps / spec->host_gbps);
}

static uint64_t port_queue_bytes(const struct fabric_net *net, const struct fabric_port *port)
{
	uint64_t now_ps = net->now_ns * 1000;

	return port->free_ps > now_ps ? (port->free_ps - now_ps) / port->ps_per_byte : 0;
}

static void port_mark(struct fabric_net *net, const struct fabric_port *port,
		      struct fabric_packet *packet, uint64_t queue_bytes)
{
	uint64_t span = port->kmax_bytes - port->kmin_bytes;

	if (!port->kmin_bytes || queue_bytes <= port->kmin_bytes ||
	    (packet->traffic_class & ECN_MASK) != ECN_CAPABLE)
		return;
	if (queue_bytes <= port->kmax_bytes &&
	    fabric_random(net) % (span * 100) >=
		    (queue_bytes - port->kmin_bytes) * net->spec.pmax_percent)
		return;
	packet->traffic_class |= ECN_MARKED;
	net->counts.marked++;
}

/* Queues a packet, or drops it if the buffer is full. */
static void port_send(struct fabric_net *net, uint32_t index, struct fabric_packet *packet)
{
	struct fabric_port *port = &net->ports[index];
	uint64_t queue_bytes = port_queue_bytes(net, port), now_ps = net->now_ns * 1000;

	if (port->buffer_bytes && queue_bytes + packet->wire_bytes > port->buffer_bytes) {
		net->counts.dropped_in_ports++;
		packet_free(net, packet);
		return;
	}
	port_mark(net, port, packet, queue_bytes);
	if (port->buffer_bytes && queue_bytes + packet->wire_bytes > net->counts.max_queue_bytes)
		net->counts.max_queue_bytes = queue_bytes + packet->wire_bytes;
	if (port->free_ps < now_ps)
		port->free_ps = now_ps;
	port->free_ps += (uint64_t)packet->wire_bytes * port->ps_per_byte;
	packet->due_ns = (port->free_ps + 999) / 1000 + net->spec.hop_ns;
	if (!port->packets.head)
		due_heap_set(&net->due, index, packet->due_ns);
	queue_add(&port->packets, packet);
}

static void nic_receive(struct fabric_net *net, struct fabric_packet *packet)
{
	struct fabric_nic *nic = &net->nics[packet->dst];
	uint32_t bytes = packet->wire_bytes + SOCKET_OVERHEAD_BYTES;

	if (nic->received_bytes + bytes > net->spec.socket_bytes) {
		net->counts.dropped_in_sockets++;
		packet_free(net, packet);
		return;
	}
	nic->received_bytes += bytes;
	if (!nic->received.head)
		fabric_net_wake(net, packet->dst, net->now_ns + net->spec.host_ns);
	queue_add(&nic->received, packet);
}

/* A packet has arrived at the end of the link of a port. */
static void packet_arrive(struct fabric_net *net, uint32_t from, struct fabric_packet *packet)
{
	uint32_t hosts = net->spec.hosts, leaf = leaf_of(net, packet->dst);

	if (from < hosts && leaf != leaf_of(net, packet->src))
		port_send(net, port_up(net, leaf_of(net, packet->src), packet->spine), packet);
	else if (from < hosts)
		port_send(net, port_down(net, packet->dst), packet);
	else if (from < 2 * hosts)
		nic_receive(net, packet);
	else if (from < port_of_spine(net, 0, 0))
		port_send(net, port_of_spine(net, packet->spine, leaf), packet);
	else
		port_send(net, port_down(net, packet->dst), packet);
}

int fabric_net_next_host(struct fabric_net *net)
{
	while (net->due.count) {
		struct due due = net->due.entries[0];
		struct fabric_port *port;
		struct fabric_packet *packet;

		if (due.ns > net->now_ns)
			net->now_ns = due.ns;
		net->counts.events++;
		if (due.source >= net->port_count) {
			due_heap_set(&net->due, due.source, TIMER_NEVER_NS);
			return (int)(due.source - net->port_count);
		}
		port = &net->ports[due.source];
		packet = queue_take(&port->packets);
		due_heap_set(&net->due, due.source,
			     port->packets.head ? port->packets.head->due_ns : TIMER_NEVER_NS);
		packet_arrive(net, due.source, packet);
	}
	return -1;
}

void fabric_net_wake(struct fabric_net *net, uint32_t host, uint64_t ns)
{
	if (ns < due_heap_time(&net->due, net->port_count + host))
		due_heap_set(&net->due, net->port_count + host, ns);
}

static struct fabric_nic *nic_of(struct link *link)
{
	return (struct fabric_nic *)(void *)link;
}

static uint32_t host_of_gid(const uint8_t gid[GID_BYTES])
{
	return (uint32_t)gid[GID_BYTES - 2] << 8 | gid[GID_BYTES - 1];
}

void fabric_net_gid(uint32_t host, uint8_t gid[GID_BYTES])
{
	const uint8_t ipv4[GID_BYTES] = {[10] = 0xff,	       0xff,	     10, 0,
					 (uint8_t)(host >> 8), (uint8_t)host};

	memcpy(gid, ipv4, GID_BYTES);
}

/* Stores the payload: a reference if it never changes, else a copy. */
static void packet_store(const struct fabric_net *net, struct fabric_packet *packet,
			 const struct link_tx *tx)
{
	const uint8_t *base = tx->payload_count ? tx->payload->iov_base : NULL;
	size_t bytes = 0;

	packet->payload_bytes = tx->payload_bytes;
	packet->payload = base;
	if (!base || (tx->payload_count == 1 && base >= net->stable && base < net->stable_end))
		return;
	packet->payload = packet->owned = malloc(tx->payload_bytes);
	sim_must(packet->owned != NULL);
	for (int i = 0; i < tx->payload_count; i++) {
		memcpy(packet->owned + bytes, tx->payload[i].iov_base, tx->payload[i].iov_len);
		bytes += tx->payload[i].iov_len;
	}
}

static void nic_send_one(struct fabric_nic *nic, const struct link_tx *tx)
{
	struct fabric_net *net = nic->net;
	struct fabric_packet *packet = packet_new(net);
	uint64_t key;

	packet->src = (uint16_t)nic->host;
	packet->dst = (uint16_t)host_of_gid(tx->path->remote_gid);
	packet->src_port = tx->path->src_port;
	packet->traffic_class = tx->path->traffic_class;
	if (!nic->is_ecn)
		packet->traffic_class &= (uint8_t)~ECN_MASK;
	packet->hop_limit = tx->path->hop_limit;
	packet->hdr_bytes = tx->hdr_bytes;
	packet->trailer_bytes = tx->trailer_bytes;
	memcpy(packet->hdr, tx->hdr, tx->hdr_bytes);
	memcpy(packet->trailer, tx->trailer, tx->trailer_bytes);
	packet_store(net, packet, tx);
	packet->wire_bytes = WIRE_OVERHEAD_BYTES + packet->hdr_bytes + packet->payload_bytes +
			     packet->trailer_bytes;
	key = (uint64_t)packet->src << 32 | (uint64_t)packet->dst << 16 | packet->src_port;
	packet->spine = (uint8_t)(fabric_mix(key ^ net->spec.seed << 48) % net->spec.spines);
	net->counts.sent++;
	port_send(net, port_of_host(nic->host), packet);
}

static int nic_send(struct link *link, const struct link_tx *tx, int n)
{
	struct fabric_nic *nic = nic_of(link);
	struct fabric_net *net = nic->net;
	const struct fabric_port *port = &net->ports[port_of_host(nic->host)];

	for (int i = 0; i < n; i++) {
		uint64_t queue_bytes = port_queue_bytes(net, port);

		if (queue_bytes > net->spec.nic_bytes) {
			/* As a socket reports POLLOUT: when half of the queue is free. */
			fabric_net_wake(net, nic->host,
					net->now_ns + (queue_bytes - net->spec.nic_bytes / 2) *
							      port->ps_per_byte / 1000);
			return i;
		}
		nic_send_one(nic, &tx[i]);
	}
	return n;
}

static void packet_to_rx(const struct fabric_packet *packet, uint8_t *bytes, struct link_rx *rx)
{
	memset(rx, 0, sizeof(*rx));
	fabric_net_gid(packet->dst, rx->local_gid);
	fabric_net_gid(packet->src, rx->remote_gid);
	rx->src_port = packet->src_port;
	rx->traffic_class = packet->traffic_class;
	rx->hop_limit = packet->hop_limit;
	rx->is_ip_id_known = true;
	rx->bytes = bytes;
	memcpy(bytes, packet->hdr, packet->hdr_bytes);
	rx->len = packet->hdr_bytes;
	if (packet->payload_bytes)
		memcpy(bytes + rx->len, packet->payload, packet->payload_bytes);
	rx->len += packet->payload_bytes;
	memcpy(bytes + rx->len, packet->trailer, packet->trailer_bytes);
	rx->len += packet->trailer_bytes;
}

static int nic_recv(struct link *link, struct link_rx *rx, int max)
{
	struct fabric_nic *nic = nic_of(link);
	struct fabric_packet *packet;
	int n = 0;

	while (n < max && n < RECV_MAX && (packet = queue_take(&nic->received))) {
		packet_to_rx(packet, nic->net->scratch + (size_t)n * PACKET_MAX, &rx[n]);
		nic->received_bytes -= packet->wire_bytes + SOCKET_OVERHEAD_BYTES;
		nic->net->counts.received++;
		packet_free(nic->net, packet);
		n++;
	}
	return n;
}

static int nic_fd(struct link *link)
{
	(void)link;
	return -1;
}

/* A port for each peer, unrelated to the peers' numbers, as udp.c has it. */
static int nic_path_open(struct link *link, struct link_path *path)
{
	struct fabric_nic *nic = nic_of(link);
	uint64_t key = (uint64_t)nic->host << 32 | host_of_gid(path->remote_gid);

	path->src_port =
		(uint16_t)(PORT_FIRST + 1 +
			   fabric_mix(key + nic->net->spec.seed * UINT64_C(0x5851f42d4c957f2d)) %
				   ((1u << PORT_BITS) - 1));
	return 0;
}

static void nic_path_close(struct link *link, struct link_path *path)
{
	(void)link;
	(void)path;
}

static const struct link_ops nic_ops = {
	.name = "fabric",
	.send = nic_send,
	.recv = nic_recv,
	.fd = nic_fd,
	.path_open = nic_path_open,
	.path_close = nic_path_close,
};

static void nics_open(struct fabric_net *net)
{
	for (uint32_t host = 0; host < net->spec.hosts; host++) {
		struct fabric_nic *nic = &net->nics[host];

		nic->link.ops = &nic_ops;
		nic->link.rx_bytes = net->spec.socket_bytes;
		nic->net = net;
		nic->host = host;
		nic->is_ecn = true;
		/* A host's own queue neither drops nor marks. */
		net->ports[port_of_host(host)].ps_per_byte = 8000 / net->spec.host_gbps;
		port_open(net, &net->ports[port_down(net, host)], net->spec.host_gbps);
	}
}

void fabric_net_open(struct fabric_net *net, const struct fabric_net_spec *spec)
{
	memset(net, 0, sizeof(*net));
	net->spec = *spec;
	net->now_ns = 1000000000;
	net->random = spec->seed;
	net->port_count = 2 * spec->hosts + 2 * spec->leaves * spec->spines;
	due_heap_open(&net->due, net->port_count + spec->hosts);
	net->ports = calloc(net->port_count, sizeof(*net->ports));
	net->nics = calloc(spec->hosts, sizeof(*net->nics));
	net->scratch = malloc((size_t)RECV_MAX * PACKET_MAX);
	sim_must(net->ports && net->nics && net->scratch);
	for (uint32_t i = 2 * spec->hosts; i < net->port_count; i++)
		port_open(net, &net->ports[i], spec->spine_gbps);
	nics_open(net);
}

static void queue_drop(struct fabric_net *net, struct fabric_queue *queue)
{
	struct fabric_packet *packet;

	while ((packet = queue_take(queue)))
		packet_free(net, packet);
}

void fabric_net_close(struct fabric_net *net)
{
	for (uint32_t i = 0; i < net->port_count; i++)
		queue_drop(net, &net->ports[i].packets);
	for (uint32_t i = 0; i < net->spec.hosts; i++)
		queue_drop(net, &net->nics[i].received);
	while (net->chunks) {
		struct fabric_packet *chunk = net->chunks;

		net->chunks = chunk->next;
		free(chunk);
	}
	due_heap_close(&net->due);
	free(net->ports);
	free(net->nics);
	free(net->scratch);
}

double fabric_net_packet_ns(const struct fabric_net_spec *spec, uint32_t udp_bytes)
{
	return (double)(WIRE_OVERHEAD_BYTES + udp_bytes) * 8 / spec->host_gbps;
}
