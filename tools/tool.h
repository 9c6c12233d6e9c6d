/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

/* What the tools share. */

#include <rdma/rdma_cma.h>
#include <stdint.h>

/* Prints what failed, with the words for errno. Returns -1, and leaves errno alone. */
int tool_fail(const char *what);

/*
 * The address that a host name or a numeric address stands for, with this port; the IPv4 wildcard if there is no name. 0, or
 * what getaddrinfo() answers, after a word about it.
 */
int tool_address(const char *name, uint16_t port, struct sockaddr_storage *address);

/*
 * Reads the word after -f, which says what addresses look like ("name", "ip", "ipv6" or "gid"), into flags and family of
 * the hints.
 */
void tool_address_format(const char *word, struct rdma_addrinfo *hints);

/*
 * The addresses of an endpoint, for rdma_freeaddrinfo(): to connect to a server, from a local address if one is given; or,
 * without a server, to listen on that local address, or on all. 0, or what rdma_getaddrinfo() answers.
 */
int tool_endpoint(const char *server, const char *local, const char *port,
		  const struct rdma_addrinfo *hints, struct rdma_addrinfo **res);

/*
 * An endpoint at the address of a node (NULL: any here) and a port, for rdma_destroy_ep(). 0, or after a word about it what
 * rdma_getaddrinfo() answers, or -1.
 */
int tool_create_endpoint(const char *node, const char *port, const struct rdma_addrinfo *hints,
			 struct ibv_qp_init_attr *attr, struct rdma_cm_id **id);

/*
 * Takes the next completion of a CQ whose events come to *wakeups*, and sleeps until there is one. 0; 1 if there is
 * none, and an event waits on *events*, which may be NULL; -1 after a word about what failed.
 */
int tool_completion(struct ibv_cq *cq, struct ibv_comp_channel *wakeups,
		    struct rdma_event_channel *events, struct ibv_wc *wc);

/*
 * Whether a datagram of so many bytes fits into one packet of the id's port; if not, -1 with EINVAL after a word about it,
 * in the name of the program.
 */
int tool_check_packet(const char *program, const struct rdma_cm_id *id, int size_bytes);

/* Writes a number as people read it: 1536 with base 1024 is "1.5k". */
#define TOOL_AMOUNT_BYTES 32
void tool_amount(char text[TOOL_AMOUNT_BYTES], uint64_t value, unsigned int base);

/* Which of the words, the last of which is NULL, begins with what was typed, whatever its case; -1: none. */
int tool_word(const char *typed, const char *const *words);

/* Nanoseconds of the monotonic clock. */
uint64_t tool_now_ns(void);

#endif /* TOOLS_TOOL_H */
