/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_DGRAM_PROTO_H
#define USRDMA_RSOCKET_DGRAM_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * The headers of datagrams, in the format of rdma-core's rsockets. A header over UDP contains the
 * sender's QPN and may be followed by data. The receiver of data responds with a header without
 * data. A header over a UD queue pair contains the sender's address and UDP port.
 */
#define DGRAM_UDP_BYTES_MAX 28
#define DGRAM_UD_BYTES_MAX  24

/* Maximum length of a datagram with its header; size of the receive buffer for each datagram. */
#define DGRAM_SLOT_BYTES 2048

enum dgram_op {
	DGRAM_OP_DATA = 0,
	DGRAM_OP_CONTROL = 7, /* a response without data */
};

struct dgram_udp_header {
	enum dgram_op op;
	uint32_t qpn;
	size_t bytes; /* length of the header */
};

/* Writes the header of a datagram from this local address; returns its length. */
size_t dgram_udp_encode(uint8_t out[DGRAM_UDP_BYTES_MAX], enum dgram_op op, uint32_t qpn,
			const struct sockaddr_storage *local);
/* -EPROTO: invalid header, or a header for another address family. */
int dgram_udp_decode(const uint8_t *data, size_t bytes, int family, struct dgram_udp_header *header)
	__attribute__((warn_unused_result));

size_t dgram_ud_encode(uint8_t out[DGRAM_UD_BYTES_MAX], const struct sockaddr_storage *local);
/* Returns the sender's address and the length of the header. -EPROTO: invalid header. */
int dgram_ud_decode(const uint8_t *data, size_t bytes, struct sockaddr_storage *from,
		    size_t *header_bytes) __attribute__((warn_unused_result));

/* Length of the UDP header for an address family. */
size_t dgram_udp_bytes(int family);

#endif
