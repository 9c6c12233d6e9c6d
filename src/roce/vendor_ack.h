/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_VENDOR_ACK_H
#define USRDMA_ROCE_VENDOR_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timer.h"
#include "link/link.h"

/*
 * The receiver's side of the window of UC and UD (pace.h): sends a VENDOR_ACK for each packet with
 * AckReq. The VENDOR_ACK has the PSN of that packet, and in its DETH the QPN of the queue pair that
 * received the packet.
 *
 * A VENDOR_ACK waits while the receive queue is nearly empty, so that the application can post
 * receives before the sender continues. It waits VENDOR_ACK_WAIT_NS at most; then later messages
 * are dropped, as by a NIC.
 */
#define VENDOR_ACKS	      64
#define VENDOR_ACK_WAIT_NS    UINT64_C(20000000)
#define VENDOR_ACK_CHECK_NS   UINT64_C(1000000)
#define VENDOR_ACK_PATHS_MAX  64
#define VENDOR_ACK_SHORT_QPNS 16

struct packet;
struct roce;
struct roce_qp;

/* A pending VENDOR_ACK. UD: the addresses are those of its sender. */
struct vendor_ack {
	uint32_t qpn;
	uint32_t remote_qpn;
	uint32_t psn;
	uint32_t ifindex;
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	bool needs_recv;   /* the sender's packets take receives */
	uint64_t since_ns; /* when it became pending */
};

/* Part of struct roce. Guarded by engine.lock. */
struct vendor_acks {
	struct vendor_ack pending[VENDOR_ACKS];
	uint32_t count;
	struct timer timer;
	struct list_head paths; /* struct vendor_path, least recently used first */
	uint32_t path_count;
	/*
	 * By QPN modulo VENDOR_ACK_SHORT_QPNS: the application of this QP keeps the receive queue
	 * nearly empty. Its VENDOR_ACKs do not wait until then.
	 */
	struct {
		uint32_t qpn;
		uint64_t until_ns;
	} brief[VENDOR_ACK_SHORT_QPNS];
};

void vendor_acks_init(struct vendor_acks *acks);
/* Drops pending VENDOR_ACKs and closes all paths. */
void vendor_acks_close(struct roce *roce);

/*
 * Whether the sender of a packet of UC or UD may be a host of this project and requests a
 * VENDOR_ACK. Linux's rxe sets AckReq in the last packet of each message of every service, but
 * never MigReq (rxe_req.c, init_req_packet()).
 */
bool vendor_ack_is_requested(const struct packet *packet);

/* A packet with such a request was taken from the socket. */
void vendor_ack_pend(struct roce_qp *rqp, uint32_t psn);
void vendor_ack_pend_datagram(struct roce *roce, const struct link_rx *rx,
			      const struct packet *packet);

/* Adds pending VENDOR_ACKs to the batch, except those that wait. */
void vendor_acks_send(struct roce *roce);

#endif
