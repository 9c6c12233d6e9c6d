/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LINK_LINK_H
#define USRDMA_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/gid.h"
#include "wire/packet.h"

/*
 * A link sends and receives RoCEv2 datagrams: a UDP socket, a simulated network, or a wrapper
 * around another link that injects faults. Addresses are GIDs: IPv6 addresses or IPv4-mapped ones.
 * The destination port is always PACKET_UDP_PORT. The caller serializes all calls; no call blocks.
 */

/*
 * A peer process: its host and the upper bits of its QPNs (docs/adr/0005). Another RoCEv2
 * implementation may use the upper bits in another way; it then gets packets of one process from
 * several source ports, which is permitted.
 */
#define LINK_PEER_QPN_SHIFT 15

/*
 * The path of a QP's packets. Owned by the QP; constant while packets that refer to it are
 * outstanding.
 */
struct link_path {
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t local_qpn; /* for fault injection; 0: used by several QPs */
	uint32_t remote_qpn;
	/* of the local address; selects the interface for link-local and multicast addresses */
	uint32_t ifindex;
	uint32_t flow_label; /* IPv6 */
	/* set by path_open(): the same for all QPs whose peer is the same process */
	uint16_t src_port;
	uint8_t traffic_class; /* ECN bits included */
	uint8_t hop_limit;
};

#define LINK_TRAILER_MAX PACKET_TRAILER_MAX

/*
 * One packet to send: header, payload and trailer. The link does not refer to it after send()
 * returned. The ICRC, the last 4 bytes of the trailer, is computed for IPv4 identification 0 with
 * don't-fragment set. A link that sends with another identification corrects the ICRC.
 */
struct link_tx {
	const struct link_path *path;
	const struct iovec *payload;
	int payload_count;
	uint8_t hdr_bytes;
	uint8_t trailer_bytes;
	uint16_t payload_bytes;
	uint8_t hdr[PACKET_HDR_MAX];
	uint8_t trailer[LINK_TRAILER_MAX];
};

/* One received datagram. The link owns `bytes`, which are valid until the next recv(). */
struct link_rx {
	uint8_t local_gid[GID_BYTES]; /* the destination address, unicast or multicast */
	uint8_t remote_gid[GID_BYTES];
	uint32_t ifindex;    /* the receiving interface */
	uint32_t flow_label; /* IPv6 */
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool is_ip_id_known;
	uint16_t ip_id; /* unused with IPv6 */
	const uint8_t *bytes;
	size_t len;
};

/*
 * An ICMP error about a sent datagram: the datagram's destination, the cause (-errno) and the
 * quoted beginning of its UDP payload. The link owns `bytes`, which are valid until the next
 * errors(). Any host can forge an ICMP error.
 */
struct link_error {
	uint8_t remote_gid[GID_BYTES];
	int error;
	const uint8_t *bytes;
	size_t len;
};

struct link;

struct link_ops {
	const char *name;
	/*
	 * Sends up to n packets and returns how many were accepted. Fewer than n is back-pressure:
	 * the caller sends the rest later. An accepted packet may be lost in the network.
	 */
	int (*send)(struct link *link, const struct link_tx *tx, int n);
	/* Receives up to max datagrams without waiting; returns how many. */
	int (*recv)(struct link *link, struct link_rx *rx, int max);
	/*
	 * A descriptor that is readable when recv() has a datagram; -1: the link has no descriptor.
	 */
	int (*fd)(struct link *link);
	/*
	 * To be called before the process sleeps on fd() (true) and after it woke up (false).
	 * Returns whether recv() has a datagram already, which fd() then does not report. NULL:
	 * fd() needs no such call.
	 */
	bool (*sleep)(struct link *link, bool wants_wake);
	/*
	 * path_open() sets the path's src_port before the first send(); path_close() ends its use.
	 * 0 or -errno.
	 */
	int (*path_open)(struct link *link, struct link_path *path);
	void (*path_close)(struct link *link, struct link_path *path);
	/*
	 * Whether the host has this address on the interface. NULL: it has none that is link-local.
	 */
	bool (*has_address)(struct link *link, const uint8_t gid[GID_BYTES], uint32_t ifindex);
	/*
	 * Joins or leaves a multicast group on an interface; at most once each. Datagrams that this
	 * host sends to the group are received, too. 0 or -errno. -EREMOTE: another process owns
	 * the receiving socket and must join; leave() is not called then. Neither blocks. recv()
	 * may return datagrams of groups that were not joined, or from another interface: the
	 * caller filters them.
	 */
	int (*join)(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES]);
	void (*leave)(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES]);
	/*
	 * Both are NULL in a link without ICMP errors. After report_errors(), errors() returns ICMP
	 * errors about datagrams of paths that are opened later, one at a time (false: none now),
	 * and fd() is readable for them, too.
	 */
	int (*report_errors)(struct link *link);
	bool (*errors)(struct link *link, struct link_error *error);
	/*
	 * The daemon that delegated the receive socket has exited: recv() returns no further
	 * datagrams. NULL: the link has no such socket.
	 */
	void (*stop_receiving)(struct link *link);
	void (*close)(struct link *link);
	/*
	 * To be called in the child of a fork(): closes the copies of the link's descriptors. NULL:
	 * the link has none.
	 */
	void (*disown)(struct link *link);
};

/* The first member of each link's own struct; freed by close(). */
struct link {
	const struct link_ops *ops;
	/* size of the receive buffer here, and presumably at peers; 0: unlimited */
	uint32_t rx_bytes;
};

static inline int link_send(struct link *link, const struct link_tx *tx, int n)
{
	return link->ops->send(link, tx, n);
}

static inline int link_recv(struct link *link, struct link_rx *rx, int max)
{
	return link->ops->recv(link, rx, max);
}

static inline int link_fd(struct link *link)
{
	return link->ops->fd(link);
}

static inline bool link_sleep(struct link *link, bool wants_wake)
{
	return link->ops->sleep && link->ops->sleep(link, wants_wake);
}

static inline int link_path_open(struct link *link, struct link_path *path)
	__attribute__((warn_unused_result));

static inline int link_path_open(struct link *link, struct link_path *path)
{
	return link->ops->path_open(link, path);
}

static inline void link_path_close(struct link *link, struct link_path *path)
{
	link->ops->path_close(link, path);
}

static inline bool link_has_address(struct link *link, const uint8_t gid[GID_BYTES],
				    uint32_t ifindex)
{
	return link->ops->has_address && link->ops->has_address(link, gid, ifindex);
}

static inline int link_join(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
	__attribute__((warn_unused_result));

static inline int link_join(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	return link->ops->join(link, ifindex, group);
}

static inline void link_leave(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	link->ops->leave(link, ifindex, group);
}

static inline int link_report_errors(struct link *link) __attribute__((warn_unused_result));

static inline int link_report_errors(struct link *link)
{
	return link->ops->report_errors ? link->ops->report_errors(link) : 0;
}

static inline bool link_errors(struct link *link, struct link_error *error)
{
	return link->ops->errors && link->ops->errors(link, error);
}

static inline void link_stop_receiving(struct link *link)
{
	if (link->ops->stop_receiving)
		link->ops->stop_receiving(link);
}

static inline void link_close(struct link *link)
{
	link->ops->close(link);
}

#endif
