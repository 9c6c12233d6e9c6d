/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_PCAP_H
#define USRDMA_TEST_PCAP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "wire/mad.h"

/* Reads the MADs out of a capture: Ethernet, IPv4 or IPv6, UDP to port 4791, UD SEND to QP 1. */

#define PCAP_FRAME_MAX 4096
#define PCAP_MADS_MAX  128

struct pcap_mad {
	unsigned frame; /* as packet analysers count, from 1 */
	uint8_t bytes[MAD_BYTES];
};

/* Where the MAD starts in an Ethernet frame, or 0. */
static inline size_t pcap_find_mad(const uint8_t *frame, size_t len)
{
	size_t ip_bytes = len > 34 && be_load16(frame + 12) == 0x0800 ? 20 : 40;
	size_t bth = 14 + ip_bytes + 8;

	if (len < bth + 12 + 8 + MAD_BYTES || be_load16(frame + bth - 6) != 4791)
		return 0;
	return frame[bth] == 0x64 && be_load24(frame + bth + 5) == MAD_QPN ? bth + 20 : 0;
}

/* How many were read; -1: no such file, or not a little-endian pcap. */
static inline int pcap_read_mads(const char *name, struct pcap_mad mads[PCAP_MADS_MAX])
{
	const char *root = getenv("USRDMA_SOURCE");
	uint8_t frame[PCAP_FRAME_MAX];
	uint32_t head[6], record[4];
	char path[4096];
	int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/golden/%s", root ? root : ".", name);
	file = fopen(path, "rb");
	if (!file)
		return -1;
	if (fread(head, sizeof(head), 1, file) != 1 || head[0] != 0xa1b2c3d4)
		count = -1;
	for (unsigned number = 1; count >= 0 && fread(record, sizeof(record), 1, file) == 1;
	     number++) {
		size_t at;

		if (record[2] > sizeof(frame) || fread(frame, record[2], 1, file) != 1)
			break;
		at = pcap_find_mad(frame, record[2]);
		if (!at || count == PCAP_MADS_MAX)
			continue;
		mads[count].frame = number;
		memcpy(mads[count++].bytes, frame + at, MAD_BYTES);
	}
	fclose(file);
	return count;
}

#endif
