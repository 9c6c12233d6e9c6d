/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/gsi_wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/log.h"
#include "base/util.h"
#include "daemon/gsi.h"
#include "daemon/gsi_probe.h"
#include "daemon/netdev.h"
#include "link/udp.h"
#include "wire/icrc.h"
#include "wire/mad.h"
#include "wire/opcode.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define GSI_QPN		1
#define PKEY_MASK	0x7fff /* without the membership bit (IBA 1.x §10.9.3) */
#define DESTINATIONS	64
#define RECEIVE_AT_ONCE 64
#define ERRORS_AT_ONCE	64

/* A recently used path of MADs and its constant header fields. */
struct destination {
	bool is_open;
	struct link_path path;
	struct icrc_flow flow;
};

struct gsi_wire {
	struct link *link;
	uint32_t psn;
	unsigned int next; /* index of the destination that is replaced next */
	struct destination destinations[DESTINATIONS];
	struct icrc_solver solver;
	struct gsi_wire_counters counters;
};

static const char *const counter_names[] = {
	[GSI_WIRE_SENT] = "mads sent",
	[GSI_WIRE_RECEIVED] = "mads received",
	[GSI_WIRE_UNSENT] = "mads unsent",
	[GSI_WIRE_UNDELIVERABLE] = "undeliverable mads reported",
	[GSI_WIRE_DROPPED_MALFORMED] = "dropped: malformed",
	[GSI_WIRE_DROPPED_ADDRESS] = "dropped: wrong address",
	[GSI_WIRE_DROPPED_LOCAL] = "dropped: sent by a process of this host",
	[GSI_WIRE_DROPPED_OPCODE] = "dropped: wrong opcode",
	[GSI_WIRE_DROPPED_QPN] = "dropped: unknown qpn",
	[GSI_WIRE_DROPPED_PKEY] = "dropped: wrong p_key",
	[GSI_WIRE_DROPPED_QKEY] = "dropped: wrong q_key",
	[GSI_WIRE_DROPPED_LENGTH] = "dropped: wrong length",
};
static_assert(COUNT(counter_names) == GSI_WIRE_COUNTER_COUNT, "every counter has its name");

const char *gsi_wire_counter_name(enum gsi_wire_counter counter)
{
	return (unsigned int)counter < GSI_WIRE_COUNTER_COUNT ? counter_names[counter] : "unknown";
}

static void count(struct gsi_wire *wire, enum gsi_wire_counter counter)
{
	wire->counters.counts[counter]++;
}

struct gsi_wire *gsi_wire_open(int fd)
{
	struct gsi_wire *wire = calloc(1, sizeof(*wire));
	int ret;

	if (!wire)
		return NULL;
	wire->link = udp_link_open(fd);
	if (!wire->link) {
		free(wire);
		return NULL;
	}
	/* Without ICMP errors an unreachable host is detected later, by the CM's timeout. */
	ret = link_report_errors(wire->link);
	if (ret)
		log_warn("ICMP errors are not reported to QP1: %s", strerror(-ret));
	icrc_solver_init(&wire->solver);
	return wire;
}

static void gsi_wire_forget(struct gsi_wire *wire, struct destination *destination)
{
	if (destination->is_open)
		link_path_close(wire->link, &destination->path);
	destination->is_open = false;
}

void gsi_wire_close(struct gsi_wire *wire)
{
	for (unsigned int i = 0; i < DESTINATIONS; i++)
		gsi_wire_forget(wire, &wire->destinations[i]);
	link_close(wire->link);
	free(wire);
}

const struct gsi_wire_counters *gsi_wire_counters(const struct gsi_wire *wire)
{
	return &wire->counters;
}

static struct destination *gsi_wire_find(struct gsi_wire *wire, const struct cm_path *path)
{
	for (unsigned int i = 0; i < DESTINATIONS; i++) {
		struct destination *known = &wire->destinations[i];

		if (known->is_open && !memcmp(known->path.remote_gid, path->dgid, GID_BYTES) &&
		    !memcmp(known->path.local_gid, path->sgid, GID_BYTES) &&
		    known->path.ifindex == path->dev_id &&
		    known->path.traffic_class == path->traffic_class)
			return known;
	}
	return NULL;
}

