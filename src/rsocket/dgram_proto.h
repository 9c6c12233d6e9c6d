/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_DGRAM_PROTO_H
#define USRDMA_RSOCKET_DGRAM_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * The headers of datagrams, as rdma-core's rsockets have them. Over UDP goes what may have no other
 * way yet: the header tells the sender's queue pair, data may follow, and who gets data answers with
 * a header of its own. Over UD queue pairs the header tells the sender's address and UDP port.
 */
#define DGRAM_UDP_BYTES_MAX 28
#define DGRAM_UD_BYTES_MAX  24

/* What one datagram and its header can be together: the memory that a receiver has for each. */
#define DGRAM_SLOT_BYTES 2048

enum dgram_op {
	DGRAM_OP_DATA = 0,
	DGRAM_OP_CONTROL = 7, /* an answer: no data */
};

struct dgram_udp_header {
	enum dgram_op op;
	uint32_t qpn;
	size_t bytes; /* of the header */
};

/* Writes the header of a datagram that leaves from this address; its length. */
size_t dgram_udp_encode(uint8_t out[DGRAM_UDP_BYTES_MAX], enum dgram_op op, uint32_t qpn,
			const struct sockaddr_storage *local);
/* -EPROTO: no such header, or not one for the family that it came over. */
int dgram_udp_decode(const uint8_t *data, size_t bytes, int family, struct dgram_udp_header *header)
	__attribute__((warn_unused_result));

size_t dgram_ud_encode(uint8_t out[DGRAM_UD_BYTES_MAX], const struct sockaddr_storage *local);
/* The sender, and how long the header is. -EPROTO. */
int dgram_ud_decode(const uint8_t *data, size_t bytes, struct sockaddr_storage *from,
		    size_t *header_bytes) __attribute__((warn_unused_result));

/* How long the UDP header of a family is. */
size_t dgram_udp_bytes(int family);

#endif
