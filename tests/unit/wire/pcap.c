/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"

#define MAGIC	       0xa1b2c3d4
#define ETHERNET_BYTES 14
#define UDP_BYTES      8
#define ROCE_PORT      4791

FILE *pcap_open_golden(const char *name)
{
	const char *root = getenv("USRDMA_SOURCE");
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/golden/%s", root ? root : ".", name);
	return fopen(path, "rb");
}

bool pcap_open(struct pcap *pcap, const char *name)
{
	uint32_t head[6];

	*pcap = (struct pcap){.file = pcap_open_golden(name)};
	if (!pcap->file)
		return false;
	if (fread(head, sizeof(head), 1, pcap->file) == 1 && le32toh(head[0]) == MAGIC)
		return true;
	fclose(pcap->file);
	return false;
}

static void read_ipv4(struct pcap_packet *packet, const uint8_t *ip)
{
	struct in_addr addr;

	packet->is_ipv4 = true;
	memset(packet->ip, 0, sizeof(packet->ip));
	memcpy(packet->ip, ip, 20);
	packet->ip_id = be_load16(ip + 4);
	packet->dont_fragment = ip[6] & 0x40;
	memcpy(&addr.s_addr, ip + 12, 4);
	gid_from_ipv4(packet->src, &addr);
	memcpy(&addr.s_addr, ip + 16, 4);
	gid_from_ipv4(packet->dst, &addr);
}

static void read_ipv6(struct pcap_packet *packet, const uint8_t *ip)
{
	packet->is_ipv4 = false;
	memcpy(packet->ip, ip, 40);
	packet->ip_id = 0;
	packet->dont_fragment = true;
	memcpy(packet->src, ip + 8, GID_BYTES);
	memcpy(packet->dst, ip + 24, GID_BYTES);
}

/*
 * Whether the frame is a RoCEv2 packet; IPv4 options and IPv6 extension headers are not supported.
 */
static bool read_frame(struct pcap_packet *packet, const uint8_t *frame, size_t len)
{
	const uint8_t *ip = frame + ETHERNET_BYTES, *udp;
	size_t udp_len;

	if (len < ETHERNET_BYTES + 20 + UDP_BYTES)
		return false;
	if (be_load16(frame + 12) == 0x0800 && ip[0] == 0x45 && ip[9] == 17) {
		read_ipv4(packet, ip);
		udp = ip + 20;
	} else if (be_load16(frame + 12) == 0x86dd && ip[6] == 17 &&
		   len >= ETHERNET_BYTES + 40 + UDP_BYTES) {
		read_ipv6(packet, ip);
		udp = ip + 40;
	} else {
		return false;
	}
	packet->src_port = be_load16(udp);
	packet->dst_port = be_load16(udp + 2);
	udp_len = be_load16(udp + 4);
	if (packet->dst_port != ROCE_PORT || udp_len < UDP_BYTES ||
	    udp_len > len - (size_t)(udp - frame))
		return false;
	packet->len = udp_len - UDP_BYTES;
	memcpy(packet->bytes, udp + UDP_BYTES, packet->len);
	return true;
}

bool pcap_next(struct pcap *pcap, struct pcap_packet *packet)
{
	uint8_t frame[PCAP_FRAME_MAX];
	uint32_t record[4];

	while (fread(record, sizeof(record), 1, pcap->file) == 1) {
		uint32_t len = le32toh(record[2]);

		if (len > sizeof(frame) || fread(frame, len, 1, pcap->file) != 1)
			break;
		packet->frame = ++pcap->frame;
		if (read_frame(packet, frame, len))
			return true;
	}
	fclose(pcap->file);
	return false;
}

/* BTH, DETH, MAD, ICRC. */
static bool is_mad(const struct pcap_packet *packet)
{
	return packet->len == 12 + 8 + MAD_BYTES + 4 && packet->bytes[0] == 0x64 &&
	       be_load24(packet->bytes + 5) == MAD_QPN;
}

int pcap_read_mads(const char *name, struct pcap_mad mads[PCAP_MADS_MAX])
{
	static struct pcap_packet packet;
	struct pcap pcap;
	int count = 0;

	if (!pcap_open(&pcap, name))
		return -1;
	while (pcap_next(&pcap, &packet)) {
		if (!is_mad(&packet) || count == PCAP_MADS_MAX)
			continue;
		mads[count].frame = packet.frame;
		memcpy(mads[count++].bytes, packet.bytes + 20, MAD_BYTES);
	}
	return count;
}
