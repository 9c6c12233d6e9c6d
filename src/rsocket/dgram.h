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
 * A datagram that came, until the application reads it. Those of a queue pair live in its array, and
 * their receive is posted again when they are read; those that came over UDP are allocated.
 */
struct dgram_message {
	struct list_head node;
	struct dgram_qp *qp; /* NULL: allocated */
	uint8_t *data;
	size_t bytes;
	struct sockaddr_storage from;
};

/*
 * A UD queue pair for one local address: a socket that is bound to no address has one for each that
 * it sends from. Made when the first datagram needs it, kept until the rsocket ends. Memory: a slot
 * for each receive, then one for each send.
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
	uint32_t message_bytes_max; /* with its header */
	uint32_t inline_bytes;
	uint8_t *memory;
	struct ibv_mr *mr;
	uint32_t receive_slots;
	uint32_t send_slots;
	struct dgram_message *messages; /* one a receive slot */
	uint32_t *free_sends;		/* which send slots nobody uses */
	uint32_t free_count;
};

/*
 * Somebody whom this socket sent to or heard from. Without `ah` it is reached over UDP alone; `id`
 * is there while its path is being looked for.
 */
struct dgram_peer {
	struct hash_node hash_node;
	struct list_head node; /* in the order of use */
	struct sockaddr_storage addr;
	struct dgram_qp *qp;
	uint32_t qpn; /* 0: not known */
	struct ibv_ah *ah;
	struct rdma_cm_id *id;
	uint64_t heard_ns;
};

/*
 * A socket for datagrams: a UDP socket, by which it has its address, and UD queue pairs, by which
 * datagrams go once both sides know each other's. Owned as struct rsock says; all is guarded by
 * sock.lock.
 */
struct dgram {
	struct rsock sock;
	int udp_fd;
	bool is_bound;
	bool can_read;
	bool can_write;
	struct rdma_event_channel *channel; /* of peers' ids; made with the first */
	bool has_lost_cm;
	struct list_head qps;
	struct hash peers;
	struct list_head peers_used; /* least recently first */
	unsigned peer_count;
	struct dgram_peer *connected; /* NULL: not */
	struct list_head inbox;	      /* struct dgram_message */
	unsigned allocated;	      /* messages in the inbox that came over UDP */
};

static inline struct dgram *dgram_of(struct rsock *sock)
{
	return container_of(sock, struct dgram, sock);
}

int dgram_create(int domain, struct rsock **sock) __attribute__((warn_unused_result));

/* dgram.c: gives the UDP socket a port if it has none. Everything here is called locked. */
int dgram_bind_any(struct dgram *dgram) __attribute__((warn_unused_result));

/* dgram_qp.c */
/* The one for a local address, made if there is none. */
int dgram_qp_get(struct dgram *dgram, const struct sockaddr_storage *local, struct dgram_qp **qp)
	__attribute__((warn_unused_result));
void dgram_qp_free(struct dgram *dgram, struct dgram_qp *qp);
bool dgram_qp_progress(struct dgram *dgram, struct dgram_qp *qp, bool heard);
void dgram_qp_arm(struct dgram *dgram, struct dgram_qp *qp);
/* The memory of a received datagram is free again. */
void dgram_qp_give_back(struct dgram_qp *qp, struct dgram_message *message);
/* Sends a slot's worth; there must be a free slot. */
int dgram_qp_send(struct dgram_qp *qp, const struct dgram_peer *peer, const struct rsock_io *io)
	__attribute__((warn_unused_result));

/* dgram_peer.c */
int dgram_peer_get(struct dgram *dgram, const struct sockaddr_storage *addr,
		   struct dgram_peer **peer) __attribute__((warn_unused_result));
/* NULL: nobody knows it. */
struct dgram_peer *dgram_peer_find(struct dgram *dgram, const struct sockaddr_storage *addr);
/* It said which queue pair is its: from now on datagrams may go there. */
void dgram_peer_learn(struct dgram *dgram, struct dgram_peer *peer, uint32_t qpn);
void dgram_peer_free(struct dgram *dgram, struct dgram_peer *peer);
/* Takes the channel's events. */
bool dgram_peer_progress(struct dgram *dgram);

/* dgram_udp.c */
int dgram_udp_send(struct dgram *dgram, const struct dgram_peer *peer, enum dgram_op op,
		   const struct rsock_io *io) __attribute__((warn_unused_result));
/* Takes what came, as long as there is room for it. */
bool dgram_udp_progress(struct dgram *dgram);

/* dgram_transfer.c */
ssize_t dgram_send(struct rsock *sock, struct rsock_io *io);
ssize_t dgram_receive(struct rsock *sock, struct rsock_io *io);
/* Puts a datagram where the application finds it, if it is one that this socket wants. */
bool dgram_deliver(struct dgram *dgram, struct dgram_message *message);
void dgram_drop(struct dgram *dgram, struct dgram_message *message);
bool dgram_can_send(const struct dgram *dgram);

#endif
