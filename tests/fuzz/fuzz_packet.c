/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One datagram received on the RoCE port. The parsed fields are within the datagram, can be built
 * again with the same result and can be printed. The ICRC detects a flipped bit, except in byte 4.
 * Targets: packet.c, opcode.c, icrc.c, print_packet.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct icrc_solver solver;

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void check_printed(const uint8_t *data, size_t size)
{
	char line[PRINT_PACKET_MAX], shorter[48];
	size_t len = print_datagram(line, sizeof(line), data, size);

	must(len < sizeof(line) && strlen(line) == len);
	len = print_datagram(shorter, sizeof(shorter), data, size);
	must(len < sizeof(shorter) && memcmp(line, shorter, len) == 0);
}

/* Clears the reserved bits, which packet_build_headers() sets to zero. */
static void clear_reserved(const struct opcode_info *info, uint8_t *headers)
{
	headers[4] &= 0xc0;
	headers[8] &= 0xe0;
	if (info->has_deth || info->has_xrceth)
		headers[BTH_BYTES + (info->has_deth ? 4 : 0)] = 0;
	if (info->has_feth) {
		memset(headers + BTH_BYTES, 0, FETH_BYTES - 1);
		headers[BTH_BYTES + FETH_BYTES - 1] &= 0x3f;
	}
	if (info->has_notification)
		memset(headers + BTH_BYTES, 0, NOTIFICATION_BYTES);
}

static void check_rebuilt(const struct packet *packet, const uint8_t *data)
{
	uint8_t want[PACKET_HDR_MAX], again[PACKET_HDR_MAX];
	size_t hdr_bytes = packet_hdr_bytes(packet->info);

	memcpy(want, data, hdr_bytes);
	clear_reserved(packet->info, want);
	must(packet_build_headers(packet, again) == hdr_bytes);
	must(memcmp(again, want, hdr_bytes) == 0);
}

/*
 * Replaces the last 4 bytes of `datagram` by its ICRC, for an IP identification taken from these
 * bytes.
 */
static void check_icrc(const struct icrc_flow *flow, uint8_t *datagram, size_t size)
{
	uint32_t was = icrc_load(datagram + size - ICRC_BYTES);
	struct iovec covered = {datagram, size - ICRC_BYTES};
	size_t bit = was % (8 * size);
	uint16_t ip_id;

	icrc_store(datagram + size - ICRC_BYTES, icrc_compute(flow, (uint16_t)was, &covered, 1));
	must(icrc_check(flow, &solver, datagram, size, &ip_id) == ICRC_RIGHT);
	must(ip_id == (flow->is_ipv4 ? (uint16_t)was : 0));
	datagram[bit / 8] ^= (uint8_t)(1u << bit % 8);
	must((icrc_check(flow, &solver, datagram, size, &ip_id) == ICRC_RIGHT) == (bit / 8 == 4));
}

static void check_icrcs(const uint8_t *data, size_t size)
{
	static const uint8_t v4[GID_BYTES] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1};
	static const uint8_t v6[GID_BYTES] = {0xfd, [15] = 1};
	uint8_t datagram[PACKET_MAX];
	struct icrc_flow flow;

	icrc_flow_init(&flow, v4, v4, 0xc000, PACKET_UDP_PORT);
	memcpy(datagram, data, size);
	check_icrc(&flow, datagram, size);
	icrc_flow_init(&flow, v6, v6, 0xc000, PACKET_UDP_PORT);
	memcpy(datagram, data, size);
	check_icrc(&flow, datagram, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum packet_reason reason;
	struct packet packet;

	if (!solver.inverse[1])
		icrc_solver_init(&solver);
	check_printed(data, size);
	reason = packet_parse(&packet, data, size);
	must(reason < PACKET_REASON_COUNT && reason != PACKET_ICRC);
	if (reason != PACKET_OK)
		return 0;
	must(packet.payload == data + packet_hdr_bytes(packet.info));
	must(packet_bytes(&packet) == size && size <= PACKET_MAX);
	(void)!packet_fits_mtu(&packet, 1024);
	check_rebuilt(&packet, data);
	check_icrcs(data, size);
	return 0;
}
