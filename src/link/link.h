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
 * What carries RoCEv2 datagrams: a socket, a simulated network, or another link in a wrapper that plays tricks. Addresses
 * are GIDs, that is IPv6 addresses or IPv4 ones in their mapped form; the destination port is always PACKET_UDP_PORT.
 * Called by one thread at a time; no call blocks.
 */

/*
 * A peer process, as far as anybody outside can tell: its host and the upper bits of its QPNs (docs/adr/0005). Anything
 * else that answers to RoCEv2 is not hurt by having more than one source port.
 */
#define LINK_PEER_QPN_SHIFT 15

/* Whom a QP speaks to, and from where. Owned by the QP; constant while anything that names it is under way. */
struct link_path {
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t remote_qpn;
	uint32_t ifindex; /* of the local address: where a link-local one, or a group, is to be found */
	uint32_t flow_label;   /* IPv6 */
	uint16_t src_port;     /* path_open() decides: one for all QPs that speak to one process */
	uint8_t traffic_class; /* ECN bits included */
	uint8_t hop_limit;
};

#define LINK_TRAILER_MAX PACKET_TRAILER_MAX

/*
 * One packet to send. Header, payload and trailer go out one behind the other; the link is through with all of it when
 * send() returns. The ICRC, the last 4 bytes of the trailer, is that of IPv4 ID 0 with don't-fragment set: a link that
 * sends under another one patches it.
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

/* One datagram that came. `bytes` are the link's, good until the next recv(). */
struct link_rx {
	uint8_t local_gid[GID_BYTES]; /* what it was sent to, a group perhaps */
	uint8_t remote_gid[GID_BYTES];
	uint32_t ifindex;    /* where it came in */
	uint32_t flow_label; /* IPv6 */
	uint16_t src_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool is_ip_id_known;
	uint16_t ip_id; /* of no meaning in IPv6 */
	const uint8_t *bytes;
	size_t len;
};

/* A datagram of ours that the network could not deliver: its destination, why (-errno), and as much of the beginning of its
 * UDP payload as came back. `bytes` are the link's, good until the next errors(). Anybody can make one up. */
struct link_error {
	uint8_t remote_gid[GID_BYTES];
	int error;
	const uint8_t *bytes;
	size_t len;
};

struct link;

struct link_ops {
	const char *name;
	/* Takes the first of n packets, as many as there is room for, and answers how many: fewer is back-pressure, and
	 * the others are still the caller's. What is taken is gone, also if the network loses it. */
	int (*send)(struct link *link, const struct link_tx *tx, int n);
	/* The next datagrams, at most max; 0: none now. */
	int (*recv)(struct link *link, struct link_rx *rx, int max);
	/* Readable when recv() has something; -1: nobody can wait for this link. */
	int (*fd)(struct link *link);
	/* A QP will speak over the path, whose src_port this sets, or no longer. 0 or -errno. */
	int (*path_open)(struct link *link, struct link_path *path);
	void (*path_close)(struct link *link, struct link_path *path);
	/*
	 * What is sent to the group comes in on the interface from here on, also what this machine sends, or no longer;
	 * once a group and interface. 0 or -errno. recv() may hand out datagrams for groups that were not joined, or on
	 * another
	 * interface: where they belong is for the caller to know.
	 */
	int (*join)(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES]);
	void (*leave)(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES]);
	/*
	 * Both or neither: NULL in a link that never hears of such. What is sent over paths that are opened from here
	 * on, and could not be delivered, is reported by errors(), one at a time (false: none now), and fd() is
	 * readable for it too.
	 */
	int (*report_errors)(struct link *link);
	bool (*errors)(struct link *link, struct link_error *error);
	void (*close)(struct link *link);
};

/* Embedded first in what each link really is; dies by close(). */
struct link {
	const struct link_ops *ops;
	uint32_t rx_bytes; /* what can wait here to be received, and so, perhaps, at peers; 0: anything */
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

static inline void link_close(struct link *link)
{
	link->ops->close(link);
}

#endif
