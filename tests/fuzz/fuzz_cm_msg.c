/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One datagram received on QP1: a parsed message can be built again with the same result, and can
 * be printed. Targets: mad.c, cm_msg.c, ip_hdr.c, print.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/cm_msg.h"
#include "wire/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void check_ip(const uint8_t *private_data)
{
	uint8_t again[CM_IP_HDR_BYTES];
	struct sockaddr_storage src, dst;
	struct cm_ip_hdr hdr, built;

	if (cm_ip_hdr_parse(&hdr, private_data))
		return;
	cm_ip_hdr_build(&hdr, again);
	must(cm_ip_hdr_parse(&built, again) == 0);
	must(built.src_port == hdr.src_port && built.ip_version == hdr.ip_version);
	must(memcmp(built.src, hdr.src, 16) == 0 && memcmp(built.dst, hdr.dst, 16) == 0);
	cm_ip_hdr_addrs(&hdr, 1, &src, &dst);
	must(cm_ip_hdr_from_addrs(&built, (struct sockaddr *)&src, (struct sockaddr *)&dst) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cm_msg msg, again;
	uint8_t once[MAD_BYTES], twice[MAD_BYTES];
	char line[PRINT_MAD_MAX];

	must(print_mad(line, sizeof(line), data, size) < sizeof(line));
	memset(&msg, 0, sizeof(msg));
	memset(&again, 0, sizeof(again));
	if (cm_msg_parse(&msg, data, size))
		return 0;
	cm_msg_build(&msg, once);
	must(cm_msg_parse(&again, once, sizeof(once)) == 0);
	must(memcmp(&msg, &again, sizeof(msg)) == 0);
	cm_msg_build(&again, twice);
	must(memcmp(once, twice, sizeof(once)) == 0);
	if (msg.type == CM_MSG_REQ)
		check_ip(msg.req.private_data);
	if (msg.type == CM_MSG_SIDR_REQ)
		check_ip(msg.sidr_req.private_data);
	return 0;
}