/* NULL: no socket could be opened. */
static struct destination *find_or_open(struct gsi_wire *wire, const struct cm_path *path)
{
	struct destination *destination = gsi_wire_find(wire, path);

	if (destination)
		return destination;
	destination = &wire->destinations[wire->next];
	wire->next = (wire->next + 1) % DESTINATIONS;
	gsi_wire_forget(wire, destination);
	destination->path = (struct link_path){
		.remote_qpn = GSI_QPN,
		.ifindex = path->dev_id,
		.flow_label = path->flow_label,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
	};
	memcpy(destination->path.local_gid, path->sgid, GID_BYTES);
	memcpy(destination->path.remote_gid, path->dgid, GID_BYTES);
	if (link_path_open(wire->link, &destination->path))
		return NULL;
	destination->is_open = true;
	icrc_flow_init(&destination->flow, path->sgid, path->dgid, destination->path.src_port,
		       PACKET_UDP_PORT);
	icrc_flow_set_dont_fragment(&destination->flow, true);
	return destination;
}

static void gsi_wire_fill(struct gsi_wire *wire, const struct destination *to,
			  const struct iovec *payload, struct link_tx *tx)
{
	const struct packet packet = {
		.opcode = OPCODE(UD, SEND_ONLY),
		.is_migrated = true,
		.pkey = PACKET_PKEY_DEFAULT,
		.dest_qpn = GSI_QPN,
		.psn = wire->psn,
		.qkey = MAD_QKEY,
		.src_qpn = GSI_QPN,
	};
	struct iovec pieces[2];

	memset(tx, 0, sizeof(*tx));
	tx->path = &to->path;
	tx->payload = payload;
	tx->payload_count = 1;
	tx->payload_bytes = (uint16_t)payload->iov_len;
	tx->hdr_bytes = (uint8_t)packet_build_headers(&packet, tx->hdr);
	pieces[0] = (struct iovec){tx->hdr, tx->hdr_bytes};
	pieces[1] = *payload;
	tx->trailer_bytes = (uint8_t)packet_build_trailer(
		payload->iov_len, icrc_compute(&to->flow, 0, pieces, 2), tx->trailer);
	wire->psn = psn_next(wire->psn);
}

void gsi_wire_send(struct gsi_wire *wire, const struct cm_path *path, const void *mad)
{
	struct destination *to = find_or_open(wire, path);
	struct iovec payload = {(void *)(uintptr_t)mad, MAD_BYTES};
	struct link_tx tx;

	if (!to) {
		count(wire, GSI_WIRE_UNSENT);
		return;
	}
	gsi_wire_fill(wire, to, &payload, &tx);
	if (link_send(wire->link, &tx, 1) == 1)
		count(wire, GSI_WIRE_SENT);
	else
		count(wire, GSI_WIRE_UNSENT);
}

static bool is_whole(struct gsi_wire *wire, const struct link_rx *rx)
{
	struct icrc_flow flow;
	uint16_t ip_id;

	icrc_flow_init(&flow, rx->remote_gid, rx->local_gid, rx->src_port, PACKET_UDP_PORT);
	icrc_flow_set_dont_fragment(&flow, true);
	return icrc_check(&flow, &wire->solver, rx->bytes, rx->len, &ip_id) == ICRC_RIGHT;
}

/*
 * Checks the fields of the packet. Returns GSI_WIRE_RECEIVED or the counter of the reason for
 * dropping it.
 */
static enum gsi_wire_counter judge(const struct packet *packet)
{
	if (packet->opcode != OPCODE(UD, SEND_ONLY))
		return GSI_WIRE_DROPPED_OPCODE;
	if (packet->dest_qpn != GSI_QPN)
		return GSI_WIRE_DROPPED_QPN;
	if ((packet->pkey & PKEY_MASK) != (PACKET_PKEY_DEFAULT & PKEY_MASK))
		return GSI_WIRE_DROPPED_PKEY;
	if (packet->qkey != MAD_QKEY)
		return GSI_WIRE_DROPPED_QKEY;
	if (packet->payload_bytes != MAD_BYTES)
		return GSI_WIRE_DROPPED_LENGTH;
	return GSI_WIRE_RECEIVED;
}

