/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_ROCE_STEER_H
#define USRDMA_DAEMON_ROCE_STEER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/gid.h"

/*
 * The classic BPF program that selects the socket of a datagram in the SO_REUSEPORT group of UDP
 * port 4791 (ADR 0023). It returns the slot of the destination QPN, or IPC_SLOTS for a datagram
 * with a forged source address.
 *
 * Every user can send from any IPv6 address (IPV6_FREEBIND), also to this host, and would pass for
 * another host. Such a datagram arrives on the loopback device. IPV6_PKTINFO reports the interface
 * of the destination address instead; the program can read the type of the device itself. A
 * datagram that arrives there over IPv6 is forged unless its source is an address of this host.
 * Over IPv4 the kernel sends only from addresses of this host.
 */
#define ROCE_STEER_SOURCES_MAX 128 /* with optmem_max of 20 KiB, the default before Linux 6.7 */
#define ROCE_STEER_INSNS_MAX   (ROCE_STEER_SOURCES_MAX * 9 + 22)

struct roce_steer {
	struct sock_filter code[ROCE_STEER_INSNS_MAX];
	uint16_t len;
	uint32_t source_count;
};

/* Starts a program without addresses of this host. */
void roce_steer_begin(struct roce_steer *steer);

/*
 * Adds an address of this host. IPv4 addresses are ignored. false: the program has
 * ROCE_STEER_SOURCES_MAX addresses.
 */
bool roce_steer_add_source(struct roce_steer *steer, const uint8_t gid[GID_BYTES]);

/* Completes the program. */
void roce_steer_end(struct roce_steer *steer);

/* Attaches the program to the group of a socket. 0 or -errno. */
int roce_steer_attach(const struct roce_steer *steer, int fd) __attribute__((warn_unused_result));

/* Lets a socket drop all datagrams; the kernel counts them. 0 or -errno. */
int roce_steer_block(int fd) __attribute__((warn_unused_result));

#endif
