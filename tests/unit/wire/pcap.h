/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_PCAP_H
#define USRDMA_TEST_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/gid.h"
#include "wire/mad.h"

/*
 * Reads the captures of tests/golden: little-endian pcap, Ethernet, IPv4 or IPv6, UDP to port 4791.
 */

#define PCAP_FRAME_MAX 4096
#define PCAP_MADS_MAX  128

/* One RoCEv2 packet and the fields of its IP and UDP headers. */
struct pcap_packet {
	unsigned frame; /* as packet analysers count, from 1 */
	bool is_ipv4;
	uint16_t ip_id;
	bool dont_fragment;
	uint8_t ip[40]; /* the IP header; the last 20 bytes are 0 for IPv4 */
	uint8_t src[GID_BYTES], dst[GID_BYTES];
	uint16_t src_port, dst_port;
	size_t len;
	uint8_t bytes[PCAP_FRAME_MAX]; /* UDP payload */
};

struct pcap {
	FILE *file;
	unsigned frame;
};

struct pcap_mad {
	unsigned frame;
	uint8_t bytes[MAD_BYTES];
};

/* Opens a file of tests/golden, also one that is not a capture; NULL: not found. */
FILE *pcap_open_golden(const char *name);

/* False: file not found, or not a little-endian pcap; nothing to close then. */
bool pcap_open(struct pcap *pcap, const char *name);

/* Reads the next RoCEv2 packet; false at the end, where the file is closed. */
bool pcap_next(struct pcap *pcap, struct pcap_packet *packet);

/* Reads the MADs to QP 1 of a capture. Returns their number; -1: pcap_open() fails. */
int pcap_read_mads(const char *name, struct pcap_mad mads[PCAP_MADS_MAX]);

#endif