/* Parses the packet and checks its ICRC. false: malformed; the reason is counted. */
static bool gsi_wire_parse(struct gsi_wire *wire, const struct link_rx *rx, struct packet *packet)
{
	enum packet_reason reason = packet_parse(packet, rx->bytes, rx->len);

	if (reason == PACKET_OK && !is_whole(wire, rx))
		reason = PACKET_ICRC;
	if (reason == PACKET_OK)
		return true;
	wire->counters.malformed[reason]++;
	count(wire, GSI_WIRE_DROPPED_MALFORMED);
	return false;
}

/*
 * Whether the packet has a source address of this host. The daemon passes MADs between addresses of
 * this host through struct gsi and never through UDP. Such a packet was therefore sent by another
 * process, which could forge messages about the QPs and connections of any process.
 */
static bool is_from_here(const struct link_rx *rx)
{
	return netdev_by_gid(rx->remote_gid, NULL) || gid_is_loopback(rx->remote_gid);
}

/*
 * Checks addresses and fields. Returns GSI_WIRE_RECEIVED or the counter of the reason for dropping
 * the packet.
 */
static enum gsi_wire_counter accept_or_drop(const struct netdev *dev, const struct link_rx *rx,
					    const struct packet *packet)
{
	if (!dev)
		return GSI_WIRE_DROPPED_ADDRESS;
	return is_from_here(rx) ? GSI_WIRE_DROPPED_LOCAL : judge(packet);
}

static void daemon_gsi_wire_receive(struct gsi *gsi, struct cm *cm, const struct link_rx *rx,
				    uint64_t now_ns)
{
	struct gsi_wire *wire = gsi->wire;
	const struct netdev *dev = netdev_by_gid_at(rx->local_gid, rx->ifindex, NULL);
	enum gsi_wire_counter disposition;
	struct packet packet;
	struct cm_path path;

	if (!gsi_wire_parse(wire, rx, &packet))
		return;
	disposition = accept_or_drop(dev, rx, &packet);
	count(wire, disposition);
	if (disposition != GSI_WIRE_RECEIVED)
		return;
	path = (struct cm_path){
		.dev_id = dev->dev_id, .traffic_class = rx->traffic_class, .hop_limit = 64};
	memcpy(path.sgid, rx->local_gid, GID_BYTES);
	memcpy(path.dgid, rx->remote_gid, GID_BYTES);
	gsi_receive(gsi, cm, &path, packet.payload, packet.payload_bytes, now_ns);
}

bool gsi_wire_receive(struct gsi *gsi, struct cm *cm, uint64_t now_ns)
{
	struct link_rx rx[RECEIVE_AT_ONCE];
	int n = link_recv(gsi->wire->link, rx, RECEIVE_AT_ONCE);

	for (int i = 0; i < n; i++)
		daemon_gsi_wire_receive(gsi, cm, &rx[i], now_ns);
	return n > 0;
}

/*
 * Whether the datagram that an ICMP error quotes is a MAD of this daemon, according to its BTH. The
 * quotation may be truncated.
 */
static bool is_our_mad(const struct link_error *error)
{
	const uint8_t *bth = error->bytes;

	return error->len > BTH_BYTES + DETH_BYTES && bth[0] == OPCODE(UD, SEND_ONLY) &&
	       (be_load32(bth + 4) & MASK_24) == GSI_QPN;
}

static void gsi_wire_report(struct gsi_wire *wire, struct cm *cm, const struct link_error *error,
			    uint64_t now_ns)
{
	size_t mad_bytes = error->len - BTH_BYTES - DETH_BYTES;
	struct cm_path path = {0};

	count(wire, GSI_WIRE_UNDELIVERABLE);
	if (!is_our_mad(error))
		return;
	memcpy(path.dgid, error->remote_gid, GID_BYTES);
	cm_unreachable(cm, &path, error->bytes + BTH_BYTES + DETH_BYTES,
		       mad_bytes < MAD_BYTES ? mad_bytes : MAD_BYTES, error->error, now_ns);
}

void gsi_wire_errors(struct gsi_wire *wire, struct cm *cm, uint64_t now_ns)
{
	struct link_error error;

	for (int i = 0; i < ERRORS_AT_ONCE && link_errors(wire->link, &error); i++)
		gsi_wire_report(wire, cm, &error, now_ns);
}

int gsi_wire_fd(const struct gsi_wire *wire)
{
	return link_fd(wire->link);
}
