/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

/* Functions that several tools use. */

#include <rdma/rdma_cma.h>
#include <stdint.h>

/*
 * Prints the name of the failed function and the message of errno. Returns -1 and preserves errno.
 */
int tool_fail(const char *what);

/*
 * Resolves a host name or numeric address, with this port; without a name, the IPv4 wildcard
 * address. 0, or the error of getaddrinfo() after an error message.
 */
int tool_address(const char *name, uint16_t port, struct sockaddr_storage *address);

/*
 * Parses the argument of -f, the address format ("name", "ip", "ipv6" or "gid"), into flags and
 * family of the hints.
 */
void tool_address_format(const char *word, struct rdma_addrinfo *hints);

/*
 * Resolves the addresses of an endpoint; the caller frees them with rdma_freeaddrinfo(). With a
 * server: to connect to it, from the local address if that is given. Without a server: to listen on
 * the local address, or on all addresses. 0, or the error of rdma_getaddrinfo().
 */
int tool_endpoint(const char *server, const char *local, const char *port,
		  const struct rdma_addrinfo *hints, struct rdma_addrinfo **res);

/*
 * Creates an endpoint for the address of a node (NULL: all local addresses) and a port; the caller
 * destroys it with rdma_destroy_ep(). 0; or, after an error message, the error of
 * rdma_getaddrinfo() or -1.
 */
int tool_create_endpoint(const char *node, const char *port, const struct rdma_addrinfo *hints,
			 struct ibv_qp_init_attr *attr, struct rdma_cm_id **id);

/*
 * Waits for the next completion of a CQ whose completion channel is *wakeups*. 0: a completion; 1:
 * no completion, but *events*, which may be NULL, has an event; -1 after an error message.
 */
int tool_completion(struct ibv_cq *cq, struct ibv_comp_channel *wakeups,
		    struct rdma_event_channel *events, struct ibv_wc *wc);

/*
 * Checks that a datagram of this size fits into one packet of the id's port. 0; or -1 with EINVAL
 * after an error message, which begins with the program's name.
 */
int tool_check_packet(const char *program, const struct rdma_cm_id *id, int size_bytes);

/* Formats a number with a unit prefix: 1536 with base 1024 is "1.5k". */
#define TOOL_AMOUNT_BYTES 32
void tool_amount(char text[TOOL_AMOUNT_BYTES], uint64_t value, unsigned int base);

/*
 * The index of the first word that begins with the typed text, ignoring case; -1: not found. The
 * last element is NULL.
 */
int tool_word(const char *typed, const char *const *words);

/* Nanoseconds of the monotonic clock. */
uint64_t tool_now_ns(void);

#endif /* TOOLS_TOOL_H */
