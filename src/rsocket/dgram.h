/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_DGRAM_H
#define USRDMA_RSOCKET_DGRAM_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "base/hash.h"
#include "rsocket/dgram_proto.h"
#include "rsocket/socket.h"

struct dgram_qp;

/*
 * A received datagram that the application has not read. A datagram of a queue pair uses an entry
 * of the queue pair's array; its receive is posted again when the datagram was read. A datagram
 * received over UDP is allocated.
 */
struct dgram_message {
	struct list_head node;
	struct dgram_qp *qp; /* NULL: received over UDP and allocated */
	uint8_t *data;
	size_t bytes;
	struct sockaddr_storage from;
};

/*
 * A UD queue pair for one local address. A socket that is not bound to an address has one queue
 * pair for each source address. Created when the first datagram needs it and freed with the
 * rsocket. Its memory has one slot for each receive, followed by one for each send.
 */
struct dgram_qp {
	struct list_head node;
	struct sockaddr_storage local; /* with the UDP socket's port */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	unsigned events_unacked;
	uint8_t header[DGRAM_UD_BYTES_MAX];
	size_t header_bytes;
	uint32_t message_bytes_max; /* including the header */
	uint32_t inline_bytes;
	uint8_t *memory;
	struct ibv_mr *mr;
	uint32_t receive_slots;
	uint32_t send_slots;
	struct dgram_message *messages; /* one for each receive slot */
	uint32_t *free_sends;		/* stack of the unused send slots */
	uint32_t free_count;
};

/*
 * A peer to which this socket sent or from which it received a datagram. If `ah` is NULL, datagrams
 * to it use UDP. `id` is valid while the path is being resolved.
 */
struct dgram_peer {
	struct hash_node hash_node;
	struct list_head node; /* in dgram.peers_used, by time of last use */
	struct sockaddr_storage addr;
	struct dgram_qp *qp;
	uint32_t qpn; /* 0: unknown */
	struct ibv_ah *ah;
	struct rdma_cm_id *id;
	uint64_t received_ns;
};

/*
 * A datagram socket. Its UDP socket provides the address; UD queue pairs carry the datagrams after
 * both sides have exchanged their QPNs over UDP. Owned as described for struct rsock. All fields
 * are guarded by sock.lock.
 */
struct dgram {
	struct rsock sock;
	int udp_fd;
	/*
	 * a send over UDP found no space; the rsocket's descriptor then also watches udp_fd for
	 * space
	 */
	bool udp_is_full;
	bool is_bound;
	bool can_read;
	bool can_write;
	struct rdma_event_channel *channel; /* for the ids of peers; created with the first peer */
	bool has_lost_cm;
	struct list_head qps;
	struct hash peers;
	struct list_head peers_used; /* least recently used first */
	unsigned peer_count;
	struct dgram_peer *connected; /* NULL: not connected */
	struct list_head inbox;	      /* list of struct dgram_message */
	unsigned allocated;	      /* messages in the inbox that were received over UDP */
};

static inline struct dgram *dgram_of(struct rsock *sock)
{
	return container_of(sock, struct dgram, sock);
}

int dgram_create(int domain, struct rsock **sock) __attribute__((warn_unused_result));

/*
 * dgram.c: assigns a port to the UDP socket if it has none. All functions below are called with
 * sock.lock held.
 */
int dgram_bind_any(struct dgram *dgram) __attribute__((warn_unused_result));

/* dgram_qp.c */
/* Finds the queue pair of a local address and creates it if necessary. */
int dgram_qp_get(struct dgram *dgram, const struct sockaddr_storage *local, struct dgram_qp **qp)
	__attribute__((warn_unused_result));
void dgram_qp_free(struct dgram *dgram, struct dgram_qp *qp);
bool dgram_qp_progress(struct dgram *dgram, struct dgram_qp *qp, bool is_readable);
void dgram_qp_arm(struct dgram *dgram, struct dgram_qp *qp);
/* Posts the receive of a datagram that was read or dropped again. */
void dgram_qp_give_back(struct dgram_qp *qp, struct dgram_message *message);
/* Sends a datagram of at most one slot; the caller checks that a send slot is free. */
int dgram_qp_send(struct dgram_qp *qp, const struct dgram_peer *peer, const struct rsock_io *io)
	__attribute__((warn_unused_result));

/* dgram_peer.c */
int dgram_peer_get(struct dgram *dgram, const struct sockaddr_storage *addr,
		   struct dgram_peer **peer) __attribute__((warn_unused_result));
/* NULL: unknown peer. */
struct dgram_peer *dgram_peer_find(struct dgram *dgram, const struct sockaddr_storage *addr);
/*
 * Stores the QPN that the peer sent and starts path resolution; afterwards datagrams to the peer
 * may use the queue pair.
 */
void dgram_peer_learn(struct dgram *dgram, struct dgram_peer *peer, uint32_t qpn);
void dgram_peer_free(struct dgram *dgram, struct dgram_peer *peer);
/* Processes the events of the channel. */
bool dgram_peer_progress(struct dgram *dgram);

/* dgram_udp.c */
/* -EAGAIN: the send buffer of the UDP socket is full, and udp_is_full is set. */
int dgram_udp_send(struct dgram *dgram, const struct dgram_peer *peer, enum dgram_op op,
		   const struct rsock_io *io) __attribute__((warn_unused_result));
/*
 * Clears udp_is_full if there is space. Receives the pending UDP datagrams until the inbox is full.
 */
bool dgram_udp_progress(struct dgram *dgram);

/* dgram_transfer.c */
ssize_t dgram_send(struct rsock *sock, struct rsock_io *io);
ssize_t dgram_receive(struct rsock *sock, struct rsock_io *io);
/*
 * Adds a datagram to the inbox. False: reception was shut down, or the socket is connected to
 * another peer.
 */
bool dgram_deliver(struct dgram *dgram, struct dgram_message *message);
void dgram_drop(struct dgram *dgram, struct dgram_message *message);
/* Whether a datagram to any peer can be sent without waiting. */
bool dgram_can_send(const struct dgram *dgram);

#endif
